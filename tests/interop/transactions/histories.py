"""Random histories of transactions, told to a broker by raw requests, and what a read_committed reader must then see.

Each topic has a history of its own: transactional producers with a classic protocol or an epoch per transaction
(KIP-890), and a producer without transactions, write to its partitions in turn. Transactions are committed, aborted,
left open, or ended by a new producer of the same id. Some topics are compacted, of others the oldest records are
deleted. Between, and within, requests the broker is killed (-9); every request is repeated until its outcome is known,
so the truth is known, too.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kcli.protocol.messages import add_partitions_to_txn as adding
from kcli.protocol.messages import delete_records as deleting
from kcli.protocol.messages.end_txn import EndTxnRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from kcli.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest as AlterRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.wire import Request
from kcli.structs import TopicPartition
from tests.broker.wire import Wire
from tests.limits import Limit
from tests.real_kafka import Kafka, OwnBroker

PARTITIONS = 2
PATIENCE_S = 60.0
SEGMENT_MS = 2000
_TIMEOUT_MS = 890_000  # nearly the longest by default: no transaction is ended by its timeout
_COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0001",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1",
}
# The answers after which a client repeats its request.
_AGAIN = {3, 5, 6, 7, 13, 14, 15, 16, 19, 51, 56}
_KEYS = 12
_READ_COMMITTED, _TRANSACTION = 1, 1
_LATEST, _EARLIEST = -1, -2


class Transaction:
    """A transaction: its state, and the partitions that it has records in."""

    def __init__(self) -> None:
        self.state = "open"
        self.partitions: set[int] = set()


class Entry(NamedTuple):
    """A record in the log; `transaction` is None if it has none."""

    offset: int
    key: bytes
    value: bytes | None
    transaction: Transaction | None


Row = tuple[int, bytes, "bytes | None"]


class Broker:
    """A connection to the broker, which is killed within the next request if `kill_next`."""

    def __init__(self, broker: Kafka, chance: random.Random) -> None:
        self.process = broker
        self.kill_next = False
        self.kills = 0
        self._chance = chance
        self._wire: Wire | None = None

    def until(self, request: Request[Any], version: int, error_of: Callable[[Any], int]) -> Any:
        """Send a request until its answer says more than 'try again'."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._try(request, version)
            error = None if answer is None else error_of(answer)
            if error is not None and error not in _AGAIN:
                return answer
            assert time.monotonic() < deadline, f"{type(request).__name__} v{version} has no outcome: {error}"
            time.sleep(0.01)

    def _try(self, request: Request[Any], version: int) -> Any:
        try:
            self._wire = self._wire or Wire(self.process.bootstrap_servers)
            if self.kill_next:
                self.kill_next = False
                self._wire.request(request, version)
                time.sleep(self._chance.uniform(0, 0.004))
                self.kill()
                return None
            return self._wire.ask(request, version)
        except (OSError, AssertionError):
            self.close()
            return None

    def kill(self) -> None:
        self.close()
        assert isinstance(self.process, OwnBroker)
        self.process.kill()
        self.process.start()
        self.kills += 1

    def close(self) -> None:
        if self._wire is not None:
            self._wire.sock.close()
            self._wire = None


class Producer:
    """An application's producer with one transactional id, or with none."""

    def __init__(self, history: History, name: str | None, chance: random.Random) -> None:
        self.history = history
        self.name = name
        self.transaction = Transaction()
        self._chance = chance
        self.start()

    def start(self) -> None:
        """Begin as a new instance: it fences the previous one and aborts its transaction."""
        if self.name is not None and self.transaction.partitions:
            self.transaction.state = "aborted"
        self.version = self._chance.choice((1, 2))
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=_TIMEOUT_MS)
        answer = self.history.broker.until(request, 3 + self.version, lambda answer: int(answer.error_code))
        assert answer.error_code == 0, answer
        self._identify(answer.producer_id, answer.producer_epoch)
        self.transaction = Transaction()

    def _identify(self, id: int, epoch: int) -> None:
        if getattr(self, "id", None) != id or self.epoch != epoch:
            self.sequences = dict.fromkeys(range(PARTITIONS), 0)
        self.id, self.epoch = id, epoch

    def write(self, partition: int, count: int) -> None:
        history, transaction = self.history, self.transaction
        rows = history.rows(count)
        if self.name is not None and self.version == 1 and partition not in transaction.partitions:
            self._add(partition)
        records = build_batch(
            rows,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequences[partition],
            transactional=self.name is not None,
            compression=self._chance.choice(("none", "lz4")),
        )
        offset, error = self.produce(partition, records)
        assert error == 0, f"{self.name} of {history.topic}: {error}"
        self.sequences[partition] += count
        transaction.partitions.add(partition)
        history.entries[partition] += [
            Entry(offset + number, row.key or b"", row.value, None if self.name is None else transaction)
            for number, row in enumerate(rows)
        ]

    def produce(self, partition: int, records: bytes) -> tuple[int, int]:
        """Return the offset and the error."""
        version = 12 if self.version == 2 else self._chance.choice((9, 10, 11))
        data = PartitionProduceData(index=partition, records=records)
        topic = TopicProduceData(name=self.history.topic, partition_data=[data])
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=5000, topic_data=[topic])
        answer = self.history.broker.until(request, version, _produce_error)
        row = answer.responses[0].partition_responses[0]
        return row.base_offset, row.error_code

    def _add(self, partition: int) -> None:
        request = adding.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name or "",
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[adding.AddPartitionsToTxnTopic(name=self.history.topic, partitions=[partition])],
        )
        answer = self.history.broker.until(request, 3, _adding_error)
        assert _adding_error(answer) == 0, answer

    def end(self, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.name or "", producer_id=self.id, producer_epoch=self.epoch, committed=commit
        )
        version = 5 if self.version == 2 else 3
        answer = self.history.broker.until(request, version, lambda answer: int(answer.error_code))
        assert answer.error_code == 0, f"{self.name}: {answer}"
        self.transaction.state = "committed" if commit else "aborted"
        self.transaction = Transaction()
        if self.version == 2:
            self._identify(answer.producer_id, answer.producer_epoch)

    def replace(self) -> None:
        """Start a new instance, and have the old one try to write."""
        old_id, old_epoch, old_version = self.id, self.epoch, self.version
        self.start()
        records = build_batch(
            self.history.rows(1), producer_id=old_id, producer_epoch=old_epoch, base_sequence=0, transactional=True
        )
        version, self.version = self.version, old_version
        _, error = self.produce(self._chance.randrange(PARTITIONS), records)
        self.version = version
        assert error, f"{self.name}: a replaced producer could write"


class History:
    """One topic: its log as the producers know it."""

    def __init__(self, broker: Broker, topic: str, *, compacted: bool, chance: random.Random) -> None:
        self.broker = broker
        self.topic = topic
        self.is_compacted = compacted
        self.chance = chance
        self.entries: dict[int, list[Entry]] = {number: [] for number in range(PARTITIONS)}
        self.starts = dict.fromkeys(range(PARTITIONS), 0)
        #: Kafka returns the start of a batch if the log starts within it, in an open transaction.
        self.is_stable_before_start = False
        self._values = 0
        self._time_ms = int(time.time() * 1000) - 3_600_000
        settings = {"segment.ms": str(SEGMENT_MS), "retention.ms": "-1", **(_COMPACTED if compacted else {})}
        broker.process.create_topic(topic, PARTITIONS, **{k.replace(".", "_"): v for k, v in settings.items()})
        names = [f"{topic}-{number}" for number in range(chance.choice((2, 3, 4)))]
        self.producers = [Producer(self, name, chance) for name in names]
        self.plain = Producer(self, None, chance)

    def rows(self, count: int) -> list[NewRecord]:
        rows = []
        self._time_ms += self.chance.choice((10, 200, 700))
        for _ in range(count):
            self._values += 1
            value = f"{self.topic}:{self._values}".encode()
            key = b"k%d" % self.chance.randrange(_KEYS)
            is_tombstone = self.is_compacted and self.chance.random() < 0.05
            rows.append(NewRecord(key, None if is_tombstone else value, self._time_ms))
        return rows

    def step(self) -> None:
        """Do one thing."""
        chance = self.chance
        dice = chance.random()
        producer = chance.choice(self.producers)
        if dice < 0.55:
            for partition in chance.sample(range(PARTITIONS), chance.choice((1, 1, PARTITIONS))):
                producer.write(partition, chance.randint(1, 6))
        elif dice < 0.65:
            self.plain.write(chance.randrange(PARTITIONS), chance.randint(1, 6))
        elif dice < 0.93:
            if producer.transaction.partitions:
                producer.end(commit=chance.random() < 0.55)
        elif dice < 0.97:
            producer.replace()
        elif not self.is_compacted:
            self._delete(chance.randrange(PARTITIONS))

    def end_all(self) -> None:
        """End the open transactions."""
        for producer in self.producers:
            if producer.transaction.partitions:
                producer.end(commit=self.chance.random() < 0.5)

    def _delete(self, partition: int) -> None:
        entries = self.entries[partition]
        if not entries:
            return
        offset = self.chance.choice(entries).offset
        if offset <= self.starts[partition]:
            return
        row = deleting.DeleteRecordsPartition(partition_index=partition, offset=offset)
        topic = deleting.DeleteRecordsTopic(name=self.topic, partitions=[row])
        request = deleting.DeleteRecordsRequest(topics=[topic], timeout_ms=5000)
        answer = self.broker.until(request, 2, lambda answer: int(answer.topics[0].partitions[0].error_code))
        assert answer.topics[0].partitions[0].error_code == 0, answer
        self.starts[partition] = offset

    # ---- the truth ----

    def stable_offset(self, partition: int) -> int | None:
        """Return the last stable offset, None if it is the end of the log."""
        open_at = [
            entry.offset
            for entry in self.entries[partition]
            if entry.transaction is not None and entry.transaction.state == "open"
        ]
        return max(open_at[0], self.starts[partition]) if open_at else None

    def committed(self, partition: int) -> list[Row]:
        """Return the records that a read_committed reader sees, or saw before a compaction."""
        end = self.stable_offset(partition)
        return [
            (entry.offset, entry.key, entry.value)
            for entry in self.entries[partition]
            if entry.offset >= self.starts[partition]
            and (end is None or entry.offset < end)
            and (entry.transaction is None or entry.transaction.state == "committed")
        ]

    def must_remain(self, partition: int) -> set[int]:
        """Return the offsets of the committed records that no compaction removes: the last one of each key."""
        return set({key: offset for offset, key, _ in self.committed(partition)}.values())

    def stop_compaction(self) -> None:
        """Let the log remain as it is, so that all readers read the same."""
        config = AlterableConfig(name="cleanup.policy", config_operation=0, value="delete")
        resource = AlterConfigsResource(resource_type=2, resource_name=self.topic, configs=[config])
        self.broker.until(AlterRequest(resources=[resource]), 1, lambda answer: answer.responses[0].error_code)

    def settle(self) -> None:
        """Wait until the markers are written."""
        for partition in range(PARTITIONS):
            self._settle(partition)

    def _settle(self, partition: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        # The start of a log is written to the disk from time to time: after a kill, deleted records may be back.
        start = self._offset(partition, _EARLIEST, 0)
        assert start <= self.starts[partition], f"{self.topic}-{partition}: records before {start} are missing"
        self.starts[partition] = start
        while True:
            end, stable = self._offset(partition, _LATEST, 0), self._offset(partition, _LATEST, _READ_COMMITTED)
            wanted = self.stable_offset(partition)
            if wanted == start and stable < start:
                self.is_stable_before_start = True
                return
            if stable == (end if wanted is None else wanted):
                return
            assert time.monotonic() < deadline, (
                f"{self.topic}-{partition}: the last stable offset stays at {stable} of {end}, expected {wanted}"
            )
            time.sleep(0.05)

    def _offset(self, partition: int, which: int, isolation: int) -> int:
        row = ListOffsetsPartition(partition_index=partition, timestamp=which)
        topic = ListOffsetsTopic(name=self.topic, partitions=[row])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic])
        answer = self.broker.until(request, 5, lambda answer: int(answer.topics[0].partitions[0].error_code))
        return int(answer.topics[0].partitions[0].offset)


def _produce_error(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


def _adding_error(answer: Any) -> int:
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


class Account(NamedTuple):
    """The size of what was told and read."""

    histories: int
    kills: int
    records: int
    committed: int
    compacted: int

    def __str__(self) -> str:
        return (
            f"{self.histories} histories with {self.kills} kills: {self.records} records, {self.committed} of them "
            f"visible to read_committed; compaction removed records from {self.compacted} partitions"
        )


Read = dict[TopicPartition, list[Row]]
Reader = Callable[[Kafka, list[str], bool], Read]


class Histories:
    """Histories told together to one broker, which is killed in between."""

    def __init__(self, broker: Kafka, count: int, *, seed: int) -> None:
        self._chance = random.Random(seed)
        self.broker = Broker(broker, self._chance)
        find = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=["any"])  # creates the internal topic
        self.broker.until(find, 4, lambda answer: int(answer.coordinators[0].error_code))
        self.all = [
            History(
                self.broker, f"h{seed}-{number}", compacted=number % 3 == 0, chance=random.Random(f"{seed}/{number}")
            )
            for number in range(count)
        ]

    def tell(self, steps: int, *, kills: int) -> None:
        """Do `steps` things in each history, in a random order, and kill the broker (one of the test) now and then."""
        order = [history for history in self.all for _ in range(steps)]
        self._chance.shuffle(order)
        deaths = set(self._chance.sample(range(len(order) // 5, len(order)), kills))
        for number, history in enumerate(order):
            self.broker.kill_next = self.broker.kill_next or number in deaths
            history.step()
        self.broker.kill_next = False
        for history in self.all:
            if self._chance.random() < 0.7:  # of the others, open transactions hide all later records
                history.end_all()
            history.settle()

    def check(self, readers: dict[str, Reader], everything: Reader) -> Account:
        """Compare all readers with the truth. `everything` reads uncommitted, for what compaction has left."""
        names = [history.topic for history in self.all]
        self._await_compaction(everything)
        present = self._left(everything, names)
        committed = compacted = 0
        # `kcat -e` does not end there, because it waits for the last stable offset.
        endless = {history.topic for history in self.all if history.is_stable_before_start}
        reads = {
            name: reader(self.broker.process, [one for one in names if name != "kcat" or one not in endless], True)
            for name, reader in readers.items()
        }
        for history in self.all:
            for partition in range(PARTITIONS):
                tp = TopicPartition(history.topic, partition)
                left = {offset for offset, _, _ in present.get(tp, [])}
                truth = history.committed(partition)
                wanted = [row for row in truth if row[0] in left]
                if history.is_compacted:
                    assert history.must_remain(partition) <= left, f"{tp}: compaction has removed a last value"
                    compacted += len(left) < len(history.entries[partition])
                else:
                    assert wanted == truth, f"{tp}: a record is missing in the log"
                for name, read in reads.items():
                    if name == "kcat" and history.topic in endless:
                        continue
                    extra = [row for row in read.get(tp, []) if row not in wanted]
                    missing = [row for row in wanted if row not in read.get(tp, [])]
                    assert not extra, f"{name} reads from {tp} what is not committed: {extra[:9]}"
                    assert not missing, f"{name} does not read from {tp}: {missing[:9]}"
                committed += len(wanted)
        records = sum(map(len, (rows for history in self.all for rows in history.entries.values())))
        return Account(len(self.all), self.broker.kills, records, committed, compacted)

    def _await_compaction(self, everything: Reader) -> None:
        """Wait until a compaction has removed records, then stop it in all topics."""
        compacted = [history for history in self.all if history.is_compacted]
        written = sum(len(rows) for history in compacted for rows in history.entries.values())
        deadline = time.monotonic() + PATIENCE_S
        while compacted:
            found = everything(self.broker.process, [history.topic for history in compacted], False)
            if sum(map(len, found.values())) < written:
                break
            assert time.monotonic() < deadline, f"no compaction removes any of {written} records"
            time.sleep(0.2)
        for history in compacted:
            history.stop_compaction()

    def _left(self, everything: Reader, names: list[str]) -> Read:
        """Read all topics until a last compaction, which may still run, changes nothing any more."""
        previous: Read = {}
        limit = Limit("the end of the compaction", 300)
        while True:
            limit.check()
            found = everything(self.broker.process, names, False)
            if found == previous:
                return found
            previous = found
            time.sleep(0.5)
