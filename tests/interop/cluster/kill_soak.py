"""Three nodes of ours that fail under load: the parties, the faults and the account of a soak.

An idempotent producer of librdkafka writes with acks=all, a reader follows all partitions, and two members of a group
read and commit. Faults raise AssertionError: an acknowledged record that is lost or doubled, a record that a reader has
got and that is not in the log, a committed offset that went back, and replicas that do not get in sync again.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.interop.cluster.cut_proxy import CutProxy
from tests.interop.cluster.nodes import MixedCluster, OurNode
from tests.interop.cluster.replicas import check_replicas, log_bytes, records_of
from tests.interop.cluster.writers import LibrdkafkaWriter, await_more
from tests.real_kafka import free_ports

TOPIC = "soak"
GROUP = "soak-group"
PLACEMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
SESSION_S = 3.0  # broker.session.timeout.ms of `nodes.SETTINGS`


class Reader:
    """A consumer in a thread, with what it got: values by partition and offset, and the offsets it committed."""

    def __init__(self, bootstrap_servers: str, group: str | None) -> None:
        from confluent_kafka import Consumer

        self.values: dict[tuple[int, int], bytes] = {}
        self.committed: dict[int, int] = {}
        self.wrong: list[str] = []
        self._group = group
        settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
        timing = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500, "reconnect.backoff.max.ms": 500}
        name = {"group.id": group or "without-commits"}
        self._consumer = Consumer({"bootstrap.servers": bootstrap_servers, **settings, **timing, **name})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        if self._group is not None:
            self._consumer.subscribe([TOPIC])
        else:
            self._consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in range(len(PLACEMENT))])
        while not self._ended.is_set():
            messages = [one for one in self._consumer.consume(500, 0.2) if one.error() is None]
            for one in messages:
                before = self.values.setdefault((one.partition(), one.offset()), one.value())
                if before != one.value():
                    self.wrong.append(f"{one.partition()}-{one.offset()} was {before!r} and is {one.value()!r}")
            if messages and self._group is not None:
                self._commit()
        self._consumer.close()

    def _commit(self) -> None:
        from confluent_kafka import KafkaException

        try:
            rows = self._consumer.commit(asynchronous=False)
        except KafkaException:
            return  # a rebalance, or no coordinator: the next commit has these offsets too
        for row in rows or ():
            if row.error is None and row.offset >= 0:
                self.committed[row.partition] = max(self.committed.get(row.partition, 0), row.offset)

    def close(self) -> None:
        self._ended.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "a reader does not end"


class KillSoak:
    """The cluster, its parties and their account. `close` stops them."""

    def __init__(self, folder: Path, jars: Path | None, *, seed: int = 0, per_s: float = 200) -> None:
        self.random = random.Random(seed)
        inner = free_ports(len(PLACEMENT))
        self.proxies = {number: CutProxy(port) for number, port in enumerate(inner, 1)}
        more = {number: _inner_listener(inner[number - 1], self.proxies[number].port) for number in self.proxies}
        self.cluster = MixedCluster(folder, jars, "kcli", ["kcli"] * len(PLACEMENT), of_node=more)
        self.rounds = 0
        self._per_s = per_s
        self._writer: LibrdkafkaWriter | None = None
        self._readers: list[Reader] = []
        self._committed: dict[int, int] = defaultdict(int)

    def start(self) -> None:
        self.cluster.start()
        self.cluster.create_placed_topic(TOPIC, PLACEMENT)
        self._writer = LibrdkafkaWriter(self.cluster, TOPIC, len(PLACEMENT), self._per_s)
        servers = self.cluster.bootstrap_servers
        self._readers = [Reader(servers, None), Reader(servers, GROUP), Reader(servers, GROUP)]
        self.check()

    @property
    def writer(self) -> LibrdkafkaWriter:
        assert self._writer is not None
        return self._writer

    # ---- faults: each ends with all nodes running ----

    def kill_node(self, number: int) -> None:
        """SIGKILL, and a start after the end of the session, or before."""
        self.cluster.nodes[number].kill()
        time.sleep(self.random.choice([0.0, 0.5, SESSION_S + 1]))
        self.cluster.nodes[number].start()

    def freeze_node(self, number: int) -> None:
        """SIGSTOP for longer than the session, so that the controller elects other leaders meanwhile."""
        pid = self.cluster.nodes[number].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        others = [one.bootstrap_servers for other, one in self.cluster.nodes.items() if other != number]
        self.cluster.until(lambda: self._is_led_without(number, others), f"others lead instead of {number}", 15)
        os.kill(pid, signal.SIGCONT)

    def cut_node(self, number: int) -> None:
        """No other node reaches this one, which leads a partition, for longer than replica.lag.time.max.ms."""
        self.cluster.elect_leaders([*range(len(PLACEMENT))], TOPIC)
        self.cluster.until(lambda: number in self.cluster.leaders(TOPIC).values(), f"node {number} leads a partition")

        def leads_alone() -> bool:
            return any(one.isr == {number} for one in self.cluster.partitions(TOPIC).values())

        self.proxies[number].cut()
        try:
            self.cluster.until(leads_alone, f"node {number} leads without followers", 20)
        finally:
            self.proxies[number].heal()

    def fill_disk(self, number: int) -> None:
        """Each write to a file larger than now fails, as on a full disk; the node is restarted with space."""
        node = self.cluster.nodes[number]
        assert node.pid is not None
        largest = max(file.stat().st_size for file in node.data.rglob("*.log"))
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (largest + 1000, resource.RLIM_INFINITY))
        others = [one.bootstrap_servers for other, one in self.cluster.nodes.items() if other != number]
        self.cluster.until(lambda: self._is_led_without(number, others), f"others lead instead of {number}", 20)
        node.kill()
        node.start()

    def _is_led_without(self, number: int, servers: Sequence[str]) -> bool:
        """Return whether other nodes lead all partitions, as these nodes say."""
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": ",".join(servers), "log_level": 0})
        described = admin.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions.values()
        return all(one.leader not in (-1, number) for one in described)

    def kill_controller(self, number: int) -> None:
        """SIGKILL of the controller, and of a node while there is no controller."""
        self.cluster.controller.kill()
        self.cluster.nodes[number].kill()
        time.sleep(self.random.choice([0.5, 2.0]))
        self.cluster.controller.start()
        self.cluster.nodes[number].start()

    @property
    def faults(self) -> list[Callable[[int], None]]:
        return [self.kill_node, self.freeze_node, self.cut_node, self.fill_disk, self.kill_controller]

    # ---- rounds ----

    def round(self, fault: Callable[[int], None], number: int) -> None:
        """Run one fault at a node under load, wait until all replicas are in sync again, and check the account."""
        self.rounds += 1
        fault(number)
        await_more([self.writer])
        self.check()
        if self.random.random() < 0.5:
            self.cluster.elect_leaders([*range(len(PLACEMENT))], TOPIC)

    def check(self) -> None:
        """Check the replicas and what the readers got."""
        cluster, names = self.cluster, [TOPIC]
        check_replicas(cluster, TOPIC, [self.writer], dump=False)
        if self._readers:
            cluster.until_in_sync(*names)
        logs = {
            number: records_of(log_bytes(cluster.nodes[state.leader].data / f"{TOPIC}-{number}"))
            for number, state in cluster.partitions(TOPIC).items()
        }
        for reader in self._readers:
            assert not reader.wrong, reader.wrong[0]
            for (number, offset), value in [*reader.values.items()]:
                stored = logs[number].get(offset)
                if stored is None and offset > max(logs[number], default=-1):
                    continue  # read after the copy of the log was made
                assert stored == value, f"a reader got {value!r} at {number}-{offset}, which is {stored!r}"
        self._check_commits()

    def _check_commits(self) -> None:
        wanted: dict[int, int] = defaultdict(int)
        for reader in self._readers:
            for number, offset in [*reader.committed.items()]:
                wanted[number] = max(wanted[number], offset)
        self.cluster.until(lambda: bool(self._stored_commits()) or not wanted, "the group's offsets are served")
        stored = self._stored_commits()
        for number, offset in wanted.items():
            assert stored.get(number, -1) >= offset, f"offset {offset} of {number} was committed, now {stored}"
            assert stored[number] >= self._committed[number], "a committed offset went back"
            self._committed[number] = stored[number]

    def _stored_commits(self) -> dict[int, int]:
        from confluent_kafka import ConsumerGroupTopicPartitions

        asked = self.cluster.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])
        rows: list[Any] = asked[GROUP].result(10).topic_partitions
        return {row.partition: row.offset for row in rows if row.offset >= 0}

    def finish(self) -> str:
        """Stop writing, wait until every reader has all records, and return the account."""
        self.writer.pause()
        last = {one.offset for one in self.writer.acked}
        total = len(self.writer.acked)
        reader = self._readers[0]
        self.cluster.until(lambda: len(reader.values) >= total, f"the reader has {total} records", 30)
        members = self._readers[1:]
        self.cluster.until(
            lambda: len({place for one in members for place in one.values}) >= total,
            f"the group has {total} records",
            40,
        )
        self.check()
        check_replicas(self.cluster, TOPIC, [self.writer])
        assert last
        return f"{self.rounds} rounds, {total} records acknowledged: none lost, none doubled, no committed offset back"

    def close(self, *, keep: bool = False) -> None:
        """Stop all parties and nodes; `keep` leaves the nodes' files."""
        try:
            for reader in self._readers:
                reader.close()
            if self._writer is not None:
                self._writer.close()
        finally:
            self.cluster.kill(keep=keep)
            for proxy in self.proxies.values():
                proxy.close()


def _inner_listener(port: int, advertised: int) -> dict[str, str]:
    """Return the settings of a second listener, for the other nodes, behind a proxy."""
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "listeners": f"{OurNode.CLIENTS},INNER://127.0.0.1:{port}",
        "advertised.listeners": f"{OurNode.CLIENTS},INNER://127.0.0.1:{advertised}",
    }
