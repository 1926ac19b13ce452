"""Counts of requests, topics and waiting operations, and what a cluster shows about its replicas."""

from __future__ import annotations

from kcli.broker.counters import RequestMetrics, TopicMetrics
from kcli.broker.mbeans import by_mbean, families
from kcli.broker.serving.request_context import EncodedResponse, RequestContext
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.broker.testing.embedded_cluster import EmbeddedCluster
from kcli.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.cli.fake import run_kcli
from tests.limits import Limit

TOPIC_METRICS = "kafka.server:type=BrokerTopicMetrics,name="
REPLICA_MANAGER = "kafka.server:type=ReplicaManager,name="


def context(key: int, version: int, now_ms: float) -> RequestContext:
    return RequestContext(key, version, 1, None, "c1", "127.0.0.1", now_ms, 0)


def test_requests_by_version_errors_of_all_rows_and_times() -> None:
    requests = RequestMetrics()
    rows = [PartitionProduceResponse(index=at, error_code=code) for at, code in enumerate((0, 3, 3))]
    answer = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=rows)])
    requests.record(context(0, 9, 1000.0), answer, 1030.0)
    requests.record(context(0, 13, 2000.0), None, 2010.0)
    requests.record(context(1, 18, 2000.0), EncodedResponse(b""), 2500.0)
    found = by_mbean(requests.mbeans())
    of_produce = "kafka.network:type=RequestMetrics,name={},request=Produce"
    assert found[of_produce.format("RequestsPerSec") + ",version=9"] == {"Count": 1}
    assert found[of_produce.format("RequestsPerSec") + ",version=13"] == {"Count": 1}
    assert found[of_produce.format("ErrorsPerSec") + ",error=NONE"] == {"Count": 1}
    assert found[of_produce.format("ErrorsPerSec") + ",error=UNKNOWN_TOPIC_OR_PARTITION"] == {"Count": 2}
    assert found[of_produce.format("TotalTimeMs")] == {"Count": 2, "Mean": 20, "Max": 30}
    assert found["kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Fetch,error=NONE"] == {"Count": 1}


def test_the_totals_keep_the_counts_of_deleted_topics() -> None:
    topics = TopicMetrics()
    for name, size in (("a", 5), ("b", 7)):
        topics.of(name).bytes_in += size
    topics.forget("a")
    topics.forget("unknown")
    found = by_mbean(topics.mbeans(0))
    assert found[f"{TOPIC_METRICS}BytesInPerSec"] == {"Count": 12}
    assert {name: value for name, value in found.items() if "BytesInPerSec,topic" in name} == {
        f"{TOPIC_METRICS}BytesInPerSec,topic=b": {"Count": 7}
    }


def test_names_of_the_jmx_exporter() -> None:
    topics = TopicMetrics()
    topics.of("t").messages_in = 3
    requests = RequestMetrics()
    for end_ms in (15.0, 25.0):
        requests.record(context(3, 12, 10.0), None, end_ms)
    found = {metric.name: metric for metric in families(topics.mbeans(9) + requests.mbeans())}
    messages = found["kafka_server_brokertopicmetrics_messagesin"]
    assert (messages.labels, messages.samples, messages.is_counter) == (("topic",), [(("",), 3), (("t",), 3)], True)
    assert found["kafka_server_brokertopicmetrics_replicationbytesin"].samples == [((), 9)]
    times = found["kafka_network_requestmetrics_totaltimems"]
    assert (times.labels, times.samples, times.is_counter) == (("request",), [(("Metadata",), 20.0)], True)


def test_an_embedded_broker_counts_records_and_waiting_fetches(kafka_broker: EmbeddedBroker) -> None:
    kafka_broker.create_topic("t", 2)
    assert run_kcli("produce", "-b", kafka_broker.address, "t", "-p", "1", stdin=b"a\nb\nc\n").status == 0
    assert run_kcli("consume", "-b", kafka_broker.address, "t", "-o", "start", "-n", "3").status == 0
    found = kafka_broker.metrics()
    assert found[f"{TOPIC_METRICS}MessagesInPerSec,topic=t"] == {"Count": 3}
    sizes = [found[f"{TOPIC_METRICS}{name},topic=t"]["Count"] for name in ("BytesInPerSec", "BytesOutPerSec")]
    assert sizes[0] == sizes[1] > 0
    assert found[f"{REPLICA_MANAGER}LeaderCount"] == {"Value": 2}
    assert found["kafka.controller:type=KafkaController,name=ActiveControllerCount"] == {"Value": 1}
    waiting = "kafka.server:type=DelayedOperationPurgatory,name=NumDelayedOperations,delayedOperation="
    assert {name.removeprefix(waiting) for name in found if name.startswith(waiting)} == {
        "Produce",
        "Fetch",
        "DeleteRecords",
    }


def test_a_cluster_counts_replication_and_what_is_not_in_sync() -> None:
    with EmbeddedCluster(2) as cluster:
        cluster.create_topic("t", 1, replicas=2)
        leader = cluster.leader_of("t")
        follower = 3 - leader
        address = cluster.bootstrap_servers
        assert run_kcli("produce", "-b", address, "t", "--acks", "all", stdin=b"a\nb\n").status == 0
        found = {id: cluster.nodes[id].metrics() for id in (leader, follower)}
        copied = [found[id][f"{TOPIC_METRICS}{name}"]["Count"] for id, name in (
            (leader, "BytesInPerSec"),
            (leader, "ReplicationBytesOutPerSec"),
            (follower, "ReplicationBytesInPerSec"),
        )]  # fmt: skip
        assert copied[0] > 0
        assert copied[1] == copied[2] >= copied[0]
        assert found[leader][f"{REPLICA_MANAGER}UnderReplicatedPartitions"] == {"Value": 0}
        assert "kafka.controller:type=KafkaController,name=ActiveControllerCount" not in found[leader]
        cluster.kill(follower)
        limit = Limit("the follower is not in sync")
        while True:
            now = cluster.nodes[leader].metrics()
            if now[f"{REPLICA_MANAGER}UnderReplicatedPartitions"]["Value"]:
                break
            limit.check()
        assert now[f"{REPLICA_MANAGER}LeaderCount"]["Value"] >= 1
