"""A cluster in memory whose nodes coordinate transactions, under a manual clock."""

from __future__ import annotations

from importlib import import_module
from itertools import count
from types import SimpleNamespace
from typing import Any

from kcli.broker.handlers import group_requests
from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.log.producer_checks import TransactionMarker
from kcli.broker.serving.request_context import RequestContext
from kcli.broker.transaction.markers import MarkerSender, MarkerWriter
from kcli.broker.transaction.transaction_coordinator import TransactionCoordinator
from kcli.broker.transaction.verification import PartitionVerifier
from kcli.error_codes import ErrorCode
from kcli.protocol.codec import decode, encode
from kcli.protocol.records.scan import iter_records
from kcli.protocol.wire import Request
from kcli.structs import TRANSACTIONS_TOPIC, TopicPartition
from tests.broker.cluster.memory_cluster import CONTROLLER, Death, MemoryCluster
from tests.broker.group.coordinating_cluster import Coordinator
from tests.broker.log.logs import whole_batches
from tests.broker.rig import Answer

STATE = TopicPartition(TRANSACTIONS_TOPIC, 0)
ORDERS = "orders"


class TransactionNode(Coordinator):
    """A node with the parts of a broker that serve transactions."""

    def start(self) -> None:
        self.handled: SimpleNamespace | None = None
        super().start()
        self.replica_manager.on_leadership.append(self._on_leadership_of_transactions)

    def _on_leadership_of_transactions(self, tp: TopicPartition, epoch: int | None) -> None:
        if tp.topic == TRANSACTIONS_TOPIC:
            self.parts_of_broker().transactions.partitions.on_leadership(tp.partition, epoch)

    def parts_of_broker(self) -> SimpleNamespace:
        """The parts of `Broker` that handlers of transactions use, made at the first use."""
        if self.handled is None:
            cluster, manager, groups = self.node_cluster, self.replica_manager, self.group_parts()
            peers: Any = self.cluster.network.peers(self.id)
            writer = MarkerWriter(
                manager,
                groups.partitions.error_of_partition,
                lambda number, producer, is_commit: groups.offsets.end_transaction(
                    number, producer, is_commit=is_commit
                ),
            )
            self.markers: list[TransactionMarker] = []
            sender = MarkerSender(cluster, writer.write, peers, self.timer, self.clock)
            ids = self.cluster.producer_ids  # type: ignore[attr-defined]
            transactions = TransactionCoordinator(
                self.config, cluster, manager, sender, lambda: next(ids), self.timer, self.clock
            )
            verifier = PartitionVerifier(cluster, lambda: transactions, manager.partition_or_error, peers, self.clock)
            self.handled = SimpleNamespace(
                **vars(groups),
                replica_manager=manager,
                config=self.config,
                clock=self.clock,
                timer=self.timer,
                transactions=transactions,
                marker_sender=sender,
                marker_writer=writer,
                verifier=verifier,
                node=self,
                group_partitions=groups.partitions,
            )
        return self.handled

    def step(self) -> None:
        super().step()
        if self.is_alive and self.handled is not None and self.id not in self.cluster.network.paused:
            self.handled.transactions.tick(self.clock.now_ms(), self.clock.wall_ms())

    def handle(self, request: Any, sender: int) -> Any:
        """Answer a request of another node."""
        return self._call(request, type(request).VERSIONS[1])

    def send(self, request: Request[Any], version: int | None = None) -> Answer:
        """Send a request as a client does."""
        assert self.is_serving
        version = type(request).VERSIONS[1] if version is None else version
        arrived = decode(type(request), bytearray(encode(request, version)), version)
        return Answer(self._call(arrived, version), version)

    def _call(self, request: Any, version: int) -> Any:
        key = type(request).API_KEY
        clock = self.clock
        context = RequestContext(key, version, 1, "client", "c1", "127.0.0.1", clock.now_ms(), clock.wall_ms())
        module = import_module(f"kcli.broker.handlers.{HANDLERS[key].module}")
        parts: Any = self.parts_of_broker()
        if key in group_requests.API_KEYS:
            return group_requests.handle(module, parts.partitions, parts, request, context)
        return module.handle(parts, request, context)


class TransactionCluster(MemoryCluster):
    """Nodes 1 to 3. 1 and 2 have the one partition of __transaction_state, 2 and 3 those of "orders"."""

    member_type = TransactionNode

    def __init__(self, min_isr: int = 1, **properties: Any) -> None:
        self.producer_ids = count(1000)
        super().__init__(3, **properties)
        self.create(ORDERS, [2, 3], [3, 2])
        self.create(TRANSACTIONS_TOPIC, [1, 2], cleanup_policy="compact", min_insync_replicas=min_isr)
        self.run(600)

    def node(self, id: int) -> TransactionNode:
        member = self.member(id)
        assert isinstance(member, TransactionNode)
        return member

    def coordinator(self) -> TransactionNode | None:
        """The leader of the partition of all ids."""
        leader = self.leader(STATE)
        assert leader is None or isinstance(leader, TransactionNode)
        return leader

    def ask(self, request: Request[Any], version: int, tp: TopicPartition = STATE) -> Any:
        """Ask a partition's leader until there is one and its answer is no reason to try again, for at most a minute.

        The last answer is returned.
        """
        answered = None
        for _ in range(600):
            leader = self.leader(tp)
            if isinstance(leader, TransactionNode) and leader.id not in self.network.paused:
                try:
                    answer = leader.send(request, version)
                except Death:
                    leader.kill()
                    continue
                for _ in range(200):
                    if answer.is_there or not leader.is_alive:
                        break
                    self.run(50)
                if answer.is_there:
                    answered = answer.value
                    if not _is_temporary(answered):
                        return answered
            self.run(100)
        return answered

    def stop_replication_from(self, node: int) -> None:
        """Keep the followers from fetching from this node; its heartbeats go on."""
        for other in {1, 2, 3} - {node}:
            self.network.cut(node, other)

    def committed(self, number: int) -> list[bytes]:
        """Return what a read_committed consumer finds in a partition of orders, in its order."""
        tp = TopicPartition(ORDERS, number)
        leader = self.leader(tp)
        assert leader is not None
        log = leader.log_of(tp)
        found: list[bytes] = []
        open_values: dict[int, list[tuple[int, bytes]]] = {}
        rows: list[tuple[int, bytes]] = []
        for segment in log.segments:
            for info in whole_batches(segment.file.read_at(0, segment.size)):
                if info.last_offset >= log.last_stable_offset:
                    continue
                records = list(iter_records(info.records))
                if info.attributes & 0x20:
                    ended = open_values.pop(info.producer_id, [])
                    if records[0].key == b"\0\0\0\1":
                        rows += ended
                else:
                    values = open_values.setdefault(info.producer_id, [])
                    values += [(record.offset, record.value or b"") for record in records]
        found += [value for _, value in sorted(rows)]
        return found


_TEMPORARY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


def _is_temporary(answer: Any) -> bool:
    from tests.broker.transaction.harness import error_codes

    return any(code in _TEMPORARY for code in error_codes(answer))


__all__ = ["CONTROLLER", "ORDERS", "STATE", "TransactionCluster", "TransactionNode"]
