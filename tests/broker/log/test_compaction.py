"""Compaction decisions: dirty ranges, kept records, and bytes equal to those of Apache Kafka's cleaner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.log.compaction import LatestOffsets, SegmentStats, filter_batch, find_dirty_section, group_segments
from kcli.broker.log.log_config import LogConfig
from kcli.protocol.records.batch import BatchInfo, read_batch_info
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.scan import iter_records

NOW = 1_700_000_000_000
DAY = 86_400_000
COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}))
CAPTURE = Path(__file__).parents[2] / "vectors" / "compaction.txt"
FOREVER = (1 << 63) - 1


def batches(data: bytes) -> Iterator[BatchInfo]:
    at = 0
    while at < len(data):
        info = read_batch_info(data, at)
        yield info
        at += info.size


def batch(offset: int, *rows: tuple[bytes | None, bytes | None], **options: Any) -> BatchInfo:
    records = [NewRecord(key, value, NOW) for key, value in rows]
    return read_batch_info(build_batch(records, base_offset=offset, **options))


def latest(*infos: BatchInfo) -> LatestOffsets:
    offsets = LatestOffsets(1000)
    for info in infos:
        offsets.add(info)
    return offsets


def clean(info: BatchInfo, offsets: LatestOffsets, *, last: bool = False, now: int = NOW) -> BatchInfo | None:
    kept = filter_batch(info, offsets, is_producers_last=last, delete_retention_ms=DAY, now_wall_ms=now)
    return None if kept is None else read_batch_info(kept)


def offsets_in(info: BatchInfo | None) -> list[int]:
    assert info is not None
    return [record.offset for record in iter_records(info.records)]


# ---- Apache Kafka's cleaner ----


def test_cleaned_bytes_equal_those_of_apache_kafkas_cleaner() -> None:
    """Two producers, tombstones, headers and an emptied batch; the vector file describes its origin."""
    captured: dict[str, dict[str, bytes]] = {"before": {}, "after": {}}
    for line in CAPTURE.read_text().splitlines():
        if not line.startswith("#"):
            when, name, data = line.split()
            captured[when][name] = bytes.fromhex(data)
    *dirty, active = sorted(captured["before"])
    infos = [info for name in dirty for info in batches(captured["before"][name])]
    cleaned = captured["after"][dirty[0]]
    horizons = {info.delete_horizon_ms for info in batches(cleaned)} - {None}
    now = horizons.pop() - DAY  # type: ignore[operator]
    offsets = latest(*infos)
    last_of = {info.producer_id: info.last_offset for info in infos if info.has_producer}
    kept = [
        filter_batch(
            info,
            offsets,
            is_producers_last=last_of.get(info.producer_id) == info.last_offset,
            delete_retention_ms=DAY,
            now_wall_ms=now,
        )
        for info in infos
    ]
    assert b"".join(bytes(one) for one in kept if one is not None) == cleaned
    assert captured["after"][active] == captured["before"][active]
    sizes = [SegmentStats(int(name[:20]), len(captured["before"][name]), -1) for name in dirty]
    assert group_segments(sizes, 1 << 20) == [range(len(dirty))]


# ---- kept records ----


def test_newest_record_of_each_key_is_kept_with_its_offset() -> None:
    old, new = batch(10, (b"a", b"1"), (b"b", b"1"), (b"c", b"1")), batch(13, (b"a", b"2"), (b"c", b"2"))
    kept = clean(old, latest(old, new))
    assert kept is not None
    assert offsets_in(kept) == [11]
    assert (kept.base_offset, kept.last_offset, kept.record_count) == (10, 12, 1)
    untouched = clean(new, latest(old, new))
    assert untouched is not None
    assert untouched.records == new.records


def test_last_record_of_a_key_within_a_batch_is_kept() -> None:
    info = batch(0, (b"a", b"1"), (b"a", b"2"), (b"a", b"3"))
    assert offsets_in(clean(info, latest(info))) == [2]


def test_batch_without_remaining_records_is_removed() -> None:
    old, new = batch(0, (b"a", b"1")), batch(1, (b"a", b"2"))
    assert clean(old, latest(old, new)) is None


def test_last_batch_of_a_producer_is_kept_without_records() -> None:
    old, new = batch(0, (b"a", b"1"), producer_id=5, producer_epoch=2, base_sequence=8), batch(1, (b"a", b"2"))
    kept = clean(old, latest(old, new), last=True)
    assert kept is not None
    assert (kept.record_count, kept.base_offset, kept.last_offset) == (0, 0, 0)
    assert (kept.producer_id, kept.producer_epoch, kept.base_sequence) == (5, 2, 8)
    again = clean(kept, latest(new), last=True)
    assert again is not None
    assert again.records == kept.records
    assert clean(kept, latest(new), last=False) is None


def test_records_without_a_key_are_removed() -> None:
    info = batch(0, (None, b"1"), (b"a", b"2"))
    assert offsets_in(clean(info, latest(info))) == [1]


def test_records_after_the_indexed_offsets_are_kept() -> None:
    first, second = batch(0, (b"a", b"1")), batch(1, (b"a", b"2"), (b"a", b"3"))
    assert offsets_in(clean(second, latest(first))) == [1, 2]


def test_tombstone_gets_a_delete_horizon_and_is_removed_after_it() -> None:
    info = batch(0, (b"a", None), (b"b", b"1"))
    offsets = latest(info)
    kept = clean(info, offsets)
    assert kept is not None
    assert kept.delete_horizon_ms == NOW + DAY
    assert offsets_in(kept) == [0, 1]
    assert [record.timestamp_ms for record in iter_records(kept.records)] == [NOW, NOW]
    still = clean(kept, offsets, now=NOW + DAY - 1)
    assert still is not None
    assert still.records == kept.records
    assert offsets_in(clean(kept, offsets, now=NOW + DAY)) == [1]
    only = batch(0, (b"a", None))
    marked = clean(only, latest(only))
    assert marked is not None
    assert clean(marked, latest(only), now=NOW + DAY) is None


def test_tombstone_supersedes_older_values_and_is_superseded_by_newer_ones() -> None:
    value, tombstone, newer = batch(0, (b"a", b"1")), batch(1, (b"a", None)), batch(2, (b"a", b"2"))
    assert clean(value, latest(value, tombstone)) is None
    assert clean(tombstone, latest(value, tombstone, newer)) is None


def test_filtered_batch_keeps_its_codec_and_append_time() -> None:
    rows = ((b"a", b"1"), (b"a", b"2"))
    info = batch(0, *rows, compression="gzip", timestamp_type="append", max_timestamp_ms=NOW + 7)
    kept = clean(info, latest(info))
    assert kept is not None
    assert (kept.codec, kept.is_append_time, kept.max_timestamp_ms) == (1, True, NOW + 7)


def test_long_keys_are_distinguished() -> None:
    one, other = b"k" * 500 + b"1", b"k" * 500 + b"2"
    info = batch(0, (one, b"1"), (other, b"1"), (one, b"2"))
    assert offsets_in(clean(info, latest(info))) == [1, 2]


def test_latest_offsets_are_full_at_the_largest_number_of_keys() -> None:
    offsets = LatestOffsets(2)
    offsets.add(batch(0, (b"a", b"1")))
    assert not offsets.is_full
    offsets.add(batch(1, (b"b", b"1"), (b"c", b"1")))
    assert (offsets.is_full, len(offsets), offsets.end) == (True, 3, 3)


# ---- dirty ranges ----


def segments(*rows: tuple[int, int, int]) -> list[SegmentStats]:
    return [SegmentStats(*row, row[2]) for row in rows]


def dirty_section(
    logs: list[SegmentStats], *, cleaned: int = 0, start: int = 0, stable: int = FOREVER, **config: Any
) -> Any:
    whole = LogConfig(cleanup_policy=frozenset({"compact"}), **config)
    return find_dirty_section(
        logs, cleaned_up_to=cleaned, log_start_offset=start, last_stable_offset=stable, config=whole, now_wall_ms=NOW
    ), whole


def test_active_segment_is_never_cleaned() -> None:
    dirty, config = dirty_section(segments((0, 100, NOW)))
    assert (dirty.start, dirty.end, dirty.dirty_bytes, dirty.is_due(config)) == (0, 0, 0, False)
    dirty, config = dirty_section(segments((0, 100, NOW), (10, 900, NOW)))
    assert (dirty.start, dirty.end, dirty.dirty_bytes, dirty.ratio, dirty.is_due(config)) == (0, 10, 100, 1.0, True)


def test_log_is_due_above_min_cleanable_dirty_ratio() -> None:
    logs = segments((0, 500, NOW), (10, 500, NOW), (20, 10, NOW))
    dirty, config = dirty_section(logs, cleaned=10)
    assert (dirty.start, dirty.ratio, dirty.is_due(config)) == (10, 0.5, False)
    dirty, config = dirty_section(logs, cleaned=10, min_cleanable_dirty_ratio=0.4)
    assert dirty.is_due(config)


def test_partly_cleaned_segment_is_dirty() -> None:
    dirty, _ = dirty_section(segments((0, 500, NOW), (10, 500, NOW), (20, 10, NOW)), cleaned=13)
    assert (dirty.start, dirty.end, dirty.dirty_bytes) == (13, 20, 500)


def test_records_younger_than_min_compaction_lag_are_not_cleaned() -> None:
    logs = segments((0, 100, NOW - 2000), (10, 100, NOW - 500), (20, 100, NOW - 3000), (30, 1, NOW))
    dirty, _ = dirty_section(logs, min_compaction_lag_ms=1000)
    assert (dirty.end, dirty.dirty_bytes) == (10, 100)


def test_records_older_than_max_compaction_lag_are_due_below_the_ratio() -> None:
    logs = segments((0, 900, NOW - 9000), (10, 50, NOW - 5000), (20, 10, NOW))
    dirty, config = dirty_section(logs, cleaned=10, max_compaction_lag_ms=4000)
    assert dirty.is_due(config)
    dirty, config = dirty_section(logs, cleaned=10, max_compaction_lag_ms=6000)
    assert not dirty.is_due(config)


@pytest.mark.parametrize(("stable", "end"), [(5, 0), (10, 10), (19, 10), (20, 20), (25, 20)])
def test_cleanable_part_ends_before_the_segment_with_the_last_stable_offset(stable: int, end: int) -> None:
    """A later record of an open transaction must not supersede a committed one."""
    dirty, _ = dirty_section(segments((0, 100, NOW), (10, 100, NOW), (20, 100, NOW)), stable=stable)
    assert (dirty.end, dirty.dirty_bytes) == (end, end * 10)


def test_checkpoint_outside_of_the_log_is_ignored() -> None:
    logs = segments((0, 100, NOW), (10, 100, NOW), (20, 100, NOW))
    assert dirty_section(logs, cleaned=5, start=10)[0].start == 10
    assert dirty_section(logs, cleaned=50)[0].start == 0


def test_small_segments_are_merged() -> None:
    logs = segments((0, 400, 0), (10, 500, 0), (20, 200, 0), (30, 2000, 0), (40, 1, 0))
    assert group_segments(logs, 1000) == [range(2), range(2, 3), range(3, 4), range(4, 5)]
    assert group_segments(logs, 1 << 30) == [range(5)]
    assert group_segments([], 1000) == []


def test_merged_segment_spans_at_most_int32_offsets() -> None:
    far = (1 << 31) + 5
    assert group_segments(segments((0, 1, 0), (10, 1, 0), (far, 1, 0), (far + 1, 1, 0)), 1000) == [
        range(1), range(1, 4),
    ]  # fmt: skip
