"""Clusters of Apache Kafka's brokers and ours: every node fails in turn while Java and librdkafka write.

After each story all replicas have the same bytes, each acknowledged record exactly once, and equal high watermarks.
`KCLI_TEST_CLUSTERS=control` runs the stories on three brokers of Apache Kafka.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from kcli.broker.coordinator_log import key_hash
from kcli.errors import KcliError
from kcli.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.rig import batch
from tests.broker.wire import Wire
from tests.interop.cluster.nodes import KINDS, MixedCluster
from tests.interop.cluster.readers import GroupReader, check_readers, coordinator_of, group_of
from tests.interop.cluster.replicas import await_equal_replicas, check_replicas
from tests.interop.cluster.writers import JavaWriter, LibrdkafkaWriter, Writer, await_more
from tests.interop.transaction_kills import CLIENTS, INPUT, OUTPUT, Kcli, await_stable, committed_offset
from tests.interop.transaction_kills import Reader as TransactionReader

pytestmark = [pytest.mark.slow, pytest.mark.real_kafka]

CLUSTERS = {
    "control": ("apache", ("apache", "apache", "apache")),
    "apache-controller": ("apache", ("apache", "kcli", "kcli")),
    "our-controller": ("kcli", ("apache", "kcli", "apache")),
}
CHOSEN = os.environ.get("KCLI_TEST_CLUSTERS", "apache-controller,our-controller").split(",")
PLACEMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
PREFERRED = {number: replicas[0] for number, replicas in enumerate(PLACEMENT)}


class Scene(NamedTuple):
    """A cluster, a topic whose partitions are led by each broker in turn, its writers, and readers in groups.

    Each broker is the preferred coordinator of one group.
    """

    cluster: MixedCluster
    topic: str
    writers: list[Writer]
    readers: list[GroupReader]

    def check(self) -> None:
        await_more(self.writers)
        check_readers(self.cluster, self.readers)
        check_replicas(self.cluster, self.topic, self.writers)


@pytest.fixture(scope="module", params=CHOSEN)
def scene(
    request: pytest.FixtureRequest, kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    controller, brokers = CLUSTERS[request.param]
    cluster = MixedCluster(tmp_path_factory.mktemp(request.param), kafka_jars, controller, brokers)
    writers: list[Writer] = []
    readers: list[GroupReader] = []
    try:
        cluster.start()
        topic = cluster.create_placed_topic("written", PLACEMENT)
        writers.append(LibrdkafkaWriter(cluster, topic, len(PLACEMENT), per_s=60))
        writers.append(JavaWriter(cluster, topic, cluster.folder / "java", per_s=50))
        cluster.create_placed_topic("__consumer_offsets", PLACEMENT, cleanup_policy="compact")
        readers += (GroupReader(cluster, topic, group_of(number, len(PLACEMENT))) for number in PREFERRED)
        yield Scene(cluster, topic, writers, readers)
        for used in (*writers, *readers):
            used.close()
    finally:
        cluster.kill()


def test_every_broker_leads_and_follows(scene: Scene) -> None:
    assert scene.cluster.leaders(scene.topic) == PREFERRED
    scene.check()


def test_requests_that_replicas_do_not_confirm_in_time_are_answered_with_offsets(scene: Scene) -> None:
    """REQUEST_TIMED_OUT (7), by leaders of both kinds.

    Produce has the offset of the batch that was appended, DeleteRecords the low watermark from before the wait.
    """
    cluster = scene.cluster
    topic = cluster.create_placed_topic("unconfirmed", PLACEMENT)
    for number, leader in PREFERRED.items():
        others = {*cluster.nodes} - {leader}
        with Wire(cluster.nodes[leader].bootstrap_servers) as wire:
            early = partial(_write, wire, topic, number, timeout_ms=20_000)
            cluster.until(lambda early=early: early() == (0, 0, 0), f"{leader} leads {topic}-{number}")
            with _frozen(cluster, others):
                assert _write(wire, topic, number, timeout_ms=200) == (7, 1, 0)
            await_equal_replicas(cluster, topic)
            parts = [DeleteRecordsPartition(partition_index=number, offset=1)]
            delete = DeleteRecordsRequest(timeout_ms=200, topics=[DeleteRecordsTopic(name=topic, partitions=parts)])
            with _frozen(cluster, others):
                [row] = wire.ask(delete, 2).topics[0].partitions
            assert (row.error_code, row.low_watermark) == (7, 0)


def _write(wire: Wire, topic: str, number: int, *, timeout_ms: int) -> tuple[int, int, int]:
    """Write a record with acks=all; return error, offset and log start."""
    data = [PartitionProduceData(index=number, records=batch("value"))]
    of_topic = [TopicProduceData(name=topic, partition_data=data)]
    answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=of_topic), 9)
    [row] = answer.responses[0].partition_responses
    return row.error_code, row.base_offset, row.log_start_offset


@contextmanager
def _frozen(cluster: MixedCluster, numbers: Collection[int]) -> Iterator[None]:
    """Suspend these brokers, for less than their sessions."""
    pids = [pid for number in numbers if (pid := cluster.nodes[number].pid) is not None]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_every_broker_coordinates_a_group(scene: Scene) -> None:
    check_readers(scene.cluster, scene.readers)
    for number, reader in zip(PREFERRED, scene.readers, strict=True):
        assert coordinator_of(scene.cluster, reader.group) == (PREFERRED[number], "STABLE", 1)


def test_every_broker_coordinates_transactions(scene: Scene) -> None:
    """The coordinator of a transaction is one broker, its partitions are led by all three, and so are the offsets'."""
    cluster, servers = scene.cluster, scene.cluster.bootstrap_servers
    cluster.create_placed_topic("__transaction_state", PLACEMENT, cleanup_policy="compact")
    for topic in (INPUT, OUTPUT):
        cluster.create_placed_topic(topic, PLACEMENT)
    expected = []
    for number, make in itertools.product(PREFERRED, CLIENTS):
        transactional_id = group_of(number, len(PLACEMENT)) + make.__name__
        while key_hash(transactional_id) % len(PLACEMENT) != number:
            transactional_id += "x"
        client = make(servers, transactional_id)
        for name, is_commit in (("first", True), ("aborted", False), ("second", True)):
            client.begin()
            for partition in PREFERRED:
                client.send(partition, f"{transactional_id} {name}".encode())
            client.send_offset(number, {"first": 1, "aborted": 7, "second": 2}[name])
            client.commit() if is_commit else client.abort()
            expected += [f"{transactional_id} {name}"] * is_commit
        if make is Kcli:
            client.begin()
            client.send(number, b"open")
            client.send_offset(number, 8)
            fencing = make(servers, transactional_id)
            with pytest.raises(KcliError):
                client.commit()
            fencing.drop()
        assert committed_offset(servers, number) == 2
        client.drop()
    values = TransactionReader(servers).read_to(await_stable(servers))
    assert {
        number: [value for (partition, _), value in sorted(values.items()) if partition == number]
        for number in PREFERRED
    } == dict.fromkeys(PREFERRED, expected)
    await_equal_replicas(cluster, OUTPUT)


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_broker_returns(scene: Scene, kind: str) -> None:
    """SIGKILL: others take its partitions over, writes continue, and it returns to the in-sync replicas."""
    cluster, topic = scene.cluster, scene.topic
    if not cluster.of_kind(kind):
        pytest.skip(f"no broker of kind {kind}")
    number = cluster.of_kind(kind)[-1]
    cluster.elect_preferred_leaders()
    with cluster.without([number]):
        cluster.until(
            lambda: all(
                one.leader not in (-1, number) and number not in one.isr for one in cluster.partitions(topic).values()
            ),
            f"the other brokers lead all partitions without {number}",
        )
        await_more(scene.writers)
    scene.check()
    assert number not in cluster.leaders(topic).values()
    cluster.elect_preferred_leaders()
    cluster.until(lambda: cluster.leaders(topic) == PREFERRED, "the preferred replicas lead")
    scene.check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_controlled_shutdown_moves_leaders_first(scene: Scene, kind: str) -> None:
    cluster, topic = scene.cluster, scene.topic
    if not cluster.of_kind(kind):
        pytest.skip(f"no broker of kind {kind}")
    number = cluster.of_kind(kind)[0]
    cluster.elect_preferred_leaders()
    rebalances = [reader.assignments for reader in scene.readers]
    with cluster.without([number], clean=True) as statuses:
        assert statuses == [143 if kind == "apache" else 0]
        assert number not in cluster.leaders(topic).values()
        await_more(scene.writers)
        check_readers(cluster, scene.readers)
        assert number not in {coordinator_of(cluster, reader.group)[0] for reader in scene.readers}
    scene.check()
    cluster.elect_preferred_leaders()
    for at, reader in zip(PREFERRED, scene.readers, strict=True):
        cluster.until(
            lambda at=at, reader=reader: coordinator_of(cluster, reader.group) == (PREFERRED[at], "STABLE", 1),
            f"broker {PREFERRED[at]} coordinates {reader.group} again",
        )
    check_readers(cluster, scene.readers)
    assert [reader.assignments for reader in scene.readers] == rebalances, "a moved group has rebalanced"


def test_a_reassignment_moves_a_partition_onto_each_kind_and_off_it(scene: Scene) -> None:
    cluster = scene.cluster
    topic = cluster.create_placed_topic(cluster.new_name("moving"), [[1, 2]])
    writer = LibrdkafkaWriter(cluster, topic, 1, per_s=60)
    try:
        for placement in ([2, 3], [3, 1], [1, 2]):
            await_more([writer])
            cluster.reassign(topic, {0: placement})
            assert cluster.partitions(topic)[0].replicas == tuple(placement)
            check_replicas(cluster, topic, [writer])
    finally:
        writer.close()
