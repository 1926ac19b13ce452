"""A broker that is killed (-9) again and again under transactional load: the parties and the account.

Each worker has a transactional id and a partition of an imaginary input, of which it processes some numbers in each
transaction: one record for each number to every partition of the output, and the offset of the input for a group. After
an error it starts as an application does: it fences its predecessor and goes on at the committed offset. Some
transactions are aborted, and some producers are dropped in the middle of one.

Faults raise AssertionError: a number that is lost or doubled, a transaction that is split over the partitions, a record
of an aborted transaction, a record that a read_committed reader got and that is not in the log or the other way round,
and a worker or a last stable offset that stands still for longer than the timeout of transactions.
"""

from __future__ import annotations

import functools
import itertools
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from kcli.errors import KcliError
from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.broker.wire import Wire

INPUT, OUTPUT, GROUP = "kills-input", "kills-output", "kills-group"
PARTITIONS = 3
TIMEOUT_MS = 5000
#: The broker ends a transaction at most this long after its begin: its timeout, the interval of the check, and the time
#: in which a broker is down, or a machine is busy.
ENDED_S = TIMEOUT_MS / 1000 + 1 + 6
#: A worker whose client hangs is replaced by another with the same id, as a supervisor replaces a process. librdkafka
#: may wait for ever in send_offsets_to_transaction if its broker restarts meanwhile, Apache's as well as ours.
HANGS_S = 25.0  # all calls have a timeout of 20 s
STUCK_S = 4 * HANGS_S
# The broker begins to look for overdue transactions after this interval, which must be shorter than its life.
BROKER = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


_IDLE = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


class Dropped(Exception):
    """A worker drops its producer without ending the transaction."""


class Client(Protocol):
    """A transactional producer."""

    def begin(self) -> None: ...

    def send(self, partition: int, value: bytes) -> None: ...

    def send_offset(self, number: int, offset: int) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def drop(self) -> None:
        """Free it without ending the transaction."""


class Librdkafka:
    """The producer of confluent-kafka (transaction version 1).

    After a lost response and an abort, librdkafka 2.16 uses the sequence numbers of the lost batch again. A leader that
    has that batch, Apache's or ours, refuses them with OUT_OF_ORDER_SEQUENCE_NUMBER, a fatal error for this producer.
    """

    def __init__(self, bootstrap_servers: str, transactional_id: str) -> None:
        from confluent_kafka import Producer

        times = {"transaction.timeout.ms": TIMEOUT_MS, "socket.timeout.ms": 3000, "reconnect.backoff.max.ms": 200}
        settings = {"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id, "linger.ms": 1}
        self._producer = Producer({**settings, **times, "log_level": 0})
        self._producer.init_transactions(20)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, partition: int, value: bytes) -> None:
        self._producer.produce(OUTPUT, value, partition=partition)

    def send_offset(self, number: int, offset: int) -> None:
        from confluent_kafka import TopicPartition

        self._producer.send_offsets_to_transaction([TopicPartition(INPUT, number, offset)], _group_metadata(), 20)

    def commit(self) -> None:
        self._producer.commit_transaction(20)

    def abort(self) -> None:
        self._producer.abort_transaction(20)

    def drop(self) -> None:
        del self._producer  # it still sends what it has, as a process that hangs does when it goes on


@functools.cache
def _group_metadata() -> Any:
    """The group without a member, as librdkafka wants it. Its consumer lives on: closing one may hang."""
    from confluent_kafka import Consumer

    return Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": GROUP, "log_level": 0}).consumer_group_metadata()


class Kcli:
    """kcli's own producer (transaction version 2 where the broker has it)."""

    def __init__(self, bootstrap_servers: str, transactional_id: str) -> None:
        from kcli import Producer
        from kcli.client.config import ProducerConfig

        times = {"transaction.timeout.ms": TIMEOUT_MS, "reconnect.backoff.max.ms": 200, "max.block.ms": 20_000}
        settings = {"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id}
        self._producer = Producer.from_config(ProducerConfig.from_properties({**settings, **times}))
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, partition: int, value: bytes) -> None:
        self._producer.send(OUTPUT, value, partition=partition)

    def send_offset(self, number: int, offset: int) -> None:
        from kcli import TopicPartition
        from kcli.structs import OffsetAndMetadata

        self._producer.send_offsets({TopicPartition(INPUT, number): OffsetAndMetadata(offset)}, GROUP)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def drop(self) -> None:
        del self._producer  # `close` would abort


CLIENTS: Sequence[Callable[[str, str], Client]] = (Librdkafka, Kcli)


class Worker:
    """An application in a thread. `committed` and `aborted` are the transactions whose outcome it knows."""

    def __init__(self, bootstrap_servers: str, number: int, make: Callable[[str, str], Client], seed: int) -> None:
        self.number = number
        self.committed: set[str] = set()
        self.aborted: set[str] = set()
        self.errors: Counter[str] = Counter()
        self.progressed_s = time.monotonic()
        self.fault: BaseException | None = None
        #: The step that it is in, and its last error.
        self.step = ""
        self.last_error = ""
        self._servers = bootstrap_servers
        self._make = make
        self._chance = random.Random(seed)
        self._names = (f"{number}.{count}" for count in itertools.count())
        #: Clients that hung.
        self.replaced = -1
        self._started_s = 0.0
        self._ended = threading.Event()

    def start(self) -> None:
        """Start a thread, in place of the one that hangs. What that one still ends counts."""
        self.replaced += 1
        self._started_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"worker-{self.number}", daemon=True)
        self._thread.start()

    def replace_if_hung(self) -> None:
        if time.monotonic() - max(self.progressed_s, self._started_s) > HANGS_S:
            self.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(HANGS_S)
        if self._thread.is_alive():
            self.replaced += 1
        if self.fault is not None:
            raise self.fault

    @property
    def _is_replaced(self) -> bool:
        return threading.current_thread() is not self._thread

    def _run(self) -> None:
        from confluent_kafka import KafkaException

        while not self._ended.is_set() and self.fault is None and not self._is_replaced:
            client: Client | None = None
            try:
                self.step = "start"
                client = self._make(self._servers, f"kills-{self.number}")
                self.step = "read the committed offset"
                position = committed_offset(self._servers, self.number)
                while not self._ended.is_set() and not self._is_replaced:
                    position = self._transact(client, position)
            except (KafkaException, KcliError, Dropped) as error:
                self.errors[type(error).__name__] += 1
                self.last_error = f"{self.step}: {error}"
            except BaseException as fault:
                self.fault = fault
            finally:
                if client is not None:  # in a thread of its own, because librdkafka may wait there for its broker
                    threading.Thread(target=client.drop, name="drop", daemon=True).start()

    def _transact(self, client: Client, position: int) -> int:
        """Run one transaction; return the next number to process."""
        name, chance = next(self._names), self._chance
        after = position + chance.randint(1, 5)
        self.step = "write"
        client.begin()
        for n in range(position, after):
            for partition in range(PARTITIONS):
                client.send(partition, f"{self.number} {n} {name}".encode())
        if chance.random() < 0.03:
            raise Dropped
        self.step = "commit the offset"
        client.send_offset(self.number, after)
        self.step = "end"
        if chance.random() < 0.2:
            client.abort()
            self.aborted.add(name)
            self.progressed_s = time.monotonic()
            return position
        client.commit()
        self.committed.add(name)
        self.progressed_s = time.monotonic()
        return after


def committed_offset(bootstrap_servers: str, number: int) -> int:
    """Return the next number to process: the committed offset, once no transaction can change it."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": GROUP, "log_level": 0})
    try:
        [found] = consumer.committed([TopicPartition(INPUT, number)], 20)
        return max(0, found.offset)
    finally:
        consumer.close()


class Reader:
    """A read_committed consumer of all partitions in a thread; `values` by partition and offset."""

    def __init__(self, bootstrap_servers: str) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        self.values: dict[tuple[int, int], str] = {}
        self.ends: dict[int, int] = {}
        settings = {"group.id": "kills-reader", "enable.auto.commit": False, "enable.partition.eof": True}
        times = {"reconnect.backoff.max.ms": 200, "auto.offset.reset": "error", "log_level": 0}
        self._consumer = Consumer({"bootstrap.servers": bootstrap_servers, **settings, **times})
        self._consumer.assign([TopicPartition(OUTPUT, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        from confluent_kafka import KafkaError

        while not self._ended.is_set():
            for one in self._consumer.consume(500, 0.1):
                if one.error() is None:
                    self.values[one.partition(), one.offset()] = one.value().decode()
                elif one.error().code() == KafkaError._PARTITION_EOF:
                    self.ends[one.partition()] = one.offset()

    def read_to(self, ends: dict[int, int]) -> dict[tuple[int, int], str]:
        """Read up to these offsets, and end."""
        deadline = time.monotonic() + 30
        while any(self.ends.get(number, 0) < end for number, end in ends.items()):
            assert time.monotonic() < deadline, f"a reader is at {self.ends}, the ends are {ends}"
            time.sleep(0.05)
        self._ended.set()
        self._thread.join(30)
        self._consumer.close()
        return self.values


class Account(NamedTuple):
    """The sums of a run. `longest_s`: the longest time in which a worker ended no transaction.

    `oldest_s`: the greatest age of a transaction that had not ended, at the checks after the kills.
    """

    kills: int
    committed: int
    aborted: int
    records: int
    errors: int
    orphans: int
    hung: int
    longest_s: float
    oldest_s: float

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.committed} transactions committed, {self.aborted} aborted, {self.orphans} left "
            f"open; {self.records} records visible; {self.errors} restarts of workers, "
            f"{self.hung} of clients that hung, longest without an end "
            f"{self.longest_s:.1f} s; oldest open transaction {self.oldest_s:.1f} s"
        )


class TransactionKills:
    """The load and the rounds. `kill` kills a broker and starts it again."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        clients: Sequence[Callable[[str, str], Client]] = CLIENTS,
        replication: int = 1,
        seed: int = 1,
    ) -> None:
        self._servers = bootstrap_servers
        self._chance = random.Random(seed)
        self._kills = self._orphans = 0
        self._longest_s = self._oldest_s = 0.0
        create_topics(bootstrap_servers, replication)
        self._reader = Reader(bootstrap_servers)
        self._workers = [
            Worker(bootstrap_servers, number, clients[number % len(clients)], seed * 100 + number)
            for number in range(2 * len(clients))
        ]
        for worker in self._workers:
            worker.start()

    def round(self, kill: Callable[[], None]) -> None:
        """Wait until a worker has ended a transaction, and kill a moment later."""
        before, began = self._ended(), time.monotonic()
        while self._ended() <= before:
            self._check_progress()
            assert time.monotonic() < began + STUCK_S, "no worker ends a transaction"
            time.sleep(0.01)
        time.sleep(self._chance.uniform(0.0, 0.6))
        kill()
        self._kills += 1
        self._check_progress()
        self._check_ages()

    def leave_open(self) -> None:
        """Leave a transaction open for good: only its timeout can end it."""
        from confluent_kafka import KafkaException

        with suppress(KafkaException):
            client = Librdkafka(self._servers, f"kills-orphan-{self._orphans}")
            client.begin()
            client.send(self._orphans % PARTITIONS, b"orphan")
            client._producer.flush(5)
            self._orphans += 1
            client.drop()

    def finish(self) -> Account:
        """End the load, and compare what is stored with what the workers know."""
        for worker in self._workers:
            worker.stop()
        ends = await_stable(self._servers)
        seen = self._reader.read_to(ends)
        stored = Reader(self._servers).read_to(ends)
        assert seen == stored, f"the reader and the log differ: {sorted(set(seen.items()) ^ set(stored.items()))[:10]}"
        for worker in self._workers:
            self._check(worker, stored)
        assert not any(value == "orphan" for value in stored.values()), "a record of an open transaction is visible"
        return Account(
            self._kills,
            sum(len(worker.committed) for worker in self._workers),
            sum(len(worker.aborted) for worker in self._workers),
            len(stored),
            sum(sum(worker.errors.values()) for worker in self._workers),
            self._orphans,
            sum(worker.replaced for worker in self._workers),
            self._longest_s,
            self._oldest_s,
        )

    def close(self) -> None:
        """End the threads after a fault."""
        for worker in self._workers:
            worker._ended.set()
        self._reader._ended.set()

    def _ended(self) -> int:
        return sum(len(worker.committed) + len(worker.aborted) for worker in self._workers)

    def _check_progress(self) -> None:
        for worker in self._workers:
            if worker.fault is not None:
                raise worker.fault
            worker.replace_if_hung()
            waited_s = time.monotonic() - worker.progressed_s
            self._longest_s = max(self._longest_s, waited_s)
            assert waited_s < STUCK_S, (
                f"worker {worker.number} has ended no transaction for {waited_s:.1f} s, in step "
                f"{worker.step!r} after {worker.last_error}; transactions: {self._described()}"
            )

    def _check_ages(self) -> None:
        """No transaction is open, or on its way to its end, for longer than its timeout allows."""
        now_ms = time.time() * 1000
        for one in self._described():
            if one.error_code == 0 and one.transaction_state not in _IDLE:
                age_s = (now_ms - one.transaction_start_time_ms) / 1000
                self._oldest_s = max(self._oldest_s, age_s)
                assert age_s < ENDED_S, f"a transaction has not ended for {age_s:.1f} s: {one}"

    def _described(self) -> list[Any]:
        """Return what the brokers say about all transactional ids."""
        names = [f"kills-{worker.number}" for worker in self._workers]
        names += [f"kills-orphan-{number}" for number in range(self._orphans)]
        rows = []
        for address in self._servers.split(","):
            with Wire(address) as wire:
                rows += wire.ask(DescribeTransactionsRequest(transactional_ids=names), 0).transaction_states
        return rows

    def _check(self, worker: Worker, stored: dict[tuple[int, int], str]) -> None:
        """Each number is in each partition once, in the same transaction, up to the committed offset."""
        by_partition: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for (partition, _), value in sorted(stored.items()):
            number, n, name = value.split() if value != "orphan" else ("-1", "0", "")
            if int(number) == worker.number:
                by_partition[partition].append((int(n), name))
        committed = committed_offset(self._servers, worker.number)
        for partition in range(PARTITIONS):
            numbers = [n for n, _ in by_partition[partition]]
            assert numbers == list(range(committed)), (
                f"worker {worker.number}, partition {partition}: {len(numbers)} numbers, committed {committed}; "
                f"doubled {[n for n, c in Counter(numbers).items() if c > 1][:5]}, "
                f"lost {sorted(set(range(committed)) - set(numbers))[:5]}"
            )
            assert by_partition[partition] == by_partition[0], f"worker {worker.number}: a transaction is split"
        visible = {name for _, name in by_partition[0]}
        assert not visible & worker.aborted, f"aborted, but visible: {sorted(visible & worker.aborted)[:5]}"
        assert worker.committed <= visible, f"committed, but lost: {sorted(worker.committed - visible)[:5]}"


def create_topics(bootstrap_servers: str, replication: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topics = [NewTopic(INPUT, 16, replication), NewTopic(OUTPUT, PARTITIONS, replication)]
    for made in admin.create_topics(topics).values():
        made.result(30)


def await_stable(bootstrap_servers: str) -> dict[int, int]:
    """Wait until no transaction is open, and return the end offsets of the output."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    asked = {TopicPartition(OUTPUT, number): OffsetSpec.latest() for number in range(PARTITIONS)}

    def ends(isolation: Any) -> dict[int, int]:
        found: dict[Any, Any] = admin.list_offsets(asked, isolation_level=isolation, request_timeout=10)
        return {tp.partition: row.result().offset for tp, row in found.items()}

    deadline = time.monotonic() + ENDED_S + 10
    while (stable := ends(IsolationLevel.READ_COMMITTED)) != (last := ends(IsolationLevel.READ_UNCOMMITTED)):
        assert time.monotonic() < deadline, f"transactions stay open: stable up to {stable}, written up to {last}"
        time.sleep(0.1)
    return last
