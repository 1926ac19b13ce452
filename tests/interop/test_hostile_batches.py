"""Damaged or false record batches: kcli reports the offset, prints the records before it, and uses little memory.

Every batch comes from a fake broker through a real socket; the records before the damage must be printed.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator

import cramjam
import crc32c
import lz4.frame
import pytest

from kcli.protocol.records.builder import NewRecord, build_batch
from tests.interop.fake_broker import GoodBroker, scripted
from tests.interop.process import Finished, kcli

pytestmark = pytest.mark.slow

GOOD = build_batch([NewRecord(None, b"good %d" % n, 1_700_000_000_000) for n in range(3)])
NEXT = [NewRecord(b"k", b"bad %d" % n, 1_700_000_000_000) for n in range(3)]
MEGABYTE = 1 << 20


def consume(records: bytes, *options: str, end: int = 6) -> Finished:
    return consume_from(GoodBroker(records, end), *options)


def consume_from(log: GoodBroker, *options: str) -> Finished:
    with scripted(log) as broker:
        at = ("-b", broker.address, "--timeout", "5")
        return kcli("consume", "topic", "t", "-o", "start", "-e", *at, *options, timeout_s=30)


def bad_batch(payload: bytes | None = None, *, codec: int = 0, count: int = 3, crc: int | None = None) -> bytearray:
    """Return the second batch (offsets 3 to 5) with the given payload; its CRC is valid unless given."""
    batch = bytearray(build_batch(NEXT, base_offset=3))
    if payload is not None:
        batch[61:] = payload
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">i", batch, 57, count)
    struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])) if crc is None else crc)
    return batch


def with_bytes(at: int, data: bytes) -> bytes:
    """Return the good second batch with some bytes changed and a valid CRC."""
    batch = bad_batch()
    batch[at : at + len(data)] = data
    struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])))
    return bytes(batch)


GARBAGE = bytes(range(256)) * 4
DAMAGED: dict[str, bytes] = {
    "a wrong CRC": bytes(bad_batch(crc=0)),
    "magic 3": with_bytes(16, b"\x03"),
    "codec 5": with_bytes(22, b"\x05"),
    "a count that is too high": with_bytes(57, struct.pack(">i", 4)),
    "a count of two thousand million": with_bytes(57, b"\x7f\xff\xff\xff"),
    "a negative count": with_bytes(57, struct.pack(">i", -2)),
    "a record longer than the batch": with_bytes(61, b"\xfe\xff\xff\xff\x0f"),
    "a record of negative length": with_bytes(61, b"\x01"),
    "a varint without end": with_bytes(61, b"\xff" * 12),
    "gzip that is none": bytes(bad_batch(GARBAGE, codec=1)),
    "snappy that is none": bytes(bad_batch(GARBAGE, codec=2)),
    "lz4 that is none": bytes(bad_batch(GARBAGE, codec=3)),
    "zstd that is none": bytes(bad_batch(GARBAGE, codec=4)),
    "gzip cut short": bytes(bad_batch(gzip.compress(b"\0" * 5000)[:-12], codec=1)),
    "a batch shorter than its header": GOOD[:8].replace(b"\0" * 8, struct.pack(">q", 3))
    + struct.pack(">i", 20)
    + b"\0" * 20,
    "a negative batch length": struct.pack(">qi", 3, -5) + b"\0" * 60,
}


# With a small limit the memory shows whether decoding stops at the limit.
SMALL_LIMIT = ("-X", f"max.decompressed.batch.bytes={48 * MEGABYTE}")


def in_order_then_stopped(run: Finished, *statuses: int, peak_mb: float = 200) -> None:
    assert "Traceback" not in run.err
    assert run.lines == [b"good 0", b"good 1", b"good 2"]
    assert run.status in (statuses or (1,)), run.err
    assert run.peak_mb < peak_mb
    assert any("t" in line and "3" in line for line in run.err.splitlines()), run.err


@pytest.mark.parametrize("batch", DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_is_reported_with_its_offset_after_the_valid_records(batch: bytes) -> None:
    in_order_then_stopped(consume(GOOD + batch))


def test_without_crc_checks_a_batch_with_a_wrong_crc_is_read() -> None:
    run = consume(GOOD + bytes(bad_batch(crc=0)), "-X", "check.crcs=false")
    assert run.lines == [b"good 0", b"good 1", b"good 2", b"bad 0", b"bad 1", b"bad 2"]


def zeros(megabytes: int) -> Iterator[bytes]:
    return (b"\0" * MEGABYTE for _ in range(megabytes))


def gzip_bomb(megabytes: int) -> bytes:
    """Return one megabyte compressed without back references, repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    one = packer.compress(b"\0" * MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    crc = 0
    for block in zeros(megabytes):
        crc = zlib.crc32(block, crc)
    trailer = b"\3\0" + struct.pack("<II", crc, megabytes * MEGABYTE)
    return b"\x1f\x8b\x08" + bytes(5) + b"\x02\xff" + one * megabytes + trailer


def lz4_bomb(megabytes: int) -> bytes:
    with lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX4MB) as packer:
        return packer.begin() + b"".join(packer.compress(block) for block in zeros(megabytes)) + packer.flush()


def zstd_bomb(megabytes: int) -> bytes:
    """Return a frame of RLE blocks of zeros, 128 KiB each (RFC 8878, 3.1.1.2)."""
    header, repeats, last, size = b"\x28\xb5\x2f\xfd\x00\x38", 1 << 1, 1, (128 << 10) << 3
    block = (size | repeats).to_bytes(3, "little") + b"\0"
    return header + block * (8 * megabytes - 1) + (size | repeats | last).to_bytes(3, "little") + b"\0"


def snappy_that_promises(size: int) -> bytes:
    """Return raw snappy data, which begins with the decompressed size as an unsigned varint."""
    promise = bytearray()
    while size >= 0x80:
        promise.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(promise) + bytes([size]) + b"\0x" * 1000


def xerial_that_promises(size: int) -> bytes:
    return b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, size) + GARBAGE


BOMBS: dict[str, Callable[[], bytearray]] = {
    "gzip, 700 MB": lambda: bad_batch(gzip_bomb(700), codec=1),
    "lz4, 700 MB": lambda: bad_batch(lz4_bomb(700), codec=3),
    "zstd, 4 GB": lambda: bad_batch(zstd_bomb(4000), codec=4),
    "snappy that promises 4 GB": lambda: bad_batch(snappy_that_promises(0xFFFFFFFF), codec=2),
    "snappy that promises 1 GB": lambda: bad_batch(snappy_that_promises(1 << 30), codec=2),
    "xerial that promises 2 GB": lambda: bad_batch(xerial_that_promises(0x7FFFFFFF), codec=2),
}


def test_the_decompression_bombs_are_valid() -> None:
    zeros = bytes(3 * MEGABYTE)
    assert gzip.decompress(gzip_bomb(3)) == zeros
    assert lz4.frame.decompress(lz4_bomb(3)) == zeros
    assert bytes(cramjam.zstd.decompress(zstd_bomb(3))) == zeros


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_batch_with_a_huge_decompressed_size_is_refused(bomb: Callable[[], bytearray]) -> None:
    run = consume(GOOD + bytes(bomb()), *SMALL_LIMIT)
    in_order_then_stopped(run)


def test_by_default_a_batch_is_decompressed_up_to_256_mib() -> None:
    run = consume(GOOD + bytes(bad_batch(zstd_bomb(4000), codec=4)))
    in_order_then_stopped(run, peak_mb=200 + (256 - 48) * MEGABYTE / 1e6)
    assert "max.decompressed.batch.bytes (268435456 bytes)" in run.err


def test_memory_stays_bounded_for_many_large_batches() -> None:
    """Twenty batches of 40 MB each are allowed one by one; together in one response they would be 800 MB."""
    value = b"\0" * (40 * MEGABYTE)
    one = build_batch([NewRecord(None, value, 0)], compression="zstd", base_offset=0)
    batches = b"".join(struct.pack(">q", n) + one[8:] for n in range(20))
    run = consume(batches, "--stats", "-f", "%o\n", end=20)
    assert "Traceback" not in run.err
    assert run.peak_mb < 200
    assert run.lines == [b"%d" % n for n in range(20)]


def test_a_batch_that_stays_incomplete_is_reported() -> None:
    """A broker sends whole batches first. One that keeps sending a torn batch makes no progress, which is reported."""
    run = consume(GOOD + bytes(bad_batch())[:-5])
    assert run.lines == [b"good 0", b"good 1", b"good 2"]
    assert run.status in (1, 5), run.err
    assert "Traceback" not in run.err


class Forgetful(GoodBroker):
    """Answers every Fetch from the start of the log, whatever the request says."""

    def from_offset(self, offset: int) -> bytes:
        return self.records


def test_repeated_batches_are_not_printed_twice() -> None:
    run = consume_from(Forgetful(GOOD, end=6))  # and offsets 3 to 5 never come
    assert run.lines == [b"good 0", b"good 1", b"good 2"]
    assert run.status == 5, run.err


def test_a_bomb_after_repeated_batches_ends_the_read() -> None:
    log = Forgetful(GOOD + bytes(bad_batch(zstd_bomb(200), codec=4)), end=6)
    in_order_then_stopped(consume_from(log, *SMALL_LIMIT), 1, 5)
