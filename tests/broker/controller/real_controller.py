"""Apache Kafka's controller as a stage for the stories: its brokers are played by the test, over one connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from kcli.broker.cluster.image import Changes, MetadataImage
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.broker_registration import BrokerRegistrationResponse
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kcli.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcli.protocol.metadata_records import decode_record
from kcli.protocol.records.batch import read_batch_info, walk_batches
from kcli.protocol.records.scan import iter_records
from kcli.protocol.wire import Message, Request
from tests.broker.controller.quorum import ELR, Scene
from tests.broker.wire import Wire
from tests.limits import Limit
from tests.real_kafka import KafkaNode

R = TypeVar("R", bound=Message)
_METADATA = UUID(int=1)
_SESSION_MS = 120_000.0


class ControllerOnly(KafkaNode):
    """A node of Apache Kafka with the role of a controller only."""

    def __init__(self, folder: Path, jars: Path) -> None:
        super().__init__(folder, jars)
        self.port = self.ports["CONTROLLER"]
        own = {
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{self.port}",
            "advertised.listeners": f"CONTROLLER://127.0.0.1:{self.port}",
            "controller.quorum.append.linger.ms": "0",
            "broker.session.timeout.ms": f"{_SESSION_MS:.0f}",
            "auto.leader.rebalance.enable": "false",
            "num.partitions": "1",
        }
        lines = [line for line in self.config_file.read_text().splitlines() if line.partition("=")[0] not in own]
        lines = [line for line in lines if not line.startswith("inter.broker.listener.name=")]
        lines += [f"{name}={value}" for name, value in own.items()]
        self.config_file.write_text("".join(f"{line}\n" for line in lines))


class RealScene(Scene):
    """A running controller of Apache Kafka. `clear` makes it empty for the next story."""

    session_ms = _SESSION_MS

    def __init__(self, node: ControllerOnly) -> None:
        self._wire = Wire(f"127.0.0.1:{node.port}")
        self._image = MetadataImage()
        self._epoch = 0
        self.update()

    @property
    def image(self) -> MetadataImage:
        return self._image

    def close(self) -> None:
        self._wire.sock.close()

    def send(self, request: Request[R], version: int | None = None, *, principal: str = "User:ANONYMOUS") -> R:
        assert principal == "User:ANONYMOUS", "this stage knows nobody"
        response: R = self._wire.ask(request, request.VERSIONS[1] if version is None else version)
        self.update()
        return response

    def register(self, node_id: int, **fields: Any) -> BrokerRegistrationResponse:
        """Register a broker. The session of its last process, which would have to expire first, is removed."""
        response = super().register(node_id, **fields)
        if response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            assert self.send(UnregisterBrokerRequest(broker_id=node_id)).error_code == 0
            response = super().register(node_id, **fields)
        return response

    def kill(self, *node_ids: int) -> None:
        """Fence brokers at once, as at the end of their sessions."""
        for node_id in node_ids:
            assert self.beat(node_id, want_fence=True).is_fenced

    def update(self) -> None:
        """Read the log up to its high watermark."""
        limit = Limit("the end of the metadata log")
        while True:
            limit.check()
            row = self._fetch()
            self._epoch = max(self._epoch, row.current_leader.leader_epoch)
            if row.error_code:
                continue
            self._apply(row)
            if self._image.offset + 1 >= row.high_watermark > 0:
                return

    def _fetch(self) -> PartitionData:
        partition = FetchPartition(
            current_leader_epoch=self._epoch,
            fetch_offset=self._image.offset + 1,
            last_fetched_epoch=max(self._image.epoch, 0),
            log_start_offset=0,
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=99),
            max_bytes=8 << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=_METADATA, partitions=[partition])],
        )
        response = self._wire.ask(request, 18)
        found: PartitionData = response.responses[0].partitions[0]
        return found

    def _apply(self, row: PartitionData) -> None:
        data = memoryview(bytes(row.records or b""))
        for start in walk_batches(data, 0, len(data)).starts:
            batch = read_batch_info(data, start)
            if batch.last_offset >= row.high_watermark:
                return
            if not batch.is_control:
                for record in iter_records(batch.records):
                    self._image.apply(decode_record(record.value), Changes())
            self._image.offset, self._image.epoch = batch.last_offset, batch.leader_epoch

    def clear(self, *, elr: bool) -> None:
        """Remove all topics and brokers, and switch ELR on or off."""
        if self.image.topics:
            names = [DeleteTopicState(name=name) for name in self.image.topics]
            request = DeleteTopicsRequest(topics=names, timeout_ms=10_000)
            responses = self.send(request).responses
            assert not any(row.error_code for row in responses), responses
            assert not self.image.topics
        for node_id in list(self.image.brokers):
            response = self.send(UnregisterBrokerRequest(broker_id=node_id))
            assert response.error_code == 0, response
        if (self.image.features.get(ELR, 0) > 0) != elr:
            key = FeatureUpdateKey(feature=ELR, max_version_level=int(elr), upgrade_type=1 if elr else 2)
            updated = self.send(UpdateFeaturesRequest(feature_updates=[key]))
            assert updated.error_code == 0, updated


@contextmanager
def running_controller(folder: Path, jars: Path) -> Iterator[RealScene]:
    """Start a controller of Apache Kafka, and kill it at the end."""
    node = ControllerOnly(folder, jars)
    node.start()
    try:
        scene = RealScene(node)
        yield scene
        scene.close()
    finally:
        node.kill()
