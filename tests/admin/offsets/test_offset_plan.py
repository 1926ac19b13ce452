"""Planned rows of single partitions: every target, refusal and option."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.admin.offsets.offset_plan import (
    FromOffsets,
    OffsetPlan,
    OffsetRow,
    PartitionFacts,
    ShiftBy,
    Target,
    ToCurrent,
    make_plan,
    plan_reset,
)
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.log_place import LOG_END, LOG_START, Place
from kcli.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
OLD = OffsetAndMetadata(50, 3, "by hand")
NOON_MS = 1_704_110_400_000  # 2024-01-01T12:00:00Z


def facts(committed: OffsetAndMetadata | None = OLD, start: int = 10, end: int = 100, **more: Any) -> PartitionFacts:
    return PartitionFacts(T0, committed, start, end, **more)


def planned(target: Target, about: PartitionFacts | None = None, **options: Any) -> OffsetRow:
    (row,) = plan_reset("g", [about or facts()], target, **options)
    assert (row.group, row.tp) == ("g", T0)
    return row


def brief(row: OffsetRow) -> tuple[str, int | None, int, int, str]:
    return row.action, row.new.offset if row.new is not None else None, row.reread, row.skipped, row.why


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (LOG_START, ("move", 10, 40, 0, "log start")),
        (LOG_END, ("move", 100, 0, 50, "log end")),
        (Place.offset(60), ("move", 60, 0, 10, "offset as requested")),
        (Place.after_start(30), ("move", 40, 10, 0, "30 after the log start")),
        (Place.before_end(30), ("move", 70, 0, 20, "30 before the log end")),
        (Place.before_end(900), ("move", 10, 40, 0, "900 before the log end")),
        (Place.offset(10), ("move", 10, 40, 0, "offset as requested")),
        (Place.offset(100), ("move", 100, 0, 50, "offset as requested")),
        (ShiftBy(-5), ("move", 45, 5, 0, "shifted by -5")),
        (ShiftBy(7), ("move", 57, 0, 7, "shifted by +7")),
    ],
)
def test_each_target_moves_the_offset(target: Target, expected: tuple[Any, ...]) -> None:
    row = planned(target)
    assert brief(row) == expected
    assert row.old == OLD


def test_a_moved_offset_keeps_its_metadata_and_loses_its_leader_epoch() -> None:
    assert planned(Place.offset(60)).new == OffsetAndMetadata(60, -1, "by hand")


@pytest.mark.parametrize("target", [ToCurrent(), Place.offset(50), ShiftBy(0), Place.time(NOON_MS)])
def test_an_offset_at_its_target_is_kept_with_its_leader_epoch(target: Target) -> None:
    row = planned(target, facts(at_time=OffsetAndTimestamp(50, NOON_MS, 2)))
    assert (row.action, row.old, row.new) == ("keep", OLD, OLD)


# Times


def test_a_time_selects_the_first_record_at_or_after_it() -> None:
    row = planned(Place.time(NOON_MS), facts(at_time=OffsetAndTimestamp(70, NOON_MS + 1, 2)))
    assert brief(row) == ("move", 70, 0, 20, "first record at or after 2024-01-01T12:00:00.000Z")


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("refuse", ("refuse", None, 0, 0, "no record at or after 2024-01-01T12:00:00.000Z; see --if-no-record")),
        ("end", ("move", 100, 0, 50, "no record at or after 2024-01-01T12:00:00.000Z; log end")),
        ("skip", ("skip", 50, 0, 0, "no record at or after 2024-01-01T12:00:00.000Z; skipped")),
    ],
)
def test_a_time_without_a_record_is_refused_unless_an_option_says_otherwise(
    option: Any, expected: tuple[Any, ...]
) -> None:
    """Apache's tool moves to the log end and warns that the partition is empty (KAFKA-12287)."""
    row = planned(Place.time(NOON_MS), facts(at_time=OffsetAndTimestamp(-1)), if_no_record=option)
    assert brief(row) == expected


def test_a_time_beyond_the_calendar_is_shown_as_a_number() -> None:
    row = planned(Place.time(10**18), facts(at_time=OffsetAndTimestamp(-1)))
    assert row.why == "no record at or after 1000000000000000000; see --if-no-record"


# Outside the log


@pytest.mark.parametrize(
    ("target", "option", "expected"),
    [
        (Place.offset(101), "refuse", ("refuse", None, "101 is after the log end 100; see --if-out-of-range")),
        (Place.offset(9), "refuse", ("refuse", None, "9 is before the log start 10; see --if-out-of-range")),
        (Place.offset(900), "clamp", ("move", 100, "clamped from 900 to the log end 100")),
        (Place.offset(0), "clamp", ("move", 10, "clamped from 0 to the log start 10")),
        (Place.offset(900), "skip", ("skip", 50, "900 is after the log end 100; skipped")),
        (
            Place.after_start(900),
            "refuse",
            ("refuse", None, "900 after the log start, 910 is after the log end 100; see --if-out-of-range"),
        ),
        (
            ShiftBy(-60),
            "refuse",
            ("refuse", None, "shifted by -60, -10 is before the log start 10; see --if-out-of-range"),
        ),
        (ShiftBy(2**63), "clamp", ("move", 100, f"shifted by +{2**63}, clamped from {50 + 2**63} to the log end 100")),
    ],
)
def test_an_offset_outside_the_log_is_refused_clamped_or_skipped(
    target: Target, option: Any, expected: tuple[Any, ...]
) -> None:
    row = planned(target, if_out_of_range=option)
    assert (row.action, row.new.offset if row.new else None, row.why) == expected


def test_if_no_record_and_if_out_of_range_are_independent() -> None:
    assert planned(Place.offset(900), if_no_record="skip").action == "refuse"
    gone = facts(at_time=OffsetAndTimestamp(-1))
    assert planned(Place.time(NOON_MS), gone, if_out_of_range="skip").action == "refuse"


@pytest.mark.parametrize(
    ("committed", "target", "counts", "why"),
    [
        (5, LOG_START, (0, 0), "log start; the committed 5 is before the log start 10"),
        (5, Place.offset(30), (0, 20), "offset as requested; the committed 5 is before the log start 10"),
        (300, Place.offset(30), (70, 0), "offset as requested; the committed 300 is after the log end 100"),
        (300, LOG_END, (0, 0), "log end; the committed 300 is after the log end 100"),
    ],
)
def test_counts_include_only_offsets_within_the_log(
    committed: int, target: Target, counts: tuple[int, int], why: str
) -> None:
    row = planned(target, facts(OffsetAndMetadata(committed)))
    assert (row.action, (row.reread, row.skipped), row.why) == ("move", counts, why)


# Nothing committed


@pytest.mark.parametrize(
    ("target", "skipped"),
    [(LOG_START, 0), (LOG_END, 90), (Place.offset(30), 20), (FromOffsets({(None, T0): OLD}), 40)],
)
def test_a_partition_without_a_committed_offset_skips_all_before_the_new_one(target: Target, skipped: int) -> None:
    row = planned(target, facts(None))  # the log has the offsets 10 to 99
    assert (row.action, row.old, row.reread, row.skipped) == ("move", None, 0, skipped)
    assert row.why.endswith("; no committed offset before")


@pytest.mark.parametrize(
    ("target", "option", "expected"),
    [
        (ToCurrent(), "refuse", ("refuse", None, "no committed offset; see --if-no-record")),
        (ToCurrent(), "end", ("move", 100, "no committed offset; log end")),
        (ToCurrent(), "skip", ("skip", None, "no committed offset; skipped")),
        (ShiftBy(1), "refuse", ("refuse", None, "no committed offset to shift; see --if-no-record")),
        (ShiftBy(1), "end", ("refuse", None, "no committed offset to shift; see --if-no-record")),
        (ShiftBy(1), "skip", ("skip", None, "no committed offset to shift; skipped")),
    ],
)
def test_current_and_shift_need_a_committed_offset(target: Target, option: Any, expected: tuple[Any, ...]) -> None:
    row = planned(target, facts(None), if_no_record=option)
    assert (row.action, row.new.offset if row.new else None, row.why) == expected


# Offsets from files and groups


def test_offsets_of_another_group_keep_leader_epoch_and_metadata() -> None:
    other = OffsetAndMetadata(70, 2, "theirs")
    row = planned(FromOffsets({(None, T0): other}, "group billing"))
    assert (row.action, row.new, row.skipped, row.why) == ("move", other, 20, "as in group billing")


@pytest.mark.parametrize("at", [5, 300])
def test_an_offset_that_is_committed_already_is_kept_wherever_the_log_is(at: int) -> None:
    old = OffsetAndMetadata(at, 3, "mine")
    target = FromOffsets({("g", T0): old})
    for known in (facts(old), facts(old)._replace(start=None, end=None, error=KcliError("no leader"))):
        row = planned(target, known)
        assert (row.action, row.new) == ("keep", old)
        assert row.why.startswith("as in the file")
    assert planned(Place.offset(at), facts(old)).action == "keep"
    other = planned(FromOffsets({("g", T0): old._replace(metadata="theirs")}), facts(old))
    assert (other.action, "; see --if-out-of-range" in other.why) == ("refuse", True)


def test_different_metadata_move_a_row_of_the_same_offset() -> None:
    other = OffsetAndMetadata(50, 3, "theirs")
    assert brief(planned(FromOffsets({(None, T0): other}))) == ("move", 50, 0, 0, "as in the file")
    assert planned(FromOffsets({(None, T0): OLD})).action == "keep"


def test_a_file_without_metadata_keeps_the_committed_metadata() -> None:
    row = planned(FromOffsets({(None, T0): OffsetAndMetadata(70)}, exact=False))
    assert row.new == OffsetAndMetadata(70, -1, "by hand")
    same = planned(FromOffsets({(None, T0): OffsetAndMetadata(50)}, exact=False))
    assert (same.action, same.new) == ("keep", OLD)


def test_a_file_of_several_groups_has_offsets_for_each() -> None:
    target = FromOffsets({("g", T0): OffsetAndMetadata(70), ("h", T0): OffsetAndMetadata(80), (None, T1): OLD})
    assert planned(target).new == OffsetAndMetadata(70)
    assert target.partitions("g") == [T0, T1]
    assert target.partitions("other") == [T1]


def test_offset_zero_in_a_file_is_an_offset() -> None:
    assert planned(FromOffsets({("g", T0): OffsetAndMetadata(0)}), facts(start=0)).new == OffsetAndMetadata(0)


def test_a_partition_missing_in_the_file_is_refused_if_it_has_a_committed_offset() -> None:
    nothing = FromOffsets({}, "positions.csv")
    assert brief(planned(nothing)) == ("refuse", None, 0, 0, "no offset in positions.csv; see --if-no-record")
    assert planned(nothing, if_no_record="skip").action == "skip"
    row = planned(nothing, facts(None))
    assert (row.action, row.new, row.why) == ("keep", None, "no offset in positions.csv; no committed offset before")


def test_offsets_of_files_must_be_within_the_log() -> None:
    target = FromOffsets({(None, T0): OffsetAndMetadata(900, 2, "theirs")}, "positions.csv")
    why = "as in positions.csv, 900 is after the log end 100; see --if-out-of-range"
    assert brief(planned(target)) == ("refuse", None, 0, 0, why)
    clamped = planned(target, if_out_of_range="clamp")
    assert clamped.new == OffsetAndMetadata(100, -1, "theirs")


# Errors


@pytest.mark.parametrize("target", [LOG_START, LOG_END, Place.offset(60), ShiftBy(1), Place.time(5), FromOffsets({})])
def test_a_partition_with_an_error_is_refused_with_its_message(target: Target) -> None:
    error = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, topic="t", partition=0)
    row = planned(target, PartitionFacts(T0, OLD, error=error), if_no_record="skip", if_out_of_range="skip")
    assert (row.action, row.new, row.error, row.why) == ("refuse", None, error, error.message)


def test_the_current_offset_needs_no_leader() -> None:
    row = planned(ToCurrent(), PartitionFacts(T0, OLD, error=BrokerError(ErrorCode.LEADER_NOT_AVAILABLE)))
    assert (row.action, row.new, row.error) == ("keep", OLD, None)


# Plans


def test_a_plan_is_sorted_and_lists_changes_and_refusals() -> None:
    rows = [
        OffsetRow(("h", T0), OLD, None, "delete"),
        OffsetRow(("g", U0), OLD, None, "refuse"),
        OffsetRow(("g", T1), OLD, OLD, "keep"),
        OffsetRow(("g", T0), None, OLD, "move"),
        OffsetRow(("f", T0), OLD, OLD, "skip"),
    ]
    plan = make_plan("reset", rows, NOON_MS, {"h": "Empty", "g": "Absent"}, "cluster")
    assert plan == OffsetPlan("reset", tuple(reversed(rows)), NOON_MS, {"g": "Absent", "h": "Empty"}, "cluster")
    assert plan.groups == ["f", "g", "h"]
    assert [(row.group, row.tp) for row in plan.changes] == [("g", T0), ("h", T0)]
    assert [(row.group, row.tp) for row in plan.refused] == [("g", U0)]
