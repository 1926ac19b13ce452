"""Decompression by kcli's own libraries and by pyarrow: the same bytes, bounds and errors."""

from __future__ import annotations

import subprocess
import sys

import cramjam
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import CorruptRecords
from kcli.protocol.records import decompression
from kcli.protocol.records.compression import CODEC_IDS, LZ4, SNAPPY, compress
from kcli.protocol.records.decompression import OutOfBudget, Output, decompress
from tests.protocol.records.vectors import VECTORS

CODECS = ("snappy", "lz4", "zstd")
TEXT = b"".join(b"the %d. line of a log\n" % number for number in range(700))
DECODE_WITHOUT = """
import sys
for name in sys.argv[2:]:
    sys.modules[name] = None
from kcli.protocol.records.decode import RecordSection, decode_sections
for data in sys.argv[1].split(","):
    (section,) = decode_sections([RecordSection("t", 0, bytes.fromhex(data), 0)])
    print(len(section.columns), section.error)
"""


def unpacked(codec: int, payload: bytes, limit: int = 1 << 20) -> bytes:
    output = Output(limit)
    output.write(b"before")
    decompress(codec, memoryview(payload), output)
    return output.data[: output.used].tobytes().removeprefix(b"before")


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(200_000)], ids=["nothing", "a byte", "text", "zeros"])
def test_compressed_data_is_decompressed_within_an_exact_limit(codec: str, data: bytes) -> None:
    payload = compress(codec, data)
    assert unpacked(CODEC_IDS[codec], payload, len(b"before") + len(data)) == data
    if data:
        with pytest.raises(OutOfBudget):
            unpacked(CODEC_IDS[codec], payload, len(b"before") + len(data) - 1)


@pytest.mark.usefixtures("libraries")
def test_concatenated_snappy_streams_are_one() -> None:
    """As Java's SnappyInputStream reads them: the header of another stream stands where a block's length would."""
    output = Output(1 << 20)
    payload = compress("snappy", TEXT) + compress("snappy", b"") + compress("snappy", b"second")
    decompress(CODEC_IDS["snappy"], memoryview(payload), output)
    assert bytes(output.view()) == TEXT + b"second"
    for damaged in (payload[:-20], payload[:-25] + b"\x82SNAPPX" + bytes(9)):
        with pytest.raises(CorruptRecords):
            decompress(CODEC_IDS["snappy"], memoryview(damaged), Output(1 << 20))


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("codec", CODECS)
def test_truncated_data_is_corrupt_and_leaves_the_output_unchanged(codec: str) -> None:
    payload = compress(codec, TEXT)
    first = 17 if codec == "snappy" else 1  # the header of 16 bytes alone is of no blocks
    for cut in (*range(first, 40), len(payload) // 2, len(payload) - 1):
        output = Output(1 << 20)
        output.write(b"before")
        with pytest.raises(CorruptRecords):
            decompress(CODEC_IDS[codec], memoryview(payload[:cut]), output)
        assert output.used == len(b"before")


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("payload", [b"", b"garbage" * 20, b"\x80" * 9, bytes(9)])
def test_invalid_data_is_corrupt(codec: str, payload: bytes) -> None:
    with pytest.raises(CorruptRecords, match=f"^the {codec} data |^a snappy block of "):
        unpacked(CODEC_IDS[codec], payload)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("following", [b"x" * 9, bytes(9), lz4.frame.compress(b"another")])
@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("size", [False, True])
def test_bytes_after_an_lz4_frame_are_ignored(following: bytes, checksums: bool, size: bool) -> None:
    frame = lz4.frame.compress(
        TEXT * 30,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_checksum=checksums,
        content_checksum=checksums,
        store_size=size,
    )
    assert unpacked(LZ4, frame + following) == TEXT * 30


@pytest.mark.usefixtures("libraries")
def test_all_zstd_frames_and_raw_snappy_blocks_are_read() -> None:
    assert unpacked(CODEC_IDS["zstd"], compress("zstd", b"one") + compress("zstd", b"two")) == b"onetwo"
    assert unpacked(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


@given(st.sampled_from(CODECS), st.binary(max_size=300), st.data())
def test_pyarrow_and_the_own_libraries_agree_on_damaged_payloads(codec: str, data: bytes, draw: st.DataObject) -> None:
    payload = bytearray(compress(codec, data))
    for _ in range(draw.draw(st.integers(0, 2))):
        at = draw.draw(st.integers(0, len(payload) - 1))
        payload[at] ^= draw.draw(st.integers(1, 255))
    found = []
    for arrows in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if arrows:
                patch.setattr("kcli.protocol.records.decompression._library", lambda name: None)
            try:
                found.append(unpacked(CODEC_IDS[codec], bytes(payload)))
            except (CorruptRecords, OutOfBudget) as problem:
                found.append(type(problem).__name__.encode() + b"!")
    assert found[0] == found[1]


def test_pyarrow_is_not_used_if_the_own_libraries_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("arrow_unsnappy_block", "arrow_unlz4", "arrow_unzstd"):
        monkeypatch.setattr(decompression, name, lambda *_: pytest.fail("pyarrow was asked"))
    assert [unpacked(CODEC_IDS[codec], compress(codec, TEXT)) for codec in CODECS] == [TEXT] * 3


def decoded_without(*missing: str) -> subprocess.CompletedProcess[str]:
    names = (
        "v2-none-3rec-base42-ple7",
        *(f"v2-{codec}-3rec-base42" for codec in ("gzip", *CODECS)),
        "v0-lz4-2rec-base42",
    )
    words = [",".join(VECTORS[name].hex() for name in names), *missing]
    return subprocess.run([sys.executable, "-c", DECODE_WITHOUT, *words], capture_output=True, text=True, timeout=120)


def test_all_codecs_are_read_without_the_own_libraries() -> None:
    done = decoded_without("cramjam", "lz4", "crc32c")
    assert done.stdout.splitlines() == [*["3 None"] * 5, "2 None"], done.stderr


@pytest.mark.parametrize("missing", ["cramjam", "lz4"])
def test_a_missing_library_is_named_if_pyarrow_is_missing_too(missing: str) -> None:
    done = decoded_without(missing, "pyarrow")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ModuleNotFoundError: ")
    assert missing in done.stderr.splitlines()[-1]
