"""Sections of a fetch response: partial batches, transactions, holes, partitions, old formats."""

import random
import zlib

import pytest

from kcli.errors import CorruptRecords, RecordTooLarge
from kcli.protocol.records import decode as decode_module
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.decode import RecordSection, decode_sections
from tests.protocol.records.vectors import VECTORS

T = 1_700_000_000_000
COMMIT, ABORT = 1, 0


def rows(*values):
    return [NewRecord(None, value, T + i) for i, value in enumerate(values)]


def batch(base_offset, *values, **options):
    return build_batch(rows(*values), base_offset=base_offset, leader_epoch=base_offset // 10, **options)


def transactional(base_offset, producer_id, *values, **options):
    return batch(base_offset, *values, producer_id=producer_id, producer_epoch=0, transactional=True, **options)


def marker(base_offset, producer_id, kind):
    record = NewRecord(kind.to_bytes(4, "big"), b"\0\0\0\0\0\0", T)
    return build_batch(
        [record], base_offset=base_offset, producer_id=producer_id, producer_epoch=0, transactional=True, control=True
    )


def decode(data, fetch_offset=0, aborted=None, **options):
    [section] = decode_sections([RecordSection("t", 0, data, fetch_offset, aborted)], **options)
    return section


def test_no_sections_and_empty_sections_have_no_records():
    assert decode_sections([]) == []
    for nothing in (b"", memoryview(b""), bytearray()):
        section = decode(nothing, 7)
        assert (len(section.columns), section.next_offset, section.last_epoch, section.truncated) == (0, 7, -1, False)
        assert list(section.columns) == []


def test_batches_are_joined_and_the_last_epoch_is_reported():
    section = decode(batch(0, b"a", b"b") + batch(2, b"c") + batch(30, b"d"))
    assert section.columns.values() == [b"a", b"b", b"c", b"d"]
    assert section.columns.offsets.tolist() == [0, 1, 2, 30]
    assert (section.next_offset, section.last_epoch) == (31, 3)


def test_records_before_the_fetch_offset_are_dropped():
    data = batch(0, b"a", b"b", b"c") + batch(3, b"d")
    assert decode(data, 2).columns.values() == [b"c", b"d"]
    assert decode(data, 3).columns.values() == [b"d"]
    late = decode(data, 9)
    assert (len(late.columns), late.next_offset) == (0, 9)


def test_repeated_offsets_are_dropped():
    section = decode(batch(0, b"a", b"b", b"c") + batch(1, b"B", b"C", b"D"))
    assert section.columns.values() == [b"a", b"b", b"c", b"D"]


@pytest.mark.parametrize("cut", [1, 12, 16, 17, 60, 61, 70])
def test_a_partial_last_batch_is_reported_and_skipped(cut):
    whole, partial = batch(0, b"a"), batch(1, b"b" * 50)[:cut]
    section = decode(whole + partial)
    assert section.columns.values() == [b"a"]
    assert (section.next_offset, section.error, section.truncated) == (1, None, True)


def test_a_single_partial_batch_does_not_move_the_position():
    section = decode(batch(5, b"a" * 100)[:-1], 5)
    assert (len(section.columns), section.next_offset, section.error, section.truncated) == (0, 5, None, True)


def test_sections_of_one_frame_share_its_buffer_without_a_copy():
    parts = [batch(0, b"one"), batch(100, b"two", b"three"), b"", batch(7, b"four")]
    frame = bytearray(b"head" + b"".join(parts))
    sections, at = [], 4
    for number, part in enumerate(parts):
        sections.append(RecordSection("t", number, memoryview(frame)[at : at + len(part)], 0))
        at += len(part)
    decoded = decode_sections(sections)
    assert [it.columns.values() for it in decoded] == [[b"one"], [b"two", b"three"], [], [b"four"]]
    assert all(it.columns.buffer is frame for it in decoded if len(it.columns))
    start, length = int(decoded[0].columns.value_starts[0]), int(decoded[0].columns.value_lengths[0])
    assert frame[start : start + length] == b"one"


def test_sections_may_be_in_any_order_and_overlap():
    frame = batch(0, b"a", b"b") + batch(2, b"c")
    middle = len(batch(0, b"a", b"b"))
    view = memoryview(frame)
    views = [view[middle:], view[:middle], view, view]
    decoded = decode_sections([RecordSection("t", i, data, 0) for i, data in enumerate(views)])
    assert [it.columns.values() for it in decoded] == [[b"c"], [b"a", b"b"], [b"a", b"b", b"c"], [b"a", b"b", b"c"]]


def test_sections_may_be_views_of_other_buffers():
    import array

    data = batch(0, b"a")
    assert decode(memoryview(array.array("B", data))).columns.values() == [b"a"]
    assert decode(memoryview(bytes(2 * len(data)))[::2]).error is not None
    strided = memoryview(b"".join(bytes((byte, 0)) for byte in data))[::2]
    assert decode(strided).columns.values() == [b"a"]


@pytest.mark.parametrize("codecs", [("gzip", "none"), ("none", "lz4"), ("snappy", "zstd", "none", "gzip", "lz4")])
def test_codecs_may_differ_within_a_section(codecs):
    data = b"".join(batch(i, b"value-%d" % i, compression=codec) for i, codec in enumerate(codecs))
    section = decode(data)
    assert section.columns.values() == [b"value-%d" % i for i in range(len(codecs))]
    assert section.next_offset == len(codecs)


def test_plain_and_compressed_sections_in_one_response():
    sections = [
        RecordSection("t", 0, batch(0, b"plain"), 0),
        RecordSection("t", 1, batch(0, b"packed", compression="zstd"), 0),
        RecordSection("t", 2, VECTORS["v1-snappy-2rec-base42"], 0),
        RecordSection("t", 3, VECTORS["v0-none-2rec-base42"], 0),
    ]
    values = [it.columns.values() for it in decode_sections(sections)]
    assert values == [[b"plain"], [b"packed"], [b"v0", b"value-1"], [b"v0", b"value-1"]]


def test_old_and_new_formats_in_one_section():
    data = (
        VECTORS["v0-none-2rec-base42"]
        + batch(44, b"new", b"newer")
        + VECTORS["v1-gzip-2rec-base42"].replace(b"\0\0\0\0\0\0\0\x2b", b"\0\0\0\0\0\0\0\x2f", 1)
        + batch(48, b"newest", compression="lz4")
    )
    section = decode(data)
    assert section.error is None
    assert section.columns.offsets.tolist() == [42, 43, 44, 45, 46, 47, 48]
    assert section.columns.values() == [b"v0", b"value-1", b"new", b"newer", b"v0", b"value-1", b"newest"]
    assert [section.columns.timestamp_type(i) for i in range(7)] == ["none"] * 2 + ["create"] * 5
    assert decode(data, 45).columns.offsets.tolist() == [45, 46, 47, 48]


# --- transactions


TWO_PRODUCERS = (
    transactional(0, 1, b"1-aborted")
    + transactional(1, 2, b"2-committed")
    + batch(2, b"plain")
    + marker(3, 1, ABORT)
    + marker(4, 2, COMMIT)
    + transactional(5, 1, b"1-committed")
    + marker(6, 1, COMMIT)
)


def test_read_committed_drops_exactly_the_aborted_ranges():
    section = decode(TWO_PRODUCERS, aborted=[(1, 0)])
    assert section.columns.values() == [b"2-committed", b"plain", b"1-committed"]
    assert section.next_offset == 7


def test_read_uncommitted_includes_aborted_records_but_no_markers():
    section = decode(TWO_PRODUCERS)
    assert section.columns.values() == [b"1-aborted", b"2-committed", b"plain", b"1-committed"]


def test_an_abort_marker_ends_only_the_range_of_its_producer():
    data = transactional(0, 1, b"a") + transactional(1, 2, b"b") + marker(2, 1, ABORT) + transactional(3, 2, b"c")
    data += marker(4, 2, ABORT)
    assert decode(data, aborted=[(2, 1), (1, 0)]).columns.values() == []


def test_a_producer_aborts_commits_and_aborts_again():
    data = b"".join(
        transactional(base, 1, kind) + marker(base + 1, 1, end)
        for base, kind, end in ((0, b"no", ABORT), (2, b"yes", COMMIT), (4, b"no", ABORT), (6, b"yes", COMMIT))
    )
    assert decode(data, aborted=[(1, 0), (1, 4)]).columns.values() == [b"yes", b"yes"]


def test_a_transaction_that_began_before_the_fetch_offset_is_dropped():
    data = transactional(10, 1, b"a") + marker(11, 1, ABORT) + batch(12, b"b")
    assert decode(data, 10, aborted=[(1, 3)]).columns.values() == [b"b"]


def test_a_nontransactional_batch_of_an_aborting_producer_is_kept():
    data = batch(0, b"idempotent", producer_id=1, producer_epoch=0) + transactional(1, 1, b"aborted")
    assert decode(data, aborted=[(1, 0)]).columns.values() == [b"idempotent"]


def test_trailing_markers_move_the_position():
    section = decode(transactional(0, 1, b"a") + marker(1, 1, ABORT), aborted=[(1, 0)])
    assert (len(section.columns), section.next_offset) == (0, 2)


def test_a_control_record_without_a_type_is_corrupt_under_read_committed():
    nonsense = build_batch([NewRecord(b"?", None, T)], producer_id=1, transactional=True, control=True)
    assert decode(nonsense, aborted=[(1, 0)]).error is not None
    assert decode(nonsense).error is None


def test_a_damaged_marker_before_the_limit_of_a_call_does_not_raise(monkeypatch):
    monkeypatch.setattr(decode_module, "MAX_BATCHES_PER_CALL", 1)
    nonsense = build_batch([NewRecord(b"?", None, T)], producer_id=1, transactional=True, control=True)
    [section] = decode_sections([RecordSection("t", 0, nonsense + batch(1, b"a"), 0, [])])
    assert (section.error, section.remaining.aborted, section.remaining.fetch_offset) == (None, [], 1)


# --- damage


def test_damage_is_reported_with_its_offset_and_earlier_records_are_kept():
    bad = bytearray(batch(2, b"c"))
    bad[-2] ^= 1
    [section] = decode_sections([RecordSection("orders", 3, batch(0, b"a", b"b") + bad + batch(3, b"d"), 1)])
    assert section.columns.values() == [b"b"]
    assert section.next_offset == 2
    assert section.truncated is False
    assert section.error is not None
    assert section.error.evidence == {"topic": "orders", "partition": 3, "offset": 2}
    assert "CRC" in str(section.error)


def test_an_unchecked_checksum_is_not_computed():
    bad = bytearray(batch(0, b"a"))
    bad[18] ^= 1
    assert decode(bad).error is not None
    assert decode(bad, check_crcs=False).columns.values() == [b"a"]


def test_damage_in_one_section_does_not_affect_the_others():
    bad = bytearray(batch(0, b"a"))
    bad[-1] ^= 1
    decoded = decode_sections(
        [RecordSection("t", i, data, 0) for i, data in enumerate((batch(0, b"x"), bytes(bad), batch(0, b"y")))]
    )
    assert [it.error is not None for it in decoded] == [False, True, False]
    assert [it.columns.values() for it in decoded] == [[b"x"], [], [b"y"]]


def test_the_checksum_of_old_formats_is_verified_outside_and_inside_wrappers():
    for name in ("v0-none-2rec-base42", "v1-none-2rec-base42"):
        bad = bytearray(VECTORS[name])
        bad[-1] ^= 1
        section = decode(bytes(bad))
        assert section.columns.values() == [b"v0"]
        assert (section.next_offset, section.error is not None) == (43, True)


# --- the bound on what is decompressed


def numbered_batches(count, size, aborted=()):
    rng = random.Random(1)
    return [
        transactional(i, 9, rng.randbytes(8) * (size // 8), compression=rng.choice(("gzip", "snappy", "lz4", "zstd")))
        for i in range(count)
    ]


def test_batches_beyond_the_size_limit_are_left_for_another_call():
    data = b"head" + b"".join(numbered_batches(20, 8000)) + marker(20, 9, COMMIT)
    section = RecordSection("t", 0, memoryview(data)[4:], 2)
    seen, calls = [], 0
    while section is not None:
        [decoded] = decode_sections([section], max_decompressed_bytes=30_000)
        assert decoded.error is None
        seen += decoded.columns.offsets.tolist()
        assert (decoded.remaining is None) == (decoded.next_offset == 21)
        if decoded.remaining is not None:
            assert decoded.remaining.fetch_offset == decoded.next_offset
        section, calls = decoded.remaining, calls + 1
    assert seen == list(range(2, 20))
    assert calls > 5


def test_the_rest_keeps_the_transactions_being_aborted():
    parts = numbered_batches(6, 8000)
    data = (
        b"".join(parts[:2])
        + marker(2, 9, ABORT)
        + b"".join(transactional(base, 9, b"x" * 20_000, compression="lz4") for base in (3, 4))
    )
    data += (
        marker(5, 9, ABORT) + batch(6, b"y" * 20_000, compression="gzip") + batch(7, b"z" * 20_000, compression="gzip")
    )
    section, seen = RecordSection("t", 0, data, 0, [(9, 0), (9, 4)]), []
    while section is not None:
        [decoded] = decode_sections([section], max_decompressed_bytes=25_000)
        seen += decoded.columns.offsets.tolist()
        section = decoded.remaining
    assert seen == [3, 6, 7]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_single_batch_above_the_size_limit_is_too_large(codec):
    data = batch(0, b"small", compression=codec) + batch(1, bytes(100_000), compression=codec)
    first = decode(data, max_decompressed_bytes=50_000)
    assert (first.columns.values(), first.error, first.next_offset) == ([b"small"], None, 1)
    [second] = decode_sections([first.remaining], max_decompressed_bytes=50_000)
    assert (len(second.columns), second.next_offset, second.remaining) == (0, 1, None)
    assert isinstance(second.error, RecordTooLarge)
    assert second.error.message == (
        "the batch at offset 1 decompresses to more than max.decompressed.batch.bytes (50000 bytes); "
        "the next batch begins at offset 2"
    )
    assert second.error.evidence == {"topic": "t", "partition": 0, "offset": 1, "next_offset": 2}
    assert decode(data, max_decompressed_bytes=200_000).columns.values() == [b"small", bytes(100_000)]


# --- the bounds of a call


def everything(sections):
    """Return the offsets by section over all calls, and the number of calls."""
    seen, calls = [[] for _ in sections], 0
    left = list(enumerate(sections))
    while left:
        calls += 1
        decoded = decode_sections([section for _, section in left])
        for (number, _), result in zip(left, decoded, strict=True):
            assert result.error is None
            assert not (result.truncated and result.remaining)
            seen[number] += result.columns.offsets.tolist()
        left = [
            (number, it.remaining) for (number, _), it in zip(left, decoded, strict=True) if it.remaining is not None
        ]
    return seen, calls


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_records_beyond_the_limit_of_a_call_are_left_for_the_next(codec, monkeypatch):
    monkeypatch.setattr(decode_module, "MAX_RECORDS_PER_CALL", 100)
    data = b"".join(batch(i, *[b"x"] * 10, compression=codec) for i in range(0, 300, 10))
    large = batch(0, *[b"y"] * 500, compression=codec)
    sections = [RecordSection("t", 0, data, 3), RecordSection("t", 1, large, 0), RecordSection("t", 2, data, 0)]
    seen, calls = everything(sections)
    assert seen == [list(range(3, 300)), list(range(500)), list(range(300))]
    assert calls == 11  # the large batch takes five


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("fetch_offset", [0, 250, 499])
def test_a_batch_with_more_records_than_a_call_is_divided(codec, fetch_offset, monkeypatch):
    monkeypatch.setattr(decode_module, "MAX_RECORDS_PER_CALL", 100)
    rows = [NewRecord(b"%d" % i, b"v" * (i % 90), 1000 + i, [("h", b"%d" % i)]) for i in range(500)]
    large = build_batch(rows, compression=codec, last_offset_delta=509)
    section, seen = RecordSection("t", 0, large + batch(510, b"after"), fetch_offset), []
    while section is not None:
        [decoded] = decode_sections([section])
        assert decoded.error is None
        assert len(decoded.columns) <= 100
        columns = decoded.columns
        seen += zip(
            columns.offsets.tolist(), columns.timestamps_ms.tolist(), columns.keys(), columns.values(), strict=True
        )
        section = decoded.remaining
    expected = [(i, row.timestamp_ms, row.key, row.value) for i, row in enumerate(rows)]
    assert seen[:-1] == expected[fetch_offset:]
    assert (seen[-1][0], seen[-1][3], decoded.next_offset) == (510, b"after", 511)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_divided_batch_keeps_its_transaction(codec, monkeypatch):
    monkeypatch.setattr(decode_module, "MAX_RECORDS_PER_CALL", 100)
    values = [b"x"] * 250
    aborted = transactional(0, 9, *values, compression=codec)
    kept = transactional(251, 9, *values, compression=codec)
    data = aborted + marker(250, 9, ABORT) + kept + marker(501, 9, COMMIT)
    section, seen = RecordSection("t", 0, data, 0, [(9, 0)]), []
    while section is not None:
        [decoded] = decode_sections([section])
        seen += decoded.columns.offsets.tolist()
        section = decoded.remaining
    assert (seen, decoded.next_offset) == (list(range(251, 501)), 502)


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("wrong_count", [499, 501])
def test_a_batch_with_more_records_than_a_call_is_checked(codec, wrong_count, monkeypatch):
    monkeypatch.setattr(decode_module, "MAX_RECORDS_PER_CALL", 100)
    rows = [NewRecord(None, b"v", 1000) for _ in range(500)]
    large = bytearray(build_batch(rows, compression=codec, last_offset_delta=509))
    large[57:61] = wrong_count.to_bytes(4, "big")
    [decoded] = decode_sections([RecordSection("t", 0, bytes(large), 0)], check_crcs=False)
    assert (len(decoded.columns), decoded.next_offset) == (0, 0)
    assert isinstance(decoded.error, CorruptRecords)


def test_batches_beyond_the_limit_of_a_call_are_left_for_the_next(monkeypatch):
    monkeypatch.setattr(decode_module, "MAX_BATCHES_PER_CALL", 7)
    data = b"".join(batch(i, b"x") for i in range(20))
    frame = memoryview(data + data + data[:-1])
    middle = len(data)
    parts = [frame[:middle], frame[middle : 2 * middle], frame[2 * middle :], memoryview(b"")]
    seen, calls = everything([RecordSection("t", i, part, 0) for i, part in enumerate(parts)])
    assert seen == [list(range(20)), list(range(20)), list(range(19)), []]
    assert calls == 9


def test_the_control_bit_is_ignored_in_old_formats():
    data = bytearray(VECTORS["v0-none-2rec-base42"])
    size = int.from_bytes(data[8:12], "big") + 12
    data[17] |= 0x20
    data[12:16] = zlib.crc32(data[16:size]).to_bytes(4, "big")
    assert decode(bytes(data)).columns.offsets.tolist() == [42, 43]
