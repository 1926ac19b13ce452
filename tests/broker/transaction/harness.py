"""Stories of transactions, told to a broker in memory under a manual clock, or to any broker by sockets."""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack
from typing import Any, Protocol

from kcli.broker.broker import Broker
from kcli.broker.config import BrokerConfig
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import RequestContext, error_response, read_request, response_parts
from kcli.broker.testing.memory_files import MemoryFiles
from kcli.clock import ManualClock
from kcli.errors import BrokerError
from kcli.protocol.headers import decode_response, encode_request
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.list_transactions import ListTransactionsResponse
from kcli.protocol.records import batch as layout
from kcli.protocol.records.scan import iter_records
from kcli.protocol.registry import response_type
from kcli.protocol.wire import Message, Request
from tests.broker.wire import PATIENCE_S, Wire

GROUP, TRANSACTION = 0, 1
#: The time of all records. A log whose records and markers are years apart begins a new segment with the first marker.
TIME_MS = int(time.time() * 1000)
_CONCURRENT = 51
_UNKNOWN_ID = 105
_NEW_TOPIC_ERRORS = (3, 5, 6)

# Times differ from run to run; here only whether there is one.
_TIMES = ("transaction_start_time_ms", "log_append_time_ms")
_IDS = ("producer_id",)


class Harness(Protocol):
    """A broker to tell a story to."""

    def ask(self, request: Request[Any], version: int) -> Any:
        """Return the response."""

    def pause(self, ms: float) -> None:
        """Let this much time pass."""


class MemoryBroker:
    """A broker without its server: logs in memory, a manual clock; requests and responses are encoded and decoded."""

    def __init__(self, files: Any = None, **settings: str) -> None:
        self.files: Any = files or MemoryFiles()
        self.clock = ManualClock(now_ms=1000, wall_ms=TIME_MS)
        defaults = {"num.partitions": "4", "transaction.state.log.num.partitions": "4"}
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig.from_properties({**defaults, **given, "log.dirs": "/data"})
        self.start()

    def start(self) -> None:
        self.messages: list[str] = []
        self.broker = Broker(self.config, clock=self.clock, files=self.files, log=self.messages.append)
        self.broker._open_data(ExitStack())

    def restart(self, files: Any = None) -> None:
        """Start again on what is on the disk, as after kill -9, or on these files."""
        self.files = files or self.files
        self.broker.log_manager.close(clean=False)
        self.start()

    def send(self, request: Request[Any], version: int) -> tuple[Any, RequestContext]:
        frame = bytearray(encode_request(request, version, 7, "tester"))
        clock = self.clock
        decoded, context = read_request(frame, "c-1", "127.0.0.1", clock.now_ms(), clock.wall_ms())
        try:
            return self.broker._handle(decoded, context), context
        except BrokerError as error:  # as the server answers it
            return error_response(context, error.code), context

    def ask(self, request: Request[Any], version: int) -> Any:
        answer, context = self.send(request, version)
        if isinstance(answer, Pending):
            for _ in range(1000):
                if answer.is_done:
                    break
                self.pause(10)
            assert answer.is_done, "no response"
            answer = answer.value
        frame = b"".join(bytes(part) for part in response_parts(answer, context))
        _, response = decode_response(response_type(context.api_key), context.api_version, frame)
        return response

    def pause(self, ms: float) -> None:
        """Advance from deadline to deadline, and let the broker do its periodic work."""
        until_ms = self.clock.now_ms() + ms
        broker = self.broker
        while True:
            due_ms = min(broker.timer.next_deadline_ms(), broker._maintenance_due_ms)
            if due_ms > until_ms:
                break
            self.clock.advance(max(0.0, due_ms - self.clock.now_ms()))
            now_ms = self.clock.now_ms()
            broker.timer.advance(now_ms)
            if now_ms >= broker._maintenance_due_ms:
                broker._maintain(now_ms, self.clock.wall_ms())
        self.clock.advance(until_ms - self.clock.now_ms())


class SocketBroker:
    """A broker at an address, in real time."""

    def __init__(self, address: str) -> None:
        self._wire = Wire(address)

    def ask(self, request: Request[Any], version: int) -> Any:
        return self._wire.ask(request, version)

    def pause(self, ms: float) -> None:
        time.sleep(ms / 1000)

    def close(self) -> None:
        self._wire.sock.close()


class Recorder:
    """Tells a story and records every response with all its fields.

    Producer ids are replaced by numbers in the order in which the story meets them. Names have the run's number
    removed, lists are sorted, because their order differs between brokers.
    """

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.responses: list[Any] = []
        self._numbers = itertools.count()
        self._ids: dict[int, str] = {}
        self._run = f"{time.time_ns():x}"

    # ---- names ----

    def new_name(self, prefix: str) -> str:
        """Return a name that no other story uses."""
        return f"{prefix}.{next(self._numbers)}.{self._run}"

    def new_id(self) -> str:
        """Return a transactional id whose coordinator is there."""
        name = self.new_name("txn")
        self.find(TRANSACTION, name)
        described = DescribeTransactionsRequest(transactional_ids=[name])
        self._until(described, 0, lambda answer: answer.transaction_states[0].error_code == _UNKNOWN_ID)
        # A broker of Apache Kafka requests its first block of producer ids when it starts.
        self._until(InitProducerIdRequest(transactional_id=None), 4, lambda answer: answer.error_code == 0)
        return name

    def new_group(self) -> str:
        """Return a group whose coordinator is there."""
        name = self.new_name("group")
        self.find(GROUP, name)
        return name

    def find(self, key_type: int, name: str) -> None:
        """Wait until the key has a coordinator. Apache Kafka creates the internal topics with the first request."""
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[name])
        self._until(request, 4, lambda answer: answer.coordinators[0].error_code == 0)

    def new_topic(self, partitions: int = 1) -> str:
        """Return the name of a new topic whose leaders serve."""
        name = self.new_name("topic")
        creation = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)]
        )
        assert self.harness.ask(creation, 5).topics[0].error_code == 0
        for number in range(partitions):
            self._until(
                fetch_request(name, number),
                12,
                lambda answer: answer.responses[0].partitions[0].error_code not in _NEW_TOPIC_ERRORS,
            )
        return name

    # ---- requests ----

    def ask(self, request: Request[Any], version: int) -> Any:
        """Send a request and record the response."""
        return self.record(self.harness.ask(request, version))

    def settled(self, request: Request[Any], version: int) -> Any:
        """Send a request until the answer is not CONCURRENT_TRANSACTIONS, and record the last response."""
        return self.record(self._until(request, version, lambda answer: _CONCURRENT not in set(error_codes(answer))))

    def until(self, request: Request[Any], version: int, is_expected: Any) -> Any:
        """Send a request until its response is the expected one, and record that."""
        return self.record(self._until(request, version, is_expected))

    def _until(self, request: Request[Any], version: int, is_expected: Any) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        for _ in range(10_000):
            answer = self.harness.ask(request, version)
            if is_expected(answer):
                return answer
            assert time.monotonic() < deadline, answer
            self.harness.pause(20)
        raise AssertionError(answer)

    def pause(self, ms: float) -> None:
        self.harness.pause(ms)

    def read_committed(self, topic: str, partition: int = 0) -> Any:
        """Record what a read_committed Fetch finds, and return the offsets and values of committed records."""
        answer = self.harness.ask(fetch_request(topic, partition, isolation_level=1), 12)
        found = answer.responses[0].partitions[0]
        data = bytes(found.records or b"")
        walk = layout.walk_batches(memoryview(data), 0, len(data))
        aborted = sorted((self._number(one.producer_id), one.first_offset) for one in found.aborted_transactions or ())
        batches = []
        for start, end in zip(walk.starts, walk.ends, strict=True):
            info = layout.read_batch_info(memoryview(data), start)
            for record in iter_records(data[start:end]):
                value = None if info.attributes & layout.CONTROL_BIT else record.value
                batches.append((record.offset, self._number(info.producer_id), info.producer_epoch, value))
        bounds = (found.error_code, found.high_watermark, found.last_stable_offset, found.log_start_offset)
        self.responses.append(("read_committed", bounds, aborted, batches))
        return [value for _, _, _, value in batches if value is not None]

    # ---- recording ----

    def record(self, response: Message) -> Any:
        if isinstance(response, ListTransactionsResponse):  # a shared broker also has the ids of other stories
            rows = [one for one in response.transaction_states if self._run in one.transactional_id]
            shown = ListTransactionsResponse(
                error_code=response.error_code,
                unknown_state_filters=response.unknown_state_filters,
                transaction_states=rows,
            )
            self.responses.append((type(response).__name__, self._normalized("", shown)))
            return shown
        self.responses.append((type(response).__name__, self._normalized("", response)))
        return response

    def _normalized(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(self._run, "RUN")
        if isinstance(value, list):
            return sorted((self._normalized(name, item) for item in value), key=repr)
        if hasattr(value, "__annotations__"):
            names = [one for one in value.__annotations__ if one not in ("throttle_time_ms", "port")]
            return {one: self._normalized(one, getattr(value, one)) for one in names}
        if name in _IDS:
            return self._number(value)
        if name in _TIMES:
            return "a time" if value > 0 else value
        return value

    def _number(self, producer_id: int) -> str | int:
        if producer_id < 0:
            return producer_id
        return self._ids.setdefault(producer_id, f"producer {len(self._ids)}")


def fetch_request(topic: str, partition: int = 0, *, isolation_level: int = 0) -> FetchRequest:
    """A Fetch of everything in a partition, without waiting."""
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=isolation_level,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)],
            )
        ],
    )


def error_codes(value: Any) -> list[int]:
    """Return all error codes in a response."""
    found: list[int] = []
    for name in getattr(value, "__annotations__", ()):
        part = getattr(value, name)
        if name in ("error_code", "partition_error_code"):
            found.append(part)
        elif isinstance(part, list):
            for one in part:
                found += error_codes(one)
    return found
