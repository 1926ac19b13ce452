"""Replicas of partitions in memory that fetch from each other, under a manual clock."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

from kcli.broker.config import BrokerConfig
from kcli.broker.log.log import Log
from kcli.broker.log.log_config import LogConfig
from kcli.broker.log_manager import LogManager
from kcli.broker.replication.fetchers import ReplicaFetchers
from kcli.broker.serving.timer import Timer
from kcli.broker.testing.memory_files import MemoryFiles
from kcli.clock import ManualClock
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.structs import TopicPartition
from tests.broker.cluster.memory_peers import MemoryNetwork
from tests.broker.rig import batch

TP = TopicPartition("orders", 0)
_NAMESPACE = UUID(int=42)


def topic_id(topic: str) -> UUID:
    return uuid5(_NAMESPACE, topic)


class Replica:
    """A node with logs. It answers fetches for the partitions in `leads`, which has their leader epochs."""

    def __init__(self, cluster: Replicas, node_id: int, **properties: Any) -> None:
        self.cluster = cluster
        self.id = node_id
        self.files = MemoryFiles()
        self.config = BrokerConfig.from_properties(
            {"node.id": str(node_id), **{name.replace("_", "."): str(value) for name, value in properties.items()}}
        )
        self.start()

    def start(self) -> None:
        self.timer = Timer()
        self.log_manager = LogManager(f"/data{self.id}", self.files, self.config, self.cluster.clock)
        self.log_manager.open(lambda topic: self.cluster.log_config)
        self.leads: dict[TopicPartition, int] = {}
        self.completed: list[TopicPartition] = []
        self.failures: list[OSError] = []
        self.errors: dict[TopicPartition, ErrorCode] = {}  # instead of an answer
        self.sessions: dict[int, dict[tuple[UUID, int], FetchPartition]] = {}
        self.told: dict[int, dict[tuple[UUID, int], tuple[int, int]]] = {}
        self.has_sessions = True
        self.fetchers = ReplicaFetchers(
            self, self.cluster.network.peers(self.id), self.timer, self.cluster.clock, self.config,
            broker_epoch=lambda: 100 + self.id,
        )  # fmt: skip
        self.cluster.network.serve(self.id, self.handle)

    def kill(self) -> None:
        """Die as by kill -9."""
        self.fetchers.shutdown()
        self.log_manager.close(clean=False)
        self.cluster.network.serve(self.id, None)

    def log(self, tp: TopicPartition = TP) -> Log:
        return self.log_manager.create(tp, topic_id(tp.topic), self.cluster.log_config)

    # ---- what ReplicaManager does ----

    def complete_waiting(self, tp: TopicPartition) -> None:
        self.completed.append(tp)

    def offline(self, tp: TopicPartition, error: OSError) -> BrokerError:
        self.failures.append(error)
        self.log_manager.fail(str(error))
        return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)

    # ---- roles ----

    def lead(self, epoch: int, tp: TopicPartition = TP) -> None:
        self.fetchers.stop(tp)
        self.leads[tp] = epoch
        log = self.log(tp)
        log.epochs.assign(epoch, log.log_end_offset)

    def follow(self, leader: int, epoch: int, tp: TopicPartition = TP) -> None:
        self.leads.pop(tp, None)
        self.log(tp)
        self.fetchers.follow(tp, topic_id(tp.topic), leader, epoch)

    def write(self, *values: str, tp: TopicPartition = TP, committed: bool = True, **options: Any) -> None:
        """Append a batch as the leader; `committed`: move the high watermark."""
        log = self.log(tp)
        log.append(
            bytearray(batch(*values, **options)), leader_epoch=self.leads[tp], now_wall_ms=self.cluster.clock.wall_ms()
        )
        if committed:
            log.advance_high_watermark(log.log_end_offset)

    def contents(self, tp: TopicPartition = TP) -> bytes:
        """The bytes of all batches."""
        return b"".join(segment.file.read_at(0, segment.size) for segment in self.log(tp).segments)

    # ---- answers ----

    def handle(self, request: Any, sender: int) -> Any:
        if isinstance(request, ListOffsetsRequest):
            return self._list_offsets(request)
        assert isinstance(request, FetchRequest)
        assert request.replica_state.replica_id == sender
        if request.session_epoch == 0:
            rows: dict[tuple[UUID, int], FetchPartition] = {}
            session_id = len(self.sessions) + 1 if self.has_sessions else 0
            if session_id:
                self.sessions[session_id] = rows
        elif request.session_id not in self.sessions:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        else:
            session_id, rows = request.session_id, self.sessions[request.session_id]
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                del rows[topic.topic_id, number]
        for asked_topic in request.topics:
            for asked in asked_topic.partitions:
                rows[asked_topic.topic_id, asked.partition] = asked
        answers = [(id, self._fetch(id, asked)) for (id, _), asked in rows.items()]
        marks = {(id, row.partition_index): (row.high_watermark, row.log_start_offset) for id, row in answers}
        told = self.told.setdefault(session_id, {})
        sent = [(id, row) for id, row in answers if row.records or row.error_code or row.diverging_epoch.epoch >= 0]
        news = [(id, row) for id, row in answers if (id, row) not in sent]
        news = [(id, row) for id, row in news if told.get(key := (id, row.partition_index)) != marks[key]]
        told.update(marks)
        rows_sent = sent + news if request.session_epoch else answers
        responses = [FetchableTopicResponse(topic_id=id, partitions=[row]) for id, row in rows_sent]
        response = FetchResponse(session_id=session_id, responses=responses)
        return response if sent else self.cluster.later(response, request.max_wait_ms)

    def _fetch(self, id: UUID, asked: FetchPartition) -> PartitionData:
        tp = next(
            one for one in self.log_manager.logs if topic_id(one.topic) == id and one.partition == asked.partition
        )
        code, log = self._refusal(tp, asked.current_leader_epoch), self.log(tp)
        row = PartitionData(
            partition_index=asked.partition, error_code=code, high_watermark=log.high_watermark,
            log_start_offset=log.log_start_offset, records=b"",
        )  # fmt: skip
        if code:
            return row
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.end_offset_for_epoch(asked.last_fetched_epoch)
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                row.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
                return row
        try:
            read = log.read(
                asked.fetch_offset, asked.partition_max_bytes, upto=log.log_end_offset, min_one_message=True
            )
        except BrokerError as error:
            row.error_code = error.code
            return row
        row.records = b"" if read.records is None else bytes(read.records)
        return row

    def _refusal(self, tp: TopicPartition, epoch: int) -> ErrorCode:
        if tp in self.errors:
            return self.errors[tp]
        if tp not in self.leads:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch != self.leads[tp]:
            return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leads[tp] else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topic, asked = request.topics[0], request.topics[0].partitions[0]
        tp = TopicPartition(topic.name, asked.partition_index)
        row = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
        row.error_code = self._refusal(tp, asked.current_leader_epoch)
        if not row.error_code:
            log = self.log(tp)
            row.offset = log.log_end_offset if asked.timestamp == -1 else log.log_start_offset
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=[row])])


class Replicas:
    """Nodes and their network."""

    def __init__(self, count: int = 2, *, log_config: LogConfig | None = None, **properties: Any) -> None:
        self.clock = ManualClock(now_ms=1000)
        self.network = MemoryNetwork(self.clock)
        self.log_config = log_config or LogConfig(segment_bytes=600, index_interval_bytes=100)
        self._later: list[tuple[float, Any, Any]] = []
        self.nodes = [Replica(self, node_id, **properties) for node_id in range(1, count + 1)]

    def later(self, response: Any, delay_ms: float) -> Any:
        """A `Pending` that completes after a delay, as a fetch that waits for records."""
        from kcli.broker.serving.pending import Pending

        pending: Pending[Any] = Pending()
        self._later.append((self.clock.now_ms() + delay_ms, pending, response))
        return pending

    def answer_waiting(self) -> None:
        """Answer the fetches that wait for records, as an append does."""
        waiting, self._later = self._later, []
        for _, pending, response in waiting:
            pending.complete(response)

    def run(self, ms: float = 0, step_ms: float = 5) -> None:
        """Let this time pass, and everything happen that is due."""
        end_ms = self.clock.now_ms() + ms
        self.answer_waiting()
        while True:
            for _ in range(20):
                for node in self.nodes:
                    node.timer.advance(self.clock.now_ms())
                self.network.run()
            due = [row for row in self._later if row[0] <= self.clock.now_ms()]
            self._later = [row for row in self._later if row not in due]
            for _, pending, response in due:
                pending.complete(response)
            if self.clock.now_ms() >= end_ms:
                return
            self.clock.advance(min(step_ms, end_ms - self.clock.now_ms()))

    def settle(self, ms: float = 3000) -> None:
        """Let time pass, at the end with watermarks to all followers."""
        self.run(ms, step_ms=50)
        self.answer_waiting()
        self.run(600, step_ms=50)

    def fetches(self, source: int, target: int) -> list[FetchRequest]:
        return [
            request
            for sender, receiver, request in self.network.delivered
            if (sender, receiver) == (source, target) and isinstance(request, FetchRequest)
        ]
