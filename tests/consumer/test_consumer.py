"""The consumer against fake brokers: records, requests, and errors."""

from __future__ import annotations

import re

import pytest

from kcli.client.config import ConsumerConfig
from kcli.consumer.consumer import Consumer
from kcli.consumer.subscription import PositionReset
from kcli.error_codes import ErrorCode
from kcli.errors import (
    AuthenticationError,
    BrokerError,
    CorruptRecords,
    KcliError,
    LogTruncated,
    NoOffset,
    OffsetOutOfRange,
    RecordTooLarge,
    TopicAuthorizationError,
)
from kcli.protocol.messages import fetch, find_coordinator
from kcli.protocol.registry import ApiKey
from kcli.structs import TopicPartition
from tests.client.sasl_gate import ALICE, SaslGate
from tests.consumer.cluster import FakeCluster

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def reader(cluster: FakeCluster, *partitions: TopicPartition, **properties: object) -> Consumer:
    client, config = cluster.client(**{"auto_offset_reset": "earliest", **properties})
    consumer = Consumer.from_config(config, client)
    consumer.assign(partitions or [T0])
    return consumer


def values(consumer: Consumer, polls: int = 10, timeout_ms: float = 1000) -> dict[TopicPartition, list[str]]:
    """Return the values of some polls."""
    found: dict[TopicPartition, list[str]] = {}
    for _ in range(polls):
        for tp, columns in consumer.poll(timeout_ms).items():
            found.setdefault(tp, []).extend(value.decode() for value in columns.values() if value is not None)
    return found


def test_metrics_have_fetches_and_the_lag_of_each_partition() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a", "b", "c")
    consumer = reader(cluster)
    assert len(values(consumer, polls=1)[T0]) == 3
    metrics = consumer.metrics()
    fetches = metrics["consumer-fetch-manager-metrics"]
    assert fetches["records-consumed-total"] == fetches["records-per-request-avg"] == 3
    assert fetches["fetch-total"] >= 1
    assert fetches["bytes-consumed-total"] == fetches["fetch-size-max"] > 0
    assert fetches["records-lag-max"] == 0
    of_topic = metrics["consumer-fetch-manager-metrics,topic=t"]
    assert of_topic["records-consumed-total"] == of_topic["records-per-request-avg"] == 3
    assert of_topic["bytes-consumed-total"] == fetches["bytes-consumed-total"]
    assert fetches["fetch-throttle-time-avg"] == 0
    of_partition = metrics["consumer-fetch-manager-metrics,topic=t,partition=0"]
    assert of_partition == {"records-lag": 0, "records-lead": 3}
    consumer.seek(T0, 1)
    assert consumer.metrics()["consumer-fetch-manager-metrics,topic=t,partition=0"]["records-lag"] == 2
    assert "consumer-coordinator-metrics" not in metrics


def test_records_per_request_counts_a_response_once_however_many_polls_return_it() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append(*"abcdefg")
    consumer = reader(cluster, max_poll_records=2)
    assert len(values(consumer, polls=4)[T0]) == 7
    fetches = consumer.metrics()["consumer-fetch-manager-metrics"]
    assert fetches["records-per-request-avg"] == fetches["records-consumed-total"] == 7


def test_consumers_of_a_process_have_client_ids_of_their_own_unless_it_is_given() -> None:
    settings = {"bootstrap.servers": "localhost:9"}
    consumers = [Consumer.from_config(ConsumerConfig.from_properties(settings)) for _ in range(3)]
    named = Consumer.from_config(ConsumerConfig.from_properties({**settings, "client.id": "mine"}))
    ids = {consumer._client.config.client_id for consumer in consumers}
    assert len(ids) == 3
    assert all(re.fullmatch(r"kcli(-\d+)?", client_id) for client_id in ids)
    assert named._client.config.client_id == "mine"
    for consumer in (*consumers, named):
        consumer.close()


# --- reading


def test_all_records_are_returned_once_in_order() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for batch in range(20):
        log.append(*(f"{batch}-{i}" for i in range(7)))
    consumer = reader(cluster, max_partition_fetch_bytes=500)
    assert values(consumer, 30)[T0] == [f"{batch}-{i}" for batch in range(20) for i in range(7)]
    assert consumer.position(T0) == 140


def test_records_before_the_position_in_a_batch_are_not_returned() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a", "b", "c")
    consumer = reader(cluster)
    consumer.seek(T0, 1)
    assert values(consumer) == {T0: ["b", "c"]}


def test_the_next_fetch_is_sent_before_the_records_are_returned() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for _ in range(4):
        log.append("x" * 100)
    consumer = reader(cluster, max_partition_fetch_bytes=1)
    assert len(consumer.poll(1000)[T0]) == 1
    asked = [it.topics[0].partitions[0].fetch_offset for it in cluster.fetches()]
    assert asked == [0, 1]


def test_all_leaders_are_fetched_from_concurrently() -> None:
    cluster = FakeCluster(nodes=3)
    cluster.topic("t", partitions=3)
    for number in range(3):
        cluster.logs[TopicPartition("t", number)].append(f"of {number}")
    consumer = reader(cluster, T0, T1, T2)
    assert values(consumer) == {T0: ["of 0"], T1: ["of 1"], T2: ["of 2"]}
    assert [len(cluster.fetches(node)[0].topics) for node in (1, 2, 3)] == [1, 1, 1]


def test_partitions_of_one_leader_share_a_request_and_later_requests_have_changes_only() -> None:
    cluster = FakeCluster()
    cluster.topic("t", partitions=3)
    cluster.logs[T1].append("x")
    consumer = reader(cluster, T0, T1, T2)
    values(consumer, 2)
    first, second = cluster.fetches()[:2]
    assert [p.partition for p in first.topics[0].partitions] == [0, 1, 2]
    assert (second.session_epoch, [p.partition for p in second.topics[0].partitions]) == (1, [1])


def test_old_brokers_get_topic_names_and_full_requests() -> None:
    cluster = FakeCluster()
    cluster.spoken[ApiKey.FETCH] = (0, 6)
    log = cluster.topic("t")
    log.append("a")
    consumer = reader(cluster)
    values(consumer, 2)
    log.append("b")
    assert values(consumer) == {T0: ["b"]}
    assert {it.version for it in cluster.requests if it.request.API_KEY == ApiKey.FETCH} == {6}


def test_a_topic_without_an_id_is_fetched_by_name() -> None:
    cluster = FakeCluster()
    cluster.spoken[ApiKey.METADATA] = (0, 9)
    cluster.topic("t").append("a")
    assert values(reader(cluster)) == {T0: ["a"]}
    assert {it.version for it in cluster.requests if it.request.API_KEY == ApiKey.FETCH} == {12}


def test_versions_for_replicas_are_not_used() -> None:
    cluster = FakeCluster()
    cluster.spoken[ApiKey.FETCH] = (4, 18)
    cluster.topic("t").append("a")
    assert values(reader(cluster)) == {T0: ["a"]}
    assert {it.version for it in cluster.requests if it.request.API_KEY == ApiKey.FETCH} == {17}


def test_a_paused_partition_loses_no_records() -> None:
    cluster = FakeCluster()
    cluster.topic("t", partitions=2)
    consumer = reader(cluster, T0, T1)
    consumer.position(T0)
    consumer.pause([T0])
    cluster.logs[T0].append("a")
    cluster.logs[T1].append("b")
    assert values(consumer, 3) == {T1: ["b"]}
    consumer.resume([T0])
    assert values(consumer, 3) == {T0: ["a"]}


def test_records_received_before_a_pause_are_fetched_again() -> None:
    cluster = FakeCluster(nodes=2)
    cluster.topic("t", partitions=2)
    cluster.logs[T0].append("a")
    cluster.logs[T1].append("b")
    consumer = reader(cluster, T0, T1)
    (first,) = consumer.poll(1000)
    other = T1 if first == T0 else T0
    consumer.pause([other])
    assert values(consumer, 3) == {}
    consumer.resume([other])
    assert list(values(consumer, 3)) == [other]


def test_an_unassigned_partition_is_no_longer_fetched() -> None:
    cluster = FakeCluster()
    cluster.topic("t", partitions=2)
    consumer = reader(cluster, T0, T1)
    values(consumer, 2)
    consumer.assign([T1])
    values(consumer, 2)
    forgotten = [it.forgotten_topics_data for it in cluster.fetches() if it.forgotten_topics_data]
    assert [(topic.partitions) for topics in forgotten for topic in topics] == [[0]]


def test_close_closes_the_fetch_session() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    consumer = reader(cluster)
    consumer.poll(1000)
    consumer.assign([])
    consumer._loop.poll(1000)
    last = cluster.asked(ApiKey.FETCH)[-1]
    assert (last.session_id, last.session_epoch) == (100, -1)
    consumer.close()


def test_subscribe_requires_a_group() -> None:
    cluster = FakeCluster()
    client, config = cluster.client()
    consumer = Consumer.from_config(config, client)
    with pytest.raises(KcliError, match=r"cannot subscribe without a group\.id"):
        consumer.subscribe(["t"])
    consumer.assign([T0])


# --- positions


def test_a_new_partition_starts_at_the_end_by_default() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("old")
    consumer = reader(cluster, auto_offset_reset="latest")
    assert consumer.position(T0) == 1
    log.append("new")
    assert values(consumer) == {T0: ["new"]}


def test_a_group_starts_at_its_committed_offset() -> None:
    cluster = FakeCluster()
    cluster.topic("t", partitions=2)
    cluster.logs[T0].append("a", "b", "c")
    cluster.logs[T1].append("d")
    cluster.committed[T0] = 2
    consumer = reader(cluster, T0, T1, group_id="g", enable_auto_commit="false")
    assert values(consumer) == {T0: ["c"], T1: ["d"]}
    assert consumer.subscription.policy_starts == {T1: "earliest"}


def test_a_coordinator_that_is_no_longer_needed_is_not_waited_for_without_a_pause() -> None:
    """The poll returned to the network at every moment after a seek, while no coordinator was known."""
    cluster = FakeCluster()
    cluster.topic("t")
    client, config = cluster.client(auto_offset_reset="earliest", group_id="g", enable_auto_commit="false")
    unavailable = find_coordinator.FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    cluster.answer_next(ApiKey.FIND_COORDINATOR, *[lambda _: unavailable] * 50)
    consumer = Consumer.from_config(config, client)
    consumer.assign([T0])
    consumer.poll(1_000)
    consumer.seek(T0, 0)
    polls: list[float] = []
    poll = cluster.selector.poll

    def counted(timeout_ms: float) -> None:
        polls.append(timeout_ms)
        assert len(polls) < 200
        poll(timeout_ms)

    cluster.selector.poll = counted  # type: ignore[method-assign]
    assert consumer.poll(5_000) == {}


def test_no_committed_offset_and_no_policy_is_an_error() -> None:
    cluster = FakeCluster()
    cluster.topic("t")
    consumer = reader(cluster, auto_offset_reset="none")
    for _ in range(2):
        with pytest.raises(NoOffset, match=r"no committed offset for t-0.*none"):
            consumer.poll(1000)
    consumer.seek(T0, 0)
    assert consumer.poll(100) == {}


def test_a_reset_is_retried_at_the_new_leader() -> None:
    cluster = FakeCluster(nodes=2)
    log = cluster.topic("t")
    log.append("a")
    consumer = reader(cluster)
    client = consumer._client
    client.topics_metadata(["t"], cluster.clock.now_ms() + 1000)
    log.lead(2)
    assert values(consumer) == {T0: ["a"]}


def test_seeking_to_the_beginning_and_the_end() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("a", "b")
    consumer = reader(cluster)
    consumer.seek_to_end([T0])
    assert consumer.position(T0) == 2
    consumer.seek_to_beginning([T0])
    assert values(consumer) == {T0: ["a", "b"]}


def test_offsets_of_the_log_and_of_times() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a", "b", "c")
    consumer = reader(cluster)
    assert consumer.beginning_offsets([T0]) == {T0: 0}
    assert consumer.end_offsets([T0]) == {T0: 3}
    found = consumer.offsets_for_times({T0: 1500})[T0]
    assert found is not None
    assert found.offset == 2
    assert consumer.offsets_for_times({T0: 9000}) == {T0: None}


@pytest.mark.parametrize("time_ms", [-1, -2, -3, -1000])
def test_a_negative_time_is_refused_and_not_read_as_the_start_or_end_of_the_log(time_ms: int) -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    with pytest.raises(ValueError, match=f"time must not be negative; got {time_ms} for t-0"):
        reader(cluster).offsets_for_times({T0: time_ms})


# --- responses for an old position


def test_a_seek_drops_the_response_in_flight() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(4):
        log.append(str(i))
    consumer = reader(cluster, max_partition_fetch_bytes=1)
    consumer.poll(1000)  # the fetch of offset 1 is in flight now
    consumer.seek(T0, 3)
    assert values(consumer) == {T0: ["3"]}


def test_a_seek_drops_received_records() -> None:
    cluster = FakeCluster(nodes=2)
    cluster.topic("t", partitions=2)
    cluster.logs[T0].append("a", "b")
    cluster.logs[T1].append("c", "d")
    consumer = reader(cluster, T0, T1)
    (first,) = consumer.poll(1000)
    other = T1 if first == T0 else T0
    consumer.seek(other, 1)
    assert values(consumer)[other] == [{T0: "b", T1: "d"}[other]]


def test_received_data_of_an_unassigned_partition_is_dropped() -> None:
    cluster = FakeCluster()
    cluster.topic("t", partitions=2)
    consumer = reader(cluster, T0, T1)
    assert values(consumer, 2) == {}  # a fetch of both is in flight
    cluster.logs[T0].append("a")
    cluster.logs[T1].append("b")
    consumer.assign([T1])
    assert values(consumer, 3) == {T1: ["b"]}


def test_a_broker_with_an_undelivered_response_is_not_fetched_from() -> None:
    cluster = FakeCluster(nodes=2)
    cluster.topic("t", partitions=2)
    for log in cluster.logs.values():
        for i in range(5):
            log.append(str(i))
    consumer = reader(cluster, T0, T1, max_partition_fetch_bytes=1)
    for _ in range(4):
        (handed,) = consumer.poll(1000)
        other = T1 if handed == T0 else T0
        for tp in (handed, other):
            position = consumer.position(tp)
            asked = [it.topics[0].partitions[0].fetch_offset for it in cluster.fetches(cluster.logs[tp].leader)]
            assert max(asked, default=0) <= position, f"{tp} at {position} was asked for {asked}"


@pytest.mark.parametrize("moved", [True, False])
def test_a_failure_of_an_old_position_or_an_unassigned_partition_is_dropped(moved: bool) -> None:
    cluster = FakeCluster()
    cluster.topic("t", partitions=2)
    cluster.logs[T0].append("a")
    consumer = reader(cluster, T0, T1, auto_offset_reset="none")
    consumer.seek(T0, 0)
    consumer.seek(T1, 99)
    assert list(consumer.poll(1000)) == [T0]  # the failure is in the same response
    if moved:
        consumer.seek(T1, 0)
    else:
        consumer.assign([T0])
    assert consumer.poll(100) == {}


# --- errors of fetch sessions


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ],
)
def test_a_session_error_opens_a_new_session_and_loses_nothing(code: ErrorCode) -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("a")
    consumer = reader(cluster)
    consumer.poll(1000)
    log.append("b")
    cluster.answer_next(ApiKey.FETCH, lambda request: fetch.FetchResponse(error_code=code))
    before_ms = cluster.clock.now_ms()
    values(consumer, 1)
    assert values(consumer, 3, 100) == {} or log.end == 2
    log.append("c")
    assert values(consumer, 3)[T0][-1] == "c"
    assert any(it.session_epoch == 0 for it in cluster.fetches()[1:])
    assert cluster.clock.now_ms() - before_ms < 10_000


def test_a_broker_that_evicts_its_sessions_gets_a_new_one() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("a")
    consumer = reader(cluster)
    assert values(consumer, 2) == {T0: ["a"]}
    cluster.sessions.clear()
    log.append("b")
    assert values(consumer, 5) == {T0: ["b"]}


def test_a_broker_without_sessions_gets_full_requests() -> None:
    cluster = FakeCluster()
    cluster.with_sessions = False
    log = cluster.topic("t", partitions=2)
    consumer = reader(cluster, T0, T1)
    values(consumer, 2)
    log.append("a")
    assert values(consumer, 2) == {T0: ["a"]}
    assert {it.session_epoch for it in cluster.fetches()} == {0}
    assert {len(it.topics[0].partitions) for it in cluster.fetches()} == {2}


# --- leaders


def test_a_moved_leader_is_followed() -> None:
    cluster = FakeCluster(nodes=2)
    log = cluster.topic("t")
    log.append("a")
    consumer = reader(cluster)
    assert values(consumer, 2) == {T0: ["a"]}
    log.lead(2)
    log.append("b")
    assert values(consumer, 5) == {T0: ["b"]}
    assert cluster.fetches(2)


def test_the_new_leader_in_an_error_response_saves_a_metadata_request() -> None:
    cluster = FakeCluster(nodes=2)
    log = cluster.topic("t")
    log.append("a")
    consumer = reader(cluster)
    assert values(consumer, 2) == {T0: ["a"]}
    log.lead(2)
    moved = fetch.PartitionData(
        partition_index=0,
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=2, leader_epoch=1),
    )
    answer = fetch.FetchResponse(
        session_id=100,
        responses=[fetch.FetchableTopicResponse(topic_id=cluster.topic_ids["t"], partitions=[moved])],
    )
    cluster.answer_next(ApiKey.FETCH, lambda request: answer)
    cluster.answer_next(ApiKey.METADATA, *[lambda request: None] * 5)
    log.append("b")
    assert values(consumer, 5) == {T0: ["b"]}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
)
def test_temporary_partition_errors_refresh_the_metadata_and_are_retried(code: ErrorCode) -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    consumer = reader(cluster)
    consumer.position(T0)
    asked = len(cluster.asked(ApiKey.METADATA))
    refusal = fetch.PartitionData(partition_index=0, error_code=code)
    answer = fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic_id=cluster.topic_ids["t"], partitions=[refusal])]
    )
    cluster.answer_next(ApiKey.FETCH, lambda request: answer, lambda request: answer)
    assert values(consumer, 3) == {T0: ["a"]}
    assert len(cluster.asked(ApiKey.METADATA)) > asked
    times = len(cluster.fetches())
    assert times < 12, f"{times} fetches: it does not back off"


def test_a_restarted_broker_causes_no_loss_and_no_duplicates() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for i in range(5):
        log.append(str(i))
    consumer = reader(cluster, max_partition_fetch_bytes=1)
    found = values(consumer, 2)[T0]
    cluster.lose(1)
    assert values(consumer, 3).get(T0, []) in ([], ["2"])
    found = [str(i) for i in range(consumer.position(T0))]
    cluster.come_back(1)
    found += values(consumer, 10)[T0]
    assert found == ["0", "1", "2", "3", "4"]


def test_a_lost_connection_opens_a_new_session() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("a")
    consumer = reader(cluster)
    assert values(consumer, 2) == {T0: ["a"]}
    before = len(cluster.fetches())
    cluster.cut(1)
    log.append("b")
    assert values(consumer, 3) == {T0: ["b"]}
    assert cluster.fetches()[before].session_epoch == 0, "whether the broker saw the last request is unknown"


def test_an_unanswered_fetch_is_retried_after_its_timeout() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    consumer = reader(cluster, request_timeout_ms=2_000)
    cluster.answer_next(ApiKey.FETCH, lambda request: None)
    assert values(consumer, 8) == {T0: ["a"]}


# --- preferred replicas


def test_a_broker_that_answers_at_once_with_nothing_is_not_asked_without_a_pause() -> None:
    """Kafka 4.3.1 does so while the position is above the high watermark of a new leader: 1,000 requests a second.

    Found by `python -m tests.bench.cluster_soak`.
    """
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    consumer = reader(cluster)
    assert values(consumer, 2) == {T0: ["a"]}
    before = len(cluster.fetches())
    early = 0

    def answer_early(request: fetch.FetchRequest) -> fetch.FetchResponse:
        nonlocal early
        early += 1
        assert early < 40, "the fetches have no pause"
        return fetch.FetchResponse(session_id=request.session_id)

    cluster.answer_next(ApiKey.FETCH, *[answer_early] * 100)
    assert consumer.poll(2_000) == {}
    assert 10 <= len(cluster.fetches()) - before <= 25
    cluster._scripts[ApiKey.FETCH].clear()
    cluster.logs[T0].append("b")
    began_ms = cluster.clock.now_ms()
    assert values(consumer, 1) == {T0: ["b"]}
    assert cluster.clock.now_ms() - began_ms <= 110


def test_the_preferred_replica_of_the_leader_is_used() -> None:
    cluster = FakeCluster(nodes=2)
    log = cluster.topic("t")
    log.followers.add(2)
    log.append("a")
    consumer = reader(cluster, client_rack="here")
    consumer.position(T0)
    near = fetch.PartitionData(partition_index=0, high_watermark=1, preferred_read_replica=2)
    answer = fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic_id=cluster.topic_ids["t"], partitions=[near])]
    )
    cluster.answer_next(ApiKey.FETCH, lambda request: answer)
    assert values(consumer, 3) == {T0: ["a"]}
    assert [it.rack_id for it in cluster.fetches(2)][:1] == ["here"]
    assert len(cluster.fetches(1)) == 1


def test_an_out_of_range_error_of_a_follower_is_checked_at_the_leader() -> None:
    cluster = FakeCluster(nodes=2)
    log = cluster.topic("t")
    log.append("a")
    consumer = reader(cluster, auto_offset_reset="none")
    consumer.seek(T0, 0)
    consumer.subscription.prefer_replica(T0, 2, until_ms=1e9)
    behind = fetch.PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    answer = fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic_id=cluster.topic_ids["t"], partitions=[behind])]
    )
    cluster.answer_next(ApiKey.FETCH, lambda request: answer)
    assert values(consumer, 3) == {T0: ["a"]}
    assert len(cluster.fetches(2)) == 1


# --- out of range


@pytest.mark.parametrize(("policy", "found"), [("earliest", ["c", "d"]), ("latest", ["d"])])
def test_a_position_out_of_range_is_reset_by_policy(policy: str, found: list[str]) -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("a")
    log.append("b")
    log.append("c")
    log.start = 2
    consumer = reader(cluster, auto_offset_reset=policy)
    consumer.seek(T0, 0)
    values(consumer, 1, 0)
    handed = values(consumer, 2).get(T0, [])
    log.append("d")
    assert handed + values(consumer, 3).get(T0, []) == found


def test_a_position_out_of_range_is_raised_without_a_policy() -> None:
    cluster = FakeCluster()
    cluster.topic("t", partitions=2)
    consumer = reader(cluster, T0, T1, auto_offset_reset="none")
    consumer.seek(T0, 7)
    consumer.seek(T1, 8)
    with pytest.raises(OffsetOutOfRange, match=r"none \(t-0 at 7, t-1 at 8\)") as caught:
        consumer.poll(1000)
    assert caught.value.evidence == {"t-0": 7, "t-1": 8}
    with pytest.raises(OffsetOutOfRange):
        consumer.poll(1000)
    consumer.seek(T0, 0)
    consumer.seek(T1, 0)
    assert consumer.poll(100) == {}


def test_records_before_an_error_are_returned_first() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("a")
    consumer = reader(cluster, auto_offset_reset="none", max_partition_fetch_bytes=1)
    consumer.seek(T0, 0)
    gone = fetch.PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    answer = fetch.FetchResponse(
        session_id=100,
        responses=[fetch.FetchableTopicResponse(topic_id=cluster.topic_ids["t"], partitions=[gone])],
    )
    first = True

    def once_more(request: object) -> object:
        nonlocal first
        data = fetch.PartitionData(partition_index=0, high_watermark=1, records=log.batches[0].data)
        topic = fetch.FetchableTopicResponse(topic_id=cluster.topic_ids["t"], partitions=[data])
        return fetch.FetchResponse(session_id=100, responses=[topic])

    cluster.answer_next(ApiKey.FETCH, once_more, lambda request: answer)
    assert values(consumer, 1) == {T0: ["a"]}
    with pytest.raises(OffsetOutOfRange, match="t-0 at 1"):
        consumer.poll(1000)


# --- authorization


def test_all_unauthorized_topics_are_raised_together() -> None:
    cluster = FakeCluster()
    for name in ("a", "b", "c"):
        cluster.topic(name)
    consumer = reader(cluster, *(TopicPartition(name, 0) for name in "abc"))
    for name in "abc":
        consumer.seek(TopicPartition(name, 0), 0)
    cluster.refused_topics |= {"a", "c"}
    with pytest.raises(BrokerError, match="topics a, c: READ on the topics is denied") as caught:
        consumer.poll(1000)
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("group", [{}, {"group_id": "g"}], ids=["without a group", "with a group"])
def test_assigned_topics_that_metadata_refuses_are_raised_at_each_poll(group: dict[str, str]) -> None:
    """They were polled for ever, and LEADER_NOT_AVAILABLE was recorded."""
    cluster = FakeCluster()
    for name in ("a", "b", "c"):
        cluster.topic(name)
    cluster.undescribed_topics |= {"a", "c"}
    client, config = cluster.client(auto_offset_reset="earliest", **group)
    consumer = Consumer.from_config(config, client)
    consumer.assign([TopicPartition(name, 0) for name in "abc"])
    for _ in range(2):
        with pytest.raises(TopicAuthorizationError) as caught:
            consumer.poll(5000)
        assert caught.value.topics == {"a", "c"}
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(TopicAuthorizationError):
        consumer.position(TopicPartition("a", 0), 1000)
    cluster.undescribed_topics.clear()
    cluster.logs[TopicPartition("a", 0)].append("1")
    consumer._client.sleep(1000)
    assert values(consumer, 5) == {TopicPartition("a", 0): ["1"]}


def test_a_topic_that_metadata_refuses_while_it_is_read_is_raised() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    consumer = reader(cluster)
    assert values(consumer, 2) == {T0: ["a"]}
    cluster.undescribed_topics.add("t")
    consumer._client.metadata.request_update(at_once=True)
    with pytest.raises(TopicAuthorizationError) as caught:
        values(consumer, 3)
    assert caught.value.topics == {"t"}


def test_an_invalid_topic_name_is_raised() -> None:
    cluster = FakeCluster()
    client, config = cluster.client(auto_offset_reset="earliest")
    consumer = Consumer.from_config(config, client)
    consumer.assign([TopicPartition("not valid", 0)])
    with pytest.raises(BrokerError, match="INVALID_TOPIC_EXCEPTION"):
        consumer.poll(5000)


def test_an_unknown_topic_or_partition_is_logged_once_and_read_when_it_is_created(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    client, config = cluster.client(auto_offset_reset="earliest")
    consumer = Consumer.from_config(config, client)
    consumer.assign([T0, TopicPartition("t", 7), TopicPartition("later", 0)])
    assert values(consumer, 3) == {T0: ["a"]}
    assert consumer.poll(3000) == {}
    assert caplog.messages == [
        "partition t-7 does not exist; it is read when it is created",
        "topic later does not exist; it is read when it is created",
    ]
    cluster.topic("later").append("b")
    assert values(consumer, 5) == {TopicPartition("later", 0): ["b"]}
    assert len(caplog.messages) == 2


# --- truncation


def test_a_truncated_log_is_detected_in_the_fetch_response() -> None:
    cluster = FakeCluster(nodes=2)
    log = cluster.topic("t")
    for i in range(4):
        log.append(str(i))
    consumer = reader(cluster)
    assert values(consumer, 2) == {T0: ["0", "1", "2", "3"]}
    cluster.spoken.pop(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    log.truncate(2)
    log.lead(2)
    log.append("other 2")
    log.append("other 3")
    log.append("other 4")
    with pytest.raises(LogTruncated, match="at offset 2; the position is 4") as caught:
        values(consumer, 5)
    evidence = caught.value.evidence
    assert (evidence["offset"], evidence["end_offset"], evidence["epoch"]) == (4, 2, 0)
    consumer.seek(T0, 2)
    assert values(consumer, 3) == {T0: ["other 2", "other 3", "other 4"]}


def test_a_truncated_log_is_detected_by_offset_for_leader_epoch() -> None:
    cluster = FakeCluster(nodes=2)
    cluster.spoken[ApiKey.FETCH] = (4, 11)  # before a fetch shows it
    log = cluster.topic("t")
    for i in range(4):
        log.append(str(i))
    consumer = reader(cluster)
    assert values(consumer, 2) == {T0: ["0", "1", "2", "3"]}
    log.truncate(2)
    log.lead(2)
    for _ in range(3):
        log.append("other")
    with pytest.raises(LogTruncated, match="at offset 2; the position is 4"):
        values(consumer, 5)


def test_a_clean_change_of_leader_is_not_a_truncation() -> None:
    cluster = FakeCluster(nodes=2)
    cluster.spoken[ApiKey.FETCH] = (4, 11)
    log = cluster.topic("t")
    log.append("a")
    consumer = reader(cluster)
    assert values(consumer, 2) == {T0: ["a"]}
    log.lead(2)
    log.append("b")
    assert values(consumer, 5) == {T0: ["b"]}
    assert cluster.asked(ApiKey.OFFSET_FOR_LEADER_EPOCH)


def test_an_epoch_without_records_is_not_a_truncation() -> None:
    cluster = FakeCluster(nodes=2)
    log = cluster.topic("t")
    log.append("a")
    log.lead(2)  # the next leader has no records of epoch 1
    consumer = reader(cluster, auto_offset_reset="latest")
    assert consumer.position(T0) == 1
    log.lead(1)
    del log.epoch_starts[1]
    log.append("b")
    assert values(consumer, 5) == {T0: ["b"]}


def test_a_seek_with_an_epoch_is_validated_before_fetching() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("a")
    consumer = reader(cluster)
    consumer.seek(T0, 5, 0)
    with pytest.raises(LogTruncated, match="at offset 1; the position is 5"):
        consumer.poll(1000)
    assert not cluster.fetches()


def test_a_truncation_is_raised_for_assigned_partitions_and_reset_for_a_member() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    client, config = cluster.client(auto_offset_reset="earliest")
    consumer = Consumer.from_config(config, client)
    consumer.subscription.subscribe(["t"])
    client.metadata.add_topics(["t"])
    consumer.subscription.assign_from_group([T0])
    consumer.seek(T0, 5, 0)
    assert values(consumer, 2) == {}
    assert consumer.position(T0) == 1
    assert consumer.take_resets() == {T0: PositionReset(5, "truncated", 1)}


def test_resets_of_positions_outside_the_log_are_returned_once() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("a", "b", "c")
    log.append("d")
    log.batches.pop(0)
    log.start = 3
    consumer = reader(cluster)
    consumer.seek(T0, 1)
    assert values(consumer) == {T0: ["d"]}
    assert consumer.take_resets() == {T0: PositionReset(1, "earliest", 3)}
    assert consumer.take_resets() == {}
    consumer.seek(T0, 9)
    assert values(consumer) == {T0: ["d"]}
    assert consumer.take_resets() == {T0: PositionReset(9, "earliest", 3)}


def test_a_first_position_and_a_seek_are_not_resets() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    consumer = reader(cluster)
    assert values(consumer) == {T0: ["a"]}
    consumer.seek_to_beginning([T0])
    assert values(consumer) == {T0: ["a"]}
    assert consumer.take_resets() == {}


def test_check_range_detects_a_position_after_the_end_without_a_fetch() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    consumer = reader(cluster)
    consumer.subscription.stop_at(T0, 1)
    consumer.seek(T0, 7)
    assert values(consumer) == {}
    assert consumer.take_resets() == {}
    consumer.check_range([T0])
    assert values(consumer) == {T0: ["a"]}
    assert consumer.take_resets() == {T0: PositionReset(7, "earliest", 0)}
    consumer.check_range([T0])  # it is at the end, which is in the log
    assert consumer.position(T0) == 1


# --- damage


def damaged(data: bytes) -> bytes:
    """Return the batch with one bit of its checksum changed."""
    return data[:17] + bytes([data[17] ^ 1]) + data[18:]


def test_records_before_a_damaged_batch_are_returned_before_the_error() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for value in ("a", "b", "c"):
        log.append(value)
    log.batches[1] = log.batches[1]._replace(data=damaged(log.batches[1].data))
    consumer = reader(cluster)
    assert values(consumer, 1) == {T0: ["a"]}
    for _ in range(2):
        with pytest.raises(CorruptRecords) as caught:
            consumer.poll(1000)
        assert caught.value.evidence == {"topic": "t", "partition": 0, "offset": 1}
    consumer.seek(T0, 2)
    assert values(consumer, 3) == {T0: ["c"]}


def test_damage_is_not_detected_without_check_crcs() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("a", "b")
    log.batches[0] = log.batches[0]._replace(data=damaged(log.batches[0].data))
    assert len(values(reader(cluster, check_crcs="false"), 3)[T0]) == 2


def test_a_corrupt_log_reported_by_the_broker_is_raised() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    consumer = reader(cluster)
    consumer.position(T0)
    answer = fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(
                topic_id=cluster.topic_ids["t"],
                partitions=[fetch.PartitionData(partition_index=0, error_code=ErrorCode.CORRUPT_MESSAGE)],
            )
        ]
    )
    cluster.answer_next(ApiKey.FETCH, lambda request: answer)
    with pytest.raises(CorruptRecords, match="broker reports a corrupt log of t-0 at offset 0"):
        consumer.poll(1000)


def test_a_batch_larger_than_the_limit_is_returned() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("x" * 5000)
    log.append("y")
    assert [len(it) for it in values(reader(cluster, max_partition_fetch_bytes=100))[T0]] == [5000, 1]


def test_a_batch_cut_off_at_the_limit_is_an_error() -> None:
    cluster = FakeCluster()
    log = cluster.topic("t")
    log.append("x" * 5000)
    log.batches[0] = log.batches[0]._replace(data=log.batches[0].data[:100])
    consumer = reader(cluster, max_partition_fetch_bytes=100)
    with pytest.raises(RecordTooLarge, match=r"offset 0 of t-0 is cut off.*received 100"):
        consumer.poll(1000)
    assert len(cluster.fetches()) == 1, "it was asked again for what could not be read"


def test_a_malformed_response_is_a_broken_connection_and_is_retried_with_backoff() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    consumer = reader(cluster)
    consumer.position(T0)
    respond = cluster.selector.respond
    assert respond is not None

    def garble(peer: object, frame: bytes) -> None:
        if frame[:2] == b"\0\1":
            garbled.append(cluster.clock.now_ms())
            peer.deliver(frame[4:8] + b"\xff" * 40)  # type: ignore[attr-defined]
        else:
            respond(peer, frame)  # type: ignore[arg-type]

    garbled: list[float] = []
    cluster.selector.respond = garble
    assert consumer.poll(5000) == {}
    assert 3 <= len(garbled) <= 50
    cluster.selector.respond = respond
    assert [len(columns) for columns in consumer.poll(5000).values()] == [1]


# --- authentication


def test_a_follower_reads_on_over_the_ends_of_its_sessions() -> None:
    cluster = FakeCluster(nodes=2)
    logs = cluster.topic("t", partitions=2), cluster.logs[T1]
    gate = SaslGate(cluster.selector, cluster.spoken, cluster.clock, lifetime_ms=3_000)
    consumer = reader(cluster, T0, T1, **ALICE)
    expected: dict[TopicPartition, list[str]] = {T0: [], T1: []}
    found: dict[TopicPartition, list[str]] = {T0: [], T1: []}
    for number in range(300):
        logs[number % 2].append(str(number))
        expected[T0 if number % 2 == 0 else T1].append(str(number))
        for tp, read in values(consumer, polls=1, timeout_ms=100).items():
            found[tp] += read
    for tp, read in values(consumer).items():
        found[tp] += read
    assert found == expected
    assert gate.renewals >= 15
    assert gate.expired == 0
    assert len(cluster.selector.peers) == 2


def test_a_poll_ends_with_a_failed_authentication_at_once() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    gate = SaslGate(cluster.selector, cluster.spoken, cluster.clock)
    gate.knows_alice = False
    consumer = reader(cluster, **ALICE)
    for _ in range(3):
        began_ms = cluster.clock.now_ms()
        with pytest.raises(AuthenticationError, match=r"10\.0\.0\.1:9092: SASL PLAIN: Authentication failed"):
            consumer.poll(60_000)
        assert cluster.clock.now_ms() - began_ms < 2_000
    gate.knows_alice = True
    cluster.clock.advance(1_000)  # the largest reconnect backoff: until it ends, the refusal counts
    assert values(consumer) == {T0: ["a"]}


def test_a_follower_ends_when_its_credentials_are_withdrawn() -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a")
    gate = SaslGate(cluster.selector, cluster.spoken, cluster.clock, lifetime_ms=3_000)
    consumer = reader(cluster, **ALICE)
    assert values(consumer, polls=2) == {T0: ["a"]}
    gate.knows_alice = False
    with pytest.raises(AuthenticationError, match="Authentication failed"):
        consumer.poll(60_000)
    assert cluster.clock.now_ms() < 4_000
    consumer.close()
