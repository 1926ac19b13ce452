"""A cluster of fake brokers behind a `MemorySelector`: logs, leaders, fetch sessions, and scripted answers.

It implements the broker side that the consumer's tests need, by Kafka's rules as measured on 4.3.1. `requests` contains
all requests; `answer_next` replaces the next answer to an API by a function of the request (None: no answer).
"""

from __future__ import annotations

import itertools
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kcli.client.config import ConsumerConfig
from kcli.client.connect import connect
from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.clock import ManualClock
from kcli.error_codes import ErrorCode
from kcli.protocol.codec import decode
from kcli.protocol.headers import decode_request_header, encode_response
from kcli.protocol.messages import api_versions, fetch, find_coordinator, list_offsets, metadata, offset_fetch
from kcli.protocol.messages import offset_for_leader_epoch as epochs
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.registry import ApiKey, request_type
from kcli.structs import TopicPartition
from tests.network.memory import MemoryPeer, MemorySelector

SPOKEN = {
    ApiKey.FETCH: (4, 17),
    ApiKey.LIST_OFFSETS: (1, 10),
    ApiKey.METADATA: (0, 12),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.OFFSET_FETCH: (1, 9),
}


class Batch(NamedTuple):
    base: int
    after: int
    data: bytes


class Log:
    """One partition: batches, leader, and the start offset of each leader epoch. Timestamps are 1000 * offset."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.followers: set[int] = set()
        self.epoch = 0
        self.epoch_starts = {0: 0}
        self.batches: list[Batch] = []
        self.start = 0
        self.end = 0
        self.last_stable: int | None = None
        self.aborted: list[tuple[int, int]] = []

    def append(self, *values: str, **how: Any) -> int:
        """Append one batch with these values and return its first offset. `how` goes to `build_batch`."""
        base = self.end
        records = [NewRecord(None, value.encode(), 1000 * (base + i)) for i, value in enumerate(values)]
        self.append_batch(build_batch(records, base_offset=base, leader_epoch=self.epoch, **how), base + len(values))
        return base

    def append_batch(self, data: bytes, after: int) -> None:
        self.batches.append(Batch(self.end, after, data))
        self.end = after

    def marker(self, producer_id: int, *, commit: bool) -> None:
        """Append the marker of a transaction's end."""
        record = NewRecord(bytes([0, 0, 0, int(commit)]), bytes(6), 0)
        how: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0, "transactional": True, "control": True}
        self.append_batch(build_batch([record], base_offset=self.end, leader_epoch=self.epoch, **how), self.end + 1)

    def lead(self, node_id: int) -> None:
        """Elect a new leader; its epoch starts at the log end."""
        self.leader = node_id
        self.epoch += 1
        self.epoch_starts[self.epoch] = self.end

    def truncate(self, end: int) -> None:
        """Truncate the log, as an unclean election does."""
        self.batches = [batch for batch in self.batches if batch.after <= end]
        self.end = end
        self.epoch_starts = {epoch: start for epoch, start in self.epoch_starts.items() if start <= end}

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        later = [start for other, start in self.epoch_starts.items() if other > epoch]
        largest = max((other for other in self.epoch_starts if other <= epoch), default=-1)
        return largest, min(later, default=self.end)

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = b""
        for batch in self.batches:
            if batch.after > offset and (not found or len(found) + len(batch.data) <= max_bytes):
                found += batch.data
            elif found:
                break
        return found


class Asked(NamedTuple):
    node: int
    version: int
    request: Any


class Session:
    def __init__(self) -> None:
        self.epoch = 0
        self.partitions: dict[TopicPartition, fetch.FetchPartition] = {}
        self.told_end: dict[TopicPartition, int] = {}


class FakeCluster:
    """Nodes 1, 2, ... at 10.0.0.1:9092, 10.0.0.2:9092, ..."""

    def __init__(self, nodes: int = 1) -> None:
        self.clock = ManualClock()
        self.selector = MemorySelector(self.clock)
        self.selector.respond = self._respond
        self.nodes = {number: f"10.0.0.{number}" for number in range(1, nodes + 1)}
        self.racks: dict[int, str] = {}
        self.spoken = dict(SPOKEN)
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.logs: dict[TopicPartition, Log] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.refused_topics: set[str] = set()
        self.undescribed_topics: set[str] = set()  # Metadata refuses them
        self.requests: list[Asked] = []
        self.with_sessions = True
        self.sessions: dict[tuple[int, int], Session] = {}
        self._waiting: dict[MemoryPeer, deque[int]] = {}
        self._session_ids = itertools.count(100)
        self._scripts: dict[ApiKey, deque[Callable[[Any], Any]]] = defaultdict(deque)
        self._topic_numbers = itertools.count(1)

    # --- used by tests

    def topic(self, name: str, partitions: int = 1) -> Log:
        """Create a topic, with leaders in turn, and return the log of partition 0."""
        self.topic_ids[name] = uuid.UUID(int=next(self._topic_numbers))
        for number in range(partitions):
            self.logs[TopicPartition(name, number)] = Log(1 + number % len(self.nodes))
        return self.logs[TopicPartition(name, 0)]

    def add_partition(self, name: str) -> Log:
        """Add a partition to a topic, and return its log."""
        number = sum(tp.topic == name for tp in self.logs)
        self.logs[TopicPartition(name, number)] = log = Log(1 + number % len(self.nodes))
        return log

    def delete(self, name: str) -> None:
        """Delete a topic. Fetch sessions keep its id, also after another topic gets its name."""
        topic_id = self.topic_ids.pop(name)
        for session in self.sessions.values():
            session.partitions = {
                TopicPartition(f"?{topic_id}", tp.partition) if tp.topic == name else tp: it
                for tp, it in session.partitions.items()
            }
        self.logs = {tp: log for tp, log in self.logs.items() if tp.topic != name}

    def client(self, **properties: Any) -> tuple[ConsumerNetworkClient, ConsumerConfig]:
        """Return a client connected to node 1, without jitter."""
        named = {name.replace("_", "."): value for name, value in properties.items()}
        config = ConsumerConfig.from_properties({"bootstrap.servers": "10.0.0.1:9092", **named})
        return connect(config, self.clock, selector=self.selector), config

    def answer_next(self, api: ApiKey, *answers: Callable[[Any], Any]) -> None:
        """Answer the next requests of this API with these functions: from a request to a response, or a whole frame."""
        self._scripts[api].extend(answers)

    def asked(self, api: ApiKey) -> list[Any]:
        """Return the requests of one API so far."""
        return [it.request for it in self.requests if api == it.request.API_KEY]

    def fetches(self, node: int | None = None) -> list[Any]:
        """Return the Fetch requests so far, without those that close a session."""
        return [
            it.request
            for it in self.requests
            if it.request.API_KEY == ApiKey.FETCH and it.request.session_epoch >= 0 and node in (None, it.node)
        ]

    def lose(self, node: int) -> None:
        """Break all connections to a node, and refuse new ones."""
        self.selector.refuse(f"{self.nodes[node]}:9092")
        self.cut(node)

    def cut(self, node: int) -> None:
        """Break all connections to a node."""
        for peer in self.selector.peers:
            if peer.address == f"{self.nodes[node]}:9092":
                peer.reset()

    def come_back(self, node: int) -> None:
        self.selector.listen(f"{self.nodes[node]}:9092")

    # --- the brokers

    def _respond(self, peer: MemoryPeer, frame: bytes) -> None:
        header, start = decode_request_header(frame)
        request = decode(request_type(header.api_key), frame, header.api_version, start)
        node = next(number for number, host in self.nodes.items() if peer.address == f"{host}:9092")
        self.requests.append(Asked(node, header.api_version, request))

        waiting = self._waiting.setdefault(peer, deque())
        ticket = header.correlation_id
        waiting.append(ticket)

        def reply(answer: Any) -> None:
            """Send answers in the order of the requests: one after a waiting Fetch waits too."""
            if waiting[0] != ticket:
                self.selector.at(self.clock.now_ms() + 10, lambda: reply(answer))
            elif answer is not None:
                waiting.popleft()
                if not peer.closed:
                    frame = answer if isinstance(answer, bytes) else None
                    peer.deliver(frame or encode_response(answer, header.api_version, ticket))

        script = self._scripts[ApiKey(header.api_key)]
        if script:
            reply(script.popleft()(request))
        elif header.api_key == ApiKey.FETCH:
            self._fetch_or_wait(node, header.api_version, request, reply)
        else:
            reply(getattr(self, f"_{ApiKey(header.api_key).name.lower()}")(node, request))

    def _api_versions(self, node: int, request: Any) -> Any:
        keys = [
            api_versions.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.spoken.items()
        ]
        return api_versions.ApiVersionsResponse(api_keys=keys)

    def _metadata(self, node: int, request: Any) -> Any:
        names = list(self.topic_ids) if request.topics is None else [topic.name for topic in request.topics]
        brokers = [
            metadata.MetadataResponseBroker(node_id=number, host=host, port=9092, rack=self.racks.get(number))
            for number, host in self.nodes.items()
        ]
        topics = [self._metadata_topic(name) for name in names]
        return metadata.MetadataResponse(brokers=brokers, cluster_id="fake", controller_id=1, topics=topics)

    def _metadata_topic(self, name: str) -> metadata.MetadataResponseTopic:
        if name in self.undescribed_topics or " " in name:
            refused = name in self.undescribed_topics
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if refused else ErrorCode.INVALID_TOPIC_EXCEPTION
            return metadata.MetadataResponseTopic(name=name, error_code=code)
        if name not in self.topic_ids:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return metadata.MetadataResponseTopic(name=name, error_code=code)
        partitions = [
            metadata.MetadataResponsePartition(
                partition_index=tp.partition, leader_id=log.leader, leader_epoch=log.epoch
            )
            for tp, log in self.logs.items()
            if tp.topic == name
        ]
        return metadata.MetadataResponseTopic(name=name, topic_id=self.topic_ids[name], partitions=partitions)

    def _check(self, node: int, tp: TopicPartition, leader_epoch: int) -> int:
        log = self.logs.get(tp)
        if log is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if tp.topic in self.refused_topics:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if node != log.leader and node not in log.followers:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader_epoch > log.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.FENCED_LEADER_EPOCH if -1 < leader_epoch < log.epoch else ErrorCode.NONE

    def _list_offsets(self, node: int, request: Any) -> Any:
        topics = []
        for topic in request.topics:
            answers = []
            for it in topic.partitions:
                tp = TopicPartition(topic.name, it.partition_index)
                code = self._check(node, tp, it.current_leader_epoch)
                offset = -1 if code else self._offset_at(self.logs[tp], it.timestamp, request.isolation_level)
                epoch = -1 if code else self.logs[tp].epoch
                answers.append(
                    list_offsets.ListOffsetsPartitionResponse(
                        partition_index=it.partition_index, error_code=code, offset=offset, leader_epoch=epoch
                    )
                )
            topics.append(list_offsets.ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        return list_offsets.ListOffsetsResponse(topics=topics)

    def _offset_at(self, log: Log, timestamp: int, isolation: int) -> int:
        end = log.end if log.last_stable is None or not isolation else log.last_stable
        if timestamp == -2:
            return log.start
        if timestamp == -1:
            return end
        found = max(log.start, -(-timestamp // 1000))
        return found if found < end else -1

    def _offset_for_leader_epoch(self, node: int, request: Any) -> Any:
        topics = []
        for topic in request.topics:
            answers = []
            for it in topic.partitions:
                tp = TopicPartition(topic.topic, it.partition)
                code = self._check(node, tp, it.current_leader_epoch)
                epoch, end = (-1, -1) if code else self.logs[tp].end_of_epoch(it.leader_epoch)
                answers.append(
                    epochs.EpochEndOffset(partition=it.partition, error_code=code, leader_epoch=epoch, end_offset=end)
                )
            topics.append(epochs.OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
        return epochs.OffsetForLeaderEpochResponse(topics=topics)

    def _find_coordinator(self, node: int, request: Any) -> Any:
        return find_coordinator.FindCoordinatorResponse(node_id=1, host=self.nodes[1], port=9092)

    def _offset_fetch(self, node: int, request: Any) -> Any:
        topics = []
        for topic in request.topics:
            answers = [
                offset_fetch.OffsetFetchResponsePartition(
                    partition_index=number, committed_offset=self.committed.get(TopicPartition(topic.name, number), -1)
                )
                for number in topic.partition_indexes
            ]
            topics.append(offset_fetch.OffsetFetchResponseTopic(name=topic.name, partitions=answers))
        return offset_fetch.OffsetFetchResponse(topics=topics)

    # --- Fetch

    def _fetch_or_wait(self, node: int, version: int, request: Any, reply: Callable[[Any], None]) -> None:
        error, session_id, session = self._session(node, version, request)
        if error or session is None:
            return reply(fetch.FetchResponse(error_code=error))
        deadline_ms = self.clock.now_ms() + request.max_wait_ms

        def answer() -> None:
            data = self._collect(node, session, request)
            news = any(it.records or it.error_code or it.diverging_epoch.epoch >= 0 for _, it in data)
            if news or self.clock.now_ms() >= deadline_ms or (request.session_epoch == 0 and not data):
                reply(self._fetch_response(version, session_id, data))
            else:
                self.selector.at(min(deadline_ms, self.clock.now_ms() + 50), answer)

        return answer()

    def _session(self, node: int, version: int, request: Any) -> tuple[int, int, Session | None]:
        fetches = {}
        for topic in request.topics:
            name = topic.topic if version < 13 else self._name_of(topic.topic_id)
            fetches.update({TopicPartition(name, it.partition): it for it in topic.partitions})
        if request.session_epoch <= 0:
            self.sessions.pop((node, request.session_id), None)
            session = Session()
            session.partitions = fetches
            if request.session_epoch < 0 or not self.with_sessions or version < 7:
                return 0, 0, session
            session_id = next(self._session_ids)
            self.sessions[node, session_id] = session
            return 0, session_id, session
        found = self.sessions.get((node, request.session_id))
        if found is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, None
        found.epoch += 1
        if found.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, None
        for topic in request.forgotten_topics_data:
            name = topic.topic if version < 13 else self._name_of(topic.topic_id)
            for number in topic.partitions:
                found.partitions.pop(TopicPartition(name, number), None)
        found.partitions.update(fetches)
        return 0, request.session_id, found

    def _name_of(self, topic_id: uuid.UUID) -> str:
        return next((name for name, known in self.topic_ids.items() if known == topic_id), f"?{topic_id}")

    def _collect(self, node: int, session: Session, request: Any) -> list[tuple[TopicPartition, fetch.PartitionData]]:
        collected = []
        for tp, ask in session.partitions.items():
            data = self._read(node, tp, ask, request)
            if data.records or data.error_code or data.diverging_epoch.epoch >= 0 or self._moved(session, tp, data):
                collected.append((tp, data))
        return collected

    def _moved(self, session: Session, tp: TopicPartition, data: fetch.PartitionData) -> bool:
        before = session.told_end.get(tp)
        session.told_end[tp] = data.high_watermark
        return before != data.high_watermark

    def _read(self, node: int, tp: TopicPartition, ask: Any, request: Any) -> fetch.PartitionData:
        code = self._check(node, tp, ask.current_leader_epoch)
        log = self.logs.get(tp)
        if tp.topic.startswith("?"):
            code = ErrorCode.UNKNOWN_TOPIC_ID
        if log is None or code:
            return fetch.PartitionData(partition_index=tp.partition, error_code=code, high_watermark=-1)
        data = fetch.PartitionData(
            partition_index=tp.partition,
            high_watermark=log.end,
            last_stable_offset=log.end if log.last_stable is None else log.last_stable,
            log_start_offset=log.start,
        )
        if ask.last_fetched_epoch >= 0:
            epoch, end = log.end_of_epoch(ask.last_fetched_epoch)
            if epoch < ask.last_fetched_epoch or end < ask.fetch_offset:
                data.diverging_epoch = fetch.EpochEndOffset(epoch=epoch, end_offset=end)
                return data
        if not log.start <= ask.fetch_offset <= log.end:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
            return data
        data.records = log.read(ask.fetch_offset, ask.partition_max_bytes)
        if request.isolation_level:
            data.aborted_transactions = [
                fetch.AbortedTransaction(producer_id=pid, first_offset=first) for pid, first in log.aborted
            ]
        return data

    def _fetch_response(
        self, version: int, session_id: int, data: Sequence[tuple[TopicPartition, fetch.PartitionData]]
    ) -> fetch.FetchResponse:
        responses = []
        for tp, it in data:
            topic_id = self.topic_ids.get(tp.topic, uuid.UUID(int=0))
            if tp.topic.startswith("?"):
                topic_id = uuid.UUID(tp.topic[1:])
            responses.append(fetch.FetchableTopicResponse(topic=tp.topic, topic_id=topic_id, partitions=[it]))
        return fetch.FetchResponse(session_id=session_id, responses=responses)
