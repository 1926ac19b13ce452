"""Where groups are tried request by request: our coordinator under a clock moved by hand, or any broker by sockets."""

from __future__ import annotations

import itertools
import re
import select
import socket
import struct
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar

from kcli.broker.config import BrokerConfig
from kcli.broker.group.group_coordinator import GroupCoordinator
from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.pending import Pending
from kcli.broker.request_context import answer_parts, read_request
from kcli.broker.timer import Timer
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

R = TypeVar("R", bound=Message)
_MEMBER_ID = re.compile(r"([\w.]*)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_NO_HEARTBEAT = HeartbeatRequest(group_id="any", generation_id=1, member_id="nobody")

# Long enough for a busy machine to answer, short enough to be waited for by tests that see nothing come.
SILENCE_S = 0.25


class Connection(Protocol):
    """One client: its requests are answered one after another."""

    def send(self, request: Request[Any], version: int | None = None) -> None:
        """Send, and do not wait. The newest version unless one is given."""

    def receive(self) -> Any:
        """The answer to what was sent, which must come without anybody else doing anything more."""

    def is_waiting(self) -> bool:
        """Whether the answer does not come by itself."""


class Lab(Protocol):
    """Where connections come from, and time."""

    def connect(self, client_id: str | None = "tester") -> Connection:
        """A new client."""

    def pause(self, ms: float) -> None:
        """Let time pass."""


def ask(connection: Connection, request: Request[R], version: int | None = None) -> R:
    """Send and receive."""
    connection.send(request, version)
    answer: R = connection.receive()
    return answer


class Notebook:
    """Writes down every answer with all its fields, in words that do not depend on the broker: who is who by a number.

    Lists of members and groups have no order among brokers, and are sorted.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._group_numbers = itertools.count()
        self._names: dict[str, str] = {}
        self._run = f"{time.time_ns():x}"
        self.pages: list[Any] = []

    def connect(self, client_id: str | None = "tester") -> Connection:
        return _Noted(self._lab.connect(client_id), self)

    def pause(self, ms: float) -> None:
        self._lab.pause(ms)

    def new_group(self) -> str:
        """The name of a group that nobody else uses."""
        return f"group.{next(self._group_numbers)}.{self._run}"

    def note(self, answer: Message) -> None:
        if isinstance(answer, ListGroupsResponse):  # on a shared broker, others have groups too
            answer = ListGroupsResponse(
                error_code=answer.error_code, groups=[g for g in answer.groups if self._run in g.group_id]
            )
        self.pages.append((type(answer).__name__, self._in_words(answer)))

    def _in_words(self, value: Any) -> Any:
        if isinstance(value, str):
            return _MEMBER_ID.sub(self._name, value).replace(self._run, "RUN")
        if isinstance(value, list):
            return sorted((self._in_words(item) for item in value), key=repr)
        if hasattr(value, "__annotations__"):
            names = [name for name in value.__annotations__ if name not in ("throttle_time_ms", "port")]
            return {name: self._in_words(getattr(value, name)) for name in names}
        return value

    def _name(self, found: re.Match[str]) -> str:
        if found[0] not in self._names:
            number = sum(name.startswith(f"{found[1]}#") for name in self._names.values())
            self._names[found[0]] = f"{found[1]}#{number}"
        return self._names[found[0]]


class _Noted:
    def __init__(self, connection: Connection, notebook: Notebook) -> None:
        self._connection = connection
        self._notebook = notebook
        self.send = connection.send
        self.is_waiting = connection.is_waiting

    def receive(self) -> Any:
        answer = self._connection.receive()
        self._notebook.note(answer)
        return answer


# ---- ours, without sockets ----


class FakeStore:
    """Keeps the groups' records in their bytes, in the order of writing; refuses when told to."""

    def __init__(self) -> None:
        self.log: list[tuple[str, bytes | None]] = []
        self.refuse_with = ErrorCode.NONE

    def store_group(self, group_id: str, value: GroupMetadataValue, now_wall_ms: int) -> ErrorCode:
        if self.refuse_with is ErrorCode.NONE:
            self.log.append((group_id, encode_group_value(value)))
        return self.refuse_with

    def delete_group(self, group_id: str, now_wall_ms: int) -> ErrorCode:
        if self.refuse_with is ErrorCode.NONE:
            self.log.append((group_id, None))
        return self.refuse_with

    def last(self, group_id: str) -> GroupMetadataValue | None:
        """What a broker that starts now would find."""
        data = dict(self.log)[group_id]
        return None if data is None else decode_group_value(data)


class DirectLab:
    """A coordinator under a manual clock. Requests and answers go through their bytes, as on the wire."""

    def __init__(self, **settings: str) -> None:
        defaults = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
        given = {key.replace("_", "."): value for key, value in settings.items()}
        self.config = BrokerConfig.from_properties({**defaults, **given})
        self.clock = ManualClock()
        self.timer = Timer()
        self.store = FakeStore()
        self.groups = GroupCoordinator(self.config, self.timer, self.clock, self.store)
        cluster = SimpleNamespace(node_id=1, host="127.0.0.1", port=9092, ensure_internal=lambda name: None)
        self.broker = SimpleNamespace(groups=self.groups, cluster=cluster)

    def connect(self, client_id: str | None = "tester") -> DirectConnection:
        return DirectConnection(self, client_id)

    def pause(self, ms: float) -> None:
        """Step from deadline to deadline, so that what a deadline sets is kept, too."""
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
        """A new coordinator over what the old one stored."""
        self.groups = self.broker.groups = GroupCoordinator(self.config, timer := Timer(), self.clock, self.store)
        self.timer = timer
        for group_id in dict(self.store.log):
            if (value := self.store.last(group_id)) is not None:
                self.groups.restore(group_id, value)


class DirectConnection:
    """Calls handlers."""

    def __init__(self, lab: DirectLab, client_id: str | None) -> None:
        self._lab = lab
        self._client_id = client_id
        self._waiting: tuple[Pending[Any], Any] | None = None

    def send(self, request: Request[Any], version: int | None = None) -> None:
        from importlib import import_module

        assert self._waiting is None, "one request at a time"
        version = type(request).VERSIONS[1] if version is None else version
        frame = bytearray(encode_request(request, version, 7, self._client_id))
        clock = self._lab.clock
        decoded, context = read_request(frame, "c-1", "127.0.0.1", clock.now_ms(), clock.wall_ms())
        if isinstance(decoded, OffsetCommitRequest):  # the store's, not ours: only what the coordinator says to it
            answer: Any = self._commit(decoded, version)
        else:
            module = import_module(f"kcli.broker.handlers.{HANDLERS[request.API_KEY].module}")
            answer = module.handle(self._lab.broker, decoded, context)
        if not isinstance(answer, Pending):
            ready = Pending[Any]()
            ready.complete(answer)
            answer = ready
        self._waiting = answer, context

    def _commit(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        error = self._lab.groups.check_commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            api_version=version,
        )
        if error is ErrorCode.NONE and self._lab.groups.facts(request.group_id) is None:
            self._lab.groups.restore(request.group_id, None)  # as the store does after its append
        rows = [OffsetCommitResponsePartition(partition_index=0, error_code=error)]
        topics = [OffsetCommitResponseTopic(name=topic.name, partitions=rows) for topic in request.topics]
        return OffsetCommitResponse(topics=topics)

    def receive(self) -> Any:
        assert not self.is_waiting(), "the answer does not come"
        assert self._waiting is not None
        (pending, context), self._waiting = self._waiting, None
        frame = b"".join(bytes(part) for part in answer_parts(pending.value, context))  # type: ignore[arg-type]
        _, answer = decode_response(response_type(context.api_key), context.api_version, frame)
        return answer

    def is_waiting(self) -> bool:
        assert self._waiting is not None, "nothing was asked"
        self._lab.pause(0)
        return not self._waiting[0].is_done


# ---- any broker, by sockets ----


class SocketLab:
    """A broker at an address; its time is everybody's.

    `late_s` says how much more of it has passed than pauses and looks were to take, answers being there at once.
    """

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._address = host, int(port)
        self._open: list[SocketConnection] = []
        self._start_the_clock()
        self._wait_for_the_coordinator()
        self._start_the_clock()

    def _start_the_clock(self) -> None:
        self._began, self._meant_s, self.late_s = time.monotonic(), 0.0, 0.0

    def _wait_for_the_coordinator(self) -> None:
        """A real Kafka makes the offsets' topic when first asked for a coordinator, and has none until then."""
        client, deadline = self.connect(), time.monotonic() + 30
        while (
            ask(client, FindCoordinatorRequest(key="any"), 3).error_code or ask(client, _NO_HEARTBEAT).error_code != 25
        ):
            assert time.monotonic() < deadline, "no coordinator"
            time.sleep(0.05)

    def connect(self, client_id: str | None = "tester") -> SocketConnection:
        connection = SocketConnection(self._address, client_id, self.has_taken)
        self._open.append(connection)
        return connection

    def pause(self, ms: float) -> None:
        time.sleep(ms / 1000)
        self.has_taken(ms / 1000)

    def has_taken(self, meant_s: float) -> None:
        """Something is over that was to take so long."""
        self._meant_s += meant_s
        self.late_s = time.monotonic() - self._began - self._meant_s

    def close(self) -> None:
        for connection in self._open:
            connection.close()


class SocketConnection:
    """Blocking reads and writes of whole frames."""

    def __init__(self, address: tuple[str, int], client_id: str | None, has_taken: Callable[[float], None]) -> None:
        self._socket = socket.create_connection(address, timeout=20)
        self._client_id = client_id
        self._has_taken = has_taken
        self._sent: tuple[int, int] | None = None

    def send(self, request: Request[Any], version: int | None = None) -> None:
        assert self._sent is None, "one request at a time"
        version = type(request).VERSIONS[1] if version is None else version
        frame = encode_request(request, version, 7, self._client_id)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        self._sent = request.API_KEY, version

    def receive(self) -> Any:
        assert self._sent is not None, "nothing was asked"
        (key, version), self._sent = self._sent, None
        (length,) = struct.unpack(">i", self._read(4))
        _, answer = decode_response(response_type(key), version, self._read(length))
        self._has_taken(0)
        return answer

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            more = self._socket.recv(length - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data

    def is_waiting(self) -> bool:
        is_silent = not select.select([self._socket], [], [], SILENCE_S)[0]
        self._has_taken(SILENCE_S if is_silent else 0)
        return is_silent

    def close(self) -> None:
        self._socket.close()
