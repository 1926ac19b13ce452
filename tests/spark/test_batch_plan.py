"""Planning of batches: resolved starts and ends, the exact-set check, splitting by the connector's rules."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.errors import ConfigError, KcliError, NotFound
from kcli.spark.batch_plan import Plan, plan_batch
from kcli.spark.loss import DataLoss
from kcli.spark.options import SourceOptions
from kcli.spark.task_ranges import TaskRange, group_ranges, split_ranges
from kcli.structs import TopicPartition
from tests.spark.fake_lookup import FIRST_MS, FakeLookup, options, orders


def plan(given: SourceOptions, lookup: FakeLookup) -> Plan:
    return plan_batch(given, lookup)  # type: ignore[arg-type]


def read(given: SourceOptions, lookup: FakeLookup) -> list[tuple[int, int, int]]:
    """Return the tasks: partition, start, end."""
    return [(it.partition, it.start, it.end) for it in plan(given, lookup).ranges]


# --- starts and ends


def times(*after_ms: int) -> str:
    """Return times of the partitions of orders, ms after FIRST_MS."""
    return json.dumps({"orders": {str(number): FIRST_MS + ms for number, ms in enumerate(after_ms)}})


def test_a_whole_topic_is_read_from_log_start_to_log_end() -> None:
    got = plan(options(), FakeLookup((5, 20), (0, 0), (7, 9)))
    assert got.ranges == [TaskRange("orders", 0, 5, 20), TaskRange("orders", 2, 7, 9)]
    assert (got.starts, got.ends, got.reports) == (orders(5, 0, 7), orders(20, 0, 9), [])


def test_json_offsets_with_sentinels() -> None:
    given = options(startingOffsets='{"orders":{"0":-2,"1":6,"2":3}}', endingOffsets='{"orders":{"0":7,"1":-1,"2":3}}')
    assert read(given, FakeLookup((5, 20), (5, 20), (0, 9))) == [(0, 5, 7), (1, 6, 20)]


@pytest.mark.parametrize("side", ["starting", "ending"])
@pytest.mark.parametrize("kind", ["Offsets", "OffsetsByTimestamp"])
def test_json_names_exactly_the_partitions_that_are_read(side: str, kind: str) -> None:
    # As in sail#2267: a missing partition would be skipped silently, an extra one read without a request.
    name, lookup, at = f"{side}{kind}", FakeLookup((0, 9), (0, 9)), FIRST_MS
    with pytest.raises(ConfigError, match=f"{name} must name every partition that is read.*; orders-1 missing"):
        plan(options(**{name: f'{{"orders":{{"0":{at}}}}}'}), lookup)
    with pytest.raises(
        ConfigError, match=f"{name} must name only partitions that are read; orders-2, other-0 not read"
    ):
        plan(options(**{name: f'{{"orders":{{"0":{at},"1":{at},"2":{at}}},"other":{{"0":{at}}}}}'}), lookup)


def test_a_time_starts_at_the_first_record_at_or_after_it() -> None:
    # In these logs the record at offset n has the time FIRST_MS + 1000 * n.
    given = options(startingTimestamp=FIRST_MS + 7_500, endingTimestamp=FIRST_MS + 12_000)
    assert read(given, FakeLookup((0, 20), (9, 20), (0, 10))) == [(0, 8, 12), (1, 9, 12), (2, 8, 10)]
    by_partition = options(
        startingOffsetsByTimestamp=times(3000, 4000),
        endingOffsetsByTimestamp=times(5000, 99_000),
    )
    assert read(by_partition, FakeLookup((0, 20), (0, 20))) == [(0, 3, 5), (1, 4, 20)]


def test_a_start_after_all_records_is_an_error_or_the_log_end() -> None:
    lookup = FakeLookup((0, 20), (0, 5))
    with pytest.raises(ConfigError, match=r"orders-1: no record at or after 2023-11-14T22:13:27\.000Z"):
        plan(options(startingTimestamp=FIRST_MS + 7_000), lookup)
    latest = options(startingTimestamp=FIRST_MS + 7_000, startingOffsetsByTimestampStrategy="latest")
    assert read(latest, lookup) == [(0, 7, 20)]


def test_places_by_count_are_within_each_log() -> None:
    lookup = FakeLookup((5, 20), (0, 3))
    assert read(options(startingOffsets="-4"), lookup) == [(0, 16, 20), (1, 0, 3)]
    assert read(options(startingOffsets="+2", endingOffsets="+6"), lookup) == [(0, 7, 11), (1, 2, 3)]
    assert read(options(startingOffsets="+10"), lookup) == [(0, 15, 20)]
    by_time = options(startingOffsets=f"@{FIRST_MS + 7_000}", endingOffsets="12", failOnDataLoss="false")
    assert read(by_time, FakeLookup((5, 20))) == [(0, 7, 12)]


def test_a_relative_time_counts_from_planning_and_permits_idle_partitions() -> None:
    lookup = FakeLookup((0, 20), (0, 5))
    lookup.wall_ms = FIRST_MS + 18_000
    assert read(options(startingOffsets="-10s"), lookup) == [(0, 8, 20)]
    assert read(options(startingOffsets="-10s", endingOffsets="-5s"), lookup) == [(0, 8, 13)]
    with pytest.raises(ConfigError, match="orders-1"):
        plan(options(startingOffsets="-10s", startingOffsetsByTimestampStrategy="error"), lookup)


def test_records_after_the_planned_end_are_not_read() -> None:
    class Growing(FakeLookup):
        def at_times(self, times: object) -> dict[TopicPartition, int]:
            return orders(25)

    # Otherwise the start would be after the planned end.
    assert plan(options(startingTimestamp=FIRST_MS + 1), Growing((0, 20))).starts == orders(20)


def test_an_end_before_the_start_is_an_error() -> None:
    given = options(startingOffsets='{"orders":{"0":15}}', endingTimestamp=FIRST_MS + 3_000)
    with pytest.raises(ConfigError, match="orders-0: the end offset 3 is before the start offset 15"):
        plan(given, FakeLookup((0, 20)))


def test_a_start_at_committed_offsets() -> None:
    lookup = FakeLookup((0, 20), (0, 20))
    lookup.committed["g"] = orders(4, 20)
    assert read(options(startingOffsets="group:g"), lookup) == [(0, 4, 20)]
    del lookup.committed["g"][TopicPartition("orders", 1)]
    with pytest.raises(NotFound, match="group g has no committed offset for orders-1; use startingGroupStrategy"):
        plan(options(startingOffsets="group:g"), lookup)
    with pytest.raises(NotFound, match="group nobody has no committed offset for the selected partitions"):
        plan(options(startingOffsets="group:nobody"), lookup)
    earliest = options(startingOffsets="group:g", startingGroupStrategy="earliest")
    assert read(earliest, lookup) == [(0, 4, 20), (1, 0, 20)]
    assert read(options(startingOffsets="group:g", startingGroupStrategy="latest"), lookup) == [(0, 4, 20)]


def test_a_group_after_the_end_reads_nothing() -> None:
    lookup = FakeLookup((0, 20))
    lookup.committed["g"] = orders(15)
    assert read(options(startingOffsets="group:g", endingTimestamp=FIRST_MS + 10_000), lookup) == []


def test_a_missing_topic_or_partition_is_not_found() -> None:
    with pytest.raises(NotFound, match="topics payments, refunds do not exist"):
        plan(options(subscribe="orders,payments,refunds"), FakeLookup((0, 1)))
    with pytest.raises(NotFound, match="partition orders-1 does not exist"):
        plan(options(assign='{"orders":[0,1]}'), FakeLookup((0, 1)))
    assert read(options(subscribePattern="nothing.*"), FakeLookup()) == []


# --- loss, in planning


def test_a_start_before_the_log_is_loss() -> None:
    given = {"startingOffsets": '{"orders":{"0":2}}'}
    with pytest.raises(DataLoss) as caught:
        plan(options(**given), FakeLookup((5, 20)))
    assert caught.value.evidence == {"topic": "orders", "partition": 0, "wanted": 2, "available": 5, "lost": 3}
    got = plan(options(**given, failOnDataLoss="false"), FakeLookup((5, 20)))
    assert got.ranges == [TaskRange("orders", 0, 5, 20)]
    assert got.reports == ["orders-0: offset 2 no longer exists, the log starts at 5; 3 offsets are lost"]


def test_the_loss_is_limited_to_the_range() -> None:
    given = options(startingOffsets='{"orders":{"0":2}}', endingOffsets='{"orders":{"0":4}}', failOnDataLoss="false")
    got = plan(given, FakeLookup((5, 20)))
    assert (got.ranges, got.reports[0].split("; ")[1]) == ([], "2 offsets are lost")


def test_a_start_after_the_log_suggests_a_recreated_topic() -> None:
    given = {"startingOffsets": '{"orders":{"0":50}}', "endingOffsets": '{"orders":{"0":60}}'}
    with pytest.raises(DataLoss, match="was the topic recreated, or its log truncated"):
        plan(options(**given), FakeLookup((5, 20)))
    made = plan(options(**given, failOnDataLoss="false"), FakeLookup((5, 20)))
    assert (made.starts, made.ends) == ({TopicPartition("orders", 0): 50}, {TopicPartition("orders", 0): 50})
    assert made.reports[0].endswith("There is nothing to read")  # never records outside the range


def test_an_end_after_the_log_is_loss() -> None:
    given = {"endingOffsets": '{"orders":{"0":25}}'}
    with pytest.raises(DataLoss, match="the read ends at offset 25, but the log ends at 20"):
        plan(options(**given), FakeLookup((5, 20)))
    got = plan(options(**given, failOnDataLoss="false"), FakeLookup((5, 20)))
    assert got.ranges == [TaskRange("orders", 0, 5, 20)]
    assert len(got.reports) == 1


@pytest.mark.parametrize("fail", ["true", "false"])
def test_records_of_open_transactions_are_not_lost(fail: str) -> None:
    lookup = FakeLookup((0, 20))
    lookup.hidden = orders(30)
    given = options(endingOffsets='{"orders":{"0":25}}', failOnDataLoss=fail)
    with pytest.raises(KcliError, match="transactions are open from offset 20 on") as caught:
        plan(given, lookup)
    assert not isinstance(caught.value, DataLoss)
    lookup.committed["g"] = orders(22)  # by a member that also reads uncommitted records
    assert read(options(startingOffsets="group:g", failOnDataLoss=fail), lookup) == []


# --- splitting

# Generated with KafkaOffsetRangeCalculator of spark-sql-kafka-0-10 4.2.0; all of 17,349 generated cases agreed.
# minPartitions, maxRecordsPerPartition, ranges, tasks.
CONNECTORS = [
    (5, 19, "0:0:-3 1:0:1 2:0:28 3:131:151", "1:0:1 2:0:14 2:14:28 3:131:141 3:141:151"),
    (8, 24, "0:0:2 1:926:926 2:900:903 3:634:635", "0:0:1 0:1:2 2:900:901 2:901:902 2:902:903 3:634:635"),
    (14, 30106, "0:0:-3 1:850:852 2:0:2", "1:850:851 1:851:852 2:0:1 2:1:2"),
    (
        7,
        None,
        "0:558:1373 1:0:1 2:454:451 3:999:1000",
        "0:558:721 0:721:884 0:884:1047 0:1047:1210 0:1210:1373 1:0:1 3:999:1000",
    ),
    (15, None, "0:0:3 1:0:-3 2:946:947", "0:0:1 0:1:2 0:2:3 2:946:947"),
    (6, None, "0:0:594 1:920:922", "0:0:118 0:118:237 0:237:356 0:356:475 0:475:594 1:920:922"),
    (3, None, "0:270:272 1:0:2", "0:270:271 0:271:272 1:0:1 1:1:2"),
    (None, 8, "0:0:6 1:429:446 2:0:2", "0:0:6 1:429:434 1:434:440 1:440:446 2:0:2"),
    (None, 1, "0:804:805 1:0:2", "0:804:805 1:0:1 1:1:2"),
    (None, 10, "0:764:766 1:0:14", "0:764:766 1:0:7 1:7:14"),
]


def ranges(text: str) -> list[TaskRange]:
    return [TaskRange("t", *map(int, it.split(":"))) for it in text.split()]


@pytest.mark.parametrize(("least", "most", "given", "tasks"), CONNECTORS)
def test_ranges_are_split_as_the_connector_does(least: int | None, most: int | None, given: str, tasks: str) -> None:
    assert split_ranges(ranges(given), least, most) == ranges(tasks)


RANGES = st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 500)), max_size=6, unique_by=lambda it: it[0])


@settings(deadline=None, max_examples=60)
@given(RANGES, st.none() | st.integers(1, 40), st.none() | st.integers(5, 600))
def test_every_offset_is_in_one_task(sizes: list[tuple[int, int]], least: int | None, most: int | None) -> None:
    given = [TaskRange("t", number, start, start + size) for number, (start, size) in enumerate(sizes)]
    tasks = split_ranges(given, least, most)
    for whole in given:
        parts = [it for it in tasks if it.tp == whole.tp]
        assert sum(it.size for it in parts) == whole.size
        assert all(before.end == after.start for before, after in pairwise(parts))
        assert not parts or (parts[0].start, parts[-1].end) == (whole.start, whole.end)
    assert all(it.size > 0 for it in tasks)
    assert most is None or all(it.size <= most for it in tasks)


@pytest.mark.parametrize(
    ("count", "size", "least", "most", "tasks"),
    [
        (32, 1, None, None, 32),  # few: each has its own task
        (200, 5_000, None, None, 40),
        (200, 5_000, 200, None, 200),
        (200, 5_000, 90, None, 100),
        (200, 5_000, None, 10_000, 100),
        (200, 100, None, None, 34),  # not fewer tasks than other machines have cores
        (200, 30_000, None, None, 200),
    ],
)
def test_many_small_ranges_share_tasks(count: int, size: int, least: int | None, most: int | None, tasks: int) -> None:
    given = [TaskRange("t", number, 0, size) for number in range(count)]
    assert len(group_ranges(given, least, most)) == tasks


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40_000)), max_size=120),
    st.none() | st.integers(1, 150),
    st.none() | st.integers(5, 60_000),
)
def test_each_range_is_in_one_task(sizes: list[tuple[int, int]], least: int | None, most: int | None) -> None:
    given = [TaskRange("t", partition, 0, size) for partition, size in sorted(sizes)]
    tasks = group_ranges(given, least, most)
    assert [TaskRange(*range_) for task in tasks for range_ in task] == given
    for task in tasks:
        partitions = [partition for _, partition, _, _ in task]
        assert len({*partitions}) == len(partitions)
        offsets = sum(end - start for _, _, start, end in task)
        assert len(task) == 1 or offsets <= min(25_000, most or 25_000)


def test_a_plan_is_split_into_tasks() -> None:
    assert read(options(maxRecordsPerPartition=8), FakeLookup((0, 16), (0, 5))) == [(0, 0, 8), (0, 8, 16), (1, 0, 5)]
    assert len(plan(options(minPartitions=10), FakeLookup((0, 1000))).ranges) == 10
