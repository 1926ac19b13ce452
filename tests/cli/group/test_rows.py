"""Rows, order, totals and columns of group reports, and exit statuses."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.admin.groups.group import GroupMember
from kcli.admin.groups.lag import CREATE_TIME, FUTURE, NOTHING_THERE
from kcli.cli.group.describe import FEW, summary
from kcli.cli.group.lag import lag_item, lag_rows
from kcli.cli.group.rows import (
    SORTS,
    Row,
    described_item,
    error_row,
    failed_broker,
    member_columns,
    member_rows,
    partition_columns,
    partition_rows,
    partition_table,
    sorted_partitions,
    state_rows,
    survey_item,
)
from kcli.cli.group.selection import status_of_groups
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, DisconnectedError, KcliError, TimeoutExpired
from kcli.structs import OffsetAndMetadata
from tests.admin.groups.cases import NODE, Numbers, group, member, survey, tp

GONE = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="old")
ONE, TWO = member("one", "orders-0", "orders-1"), member("two", "orders-10", instance_id="till-2", rack="r1")
ROWS: dict[str, Numbers] = {
    "orders-10": (5, 0, 10),
    "orders-0": (90, 0, 100),
    "orders-1": (None, 0, 3),  # owned, never committed
    "bills-0": (7, 0, 7),  # committed, nobody's
    "old-0": GONE,
}
AGES = {"orders-0": (187_000, CREATE_TIME), "orders-10": (60_000, None)}
SEEN = survey(ROWS, ONE, TWO, ages=AGES)


def flat(rows: list[Row]) -> list[dict[str, Any]]:
    table = partition_table(rows)
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def shown(sort: str = "topic", *, lagging: bool = False) -> list[str]:
    return [str(row.tp) for row in sorted_partitions(SEEN.partitions, sort, lagging=lagging)]


def test_rows_are_sorted_by_topic_and_partition() -> None:
    assert shown() == ["bills-0", "old-0", "orders-0", "orders-1", "orders-10"]


def test_unknown_lags_sort_first_then_the_largest() -> None:
    assert shown("lag") == ["old-0", "orders-1", "orders-0", "orders-10", "bills-0"]
    assert shown("time-lag") == ["old-0", "orders-1", "orders-0", "orders-10", "bills-0"]


def test_rows_are_sorted_by_member() -> None:
    assert shown("member") == ["bills-0", "old-0", "orders-0", "orders-1", "orders-10"]
    assert all(shown(name) for name in SORTS)


def test_lagging_omits_only_rows_with_a_known_lag_of_zero() -> None:
    assert shown(lagging=True) == ["old-0", "orders-0", "orders-1", "orders-10"]


def test_a_partition_row_has_none_for_unknown_values() -> None:
    bills, old, first, never, tenth = flat(
        partition_rows(SEEN, sorted_partitions(SEEN.partitions, "topic", lagging=False))
    )
    assert (bills["committed"], bills["lag"], bills["time_lag"], bills["member"]) == (7, 0, "0ms", None)
    assert (old["end"], old["lag"]) == (None, None)
    assert old["error"]["code"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert (first["lag"], first["time_lag"], first["host"]) == (10, "~3m07s", "one.host")
    assert (never["committed"], never["lag"], never["time_lag"], never["member"]) == (None, None, None, "one-id")
    assert (tenth["time_lag"], tenth["instance_id"], tenth["rack"]) == ("1m00s", "till-2", "r1")


def test_a_partition_of_a_share_group_has_several_owners_in_one_row() -> None:
    both = survey({"orders-0": (1, 0, 2)})
    row = both.partitions[0]._replace(members=(ONE, TWO))
    item = survey_item(both, [row])
    assert [owner["member"] for owner in item["partitions"][0]["owners"]] == ["one-id", "two-id"]
    assert flat(partition_rows(both, [row]))[0]["member"] == "one-id,two-id"


def test_tables_omit_empty_columns_and_programs_get_all() -> None:
    plain = partition_table(partition_rows(SEEN, SEEN.partitions[3:4]))
    racks = partition_table(partition_rows(SEEN, SEEN.partitions))
    assert partition_columns(plain, for_programs=False)[-3:] == ["member", "host", "client_id"]
    assert partition_columns(racks, for_programs=False)[-5:] == ["member", "instance_id", "host", "client_id", "rack"]
    assert partition_columns(plain, for_programs=True) == partition_columns(racks, for_programs=True)
    assert "time_lag_ms" in partition_columns(racks, for_programs=True)


def test_json_totals_include_omitted_partitions() -> None:
    item = survey_item(SEEN, [])
    assert item["total"] == {
        "partition_count": 5,
        "lag": 15,
        "max_lag": 10,
        "max_time_lag_ms": 187_000,
        "unknown": 2,
        "beyond_end": 0,
    }
    assert [(t["topic"], t["partition_count"], t["lag"]) for t in item["topics"]] == [
        ("bills", 1, 0),
        ("old", 1, None),  # not 0: nothing is known
        ("orders", 3, 15),
    ]


def test_the_summary_has_totals_for_each_group_and_topic() -> None:
    assert list(summary([SEEN])) == [
        "billing (classic, Stable, 2 members): lag 15 in 5 partitions, up to 3m07s; unknown in 2",
        "  bills: lag 0 in 1 partition",
        "  old: lag unknown in 1 partition",
        "  orders: lag 15 in 3 partitions, up to 3m07s; unknown in 1",
    ]


def test_a_time_of_the_producers_clock_is_only_explained_if_verbose_or_if_that_clock_is_wrong() -> None:
    """CreateTime is Kafka's default, so that nearly every group has such a time."""
    seen = survey(
        {"orders-0": (1, 0, 3), "orders-1": (1, 0, 3)},
        ages={"orders-0": (5, CREATE_TIME), "orders-1": (0, f"{CREATE_TIME}; {FUTURE}")},
    )
    ahead = "the time is ahead of the local clock: the producer's clock or this one is wrong"
    assert list(summary([seen]))[1:] == [f"TIME-LAG ~ in 1 row: {ahead}"]
    assert list(summary([seen], verbose=True))[1:] == [
        "TIME-LAG ~ in 1 row: the producer set the time",
        f"TIME-LAG ~ in 1 row: the producer set the time; {ahead}",
    ]


def test_the_summary_names_the_spark_query_that_commits_with_its_newest_batch() -> None:
    seen = survey({"orders-0": (1, 0, 3), "orders-1": (1, 0, 3), "orders-2": (1, 0, 3), "orders-3": (1, 0, 3)})
    notes = ['{"spark":"9c-1","batch":9}', '{"spark":"9c-1","batch":10}', '{"spark":broken', "somebody's own"]
    committed = [OffsetAndMetadata(1, metadata=note) for note in notes]
    partitions = [p._replace(committed=it) for p, it in zip(seen.partitions, committed, strict=True)]
    assert list(summary([seen._replace(partitions=partitions)]))[1:] == ["  committed by Spark query 9c-1, batch 10"]


def test_the_summary_of_many_groups_has_only_the_grand_total() -> None:
    assert list(summary([survey({"orders-0": (1, 0, 3)})] * (FEW + 1))) == [
        f"{FEW + 1} groups: lag {2 * (FEW + 1)} in {FEW + 1} partitions; `kcli group lag` shows a line for each"
    ]


def test_the_summary_of_a_group_without_offsets() -> None:
    assert list(summary([survey({}, state="Empty")])) == [
        "billing (classic, Empty, 0 members): no committed offsets, no owned partitions"
    ]


def test_the_summary_explains_an_unknown_time_lag() -> None:
    seen = survey({"orders-0": (1, 0, 3)}, ages={"orders-0": (None, NOTHING_THERE)})
    assert list(summary([seen]))[1:] == ["TIME-LAG - in 1 row: there is no record at or after this offset"]


def test_member_rows_have_assignment_and_target() -> None:
    newer: GroupMember = member("n", "orders-0", "bills-1", epoch=4, target=(tp("bills-1"),), member_type="consumer")
    rows = member_rows([described_item(group(ONE, newer), members=True)])
    assert [(r["member"], r["partitions"], r["assignment"], r["epoch"], r["target"]) for r in rows] == [
        ("n-id", 2, "bills:1;orders:0", 4, "bills:1"),
        ("one-id", 2, "orders:0,1", None, None),
    ]
    assert "epoch" in member_columns(rows, for_programs=False)
    old = member_rows([described_item(group(ONE), members=True)])
    assert member_columns(old, for_programs=False) == [
        *("group", "member", "host", "client_id", "partitions", "assignment")
    ]


def test_a_coordinator_is_shown_without_spaces() -> None:
    (row,) = state_rows([described_item(group(ONE), members=False)])
    assert (row["coordinator"], row["assignor"], row["members"]) == ("kafka-1:9092(1)", "range", 1)


def test_the_lag_row_of_a_group_reports_an_incomplete_sum() -> None:
    (row,) = lag_rows([lag_item(SEEN)], by_topic=False)
    assert (row["lag"], row["max_lag"], row["partitions"], row["unknown"], row["time_lag"]) == (15, 10, 5, 2, "~3m07s")
    assert row["error"]["code"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert row["error"]["message"].startswith("the sums are incomplete: the broker has no such topic")


def test_lag_rows_by_topic() -> None:
    rows = lag_rows([lag_item(SEEN)], by_topic=True)
    assert [(r["topic"], r["lag"], r["time_lag"], "error" in r) for r in rows] == [
        ("bills", 0, "0ms", False),
        ("old", None, None, True),
        ("orders", 15, "~3m07s", False),
    ]


@pytest.mark.parametrize("by_topic", [False, True])
def test_a_group_with_unreadable_offsets_is_a_row_with_the_error(by_topic: bool) -> None:
    unread = survey({}, error=BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, group="billing"))
    (row,) = lag_rows([lag_item(unread)], by_topic=by_topic)
    assert row["error"]["code"] == "GROUP_AUTHORIZATION_FAILED"
    (shown_row,) = flat(partition_rows(unread, []))
    assert (shown_row["group"], shown_row["error"]["code"]) == ("billing", "GROUP_AUTHORIZATION_FAILED")


def test_a_failed_broker_is_a_row() -> None:
    (row,) = flat([error_row(None, TimeoutExpired("no answer"))])
    assert row == {**dict.fromkeys(row), "error": {"code": "TimeoutExpired", "message": "no answer"}}
    assert failed_broker(NODE, TimeoutExpired("no answer"))["coordinator"]["host"] == "kafka-1"
    assert partition_table([]) == {}
    assert partition_columns({}, for_programs=False)[-3:] == ["member", "host", "client_id"]


MISSING = BrokerError(ErrorCode.GROUP_ID_NOT_FOUND)
REFUSED = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


@pytest.mark.parametrize(
    ("failed", "parts", "succeeded", "status"),
    [
        ([], False, True, 0),
        ([], False, False, 0),
        ([MISSING], False, False, 3),
        ([MISSING], False, True, 3),
        ([REFUSED], False, True, 4),
        ([MISSING, REFUSED], False, True, 1),
        ([], True, True, 1),
        ([MISSING], True, True, 1),
        ([TimeoutExpired("late")], False, True, 1),  # a part of the table is missing
        ([TimeoutExpired("late")], False, False, 5),
        ([DisconnectedError("gone")], False, False, 5),
    ],
)
def test_exit_status_of_failed_groups(failed: list[KcliError], parts: bool, succeeded: bool, status: int) -> None:
    assert status_of_groups(failed, failed_parts=parts, succeeded=succeeded) == status
