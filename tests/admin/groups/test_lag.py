"""Lag and time lag of partitions, calculated from literals."""

from __future__ import annotations

from kcli.admin.groups.group import Group, GroupMember
from kcli.admin.groups.lag import (
    CREATE_TIME,
    DELETED,
    FUTURE,
    HOLE,
    NO_TIMESTAMP,
    NOTHING_THERE,
    PARTLY_DONE,
    LagTotals,
    PartitionLag,
    calculate_lag,
    time_offset,
    total_lag,
    total_lag_by_topic,
    with_time_lag,
)
from kcli.admin.logs.record_times import RecordTime
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.structs import Node, OffsetAndMetadata, TopicPartition

NODE = Node(1, "a", 9092)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NOW_MS = 1_700_000_000_000


def group(*members: GroupMember, kind: str = "classic") -> Group:
    return Group("billing", kind, "Stable", NODE, members=members)


def at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset)


def test_rows_are_the_committed_and_the_owned_partitions_in_order() -> None:
    member = GroupMember("m-1", owned=(B0, A1))
    rows = calculate_lag(group(member), {A1: at(3), A0: at(5)}, {A0: 0, A1: 1, B0: 2}, {A0: 9, A1: 9, B0: 9})
    assert rows == [
        PartitionLag("billing", A0, at(5), 0, 9, 4),  # committed, without an owner
        PartitionLag("billing", A1, at(3), 1, 9, 6, members=(member,)),
        PartitionLag("billing", B0, None, 2, 9, None, members=(member,)),  # owned, but never committed
    ]
    assert [row.member for row in rows] == [None, member, member]


def test_lag_is_unknown_if_the_committed_offset_is_beyond_the_log_end() -> None:
    rows = calculate_lag(group(), {A0: at(12), A1: at(4)}, {A0: 0, A1: 0}, {A0: 10, A1: 10}, timed=True)
    assert [(row.lag, row.time_lag_ms, row.is_beyond_end) for row in rows] == [(None, None, True), (6, None, False)]
    assert total_lag(rows) == LagTotals(2, 6, 6, None, unknown=1, errors=0, beyond_end=1)


def test_lag_is_zero_if_the_committed_offset_is_between_the_last_stable_offset_and_the_log_end() -> None:
    committed, starts, last_stable = {A0: at(12), A1: at(12), B0: at(12)}, {A0: 0, A1: 0, B0: 0}, {A0: 5, A1: 5, B0: 5}
    lost = KcliError("lost")
    rows = calculate_lag(group(), committed, starts, last_stable, high_watermarks={A0: 12, A1: 11, B0: lost})
    assert [(row.lag, row.is_beyond_end, row.error) for row in rows] == [
        (0, False, None),
        (None, True, None),
        (None, False, lost),
    ]


def test_lag_counts_from_a_committed_offset_below_the_log_start() -> None:
    """Deleted records are included, as in kafka-consumer-groups.sh."""
    (row,) = calculate_lag(group(), {A0: at(2)}, {A0: 6}, {A0: 10})
    assert row.lag == 8


def test_an_error_belongs_to_the_row_of_its_partition() -> None:
    lost = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE)
    refused = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    rows = calculate_lag(
        group(GroupMember("m", owned=(A1,))),
        {A0: at(2), A1: refused, B0: at(1)},
        {A0: 0, A1: 0, B0: 0},
        {A0: 5, A1: 5, B0: lost},
    )
    assert rows == [
        PartitionLag("billing", A0, at(2), 0, 5, 3),
        PartitionLag("billing", A1, None, 0, 5, None, members=(GroupMember("m", owned=(A1,)),), error=refused),
        PartitionLag("billing", B0, at(1), 0, None, None, error=lost),
    ]


def test_the_lag_of_a_share_group_comes_from_the_broker_and_a_row_may_have_many_members() -> None:
    two = (GroupMember("m-1", owned=(A0,)), GroupMember("m-2", owned=(A0, A1)))
    rows = calculate_lag(
        group(*two, kind="share"), {A0: at(3), A1: at(0)}, {A0: 0, A1: 0}, {A0: 9, A1: 9}, {A0: 4, A1: None}
    )
    assert [(row.lag, len(row.members)) for row in rows] == [(4, 2), (None, 1)]


def test_totals_count_the_partitions_of_unknown_lag_apart() -> None:
    rows = [
        PartitionLag("g", A0, at(1), 0, 5, 4, time_lag_ms=70),
        PartitionLag("g", A1, None, 0, 5, None),
        PartitionLag("g", B0, at(1), 0, None, None, error=KcliError("no leader")),
    ]
    assert total_lag(rows) == LagTotals(partitions=3, lag=4, max_lag=4, max_time_lag_ms=70, unknown=2, errors=1)
    assert total_lag([]) == LagTotals(0, 0, 0, None, 0, 0)
    assert total_lag_by_topic(reversed(rows)) == {"a": total_lag(rows[:2]), "b": total_lag(rows[2:])}


# Time lag


def lagging(committed: int = 4, start: int = 0, end: int = 9) -> PartitionLag:
    return PartitionLag("billing", A0, at(committed), start, end, end - committed)


def test_only_a_row_with_lag_has_an_offset_to_read_the_time_from() -> None:
    assert time_offset(lagging(4)) == 4
    assert time_offset(lagging(2, start=6)) == 6
    assert time_offset(lagging(9)) is None
    assert time_offset(PartitionLag("billing", A0, None, 0, 9, None)) is None


def test_without_lag_the_time_lag_is_zero() -> None:
    assert with_time_lag(lagging(9), None, NOW_MS) == lagging(9)._replace(time_lag_ms=0)


def test_a_log_append_time_at_the_committed_offset_needs_no_note() -> None:
    found = RecordTime(4, NOW_MS - 250, append_time=True)
    assert with_time_lag(lagging(), found, NOW_MS) == lagging()._replace(time_lag_ms=250)


def test_notes_state_the_reasons_why_a_time_lag_is_uncertain() -> None:
    def note(found: RecordTime, row: PartitionLag) -> tuple[int | None, str | None]:
        result = with_time_lag(row, found, NOW_MS)
        return result.time_lag_ms, result.time_lag_note

    assert note(RecordTime(4, NOW_MS - 250), lagging()) == (250, CREATE_TIME)
    assert note(RecordTime(6, NOW_MS - 250, True), lagging()) == (250, HOLE)
    assert note(RecordTime(6, NOW_MS - 250, True), lagging(2, start=6)) == (250, DELETED)
    assert note(RecordTime(7, NOW_MS + 9), lagging(2, start=6)) == (0, f"{DELETED}; {HOLE}; {CREATE_TIME}; {FUTURE}")
    assert note(RecordTime(4, NOW_MS - 250, True), lagging()._replace(lag=2)) == (250, PARTLY_DONE)
    assert note(RecordTime(-1), lagging()) == (None, NOTHING_THERE)
    assert note(RecordTime(4, -1), lagging()) == (None, NO_TIMESTAMP)


def test_the_error_of_a_record_time_is_set_on_a_row_without_an_error() -> None:
    first, second = KcliError("first"), KcliError("second")
    assert with_time_lag(lagging(), second, NOW_MS).error is second
    assert with_time_lag(lagging()._replace(error=first), second, NOW_MS).error is first
