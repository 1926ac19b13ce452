"""Reads of ranges: every read ends by the fetch position, and offsets that were not covered have a reason."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kcli.consumer.coverage import PartitionCoverage
from kcli.consumer.range_reader import RangeReader
from kcli.consumer.read_range import ReadRange
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords, KcliError, TimeoutExpired
from kcli.log_place import LOG_END, LOG_START, Place
from kcli.protocol.messages import fetch, list_offsets
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.registry import ApiKey
from kcli.structs import TopicPartition
from tests.consumer.cluster import FakeCluster
from tests.consumer.partition_reader import PartitionReader

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ALL = ReadRange(LOG_START, LOG_END)


def start(
    cluster: FakeCluster,
    ranges: dict[TopicPartition, ReadRange],
    *,
    wait_for_end: bool = False,
    follow_new: tuple[str, ...] = (),
    follow_pattern: str | None = None,
    **properties: Any,
) -> RangeReader:
    client, config = cluster.client(**properties)
    pattern = None if follow_pattern is None else re.compile(follow_pattern)
    reader = RangeReader(
        client, ranges, config, wait_for_end=wait_for_end, follow_new=follow_new, follow_pattern=pattern
    )
    reader.resolve(cluster.clock.now_ms() + 10_000)
    return reader


def read(reader: RangeReader, polls: int = 200, timeout_ms: float = 500) -> dict[TopicPartition, list[str]]:
    """Return all values until the reader is done, or until the last poll."""
    found: dict[TopicPartition, list[str]] = {}
    for _ in range(polls):
        if reader.done:
            break
        for tp, columns in reader.poll(timeout_ms):
            found.setdefault(tp, []).extend(value.decode() for value in columns.values() if value is not None)
    return found


def coverage(reader: RangeReader, tp: TopicPartition = T0) -> PartitionCoverage:
    return next(it for it in reader.coverage() if it.tp == tp)


# --- ends


def test_a_range_is_read_from_its_start_to_just_before_its_end() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("0", "1", "2", "3")
    log.append("4", "5", "6", "7")
    reader = start(cluster, {T0: ReadRange(Place.offset(2), Place.offset(6))})
    assert read(reader) == {T0: ["2", "3", "4", "5"]}
    covered = coverage(reader)
    assert covered == PartitionCoverage(T0, 2, 6, 6, 4, 4, "reached its end", True, start=2)


def test_a_finished_partition_is_not_fetched() -> None:
    cluster = FakeCluster()
    cluster.topic("t", partitions=2)
    cluster.logs[T0].append("a")
    for i in range(3):
        cluster.logs[T1].append(str(i))
    reader = start(cluster, {T0: ALL, T1: ALL}, max_partition_fetch_bytes=1)
    read(reader)
    asked = [[(t.topic_id, [p.partition for p in t.partitions]) for t in it.topics] for it in cluster.fetches()]
    named = [[number for _, numbers in topics for number in numbers] for topics in asked]
    assert named[0] == [0, 1]
    assert all(0 not in numbers for numbers in named[1:])
    assert [t.partitions for t in cluster.fetches()[1].forgotten_topics_data] == [[0]]


def test_an_empty_partition_is_done_at_once_and_never_fetched() -> None:
    cluster = FakeCluster()
    cluster.topic("t")
    reader = start(cluster, {T0: ALL})
    assert reader.done
    assert coverage(reader).reason == "nothing to read"
    assert coverage(reader).complete
    assert not cluster.fetches()


def test_a_log_that_ends_in_transaction_markers_ends_by_position() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.marker(7, commit=True)
    log.marker(8, commit=False)
    reader = start(cluster, {T0: ALL})
    assert read(reader) == {T0: ["a"]}
    assert (coverage(reader).position, coverage(reader).records, coverage(reader).complete) == (3, 1, True)


def test_a_log_of_markers_only_ends_without_waiting() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.marker(7, commit=True)
    reader = start(cluster, {T0: ALL})
    before_ms = cluster.clock.now_ms()
    assert read(reader, timeout_ms=60_000) == {}
    assert reader.done
    assert cluster.clock.now_ms() - before_ms < 1_000


def test_compacted_gaps_and_empty_batches_are_skipped() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("0")
    log.append_batch(build_batch([], base_offset=1, last_offset_delta=9, leader_epoch=0), 11)
    kept = [NewRecord(None, b"12", 0), NewRecord(None, b"15", 0)]
    log.append_batch(build_batch(kept, base_offset=11, offset_deltas=[1, 4], last_offset_delta=8), 20)
    reader = start(cluster, {T0: ALL})
    assert read(reader) == {T0: ["0", "12", "15"]}
    assert coverage(reader).position == 20


def test_aborted_records_are_skipped_and_the_read_ends() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("seen")
    first = log.append("hidden", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.marker(7, commit=False)
    log.aborted.append((7, first))
    reader = start(cluster, {T0: ALL}, isolation_level="read_committed")
    assert read(reader) == {T0: ["seen"]}
    assert coverage(reader).position == 3


def test_under_read_committed_the_end_is_the_last_stable_offset() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("a")
    log.append("open", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.last_stable = 1
    reader = start(cluster, {T0: ALL}, isolation_level="read_committed")
    assert read(reader) == {T0: ["a"]}
    assert coverage(reader).asked_end == 1


def test_a_time_is_the_first_offset_at_or_after_it() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("0", "1", "2", "3", "4")  # at 0 s, 1 s, ...
    reader = start(cluster, {T0: ReadRange(Place.time(1_500), Place.time(3_000))})
    assert read(reader) == {T0: ["2"]}


def test_a_time_after_the_last_record_reads_nothing_and_has_a_note() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("0")
    reader = start(cluster, {T0: ReadRange(Place.time(5_000), LOG_END)})
    assert reader.done
    assert coverage(reader).notes == ("no record at or after 1970-01-01T00:00:05.000Z",)
    assert coverage(reader).complete


def test_the_last_records_from_the_end() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("0", "1", "2", "3", "4")
    assert read(start(cluster, {T0: ReadRange(Place.before_end(2), LOG_END)})) == {T0: ["3", "4"]}


def test_records_appended_after_the_start_are_not_read() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("a")
    reader = start(cluster, {T0: ALL})
    log.append("late")
    assert read(reader) == {T0: ["a"]}


def test_an_end_after_the_log_end_is_incomplete() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a", "b")
    reader = start(cluster, {T0: ReadRange(Place.offset(0), Place.offset(9))})
    assert read(reader) == {T0: ["a", "b"]}
    covered = coverage(reader)
    assert (covered.asked_end, covered.position, covered.complete) == (9, 2, False)
    assert covered.reason == "reached its end; offsets 2 to 8 do not exist: the log ends at 2"


def test_wait_for_end_waits_for_an_end_after_the_log_end() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("a", "b")
    reader = start(cluster, {T0: ReadRange(Place.offset(0), Place.offset(4))}, wait_for_end=True)
    assert read(reader, polls=3) == {T0: ["a", "b"]}
    assert not reader.done
    log.append("c", "d", "e")
    assert read(reader) == {T0: ["c", "d"]}
    assert coverage(reader).complete


def test_a_start_after_the_log_end_waits_for_its_first_record() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("0")
    reader = start(cluster, {T0: ReadRange(Place.offset(3))})
    log.append("1", "2", "3", "4")
    assert read(reader, polls=3) == {T0: ["3", "4"]}


def test_a_range_without_an_end_is_never_done_and_complete() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    reader = start(cluster, {T0: ReadRange(LOG_END)})
    read(reader, polls=3)
    log.append("a")
    assert read(reader, polls=3) == {T0: ["a"]}
    assert not reader.done
    assert (coverage(reader).reason, coverage(reader).complete) == ("following", True)


def test_a_followed_partition_is_at_the_log_end_after_its_last_record() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t", partitions=2)
    log.append("a")
    log.append("b")
    ranges = {T0: ReadRange(LOG_START), T1: ReadRange(LOG_START, Place.offset(5))}
    reader = start(cluster, ranges, wait_for_end=True, max_partition_fetch_bytes=1)
    assert reader.followed() == {T0: False}
    read(reader, polls=1)
    assert reader.followed() == {T0: False}
    read(reader, polls=2)
    assert reader.followed() == {T0: True}


def test_the_failures_of_followed_partitions_are_known() -> None:
    cluster = FakeCluster(nodes=2)
    cluster.topic("t", partitions=2)
    reader = start(cluster, {T0: ReadRange(LOG_START), T1: ReadRange(LOG_START)})
    read(reader, polls=2)
    assert reader.retry_states() == {}
    cluster.lose(2)
    read(reader, polls=4)
    assert set(reader.retry_states()) == {T1}
    cluster.come_back(2)
    read(reader, polls=10)
    assert reader.retry_states() == {}


def test_without_any_broker_the_failure_names_the_addresses() -> None:
    cluster = FakeCluster()
    cluster.topic("t")
    reader = start(cluster, {T0: ReadRange(LOG_START)})
    read(reader, polls=2)
    cluster.lose(1)
    read(reader, polls=20)
    assert "no broker answered at 10.0.0.1:9092" in reader.retry_states()[T0].error.message


def test_a_read_that_stops_early_is_incomplete() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(4):
        log.append(str(i))
    reader = start(cluster, {T0: ALL}, max_partition_fetch_bytes=1)
    read(reader, polls=1)
    covered = coverage(reader)
    assert (covered.position, covered.complete, covered.reason) == (1, False, "stopped before its end")


def test_thousands_of_partitions_are_read() -> None:
    cluster = FakeCluster(nodes=3)
    cluster.topic("t", partitions=2_000)
    for tp, log in cluster.logs.items():
        if tp.partition % 3:
            log.append(str(tp.partition))
    reader = start(cluster, dict.fromkeys(cluster.logs, ALL))
    found = read(reader)
    assert {tp.partition for tp in found} == {number for number in range(2_000) if number % 3}
    assert all(it.complete for it in reader.coverage())


# --- partitions that are added later


def test_a_partition_added_to_a_followed_topic_is_read_from_its_start() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("before")
    reader = start(cluster, {T0: ReadRange(LOG_END)}, follow_new=("t",), metadata_max_age_ms=2_000)
    read(reader, polls=2)
    added = cluster.add_partition("t")
    added.append("first", "second")
    log.append("after")
    assert read(reader, polls=10) == {T0: ["after"], T1: ["first", "second"]}
    added.append("third")
    assert read(reader, polls=2) == {T1: ["third"]}
    assert (coverage(reader, T1).start, coverage(reader, T1).complete, reader.done) == (0, True, False)
    assert coverage(reader, T1).notes == ("added while the topic was read; read from the log start",)
    assert reader.ranges == {T0: ReadRange(LOG_END), T1: ReadRange(LOG_START)}


def test_a_new_partition_without_a_leader_is_read_as_soon_as_it_has_one() -> None:
    cluster = FakeCluster()
    cluster.topic("t")
    reader = start(cluster, {T0: ReadRange(LOG_END)}, follow_new=("t",), metadata_max_age_ms=2_000)
    added = cluster.add_partition("t")
    added.append("first")
    added.leader = -1
    assert read(reader, polls=10) == {}
    assert T1 not in reader.ranges
    added.leader = 1
    assert read(reader, polls=10) == {T1: ["first"]}


def test_a_new_partition_that_may_not_be_read_is_in_the_coverage() -> None:
    cluster = FakeCluster()
    cluster.topic("t")
    reader = start(cluster, {T0: ReadRange(LOG_END)}, follow_new=("t",), metadata_max_age_ms=2_000)
    cluster.add_partition("t")
    cluster.answer_next(ApiKey.LIST_OFFSETS, refuse_list_offsets)
    read(reader, polls=10)
    error = coverage(reader, T1).error
    assert not reader.done
    assert isinstance(error, BrokerError)
    assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def refuse_list_offsets(request: Any) -> Any:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    [topic] = request.topics
    partitions = [
        list_offsets.ListOffsetsPartitionResponse(partition_index=it.partition_index, error_code=code)
        for it in topic.partitions
    ]
    return list_offsets.ListOffsetsResponse(
        topics=[list_offsets.ListOffsetsTopicResponse(name=topic.name, partitions=partitions)]
    )


def test_a_new_partition_is_not_read_without_follow_new() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    reader = start(cluster, {T0: ReadRange(LOG_END)}, metadata_max_age_ms=2_000)
    cluster.add_partition("t").append("not asked for")
    log.append("a")
    assert read(reader, polls=20) == {T0: ["a"]}
    assert "t" in cluster.asked(ApiKey.METADATA)[-1].topics[0].name
    assert set(reader.ranges) == {T0}


def test_partitions_of_a_topic_that_was_created_again_are_not_new_ones() -> None:
    cluster = FakeCluster()
    cluster.topic("t")
    reader = start(cluster, {T0: ReadRange(LOG_END)}, follow_new=("t",), metadata_max_age_ms=2_000)
    read(reader, polls=1)
    cluster.delete("t")
    cluster.topic("t", partitions=2)
    for log in cluster.logs.values():
        log.append("other")
    assert read(reader) == {}
    assert reader.done
    assert coverage(reader).reason == "topic t was deleted and created again while it was read"


# --- missing offsets


def test_offsets_deleted_before_the_read_are_missing() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(4):
        log.append(str(i))
    log.start = 2
    reader = start(cluster, {T0: ReadRange(Place.offset(0), LOG_END)})
    assert read(reader) == {T0: ["2", "3"]}
    covered = coverage(reader)
    assert (covered.asked_start, covered.start, covered.complete) == (0, 2, False)
    assert "offsets 0 to 1 were deleted: the log starts at 2" in covered.reason


def test_deleted_offsets_are_not_missing_from_a_start_without_a_number() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(4):
        log.append(str(i))
    log.start = 2
    reader = start(cluster, {T0: ALL})
    assert read(reader) == {T0: ["2", "3"]}
    assert coverage(reader).complete


def test_records_deleted_during_the_read_are_lost_and_the_rest_is_read() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(8):
        log.append(str(i))
    reader = start(cluster, {T0: ALL}, max_partition_fetch_bytes=1)
    found = read(reader, polls=1)[T0]
    log.start = 6
    log.batches = log.batches[6:]
    found += read(reader)[T0]
    assert found == ["0", "1", "6", "7"] or found == ["0", "6", "7"]
    covered = coverage(reader)
    assert not covered.complete
    assert "to 5 were deleted before they were read" in covered.reason


def test_a_log_truncated_below_the_position_ends_the_read() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(8):
        log.append(str(i))
    reader = start(cluster, {T0: ALL}, max_partition_fetch_bytes=1)
    read(reader, polls=4)
    log.truncate(1)
    read(reader)
    assert reader.done
    assert not coverage(reader).complete
    assert "truncated" in coverage(reader).reason


def test_a_receding_log_end_ends_the_read() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(8):
        log.append(str(i))
    reader = start(cluster, {T0: ALL}, max_partition_fetch_bytes=1)
    read(reader, polls=2)
    log.truncate(5)
    read(reader)
    assert reader.done
    covered = coverage(reader)
    assert (covered.position, covered.complete) == (5, False)
    assert covered.reason == "the log was truncated: its end offset was 8 and is now 5"


def test_a_temporarily_lower_end_of_a_new_leader_does_not_end_the_read() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(4):
        log.append(str(i))
    reader = start(cluster, {T0: ALL}, max_partition_fetch_bytes=1)
    found = read(reader, polls=1)[T0]
    less = fetch.PartitionData(partition_index=0, high_watermark=1)
    answer = fetch.FetchResponse(
        session_id=7, responses=[fetch.FetchableTopicResponse(topic_id=cluster.topic_ids["t"], partitions=[less])]
    )

    def later(request: Any) -> Any:
        cluster.clock.advance(400)
        return answer

    cluster.answer_next(ApiKey.FETCH, *[later] * 10)
    asked = len(cluster.asked(ApiKey.LIST_OFFSETS))
    found += read(reader)[T0]
    assert found == ["0", "1", "2", "3"]
    assert len(cluster.asked(ApiKey.LIST_OFFSETS)) > asked
    assert coverage(reader).complete


def test_a_topic_deleted_during_the_read_ends_it() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(8):
        log.append(str(i))
    reader = start(cluster, {T0: ALL}, max_partition_fetch_bytes=1)
    read(reader, polls=1)
    cluster.delete("t")
    read(reader)
    assert reader.done
    covered = coverage(reader)
    assert not covered.complete
    assert "topic t was deleted" in covered.reason
    assert isinstance(covered.error, BrokerError)


def test_an_unknown_topic_is_deleted_and_not_a_failure_that_is_retried_without_limit() -> None:
    cluster = FakeCluster()
    cluster.topic("t")
    reader = start(cluster, {T0: ReadRange(LOG_END)})
    read(reader, polls=1)
    cluster.delete("t")
    while not reader.done:
        reader.poll(500)
        assert reader.retry_states() == {}
    assert "topic t was deleted" in coverage(reader).reason


def test_a_topic_created_again_during_the_read_ends_it() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(8):
        log.append(str(i))
    reader = start(cluster, {T0: ALL}, max_partition_fetch_bytes=1)
    found = read(reader, polls=1)[T0]
    cluster.delete("t")
    other = cluster.topic("t")
    for i in range(9):
        other.append(f"other {i}")
    found += read(reader).get(T0, [])
    assert not any(value.startswith("other") for value in found)
    assert coverage(reader).reason == "topic t was deleted and created again while it was read"


def test_an_unauthorized_topic_ends_alone() -> None:
    cluster = FakeCluster()
    cluster.topic("a").append("x")
    cluster.topic("b").append("y")
    a, b = TopicPartition("a", 0), TopicPartition("b", 0)
    reader = start(cluster, {a: ALL, b: ALL})
    cluster.refused_topics.add("a")
    assert read(reader) == {b: ["y"]}
    assert coverage(reader, b).complete
    error = coverage(reader, a).error
    assert isinstance(error, BrokerError)
    assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_partition_that_cannot_be_resolved_is_in_errors() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    client, config = cluster.client()
    missing = TopicPartition("t", 9)
    reader = RangeReader(client, {T0: ALL, missing: ReadRange(Place.offset(5), LOG_END)}, config)
    gathered = reader.resolve(cluster.clock.now_ms() + 10_000)
    assert set(gathered.values) == {T0}
    assert set(gathered.errors) == {missing}
    assert read(reader) == {T0: ["a"]}
    covered = coverage(reader, missing)
    assert (covered.asked_start, covered.asked_end, covered.position, covered.complete) == (5, -1, -1, False)
    assert covered.error is gathered.errors[missing]


def test_a_damaged_batch_ends_its_partition_after_the_records_before_it() -> None:
    cluster = FakeCluster()
    cluster.topic("t", partitions=2)
    log = cluster.logs[T0]
    for value in ("a", "b", "c"):
        log.append(value)
    data = log.batches[1].data
    log.batches[1] = log.batches[1]._replace(data=data[:17] + bytes([data[17] ^ 1]) + data[18:])
    cluster.logs[T1].append("fine")
    reader = start(cluster, {T0: ALL, T1: ALL})
    assert read(reader) == {T0: ["a"], T1: ["fine"]}
    covered = coverage(reader)
    assert (covered.position, covered.complete) == (1, False)
    assert isinstance(covered.error, CorruptRecords)


def test_a_wrong_out_of_range_error_is_retried_once() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    reader = start(cluster, {T0: ALL})
    wrong = fetch.PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    answer = fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic_id=cluster.topic_ids["t"], partitions=[wrong])]
    )
    cluster.answer_next(ApiKey.FETCH, lambda request: answer)
    assert read(reader) == {T0: ["a"]}
    assert coverage(reader).complete


# --- unavailable brokers


@pytest.mark.parametrize("end", [LOG_END, None])
def test_a_restarted_broker_loses_no_records(end: Any) -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(6):
        log.append(str(i))
    reader = start(cluster, {T0: ReadRange(LOG_START, end)}, max_partition_fetch_bytes=1)
    found = read(reader, polls=2)[T0]
    cluster.lose(1)
    found += read(reader, polls=4).get(T0, [])
    cluster.sessions.clear()
    cluster.come_back(1)
    found += read(reader, polls=20)[T0]
    assert found == [str(i) for i in range(6)]
    assert coverage(reader).complete


def test_a_bounded_read_ends_if_a_broker_stays_unavailable() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(6):
        log.append(str(i))
    reader = start(cluster, {T0: ALL}, max_partition_fetch_bytes=1, default_api_timeout_ms=20_000)
    read(reader, polls=1)
    cluster.lose(1)
    read(reader, polls=100)
    assert reader.done
    assert cluster.clock.now_ms() < 40_000
    covered = coverage(reader)
    assert not covered.complete
    assert covered.reason.startswith("no record arrived for 2")
    assert isinstance(covered.error, TimeoutExpired)


def test_a_leader_that_never_answers_a_fetch_ends_a_bounded_read() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    reader = start(cluster, {T0: ALL}, default_api_timeout_ms=1_000)
    cluster.answer_next(ApiKey.FETCH, lambda request: None)
    before_ms = cluster.clock.now_ms()
    read(reader, timeout_ms=100)
    assert cluster.clock.now_ms() - before_ms < 2_000
    assert coverage(reader).reason.startswith("no record arrived for 1")


def test_a_leader_without_the_expected_records_ends_a_bounded_read() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    reader = start(cluster, {T0: ALL}, default_api_timeout_ms=3_000)
    nothing = fetch.PartitionData(partition_index=0, high_watermark=1)
    answer = fetch.FetchResponse(
        session_id=7, responses=[fetch.FetchableTopicResponse(topic_id=cluster.topic_ids["t"], partitions=[nothing])]
    )

    def later(request: Any) -> Any:
        cluster.clock.advance(200)
        return answer

    cluster.answer_next(ApiKey.FETCH, *[later] * 100)
    read(reader)
    assert reader.done
    assert coverage(reader).reason.startswith("no record arrived for 3")


def test_time_between_polls_does_not_count_as_waiting() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(5):
        log.append(str(i))
    reader = start(cluster, {T0: ALL}, max_partition_fetch_bytes=1, default_api_timeout_ms=1_000)
    found = []
    while not reader.done:
        found += [value for _, columns in reader.poll(500) for value in columns.values()]
        cluster.clock.advance(100_000)
    assert len(found) == 5


def test_a_range_without_an_end_waits_forever() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("a")
    reader = start(cluster, {T0: ReadRange(LOG_START)}, default_api_timeout_ms=5_000)
    read(reader, polls=2)
    cluster.lose(1)
    read(reader, polls=100, timeout_ms=1_000)
    cluster.come_back(1)
    log.append("b")
    assert read(reader, polls=20) == {T0: ["b"]}


# --- one partition as an iterator


def test_a_partition_reader_returns_its_range() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(6):
        log.append(str(i))
    client, config = cluster.client(max_partition_fetch_bytes=1)
    with PartitionReader(config, T0, 2, 5, client) as reader:
        assert [value for columns in reader for value in columns.values()] == [b"2", b"3", b"4"]
        assert reader.coverage().complete


def test_a_partition_reader_raises_for_missing_offsets() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("0")
    log.append("1")
    log.start = 1
    client, config = cluster.client()
    with pytest.raises(KcliError, match=r"t-0 was not read completely.*offsets 0 to 0 were deleted"):
        list(PartitionReader(config, T0, 0, 2, client))


def test_a_held_partition_is_not_fetched_and_does_not_count_as_stalled() -> None:
    cluster = FakeCluster()
    cluster.topic("t", partitions=2)
    for tp in (T0, T1):
        for i in range(3):
            cluster.logs[tp].append(str(i))
    reader = start(cluster, {T0: ALL, T1: ALL}, max_partition_fetch_bytes=1, default_api_timeout_ms=1_000)
    reader.hold(T0, held=True)
    assert read(reader, polls=20) == {T1: ["0", "1", "2"]}
    assert cluster.clock.now_ms() > 5_000
    reader.hold(T0, held=False)
    assert read(reader) == {T0: ["0", "1", "2"]}
    assert all(one.complete for one in reader.coverage())


# --- topics that match a pattern


def test_topics_that_are_created_later_are_read_from_their_start_if_their_whole_name_matches() -> None:
    cluster = FakeCluster()
    cluster.topic("orders-1").append("old")
    first = TopicPartition("orders-1", 0)
    reader = start(cluster, {first: ReadRange(LOG_END)}, follow_pattern="orders-.", metadata_max_age_ms=2_000)
    assert read(reader, polls=5) == {}
    cluster.topic("orders-2", partitions=2).append("a", "b")
    cluster.topic("orders-22").append("no")
    cluster.logs[first].append("c")
    found = read(reader, polls=20)
    assert found == {first: ["c"], TopicPartition("orders-2", 0): ["a", "b"]}
    notes = {one.tp: one.notes for one in reader.coverage()}
    assert notes.keys() == {first, TopicPartition("orders-2", 0), TopicPartition("orders-2", 1)}
    assert all("created while others were read" in it[0] for tp, it in notes.items() if tp != first)
    cluster.add_partition("orders-1").append("d")
    assert read(reader, polls=20) == {TopicPartition("orders-1", 1): ["d"]}


def test_a_read_without_a_topic_waits_for_one_that_matches() -> None:
    cluster = FakeCluster()
    reader = start(cluster, {}, follow_pattern="orders", metadata_max_age_ms=2_000)
    assert not reader.done
    assert read(reader, polls=5) == {}
    cluster.topic("orders").append("a")
    assert read(reader, polls=20) == {TopicPartition("orders", 0): ["a"]}
    assert not reader.done


def test_a_topic_that_was_created_again_is_not_a_new_one() -> None:
    cluster = FakeCluster()
    cluster.topic("orders")
    tp = TopicPartition("orders", 0)
    reader = start(cluster, {tp: ReadRange(LOG_END)}, follow_pattern="orders", metadata_max_age_ms=2_000)
    read(reader, polls=5)
    cluster.delete("orders")
    cluster.topic("orders").append("other")
    assert read(reader, polls=20) == {}
    assert coverage(reader, tp).reason == "topic orders was deleted and created again while it was read"
