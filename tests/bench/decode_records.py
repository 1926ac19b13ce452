"""Records per second of decoding fetched batches, by shape: `python -m tests.bench.decode_records [shape]`."""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Callable, Iterator

from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.decode import RecordSection, decode_sections

T = 1_700_000_000_000
MIB = 1 << 20


def log_lines(rng: random.Random) -> Iterator[NewRecord]:
    """Text of 60 to 130 bytes, no key, several records per millisecond."""
    now = T
    text = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz 0123456789", k=4096)).encode()
    while True:
        at = rng.randrange(3900)
        now += rng.random() < 0.3
        yield NewRecord(None, text[at : at + rng.randrange(60, 130)], now)


def keyed(rng: random.Random) -> Iterator[NewRecord]:
    """An 8-byte key and text."""
    for number, record in enumerate(log_lines(rng)):
        yield record._replace(key=b"%08d" % (number % 5000))


def binary(rng: random.Random) -> Iterator[NewRecord]:
    """Binary values with many zero bytes."""
    blob = bytes(rng.choice((0, 0, 0, 0, 1, 2, 255, rng.randrange(256))) for _ in range(1 << 16))
    for record in log_lines(rng):
        at = rng.randrange(60000)
        yield record._replace(key=blob[at : at + 8], value=blob[at : at + len(record.value or b"")])


def schema_framed(rng: random.Random) -> Iterator[NewRecord]:
    """Noise after the five bytes of a schema registry, and an 8-byte binary key."""
    blob = rng.randbytes(1 << 16)
    for number, record in enumerate(log_lines(rng)):
        at = rng.randrange(60000)
        value = b"\0\0\0\0\x2a" + blob[at : at + len(record.value or b"")]
        yield record._replace(key=number.to_bytes(8, "big"), value=value)


def with_headers(rng: random.Random) -> Iterator[NewRecord]:
    """Two headers each."""
    for record in log_lines(rng):
        yield record._replace(headers=[("trace", b"0123456789abcdef"), ("type", b"order")])


def equal_sizes(rng: random.Random) -> Iterator[NewRecord]:
    """100 bytes each."""
    for record in log_lines(rng):
        yield record._replace(value=((record.value or b"") * 2)[:100])


def kilobyte(rng: random.Random) -> Iterator[NewRecord]:
    """Values of 500 to 1500 bytes."""
    for record in log_lines(rng):
        yield record._replace(value=((record.value or b"") * 25)[: rng.randrange(500, 1500)])


def batches(
    make: Callable[[random.Random], Iterator[NewRecord]],
    total_bytes: int,
    batch_bytes: int = 16384,
    batch_records: int = 1 << 30,
    compression: str = "none",
) -> bytes:
    """Return batches of about `batch_bytes` each (or `batch_records`), `total_bytes` in all before compression."""
    rng = random.Random(7)
    out, offset, size, raw = [], 0, 0, 0
    rows: list[NewRecord] = []
    for record in make(rng):
        rows.append(record)
        size += len(record.value or b"") + len(record.key or b"") + 9
        if size >= batch_bytes - 130 or len(rows) >= batch_records:
            out.append(build_batch(rows, base_offset=offset, leader_epoch=3, compression=compression))
            offset += len(rows)
            raw += size
            rows, size = [], 0
            if raw >= total_bytes:
                return b"".join(out)
    raise AssertionError


SHAPES: dict[str, Callable[[], bytes]] = {
    "text 1 MiB": lambda: batches(log_lines, MIB),
    "text 8 MiB": lambda: batches(log_lines, 8 * MIB),
    "text 50 MiB": lambda: batches(log_lines, 50 * MIB),
    "keyed 1 MiB": lambda: batches(keyed, MIB),
    "keyed 8 MiB": lambda: batches(keyed, 8 * MIB),
    "binary 1 MiB": lambda: batches(binary, MIB),
    "binary 8 MiB": lambda: batches(binary, 8 * MIB),
    "schema-framed 1 MiB": lambda: batches(schema_framed, MIB),
    "equal 1 MiB": lambda: batches(equal_sizes, MIB),
    "headers 1 MiB": lambda: batches(with_headers, MIB),
    "1 KiB values 8 MiB": lambda: batches(kilobyte, 8 * MIB),
    "1 record per batch 1 MiB": lambda: batches(log_lines, MIB, batch_records=1),
    "one batch of 100 MB": lambda: batches(log_lines, 100 * MIB, batch_bytes=100 * MIB),
    "1 MiB batches 8 MiB": lambda: batches(log_lines, 8 * MIB, batch_bytes=MIB),
    "10 records": lambda: batches(log_lines, 1, batch_records=10),
    "gzip 1 MiB": lambda: batches(log_lines, MIB, compression="gzip"),
    "snappy 8 MiB": lambda: batches(log_lines, 8 * MIB, compression="snappy"),
    "lz4 1 MiB": lambda: batches(log_lines, MIB, compression="lz4"),
    "lz4 8 MiB": lambda: batches(log_lines, 8 * MIB, compression="lz4"),
    "zstd 8 MiB": lambda: batches(log_lines, 8 * MIB, compression="zstd"),
}


def main(wanted: list[str]) -> None:
    """Print best-of-n records per second for each shape, with and without CRC."""
    print(f"{'shape':28} {'records':>9} {'MB':>7} {'ms':>8} {'M rec/s':>8} {'no CRC':>8}")
    for name, make in SHAPES.items():
        if wanted and not any(word in name for word in wanted):
            continue
        section = RecordSection("bench", 0, memoryview(bytearray(make())), 0)
        rows = []
        for check in (True, False):
            best, until, rounds = 1e9, time.perf_counter() + 1.0, 0
            while rounds < 3 or time.perf_counter() < until:
                began = time.perf_counter()
                [decoded] = decode_sections([section], check_crcs=check)
                best = min(best, time.perf_counter() - began)
                rounds += 1
            assert decoded.error is None
            rows.append((len(decoded.columns), best))
        (count, checked), (_, unchecked) = rows
        print(
            f"{name:28} {count:9} {len(section.data) / 1e6:7.2f} {checked * 1e3:8.2f} "
            f"{count / checked / 1e6:8.2f} {count / unchecked / 1e6:8.2f}"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
