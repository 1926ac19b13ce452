"""Retention: the pure decision, and its effects on a log."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kcli.broker.log.log_config import LogConfig
from kcli.broker.log.segments import Bounds, count_unretained
from tests.broker.log.logs import NOW, Keeper, append, batch, fill, values

HOUR = 3_600_000
KEEP_ALL = {"retention_ms": -1, "retention_bytes": -1}


@dataclass
class Segment:
    base_offset: int
    size: int = 100
    newest_ms: int = NOW


def chosen(
    segments: list[Segment], *, start: int = 0, watermark: int | None = None, end: int = 40, **config: object
) -> list[int]:
    bounds = Bounds(start, end if watermark is None else watermark, end)
    settings = LogConfig(**{**KEEP_ALL, **config})  # type: ignore[arg-type]
    count = count_unretained(segments, settings, bounds, NOW)  # type: ignore[arg-type]
    return [segment.base_offset for segment in segments[:count]]


def four(**newest_ms: int) -> list[Segment]:
    return [Segment(base, newest_ms=newest_ms.get(f"at{base}", NOW)) for base in (0, 10, 20, 30)]


def test_no_segment_is_deleted_without_limits() -> None:
    assert chosen(four(at0=0)) == []


def test_segments_older_than_retention_ms_are_deleted_oldest_first() -> None:
    segments = four(at0=NOW - HOUR - 1, at10=NOW - HOUR, at20=NOW - HOUR - 1)
    assert chosen(segments, retention_ms=HOUR) == [0]
    assert chosen(segments, retention_ms=HOUR - 1) == [0, 10, 20]


def test_segment_with_a_future_timestamp_keeps_all_later_segments() -> None:
    assert chosen(four(at0=NOW + HOUR, at10=0), retention_ms=HOUR) == []


def test_newest_segment_is_deleted_by_age() -> None:
    segments = [Segment(base, newest_ms=0) for base in (0, 10, 20, 30)]
    assert chosen(segments, retention_ms=HOUR) == [0, 10, 20, 30]
    segments[-1].size = 0
    assert chosen(segments, retention_ms=HOUR) == [0, 10, 20]


def test_log_is_not_deleted_below_retention_bytes() -> None:
    assert chosen(four(), retention_bytes=400) == []
    assert chosen(four(), retention_bytes=301) == []
    assert chosen(four(), retention_bytes=300) == [0]
    assert chosen(four(), retention_bytes=150) == [0, 10]
    assert chosen(four(), retention_bytes=0) == [0, 10, 20, 30]


def test_both_limits_apply() -> None:
    assert chosen(four(at0=0, at10=0), retention_ms=HOUR, retention_bytes=300) == [0, 10]


def test_records_above_the_high_watermark_are_not_deleted() -> None:
    assert chosen(four(at0=0, at10=0), retention_ms=HOUR, watermark=19) == [0]
    assert chosen(four(at0=0, at10=0), retention_ms=HOUR, watermark=20) == [0, 10]


def test_segments_below_the_log_start_are_deleted_under_any_policy() -> None:
    assert chosen(four(), start=20) == [0, 10]
    assert chosen(four(), start=19) == [0]
    assert chosen(four(), start=25, cleanup_policy=frozenset({"compact"})) == [0, 10]
    assert chosen(four(), start=40) == [0, 10, 20]


def test_compacted_topics_keep_old_records() -> None:
    compact = frozenset({"compact"})
    assert chosen(four(at0=0), retention_ms=HOUR, retention_bytes=0, cleanup_policy=compact) == []
    assert chosen(four(at0=0), retention_ms=HOUR, cleanup_policy=compact | {"delete"}) == [0]


def test_retention_counts_the_deleted_segments(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500, retention_ms=HOUR)
    old = fill(log, 6)
    deleted = log.retain(NOW + HOUR)
    assert (deleted, values(log)) == (0, old)
    new = b"new" * 100
    append(log, new, time_ms=NOW + 1)
    deleted = log.retain(NOW + HOUR + 1)
    assert deleted == 3
    assert (log.log_start_offset, values(log)) == (6, [new])
    assert not keeper.file(0).exists()
    assert not keeper.file(0, ".index").exists()
    log.close()
    assert keeper.open().log_start_offset == 6


def test_log_with_only_expired_records_continues_empty_at_its_end(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500, retention_ms=HOUR)
    fill(log, 5)
    assert log.retain(NOW + HOUR + 1) == 3
    assert (log.log_start_offset, log.log_end_offset, values(log)) == (5, 5, [])
    assert append(log, b"next").base_offset == 5
    log.close(clean=False)
    log = keeper.open(clean=False)
    assert (log.log_start_offset, values(log)) == (5, [b"next"])


def test_emptied_log_continues_at_its_end_after_a_crash(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500, retention_ms=HOUR)
    fill(log, 5)
    log.retain(NOW + HOUR + 1)
    log.close(clean=False)
    log = keeper.open(clean=False, recovery_point=5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)


def test_log_without_segments_restarts_at_its_checkpointed_start_offset(keeper: Keeper) -> None:
    keeper.open(clean=False, log_start_offset=5).close(clean=False)
    assert keeper.open(clean=False).log_end_offset == 5


def test_segment_without_timestamps_has_the_age_of_its_file(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=300, retention_ms=HOUR)
    for number in range(6):
        append(log, b"%d" % number * 100, time_ms=-1)
    log.close()
    data = bytearray(keeper.file(1).read_bytes())
    data[16] = 9
    keeper.file(1).write_bytes(data)
    keeper.file(1, ".index").unlink()
    for base in range(6):
        seconds = (NOW + base) / 1000
        os.utime(keeper.file(base), (seconds, seconds))
    log = keeper.open(segment_bytes=300, retention_ms=HOUR)
    assert keeper.reported("cannot be read")
    assert log.retain(NOW + HOUR) == 0
    assert log.retain(NOW + HOUR + 3) == 3


def test_unreplicated_records_are_kept(keeper: Keeper) -> None:
    log = keeper.open(retention_bytes=0)
    append(log, b"a")
    log.append(batch(b"b"), leader_epoch=0, now_wall_ms=NOW)
    assert log.retain(NOW) == 0
    assert values(log) == [b"a"]


def test_epochs_and_snapshots_of_deleted_segments_are_removed(keeper: Keeper) -> None:
    log = keeper.open(retention_bytes=0)
    append(log, b"a", leader_epoch=0)
    log.roll(NOW)
    append(log, b"b", leader_epoch=1)
    log.roll(NOW)
    append(log, b"c", leader_epoch=1)
    log.retain(NOW)
    assert list(log.epochs.entries) == [(1, 3)]
    assert [path.name for path in sorted(keeper.path.glob("*.snapshot"))] == ["00000000000000000003.snapshot"]
