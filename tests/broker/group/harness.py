"""Harnesses for group scenarios: the coordinator under a manual clock, or any broker by sockets."""

from __future__ import annotations

import itertools
import re
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar
from uuid import UUID

from kcli.broker.cluster.cluster_values import PartitionState, TopicState
from kcli.broker.cluster.view import LiveBroker
from kcli.broker.config import BrokerConfig
from kcli.broker.coordinator_log import key_hash
from kcli.broker.group.group_coordinator import GroupCoordinator
from kcli.broker.group.group_records import KeyAndValue
from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.security.allow_all import AllowAll
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import read_request, response_parts
from kcli.broker.serving.timer import Timer
from kcli.clock import ManualClock
from kcli.error_codes import ErrorCode
from kcli.protocol.headers import decode_response, encode_request
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.list_groups import ListGroupsResponse
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.protocol.offsets_topic import GroupMetadataValue, decode_group_value, encode_group_value
from kcli.protocol.registry import response_type
from kcli.protocol.wire import Message, Request
from kcli.structs import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.real_kafka import SETTINGS

R = TypeVar("R", bound=Message)
_MEMBER_ID = re.compile(r"([\w.]*)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# A name for each partition of __consumer_offsets of an Apache Kafka of the tests.
_PARTITIONS = int(SETTINGS["offsets.topic.num.partitions"])
_GROUP_OF_EACH_PARTITION = {key_hash(f"any.{n}") % _PARTITIONS: f"any.{n}" for n in range(64)}.values()

# Long enough for a response on a busy machine, short enough for tests that expect no response.
SILENCE_S = 0.25


class Connection(Protocol):
    """One client connection with one request at a time."""

    def send(self, request: Request[Any], version: int | None = None) -> None:
        """Send without waiting, in the newest version unless one is given."""

    def receive(self) -> Any:
        """Return the response, which must not depend on any other request."""

    def is_waiting(self) -> bool:
        """True if the request is parked: no response arrives without another request."""


class Harness(Protocol):
    """A source of connections and of time."""

    def connect(self, client_id: str | None = "tester") -> Connection:
        """Open a new connection."""

    def pause(self, ms: float) -> None:
        """Let this much time pass."""


def ask(connection: Connection, request: Request[R], version: int | None = None) -> R:
    """Send a request and return its response."""
    connection.send(request, version)
    response: R = connection.receive()
    return response


class Recorder:
    """Records every response with all its fields; member ids and group names are replaced by numbered names.

    Lists of members and groups are sorted, because their order differs between brokers.
    """

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._group_numbers = itertools.count()
        self._names: dict[str, str] = {}
        self._run = f"{time.time_ns():x}"
        self.responses: list[Any] = []
        self._forgotten = 0

    def connect(self, client_id: str | None = "tester") -> Connection:
        return _RecordedConnection(self._harness.connect(client_id), self)

    def pause(self, ms: float) -> None:
        self._harness.pause(ms)

    def new_group(self) -> str:
        """Return the name of a group that no other test uses."""
        return f"group.{next(self._group_numbers)}.{self._run}"

    def record(self, response: Message) -> None:
        if isinstance(response, ListGroupsResponse):  # a shared broker also has the groups of other tests
            response = ListGroupsResponse(
                error_code=response.error_code, groups=[g for g in response.groups if self._run in g.group_id]
            )
        self.responses.append((type(response).__name__, self._normalized(response)))

    def forget_last(self) -> int:
        """Forget the last response, because it was too early; return how many were forgotten."""
        self.responses.pop()
        self._forgotten += 1
        return self._forgotten

    def _normalized(self, value: Any) -> Any:
        if isinstance(value, str):
            return _MEMBER_ID.sub(self._name, value).replace(self._run, "RUN")
        if isinstance(value, list):
            return sorted((self._normalized(item) for item in value), key=repr)
        if hasattr(value, "__annotations__"):
            names = [name for name in value.__annotations__ if name not in ("throttle_time_ms", "port")]
            return {name: self._normalized(getattr(value, name)) for name in names}
        return value

    def _name(self, found: re.Match[str]) -> str:
        if found[0] not in self._names:
            number = sum(name.startswith(f"{found[1]}#") for name in self._names.values())
            self._names[found[0]] = f"{found[1]}#{number}"
        return self._names[found[0]]


class _RecordedConnection:
    def __init__(self, connection: Connection, recorder: Recorder) -> None:
        self._connection = connection
        self._recorder = recorder
        self.send = connection.send
        self.is_waiting = connection.is_waiting

    def receive(self) -> Any:
        response = self._connection.receive()
        self._recorder.record(response)
        return response


# ---- the coordinator, without sockets ----


class FakeStore:
    """Stores encoded group records in write order; fails with `refuse_with`."""

    def __init__(self) -> None:
        self.log: list[tuple[str, bytes | None]] = []
        self.refuse_with = ErrorCode.NONE

    def store_group(self, group_id: str, value: GroupMetadataValue, now_wall_ms: int) -> ErrorCode:
        if self.refuse_with is ErrorCode.NONE:
            self.log.append((group_id, encode_group_value(value)))
        return self.refuse_with

    def store_records(self, group_id: str, records: Sequence[KeyAndValue], now_wall_ms: int) -> ErrorCode:
        raise NotImplementedError("the log in memory of OffsetsHarness takes the records of consumer groups")

    def delete_group(self, group_id: str, now_wall_ms: int) -> ErrorCode:
        if self.refuse_with is ErrorCode.NONE:
            self.log.append((group_id, None))
        return self.refuse_with

    def last(self, group_id: str) -> GroupMetadataValue | None:
        """Return the stored record of a group, None after its deletion."""
        data = dict(self.log)[group_id]
        return None if data is None else decode_group_value(data)


class CoordinatorHarness:
    """A coordinator under a manual clock. Requests and responses are encoded and decoded, as on the wire."""

    def __init__(self, **settings: str) -> None:
        defaults = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
        given = {key.replace("_", "."): value for key, value in settings.items()}
        self.config = BrokerConfig.from_properties({**defaults, **given})
        self.clock = ManualClock()
        self.timer = Timer()
        self.store = FakeStore()
        topics = {
            name: TopicState(name, UUID(int=1), {0: PartitionState((1,), (1,), 1)})
            for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
        }
        cluster: Any = SimpleNamespace(
            topics=topics,
            ensure_internal=topics.get,
            partition_state=lambda tp: PartitionState((1,), (1,), 1),
            brokers=lambda listener: [LiveBroker(1, "127.0.0.1", 9092)],
        )
        self.groups = GroupCoordinator(self.config, self.timer, self.clock, self.store, cluster)
        self.broker = SimpleNamespace(groups=self.groups, cluster=cluster, authorizer=AllowAll())

    def connect(self, client_id: str | None = "tester") -> CoordinatorConnection:
        return CoordinatorConnection(self, client_id)

    def pause(self, ms: float) -> None:
        """Advance from deadline to deadline, so that deadlines set by a deadline are met, too."""
        until_ms = self.clock.now_ms() + ms
        while (due_ms := self.timer.next_deadline_ms()) <= until_ms:
            self.clock.advance(max(0.0, due_ms - self.clock.now_ms()))
            self.timer.advance(self.clock.now_ms())
        self.clock.advance(until_ms - self.clock.now_ms())

    def state(self, group_id: str) -> str:
        """The group's state by Kafka's name; Dead when there is no such group."""
        facts = self.groups.facts(group_id)
        return "Dead" if facts is None else facts.state

    def restart(self) -> None:
        """Replace the coordinator by a new one with the stored groups."""
        self.groups = self.broker.groups = GroupCoordinator(
            self.config, timer := Timer(), self.clock, self.store, self.broker.cluster
        )
        self.timer = timer
        for group_id in dict(self.store.log):
            if (value := self.store.last(group_id)) is not None:
                self.groups.restore(group_id, value)


class CoordinatorConnection:
    """A connection that calls the handlers directly."""

    def __init__(self, harness: CoordinatorHarness, client_id: str | None) -> None:
        self._harness = harness
        self._client_id = client_id
        self._waiting: tuple[Pending[Any], Any] | None = None

    def send(self, request: Request[Any], version: int | None = None) -> None:
        from importlib import import_module

        assert self._waiting is None, "one request at a time"
        version = type(request).VERSIONS[1] if version is None else version
        frame = bytearray(encode_request(request, version, 7, self._client_id))
        clock = self._harness.clock
        decoded, context = read_request(frame, "c-1", "127.0.0.1", clock.now_ms(), clock.wall_ms())
        if isinstance(decoded, OffsetCommitRequest):  # handled by the store; here only the coordinator's check
            response: Any = self._commit(decoded, version)
        else:
            module = import_module(f"kcli.broker.handlers.{HANDLERS[request.API_KEY].module}")
            response = module.handle(self._harness.broker, decoded, context)
        if not isinstance(response, Pending):
            ready = Pending[Any]()
            ready.complete(response)
            response = ready
        self._waiting = response, context

    def _commit(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        error = self._harness.groups.check_commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            api_version=version,
        )
        if error is ErrorCode.NONE and self._harness.groups.facts(request.group_id) is None:
            self._harness.groups.restore(request.group_id, None)  # as the store does after its append
        rows = [OffsetCommitResponsePartition(partition_index=0, error_code=error)]
        topics = [OffsetCommitResponseTopic(name=topic.name, partitions=rows) for topic in request.topics]
        return OffsetCommitResponse(topics=topics)

    def receive(self) -> Any:
        assert not self.is_waiting(), "no response"
        assert self._waiting is not None
        (pending, context), self._waiting = self._waiting, None
        frame = b"".join(bytes(part) for part in response_parts(pending.value, context))  # type: ignore[arg-type]
        _, response = decode_response(response_type(context.api_key), context.api_version, frame)
        return response

    def is_waiting(self) -> bool:
        assert self._waiting is not None, "no request was sent"
        self._harness.pause(0)
        return not self._waiting[0].is_done


# ---- any broker, by sockets ----


class SocketHarness:
    """A broker at an address, in real time.

    `late_s` is the time that has passed beyond the pauses and the waits for responses, assuming immediate responses.
    """

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._address = host, int(port)
        self._open: list[SocketConnection] = []
        self._reset_clock()
        self._wait_for_coordinator()
        self._reset_clock()

    def _reset_clock(self) -> None:
        self._began, self._expected_s, self.late_s = time.monotonic(), 0.0, 0.0

    def _wait_for_coordinator(self) -> None:
        """Apache Kafka creates the offsets topic at the first FindCoordinator, and loads its partitions one by one."""
        client, deadline = self.connect(), time.monotonic() + 30
        while ask(client, FindCoordinatorRequest(key="any"), 3).error_code or any(
            ask(client, HeartbeatRequest(group_id=group, generation_id=1, member_id="unknown")).error_code
            != ErrorCode.UNKNOWN_MEMBER_ID
            for group in _GROUP_OF_EACH_PARTITION
        ):
            assert time.monotonic() < deadline, "no coordinator within 30 s"
            time.sleep(0.05)

    def connect(self, client_id: str | None = "tester") -> SocketConnection:
        connection = SocketConnection(self._address, client_id, self.add_expected)
        self._open.append(connection)
        return connection

    def pause(self, ms: float) -> None:
        time.sleep(ms / 1000)
        self.add_expected(ms / 1000)

    def add_expected(self, expected_s: float) -> None:
        """Record that an action with an expected duration has finished."""
        self._expected_s += expected_s
        self.late_s = time.monotonic() - self._began - self._expected_s

    def close(self) -> None:
        for connection in self._open:
            connection.close()


class SocketConnection:
    """Blocking reads and writes of whole frames."""

    def __init__(self, address: tuple[str, int], client_id: str | None, add_expected: Callable[[float], None]) -> None:
        self._socket = socket.create_connection(address, timeout=20)
        self._client_id = client_id
        self._add_expected = add_expected
        self._sent: tuple[int, int] | None = None

    def send(self, request: Request[Any], version: int | None = None) -> None:
        assert self._sent is None, "one request at a time"
        version = type(request).VERSIONS[1] if version is None else version
        frame = encode_request(request, version, 7, self._client_id)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        self._sent = request.API_KEY, version

    def receive(self) -> Any:
        assert self._sent is not None, "no request was sent"
        (key, version), self._sent = self._sent, None
        (length,) = struct.unpack(">i", self._read(4))
        _, response = decode_response(response_type(key), version, self._read(length))
        self._add_expected(0)
        return response

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            more = self._socket.recv(length - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data

    def is_waiting(self) -> bool:
        is_silent = not select.select([self._socket], [], [], SILENCE_S)[0]
        self._add_expected(SILENCE_S if is_silent else 0)
        return is_silent

    def close(self) -> None:
        self._socket.close()
