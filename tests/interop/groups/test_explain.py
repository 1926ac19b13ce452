"""`kcli group explain` is right about each cause that it knows: every one staged with members of other makers.

On our broker and on Apache's where both can; transactions, KIP-848 groups and several nodes on Apache's.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient, NewPartitions

from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.routing import ask_any, ask_node
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.rows import NewRecord
from tests.cli.fake import run_kcli
from tests.interop.groups.members import MemberProcess, confluent_member, kcat_member
from tests.real_kafka import Kafka
from tests.real_kafka_cluster import KafkaCluster

Found = dict[str, dict[str, Any]]
NOT_FOUND = 3
LONG = {"session_timeout_ms": 45_000, "max_poll_interval_ms": 60_000}


def explained(kafka: Kafka, group: str, interval_s: float = 0.2, status: int = 0) -> Found:
    """What is found, by kind."""
    result = run_kcli(
        *("group", "explain", group, "-b", kafka.bootstrap_servers, "--interval", str(interval_s), "--output", "json")
    )
    assert result.status in (0, status), result.err
    (item,) = json.loads(result.text)["items"]
    return {finding["finding"]: finding for finding in item.get("findings", ())}


def until_found(kafka: Kafka, group: str, kind: str, interval_s: float = 0.2, timeout_s: float = 20) -> Found:
    """Look until this is found: what members and brokers do takes a moment."""
    deadline = time.monotonic() + timeout_s
    while kind not in (found := explained(kafka, group, interval_s, NOT_FOUND)):
        assert time.monotonic() < deadline, found
    return found


def fill(kafka: Kafka, topic: str, records: dict[int, int], **how: Any) -> None:
    """So many records into each of these partitions."""
    producer = kafka.ordered_producer()
    for partition, number in records.items():
        for _ in range(number):
            producer.produce(topic, b"x" * 100, partition=partition, **how)
    assert producer.flush(30) == 0


def commit(kafka: Kafka, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit for a group that has no members, as who assigns partitions to himself does."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    done = consumer.commit(offsets=[At(topic, *it) for it in offsets.items()], asynchronous=False)
    assert not [at.error for at in done if at.error]
    consumer.close()


@contextmanager
def meanwhile(work: Callable[[], None], every_s: float = 0.02) -> Iterator[None]:
    """`work` is done again and again until the block ends."""
    over = threading.Event()

    def go() -> None:
        while not over.wait(every_s):
            work()

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


def admin(kafka: Kafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


# Offsets


def test_data_lost_and_offsets_that_never_were(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(3), any_kafka.new_name("g")
    fill(any_kafka, topic, {0: 10, 1: 10, 2: 5})
    commit(any_kafka, group, topic, {0: 2, 1: 99, 2: 5})
    client = admin(any_kafka)
    client.delete_records([At(topic, 0, 7)])[At(topic, 0)].result(30)

    found = explained(any_kafka, group)

    assert set(found) == {"committed-below-start", "committed-beyond-end", "no-members"}
    assert found["committed-below-start"]["subject"] == f"{topic}-0"
    assert "5 records" in found["committed-below-start"]["evidence"]
    assert found["committed-beyond-end"]["subject"] == f"{topic}-1"
    assert "committed at 99, but its log ends at 10" in found["committed-beyond-end"]["evidence"]
    assert found["no-members"]["severity"] == "problem"


def test_a_group_that_has_read_all_and_gone_home(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("g")
    fill(any_kafka, topic, {0: 5})
    commit(any_kafka, group, topic, {0: 5})
    assert [(kind, it["severity"]) for kind, it in explained(any_kafka, group).items()] == [("no-members", "note")]


def test_commits_that_come_from_nobody_in_the_group_and_a_lag_that_shrinks(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("g")
    fill(any_kafka, topic, {0: 5000})
    commit(any_kafka, group, topic, {0: 0})
    reader = Consumer({"bootstrap.servers": any_kafka.bootstrap_servers, "group.id": group})
    at = iter(range(1, 5000))

    def read_on() -> None:
        reader.commit(offsets=[At(topic, 0, next(at))], asynchronous=False)

    with meanwhile(read_on):
        found = explained(any_kafka, group, 0.5)
    reader.close()

    assert set(found) == {"commits-without-members", "lag-shrinks"}


def test_lag_that_grows_and_one_partition_far_behind(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(4), any_kafka.new_name("g")
    fill(any_kafka, topic, {0: 20, 1: 20, 2: 2000, 3: 20})
    commit(any_kafka, group, topic, dict.fromkeys(range(4), 10))
    with meanwhile(lambda: fill(any_kafka, topic, {0: 2})):
        found = explained(any_kafka, group, 0.4)

    assert set(found) == {"lag-grows", "one-far-behind", "no-members"}
    assert found["one-far-behind"]["subject"] == f"{topic}-2"
    assert "owned by nobody" in found["one-far-behind"]["evidence"]
    assert f"Most on {topic}-0" in found["lag-grows"]["evidence"]


def test_retention_will_take_what_is_not_read(any_kafka: Kafka) -> None:
    hour = 3_600_000
    topic, group = any_kafka.new_topic(2, retention_ms=hour), any_kafka.new_name("g")
    sizes = any_kafka.new_topic(retention_ms=-1, retention_bytes=5000)
    fill(any_kafka, topic, {0: 5}, timestamp=int(time.time() * 1000) - 55 * 60_000)
    fill(any_kafka, topic, {1: 5})
    fill(any_kafka, sizes, {0: 100})
    commit(any_kafka, group, topic, {0: 0, 1: 0})
    commit(any_kafka, group, sizes, {0: 0})

    by_time = explained(any_kafka, group)
    commit(any_kafka, group, topic, {0: 5, 1: 5})
    by_size = explained(any_kafka, group)

    # Of several findings of a kind `explained` keeps the last: that of the topic with a limit by size sorts behind.
    assert by_time["retention-overtakes"]["severity"] == "problem"
    assert by_size["retention-overtakes"]["subject"] == f"{sizes}-0"
    assert "the topic keeps 5.0 kB of each partition" in by_size["retention-overtakes"]["evidence"]


def test_a_topic_that_was_deleted(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("g")
    kept = any_kafka.new_topic()
    fill(any_kafka, topic, {0: 5})
    commit(any_kafka, group, kept, {0: 0})
    with confluent_member(any_kafka, group, [topic, kept], commit="none") as reader:
        reader.wait_assigned(2)
        client = admin(any_kafka)
        client.delete_topics([topic])[topic].result(30)
        found = until_found(any_kafka, group, "topic-gone")
    assert found["topic-gone"]["subject"] == topic


# Members


def test_a_rebalance_that_waits_for_a_member_that_does_not_poll(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(4), any_kafka.new_name("g")
    with (
        confluent_member(any_kafka, group, topic, client_id="well", **LONG) as well,
        confluent_member(any_kafka, group, topic, client_id="stuck", **LONG) as stuck,
    ):
        stuck.wait_assigned(2)
        well.wait_assigned(2)
        stuck.pause()
        with confluent_member(any_kafka, group, topic, client_id="new", **LONG):
            found = until_found(any_kafka, group, "rebalancing")
            while found["rebalancing"]["severity"] != "problem" or "Newly" not in found["rebalancing"]["evidence"]:
                found = until_found(any_kafka, group, "rebalancing")
        evidence = found["rebalancing"]["evidence"]
        assert "PreparingRebalance at both looks" in evidence
        before, _, newly = evidence.partition("Newly joined")
        assert "stuck-" in before
        assert "new-" in newly
        stuck.kill()


def test_members_without_work_and_partitions_without_members(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(1), any_kafka.new_name("g")
    how = {"topic_metadata_refresh_interval_ms": 600_000, "metadata_max_age_ms": 600_000}
    with confluent_member(any_kafka, group, topic, **how), confluent_member(any_kafka, group, topic, **how):
        found = until_found(any_kafka, group, "idle-member")
        assert "has 1 partition, and 2 members share them" in found["idle-member"]["evidence"]

        client = admin(any_kafka)
        client.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
        found = until_found(any_kafka, group, "unassigned")
        assert found["unassigned"]["subject"] == f"{topic}-1"


def test_a_silent_member_and_one_that_never_commits(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(2), any_kafka.new_name("g")
    fill(any_kafka, topic, {0: 5, 1: 5})
    commit(any_kafka, group, topic, {0: 1})
    with confluent_member(any_kafka, group, topic, commit="none", client_id="mute") as mute:
        mute.wait_assigned(2)
        found = until_found(any_kafka, group, "never-committed")
    assert found["never-committed"]["subject"] == f"{topic}-1"
    assert found["silent-member"]["subject"].startswith("mute-")


def test_static_members_that_have_gone(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(2), any_kafka.new_name("g")
    fill(any_kafka, topic, {0: 3, 1: 3})
    with (
        confluent_member(any_kafka, group, topic, instance_id="pod-0") as first,
        confluent_member(any_kafka, group, topic, instance_id="pod-1", session_timeout_ms=3000) as second,
    ):
        first.wait_assigned(1)
        second.wait_assigned(1)
        fill(any_kafka, topic, {0: 3, 1: 3})
        first.wait_records(1)
        second.wait_records(1)
        second.kill()
        fill(any_kafka, topic, {0: 3, 1: 3})

        found = until_found(any_kafka, group, "static-member-gone")
        assert found["static-member-gone"]["subject"].startswith("pod-1 (static)")
        assert "committed nothing" in found["static-member-gone"]["evidence"]
        assert "silent-member" not in found  # the other one goes on

        found = explained(any_kafka, group, 3.5)  # its session runs out between these looks
        assert "no longer is" in found["static-member-gone"]["evidence"]


def test_two_deployments_under_one_group_id(any_kafka: Kafka) -> None:
    topics, group = [any_kafka.new_topic(), any_kafka.new_topic()], any_kafka.new_name("g")
    with confluent_member(any_kafka, group, topics[:1]), kcat_member(any_kafka, group, topics):
        found = until_found(any_kafka, group, "mixed-subscriptions")
    assert "1 member: " in found["mixed-subscriptions"]["evidence"]


# KIP-848 groups


def stable_pair(kafka: Kafka, group: str, topic: str, **second: Any) -> tuple[MemberProcess, MemberProcess]:
    """Two members with a partition each, the first of them of the new protocol."""
    one = confluent_member(kafka, group, topic, protocol="consumer", client_id="one")
    one.wait_assigned(2)
    two = confluent_member(kafka, group, topic, **second)
    two.wait_assigned(1)
    one.wait_assigned(1)
    return one, two


def test_classic_and_new_members_together(real_kafka: Kafka) -> None:
    topic, group = real_kafka.new_topic(2), real_kafka.new_name("g")
    one, two = stable_pair(real_kafka, group, topic, client_id="old")
    with one, two:
        found = until_found(real_kafka, group, "mixed-protocols")
    assert "Classic: old" in found["mixed-protocols"]["evidence"]


def test_a_static_member_of_the_new_protocol_that_closed(real_kafka: Kafka) -> None:
    topic, group = real_kafka.new_topic(2), real_kafka.new_name("g")
    fill(real_kafka, topic, {0: 1, 1: 1})
    one, two = stable_pair(real_kafka, group, topic, protocol="consumer", instance_id="pod-9")
    with one, two:
        two.leave()
        found = until_found(real_kafka, group, "static-member-gone")
    assert found["static-member-gone"]["severity"] == "problem"
    assert "keeps" in found["static-member-gone"]["evidence"]
    assert found["static-member-gone"]["subject"].startswith("pod-9 (static)")


def test_a_member_of_the_new_protocol_that_does_not_let_go(real_kafka: Kafka) -> None:
    topic, group = real_kafka.new_topic(2), real_kafka.new_name("g")
    with confluent_member(real_kafka, group, topic, protocol="consumer", client_id="holder") as holder:
        holder.wait_assigned(2)
        holder.pause()
        with confluent_member(real_kafka, group, topic, protocol="consumer", client_id="waiter"):
            found = until_found(real_kafka, group, "rebalancing")
            while found["rebalancing"]["severity"] != "problem" or "waiter" not in found["rebalancing"]["evidence"]:
                found = until_found(real_kafka, group, "rebalancing")
        assert "holder (" in found["rebalancing"]["evidence"]
        holder.kill()


# Under the group


def test_a_transaction_that_pins_the_last_stable_offset(real_kafka: Kafka) -> None:
    topic, group, name = real_kafka.new_topic(), real_kafka.new_name("g"), real_kafka.new_name("tx")
    fill(real_kafka, topic, {0: 4})
    producer = Producer({"bootstrap.servers": real_kafka.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"pinned", partition=0)
    producer.flush(30)
    fill(real_kafka, topic, {0: 3})
    commit(real_kafka, group, topic, {0: 4})

    found = explained(real_kafka, group)["open-transaction"]

    assert found["severity"] == "problem"
    assert f"transactional id {name}) has been open for" in found["evidence"]
    assert "begins at 4: the last stable offset stays at 4, with 4 offsets behind it" in found["evidence"]
    assert "aborts the transaction in 5" in found["advice"]  # of the producer's 60 s
    told = producers_told(real_kafka, topic)
    assert f"producer {told['ProducerId']} (epoch {told['ProducerEpoch']}," in found["evidence"]

    producer.commit_transaction(30)
    assert "open-transaction" not in explained(real_kafka, group)


def producers_told(kafka: Kafka, topic: str) -> dict[str, str]:
    """The one producer with an open transaction, as Apache's own tool tells it."""
    arguments = (
        "--bootstrap-server",
        kafka.bootstrap_servers,
        "describe-producers",
        "--topic",
        topic,
        "--partition",
        "0",
    )
    lines = kafka.tool("TransactionsCommand", *arguments).stdout.splitlines()
    rows = [dict(zip(lines[0].split(), line.split(), strict=True)) for line in lines[1:] if line.strip()]
    (found,) = [row for row in rows if row["CurrentTransactionStartOffset"] == "4"]
    return found


@pytest.fixture(scope="module")
def cluster(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Two nodes that do not ask the coordinator whether a transaction is open, as no broker did before 3.6."""
    careless = {"transaction.partition.verification.enable": "false"}
    kafka = KafkaCluster(tmp_path_factory.mktemp("cluster"), kafka_jars, settings=careless)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.kill()


def write_unknown_transaction(kafka: Kafka, topic: str) -> int:
    """A record in a transaction that no coordinator has heard of; its producer id."""
    with closing(connect(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers}))) as client:
        deadline_ms = client.clock.now_ms() + 20_000
        leader = client.topics_metadata([topic], deadline_ms).nodes[1]
        given = ask_any(client, InitProducerIdRequest(transactional_id=None), deadline_ms)
        while given.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # the first producer id of a broker
            client.sleep(20)
            given = ask_any(client, InitProducerIdRequest(transactional_id=None), deadline_ms)
        assert given.error_code == 0
        batch = build_batch(
            [NewRecord(None, b"hangs", int(time.time() * 1000), [])],
            producer_id=given.producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(transactional_id="nobody", acks=-1, timeout_ms=10_000, topic_data=[data])
        answer = ask_node(client, leader, request, deadline_ms, max_version=11)
        assert answer.responses[0].partition_responses[0].error_code == 0
        return given.producer_id


@pytest.mark.real_kafka
def test_a_transaction_that_hangs_and_the_advice_that_ends_it(cluster: KafkaCluster) -> None:
    topic, group = cluster.create_placed_topic("payments", [[1]]), "accounting"
    fill(cluster, topic, {0: 2})
    producer_id = write_unknown_transaction(cluster, topic)
    commit(cluster, group, topic, {0: 2})

    found = explained(cluster, group)["open-transaction"]

    assert found["severity"] == "problem"
    assert f"producer {producer_id} (epoch 0) has been open for at least" in found["evidence"]
    advised = re.search(r"kafka-transactions\.sh (abort .*)\.$", found["advice"])
    assert advised is not None
    assert "No coordinator knows this transaction" in found["advice"]
    cluster.tool("TransactionsCommand", "--bootstrap-server", cluster.bootstrap_servers, *advised[1].split())
    assert "open-transaction" not in explained(cluster, group)


@pytest.mark.real_kafka
def test_a_partition_whose_only_broker_is_killed(cluster: KafkaCluster) -> None:
    topic, group = cluster.create_placed_topic("orders", [[1], [2]]), "billing"
    fill(cluster, topic, {0: 3, 1: 3})
    commit(cluster, group, topic, {0: 3, 1: 1})
    assert set(explained(cluster, group)) == {"no-members"}

    cluster.nodes[2].kill()
    deadline = time.monotonic() + 30
    while cluster_leader(cluster, topic, 1) != -1:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    found = explained(cluster, group)

    assert found["leaderless"]["subject"] == "orders-1"
    assert "replicas on 2" in found["leaderless"]["evidence"]
    assert "broker 2 is away" in found["leaderless"]["evidence"]
    assert "unreadable" not in found


def cluster_leader(kafka: Kafka, topic: str, partition: int) -> int:
    metadata = admin(kafka).list_topics(topic, timeout=10)
    leader: int = metadata.topics[topic].partitions[partition].leader
    return leader
