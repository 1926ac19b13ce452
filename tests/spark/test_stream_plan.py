"""Planning of streams without Spark: fixed start, polling, limits, AvailableNow, changing partitions, repeated batches.

The calls and their order are those seen on Spark 4.2 and 4.3 (test_jvm_* use Spark itself).
"""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.errors import ConfigError, NotFound
from kcli.spark.loss import DataLoss
from kcli.spark.stream_plan import StreamPlanner, limit_pro_rata
from kcli.structs import TopicPartition
from tests.spark.fake_lookup import FIRST_MS, FakeLookup, logs, options, orders

Offsets = dict[TopicPartition, int]
FAR_MS = 10_000.0  # after the cache of log ends has expired


class Query:
    """A query as Spark runs it: the offset log survives a restart, the planner does not."""

    def __init__(self, lookup: FakeLookup, **given: object) -> None:
        self.lookup = lookup
        self.options = options(stream=True, **given)
        self.offset_log: list[Offsets] = []  # ends of batches
        self.read: list[tuple[int, int, int]] = []  # partition, start, end
        self.now_ms = 0.0
        self.restart()

    def restart(self) -> None:
        self.planner = StreamPlanner(self.options, self.lookup)  # type: ignore[arg-type]

    def start(self) -> Offsets:
        return self.offset_log[-1] if self.offset_log else self.planner.initial()

    def plan_next(self, most: int | None = None, least: int | None = None) -> bool:
        """Run a trigger up to the offset log; False: nothing to do."""
        self.now_ms += FAR_MS
        if not self.offset_log:
            self.planner.initial()  # Spark asks twice
        end = self.planner.latest(self.start(), most, self.now_ms, min_rows=least).end
        if self.offset_log and end == self.start():
            return False
        self.offset_log.append(end)
        return True

    def run(self, number: int = -1) -> list[str]:
        """Run this batch of the offset log, by default the last; keep its ranges, return its reports."""
        number = range(len(self.offset_log))[number]
        start = self.offset_log[number - 1] if number else self.planner.initial()
        plan = self.planner.plan(start, self.offset_log[number])
        self.read += [(it.partition, it.start, it.end) for it in plan.ranges]
        return plan.reports

    def trigger(self, most: int | None = None, least: int | None = None) -> bool:
        happened = self.plan_next(most, least)
        if happened:
            self.run()
        return happened


# --- T1: the start is pinned by an empty first batch


@pytest.mark.parametrize("starting", ["latest", "earliest", "-1h"])
def test_the_first_batch_is_empty_and_fixes_the_start(starting: str) -> None:
    lookup = FakeLookup((0, 10), (0, 10))
    lookup.wall_ms = FIRST_MS + 3_604_000  # an hour after offset 4
    query = Query(lookup, startingOffsets=starting)
    begin = {"latest": 10, "earliest": 0, "-1h": 4}[starting]
    assert query.trigger()
    assert (query.offset_log, query.read) == ([orders(begin, begin)], [])
    assert query.trigger() == (begin < 10)


@pytest.mark.parametrize("starting", ["latest", "earliest", "-1h"])
def test_records_before_a_restart_of_the_first_batch_are_read(starting: str) -> None:
    # Records arrive, or are deleted by retention, between the first batch and the restart. Without the empty batch 40
    # of 140 rows were lost.
    lookup = FakeLookup((0, 10), (0, 10))
    lookup.wall_ms = FIRST_MS + 3_604_000
    query = Query(lookup, startingOffsets=starting)
    query.plan_next()  # batch 0 is in the offset log, then the query fails
    pinned = query.offset_log[0]
    lookup.there = logs((0, 30), (0, 30))
    lookup.wall_ms += 9_000
    query.restart()
    query.run(0)  # Spark repeats it, with a newly resolved start
    while query.trigger():
        pass
    begin = pinned[TopicPartition("orders", 0)]
    assert query.read == [(0, begin, 30), (1, begin, 30)]


def test_a_moved_log_start_is_loss_in_batch_1_but_not_in_batch_0() -> None:
    lookup = FakeLookup((0, 10))
    query = Query(lookup, startingOffsets="earliest")
    query.plan_next()
    lookup.there = logs((5, 10))  # retention has deleted records that batch 1 will read
    query.restart()
    assert query.run(0) == []
    with pytest.raises(DataLoss, match="offset 0 no longer exists"):
        query.trigger()


def test_a_first_batch_planned_by_the_connector_is_read() -> None:
    # A checkpoint of the connector with batch 0 in its offset log: its start is in sources/0/0, which kcli is not
    # given.
    query = Query(FakeLookup((0, 30)), startingOffsets="earliest")
    query.offset_log = [orders(12)]
    query.run(0)
    while query.trigger():
        pass
    assert query.read == [(0, 0, 12), (0, 12, 30)]


def test_the_start_is_constant_and_not_used_after_a_restart() -> None:
    lookup = FakeLookup((0, 10))
    query = Query(lookup)
    first = query.planner.initial()
    lookup.there = logs((0, 20))
    assert query.planner.initial() == first == orders(10)
    query.trigger()
    query.restart()
    assert query.trigger()  # not an empty batch again, which would end an AvailableNow at once
    assert query.read == [(0, 10, 20)]


def test_only_a_new_query_uses_starting_offsets() -> None:
    query = Query(FakeLookup((0, 10)), startingOffsets='{"orders":{"0":3}}')
    while query.trigger():
        pass
    query.options = options(stream=True, startingOffsets="latest")
    query.lookup.there = logs((0, 15))
    query.restart()
    query.trigger()
    assert query.read == [(0, 3, 10), (0, 10, 15)]


def test_the_start_of_a_new_query_is_checked_like_a_batch() -> None:
    with pytest.raises(ConfigError, match="orders-1 missing"):
        Query(FakeLookup((0, 9), (0, 9)), startingOffsets='{"orders":{"0":3}}').trigger()
    with pytest.raises(NotFound, match="topic payments does not exist"):
        Query(FakeLookup((0, 9)), subscribe="orders,payments").trigger()
    with pytest.raises(NotFound, match="group g has no committed offset"):
        Query(FakeLookup((0, 9)), startingOffsets="group:g").trigger()


def test_a_stream_starts_at_committed_offsets() -> None:
    lookup = FakeLookup((0, 9))
    lookup.committed["g"] = orders(4)
    query = Query(lookup, startingOffsets="group:g")
    while query.trigger():
        pass
    assert query.read == [(0, 4, 9)]


# --- T5: idle polling


def test_log_ends_are_looked_up_once_per_interval() -> None:
    lookup = FakeLookup((0, 10))
    planner = StreamPlanner(options(stream=True, offsetPollIntervalMs=500), lookup)  # type: ignore[arg-type]
    start = orders(10)
    for poll in range(900):  # Spark polls 90 times a second
        planner.latest(start, None, poll * 1000 / 90)
    assert lookup.asked == 20


def test_cached_log_ends_are_not_before_the_start() -> None:
    lookup = FakeLookup((0, 10))
    planner = StreamPlanner(options(stream=True), lookup)  # type: ignore[arg-type]
    planner.latest(orders(10), None, 0)
    lookup.there = logs((0, 20))
    assert planner.latest(orders(15), None, 1).end == orders(20)
    assert planner.newest == orders(20)


# --- limits


def test_a_limit_is_distributed_by_backlog() -> None:
    query = Query(FakeLookup((0, 800), (0, 200), (0, 0)), startingOffsets="earliest")
    query.trigger()
    query.trigger(most=100)
    assert query.read == [(0, 0, 80), (1, 0, 20)]
    assert query.offset_log[-1] == orders(80, 20, 0)


def test_a_small_backlog_does_not_starve() -> None:
    begins, ends = orders(0, 0, 5), orders(1_000_000, 1, 5)
    assert limit_pro_rata(begins, ends, 100) == orders(99, 1, 5)


# Seen with spark-sql-kafka-0-10 4.2.0 under AvailableNow: maxOffsetsPerTrigger, start, ends of the batches.
SEEN = [
    (300, (0, 0), [(210, 90), (420, 180), (630, 270), (700, 300)]),
    (301, (0, 0), [(210, 90), (420, 180), (630, 270), (700, 300)]),
    (999, (0, 0), [(699, 299), (700, 300)]),
    (3, (690, 295), [(692, 296), (694, 297), (696, 298), (698, 299), (700, 300)]),
    (1, (690, 295), [(691, 296)]),
]


@pytest.mark.parametrize(("most", "start", "ends"), SEEN)
def test_limited_batches_end_like_those_of_the_connector(
    most: int, start: tuple[int, int], ends: list[tuple[int, int]]
) -> None:
    query = Query(FakeLookup((0, 700), (0, 300)))
    query.offset_log = [orders(*start)]
    query.planner.prepare_available_now()
    for end in ends:
        assert query.trigger(most=most)
        assert query.offset_log[-1] == orders(*end)
    assert query.trigger(most=most) == (ends[-1] != (700, 300))


BACKLOGS = st.lists(st.tuples(st.integers(0, 2**60), st.integers(0, 2**60)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=60)
@given(BACKLOGS, st.integers(1, 2**61))
def test_a_limit_is_exceeded_by_at_most_one_offset_per_partition(sizes: list[tuple[int, int]], most: int) -> None:
    begins, ends = orders(*[a for a, _ in sizes]), orders(*[a + b for a, b in sizes])
    limited = limit_pro_rata(begins, ends, most)
    taken = {tp: limited[tp] - begins[tp] for tp in begins}
    assert all(limited[tp] <= ends[tp] for tp in ends)
    assert all((taken[tp] > 0) == (ends[tp] > begins[tp]) for tp in ends)
    assert sum(taken.values()) <= most + len(sizes)


def test_all_records_are_read_with_any_limit() -> None:
    query = Query(FakeLookup((0, 2300), (100, 107)), startingOffsets="earliest")
    query.trigger()
    while query.trigger(most=700):
        pass
    assert sum(end - start for _, start, end in query.read) == 2307
    assert len(query.offset_log) == 5


def test_few_records_wait_at_most_the_maximum_delay() -> None:
    lookup = FakeLookup((0, 10))
    query = Query(lookup, startingOffsets="earliest", minOffsetsPerTrigger=100, maxTriggerDelay="60s")
    assert query.trigger(least=100)  # the empty batch
    assert query.trigger(least=100)  # the first batch of a run is not delayed
    lookup.there = logs((0, 50))
    delayed = [query.trigger(least=100) for _ in range(6)]  # 10 s apart
    assert delayed == [False] * 5 + [True]
    lookup.there = logs((0, 150))
    assert query.trigger(least=100)  # enough offsets
    assert query.read == [(0, 0, 10), (0, 10, 50), (0, 50, 150)]


def test_the_minimum_applies_together_with_the_maximum() -> None:
    lookup = FakeLookup((0, 10))
    query = Query(lookup, startingOffsets="earliest", minOffsetsPerTrigger=20, maxOffsetsPerTrigger=30)
    query.trigger(most=30)
    query.trigger(most=30)
    lookup.there = logs((0, 20))
    assert not query.trigger(most=30)
    lookup.there = logs((0, 90))
    assert query.trigger(most=30)
    assert query.trigger()  # Trigger.Once: ReadAllAvailable overrides both
    assert query.read == [(0, 0, 10), (0, 10, 40), (0, 40, 90)]


# --- AvailableNow


def test_available_now_ends_where_the_logs_ended_at_its_start() -> None:
    lookup = FakeLookup((0, 1000), (0, 500))
    query = Query(lookup, startingOffsets="earliest", minOffsetsPerTrigger=10_000)
    query.planner.prepare_available_now()
    batches = 0
    while query.trigger(most=600):
        batches += 1
        lookup.there = logs((0, 1000 + batches * 100), (0, 500), (0, 50))  # the log continues to grow
    assert batches == 4  # an empty one, and 1500 records in batches of 600, not delayed although fewer than 10,000
    assert query.offset_log[-1] == orders(1000, 500)
    query.restart()
    query.planner.prepare_available_now()
    while query.trigger(most=600):
        pass
    assert query.offset_log[-1] == orders(1400, 500, 50)
    assert sum(end - start for _, start, end in query.read) == 1950


# --- new and vanished partitions


def test_a_new_partition_is_read_from_its_logs_start() -> None:
    lookup = FakeLookup((0, 10))
    query = Query(lookup)
    query.trigger()
    lookup.there = logs((0, 12), (0, 7))
    query.restart()  # it was created while the query was stopped
    query.trigger()
    assert query.read == [(0, 10, 12), (1, 0, 7)]


def test_a_new_partition_with_deleted_records_is_reported() -> None:
    lookup = FakeLookup((0, 10))
    query = Query(lookup)
    query.trigger()
    lookup.there = logs((0, 10), (100, 107))
    query.plan_next(most=3)
    assert query.run() == ["orders-1 is new: reading it from offset 100"]
    assert query.read == [(1, 100, 103)]


def test_a_deleted_partition_is_loss() -> None:
    for fail in (True, False):
        lookup = FakeLookup((0, 10), (0, 10))
        query = Query(lookup, startingOffsets="earliest", failOnDataLoss=str(fail).lower())
        query.trigger()
        query.trigger()
        lookup.there = logs((0, 15))
        if fail:
            with pytest.raises(DataLoss, match="orders-1 does not exist any more"):
                query.plan_next()
        else:
            query.plan_next()
            assert query.run() == [
                "orders-1 does not exist any more: the topic was deleted, or access to it was revoked. "
                "An unknown number of records from offset 10 on is lost"
            ]
            assert query.read[-1] == (0, 10, 15)
            assert not query.trigger()


def test_a_checkpoint_of_other_topics_is_named_as_the_cause() -> None:
    lookup = FakeLookup((0, 10))
    query = Query(lookup, startingOffsets="earliest")
    query.trigger()
    query.trigger()
    query.options = options(stream=True, subscribe="payments")
    query.restart()
    lookup.there = {TopicPartition("payments", 0): lookup.there[TopicPartition("orders", 0)]}
    with pytest.raises(
        DataLoss, match=r"orders-0 is not among the topics to read: the checkpoint is of a query of other"
    ):
        query.plan_next()


def test_a_partition_deleted_before_a_batch_is_repeated_is_loss() -> None:
    lookup = FakeLookup((0, 10), (0, 10))
    query = Query(lookup, startingOffsets="earliest", failOnDataLoss="false")
    query.trigger()
    query.plan_next()
    del lookup.there[TopicPartition("orders", 1)]
    query.restart()
    assert query.run()[0].startswith("orders-1 does not exist any more")
    assert query.read == [(0, 0, 10)]
    query.options = query.options._replace(fail_on_data_loss=True)
    query.restart()
    with pytest.raises(DataLoss):
        query.run()


# --- records that are gone, logs that are others


def test_records_deleted_by_retention_are_loss() -> None:
    lookup = FakeLookup((0, 10))
    query = Query(lookup, startingOffsets="earliest", failOnDataLoss="false")
    query.trigger()
    lookup.there = logs((4, 30))
    query.plan_next(most=10)
    assert query.run() == ["orders-0: offset 0 no longer exists, the log starts at 4; 4 offsets are lost"]
    assert query.read == [(0, 4, 14)]


@pytest.mark.parametrize("limit", [None, 5])
def test_a_truncated_log_is_read_from_its_start(limit: int | None) -> None:
    lookup = FakeLookup((0, 100))
    query = Query(lookup)
    query.trigger()
    lookup.there = logs((0, 40))
    with pytest.raises(DataLoss, match="offset 100 is after the log end 40; was the topic recreated"):
        query.plan_next(limit)
    query.options = query.options._replace(fail_on_data_loss=False)
    query.restart()
    query.plan_next(limit)
    reports = query.run()
    while query.trigger(limit):
        pass
    assert len(reports) == 1
    assert "Reading again from 0" in reports[0]
    assert (query.read[0][1], query.read[-1][2]) == (0, 40)
    assert sum(end - start for _, start, end in query.read) == 40


@pytest.mark.parametrize("limit", [None, 5, 30, 100])
def test_a_recreated_longer_topic_is_noticed_by_its_id(limit: int | None) -> None:
    # SPARK-41387: offsets alone do not show it.
    def recreated(fail: str) -> Query:
        lookup = FakeLookup((0, 30))
        query = Query(lookup, failOnDataLoss=fail)
        query.trigger()
        query.trigger()
        lookup.ids["orders"] = UUID(int=2)
        lookup.there = logs((0, 200))
        return query

    with pytest.raises(DataLoss, match="the topic was recreated after it was read up to offset 30"):
        recreated("true").plan_next(limit)
    query = recreated("false")
    query.plan_next(limit)
    assert query.run() == ["orders-0: the topic was recreated after it was read up to offset 30; reading from 0"]
    while query.trigger(limit):
        pass
    assert sorted(offset for _, start, end in query.read for offset in range(start, end)) == list(range(200))


def test_open_transactions_are_not_loss() -> None:
    # The checkpoint was written by a query under read_uncommitted; the last stable offset is now before it.
    lookup = FakeLookup((0, 20))
    lookup.hidden = orders(50)
    query = Query(lookup, kafka_isolation_level="read_committed")
    query.offset_log = [orders(40)]
    assert not query.trigger()
    lookup.there, lookup.hidden = logs((0, 50)), {}
    assert query.trigger()
    assert query.read == [(0, 40, 50)]


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_repeated_batch_has_the_same_plan(fail: str) -> None:
    lookup = FakeLookup((0, 100), (0, 50))
    query = Query(lookup, startingOffsets="earliest", failOnDataLoss=fail, minPartitions=4)
    query.trigger()
    query.trigger(most=60)
    before, query.read = query.read, []
    lookup.there = logs((0, 500), (0, 500), (0, 500))
    query.restart()
    query.run(1)
    assert query.read == before
    assert len(before) == 4
