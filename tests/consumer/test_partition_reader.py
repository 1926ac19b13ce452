"""Partition readers of batch headers: batches written by Kafka's own classes, and ranges that cut batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kcli.errors import CorruptRecords, KcliError
from kcli.protocol.messages import fetch
from kcli.protocol.records import batch_columns
from kcli.protocol.records.batch_columns import BatchColumns, decode_headers
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.compression import CODEC_NAMES
from kcli.protocol.records.sections import DecodedSection, RecordSection
from kcli.protocol.registry import ApiKey
from kcli.structs import TopicPartition
from tests.consumer.cluster import FakeCluster, Log
from tests.consumer.header_reader import BatchHeaderReader
from tests.consumer.partition_reader import PartitionReader
from tests.protocol.records.vectors import VECTORS

T = 1_500_000_000_000  # the time of the vectors' first record
T0 = TopicPartition("t", 0)


def section(
    data: bytes | memoryview, offset: int = 0, aborted: list[tuple[int, int]] | None = None
) -> tuple[BatchColumns, DecodedSection]:
    [decoded] = decode_headers([RecordSection("t", 0, data, offset, aborted)])
    rows: Any = decoded.columns
    return rows.batches, decoded


def rows(batches: BatchColumns, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(getattr(batches, name).tolist() for name in names), strict=True))


# --- single headers, written by Kafka's own classes


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_header_is_read_without_unpacking(codec: str) -> None:
    data = VECTORS["v2-none-3rec-base42-ple7" if codec == "none" else f"v2-{codec}-3rec-base42"]
    found, decoded = section(data)
    [(base, last, count, size, epoch, magic)] = rows(
        found, "base_offsets", "last_offsets", "counts", "sizes", "leader_epochs", "magic"
    )
    assert (base, last, count, size, epoch, magic) == (42, 44, 3, len(data), 7, 2)
    assert CODEC_NAMES[found.codecs[0]] == codec
    assert rows(found, "first_timestamps", "max_timestamps", "timestamp_types") == [(T, T + 1, 0)]
    assert (decoded.next_offset, decoded.last_epoch, decoded.error) == (45, 7, None)


def test_producer_and_transaction_fields_are_read() -> None:
    found, _ = section(VECTORS["v2-none-txn-pid4000-ep3-seq9"])
    assert rows(found, "producer_ids", "producer_epochs", "base_sequences", "transactional", "control") == [
        (4000, 3, 9, True, False)
    ]
    marker, _ = section(VECTORS["control-commit"])
    assert rows(marker, "base_offsets", "counts", "transactional", "control") == [(200, 1, True, True)]


def test_an_empty_batch_of_compaction_is_included() -> None:
    found, decoded = section(VECTORS["v2-empty-retained"], 100)
    assert rows(found, "base_offsets", "last_offsets", "counts") == [(100, 104, 0)]
    assert decoded.next_offset == 105


def test_compaction_reduces_the_record_count() -> None:
    found, _ = section(VECTORS["v2-none-holes-to-300"])
    assert rows(found, "base_offsets", "last_offsets", "counts") == [(42, 300, 3)]


@pytest.mark.parametrize("name", [name for name in VECTORS if name.startswith("v2") and "append-time" in name])
def test_log_append_time_is_both_timestamps(name: str) -> None:
    found, _ = section(VECTORS[name])
    assert rows(found, "first_timestamps", "max_timestamps", "timestamp_types") == [(T + 1000, T + 1000, 1)]


def test_the_delete_horizon_is_not_a_record_timestamp() -> None:
    found, _ = section(build_batch([NewRecord(b"k", b"v", 500)], delete_horizon_ms=9))
    assert rows(found, "first_timestamps", "max_timestamps") == [(-1, 500)]


# --- message formats 0 and 1


@pytest.mark.parametrize(("name", "times"), [("v0", [-1, -1]), ("v1", [T, T + 1])])
def test_an_old_message_is_a_batch_of_one(name: str, times: list[int]) -> None:
    data = VECTORS[f"{name}-none-2rec-base42"]
    found, decoded = section(data, 42)
    assert rows(found, "base_offsets", "last_offsets", "counts") == [(42, 42, 1), (43, 43, 1)]
    assert found.first_timestamps.tolist() == found.max_timestamps.tolist() == times
    assert found.timestamp_types.tolist() == [-1 if name == "v0" else 0] * 2
    assert (
        rows(found, "producer_ids", "producer_epochs", "base_sequences", "leader_epochs", "magic")
        == [(-1, -1, -1, -1, int(name[1]))] * 2
    )
    assert (int(found.sizes.sum()), decoded.next_offset) == (len(data), 44)


@pytest.mark.parametrize("name", ["v0-gzip", "v0-lz4", "v0-snappy", "v1-gzip", "v1-lz4", "v1-snappy"])
def test_an_old_compressed_set_has_an_end_but_no_count(name: str) -> None:
    data = VECTORS[f"{name}-2rec-base42"]
    found, decoded = section(data, 40)
    assert rows(found, "base_offsets", "last_offsets", "counts", "sizes") == [(-1, 43, -1, len(data))]
    assert CODEC_NAMES[found.codecs[0]] == name[3:]
    assert rows(found, "first_timestamps", "max_timestamps") == [(-1, T + 1 if name.startswith("v1") else -1)]
    assert (found.froms.tolist(), decoded.next_offset) == ([40], 44)


def test_an_old_set_starts_after_the_preceding_batches() -> None:
    data = VECTORS["v0-none-2rec-base42"] + build_batch([NewRecord(None, b"", 0)] * 3, base_offset=44)
    wrapper = bytearray(VECTORS["v1-gzip-2rec-base42"])
    wrapper[:8] = (50).to_bytes(8, "big")
    found, _ = section(data + bytes(wrapper), 42)
    assert found.froms.tolist() == [42, 43, 44, 47]
    assert found.base_offsets.tolist() == [42, 43, 44, -1]
    assert found.magic.tolist() == [0, 0, 2, 1]


def test_an_old_message_shorter_than_a_new_header_at_the_end_is_read() -> None:
    found, _ = section(VECTORS["v0-none-2rec-base42"])
    assert len(VECTORS["v0-none-2rec-base42"]) < 2 * 61
    assert found.last_offsets.tolist() == [42, 43]


# --- sections


def test_batches_before_the_fetch_offset_are_left_out() -> None:
    three = b"".join(build_batch([NewRecord(None, b"", 0)] * 10, base_offset=base) for base in (0, 10, 20))
    assert section(three, 15)[0].base_offsets.tolist() == [10, 20]
    assert section(three, 20)[0].base_offsets.tolist() == [20]


def test_an_invalid_header_ends_the_section_without_a_crc_check() -> None:
    good = build_batch([NewRecord(None, b"value", 0)] * 3)
    bad = bytearray(build_batch([NewRecord(None, b"", 0)], base_offset=3))
    bad[57:61] = (99).to_bytes(4, "big")
    found, decoded = section(good[:-1] + b"\xff" + bytes(bad))
    assert found.base_offsets.tolist() == [0]
    assert isinstance(decoded.error, CorruptRecords)
    assert "offset 3" in str(decoded.error)


def test_remaining_batches_are_left_for_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_columns, "MAX_BATCHES_PER_CALL", 2)
    data = b"".join(build_batch([NewRecord(None, b"", 0)], base_offset=base) for base in range(5))
    asked: RecordSection | None = RecordSection("t", 0, memoryview(data), 0, None)
    seen: list[int] = []
    while asked is not None:
        [decoded] = decode_headers([asked])
        rows_: Any = decoded.columns
        seen += rows_.batches.base_offsets.tolist()
        asked = decoded.remaining
    assert seen == [0, 1, 2, 3, 4]


# --- ranges


def filled() -> tuple[FakeCluster, Log]:
    """Return a cluster with a log of the batches 0-3, 4-7, 8-11."""
    cluster = FakeCluster()
    log = cluster.topic("t")
    for _ in range(3):
        log.append("a", "b", "c", "d")
    return cluster, log


def spans(cluster: FakeCluster, start: int, end: int, **properties: Any) -> list[tuple[int, int]]:
    client, config = cluster.client(**properties)
    with BatchHeaderReader(config, T0, start, end, client) as reader:
        return [span for batches in reader for span in rows(batches, "base_offsets", "last_offsets")]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 12, [(0, 3), (4, 7), (8, 11)]),
        (4, 8, [(4, 7)]),
        (5, 6, [(4, 7)]),
        (3, 9, [(0, 3), (4, 7), (8, 11)]),
        (4, 4, []),
        (12, 12, []),
    ],
)
def test_every_batch_that_overlaps_the_range_is_returned(start: int, end: int, expected: list[tuple[int, int]]) -> None:
    assert spans(filled()[0], start, end) == expected


def test_small_responses_have_the_same_batches() -> None:
    assert spans(filled()[0], 2, 11, max_partition_fetch_bytes=1) == [(0, 3), (4, 7), (8, 11)]


def test_adjacent_ranges_count_a_batch_once_by_its_last_offset() -> None:
    seen = []
    for start, end in [(0, 2), (2, 6), (6, 7), (7, 12)]:
        seen += [last for _, last in spans(filled()[0], start, end) if start <= last < end]
    assert seen == [3, 7, 11]


def aborted_log() -> FakeCluster:
    """An aborted transaction at 0-1, its marker at 2, a committed one at 3, its marker at 4, and a plain
    record at 5.
    """
    cluster = FakeCluster()
    log = cluster.topic("t")
    transaction: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    log.append("x", "y", **transaction)
    log.marker(7, commit=False)
    log.append("z", **transaction)
    log.marker(7, commit=True)
    log.append("plain")
    log.aborted = [(7, 0)]
    return cluster


def test_control_and_aborted_batches_are_marked_under_read_committed() -> None:
    client, config = aborted_log().client(isolation_level="read_committed")
    with BatchHeaderReader(config, T0, 0, 6, client) as reader:
        [found] = list(reader)
    assert rows(found, "base_offsets", "transactional", "control", "aborted") == [
        (0, True, False, 1),
        (2, True, True, 0),
        (3, True, False, 0),
        (4, True, True, 0),
        (5, False, False, 0),
    ]


def test_aborted_batches_are_not_marked_under_read_uncommitted() -> None:
    client, config = aborted_log().client()
    with BatchHeaderReader(config, T0, 0, 6, client) as reader:
        [found] = list(reader)
    assert found.base_offsets.tolist() == [0, 2, 3, 4, 5]
    assert found.aborted.tolist() == [-1] * 5


def test_missing_offsets_are_an_error_at_the_end() -> None:
    cluster, log = filled()
    log.start = 4
    log.batches = log.batches[1:]
    client, config = cluster.client()
    with (
        BatchHeaderReader(config, T0, 0, 12, client) as reader,
        pytest.raises(KcliError, match="offsets 0 to 3 were deleted"),
    ):
        list(reader)


def test_a_damaged_header_is_the_error_of_the_reader() -> None:
    cluster, _ = filled()
    bad = bytearray(build_batch([NewRecord(None, b"", 0)] * 4))
    bad[57:61] = (99).to_bytes(4, "big")

    def answer(request: Any) -> Any:
        data = fetch.PartitionData(partition_index=0, high_watermark=12, last_stable_offset=12, records=bytes(bad))
        topic = fetch.FetchableTopicResponse(topic_id=cluster.topic_ids["t"], partitions=[data])
        return fetch.FetchResponse(responses=[topic])

    cluster.answer_next(ApiKey.FETCH, *[answer] * 20)
    with pytest.raises(CorruptRecords, match="record count"):
        spans(cluster, 0, 12)


def test_counts_and_offsets_match_the_decoded_records() -> None:
    """With random sizes and codecs."""
    random = np.random.default_rng(7)
    cluster = FakeCluster()
    log = cluster.topic("t")
    for _ in range(60):
        values = ["v" * int(n) for n in random.integers(0, 50, int(random.integers(1, 9)))]
        log.append(*values, compression=CODEC_NAMES[int(random.integers(0, 5))])
    client, config = cluster.client(max_partition_fetch_bytes=2000)
    with PartitionReader(config, T0, 0, log.end, client) as reader:
        offsets = np.concatenate([columns.offsets for columns in reader])
    with BatchHeaderReader(config, T0, 0, log.end, client) as headers:
        batches = list(headers)
    counts = np.concatenate([it.counts for it in batches])
    bases = np.concatenate([it.base_offsets for it in batches])
    assert (len(counts), int(counts.sum())) == (60, len(offsets))
    assert np.array_equal(np.repeat(bases, counts) + np.concatenate([np.arange(n) for n in counts]), offsets)
    assert sum(int(it.sizes.sum()) for it in batches) == sum(len(it.data) for it in log.batches)
