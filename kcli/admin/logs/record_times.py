"""The first record at an offset: one small Fetch for each leader, a larger one where a batch is large."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from kcli.client.requests import Results
from kcli.client.routing import ask_leaders
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords, KcliError, TimeoutExpired
from kcli.protocol.records.batch import BatchInfo, Buffer, read_batch_info, walk_batches
from kcli.protocol.records.scan import RecordHead, iter_record_heads, read_payload
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import Metadata
    from kcli.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData

__all__ = ["RecordTime", "record_times", "records_at"]

T = TypeVar("T")

Find: TypeAlias = Callable[[Buffer, int], "T | int | None"]
"""(fetched batches, offset) -> what is told of the first record there or behind; or where to read on; or None."""

See: TypeAlias = "Callable[[TopicPartition, PartitionData], None]"

_LAST_WITH_NAMES = 12
# A batch above the limit of its partition is left out, unless it is the first of the whole answer: so each question
# gets something, and who asks for the rest again with the last limit gets all in the end.
_PARTITION_BYTES = (8 << 10, 256 << 10, 2 << 20)
_ANSWER_BYTES = 32 << 20
# How many times behind transaction markers and emptied batches the next record is looked for.
_MOST_JUMPS = 20


class _Probe(NamedTuple):
    """Where to look now, with the how-manieth limit, and how often we had to look further on."""

    offset: int
    limit: int = 0
    jumps: int = 0


class _Question(Generic[T]):
    """What to make of answers: generic, which a named tuple cannot be before Python 3.11."""

    def __init__(self, find: Find[T], nothing: T, see: See | None) -> None:
        self.find, self.nothing, self.see = find, nothing, see


def record_times(
    client: ConsumerNetworkClient, positions: Mapping[TopicPartition, Iterable[int]], deadline_ms: float
) -> Results[tuple[TopicPartition, int], RecordTime]:
    """The time of the first record at or behind each of these offsets, by partition and offset, or why it is not known.

    A request asks for one offset of a partition, the smallest first. Its answer often has the records at the next ones.
    """
    gathered: Results[tuple[TopicPartition, int], RecordTime] = Results()
    turns = {tp: sorted(set(offsets), reverse=True) for tp, offsets in positions.items()}
    number = 0
    while turns := {tp: offsets for tp, offsets in turns.items() if offsets}:
        if number and client.clock.now_ms() >= deadline_ms:
            late = client.timed_out("the times of records")
            gathered.errors.update({(tp, offset): late for tp, offsets in turns.items() for offset in offsets})
            break
        turn = {tp: offsets.pop() for tp, offsets in turns.items()}
        found = records_at(client, turn, deadline_ms, _find_time, (RecordTime(-1), FetchedTimes(b"")))
        gathered.errors.update({(tp, turn[tp]): error for tp, error in found.errors.items()})
        for tp, (time, fetched) in found.values.items():
            gathered.values[tp, turn[tp]] = time
            gathered.values.update(((tp, offset), it) for offset, it in _times_besides(time, fetched, turns[tp]))
        number += 1
    return gathered


def _find_time(data: Buffer, offset: int) -> tuple[RecordTime, FetchedTimes] | int | None:
    fetched = FetchedTimes(data)
    found = fetched.first_behind(offset)
    return (found, fetched) if isinstance(found, RecordTime) else found


def _times_besides(found: RecordTime, fetched: FetchedTimes, offsets: list[int]) -> Iterator[tuple[int, RecordTime]]:
    """What the batches behind the record that was found tell of these offsets, which are taken away, the last first."""
    with suppress(CorruptRecords):  # it will be asked for, and told
        while offsets:
            if found.offset < offsets[-1]:
                following = fetched.first_behind(offsets[-1])
                if not isinstance(following, RecordTime):
                    return
                found = following
            yield offsets.pop(), found


def records_at(
    client: ConsumerNetworkClient,
    positions: Mapping[TopicPartition, int],
    deadline_ms: float,
    find: Find[T],
    nothing: T,
    *,
    see: See | None = None,
    most_looks: int | None = None,
) -> Results[TopicPartition, T]:
    """What `find` tells of the first record at or behind each of these offsets, `nothing` where there is none.

    `find` returns None if the batches that it is given have no whole one. What is not found after `most_looks` rounds
    of requests (None: no bound) is an error, as is what is not found in time. `see` is shown each partition's answer.
    """
    gathered: Results[TopicPartition, T] = Results()
    probes = {tp: _Probe(offset) for tp, offset in positions.items()}
    looks = 0
    while probes:
        looks += 1
        found = _look(client, probes, deadline_ms, _Question(find, nothing, see))
        gathered.errors.update(found.errors)
        probes = {}
        for tp, outcome in found.values.items():
            if isinstance(outcome, _Probe):
                probes[tp] = outcome
            else:
                gathered.values[tp] = outcome
        if probes and client.clock.now_ms() >= deadline_ms:
            gathered.errors.update(dict.fromkeys(probes, client.timed_out("the records")))
            break
        if probes and looks == most_looks:
            text = f"the record was not looked for further after {looks} requests to its leader"
            gathered.errors.update(dict.fromkeys(probes, TimeoutExpired(text)))
            break
    return gathered


def _look(
    client: ConsumerNetworkClient,
    probes: Mapping[TopicPartition, _Probe],
    deadline_ms: float,
    question: _Question[T],
) -> Results[TopicPartition, T | _Probe]:
    return ask_leaders(
        client,
        probes,
        lambda _node, tps: _request(client.metadata, {tp: probes[tp] for tp in tps}),
        lambda response: _read(response, probes, question),
        deadline_ms,
        max_version=_LAST_WITH_NAMES,
    )


def _request(metadata: Metadata, probes: Mapping[TopicPartition, _Probe]) -> FetchRequest:
    from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    topics: dict[str, FetchTopic] = {}
    for tp, probe in probes.items():
        topic = topics.setdefault(tp.topic, FetchTopic(topic=tp.topic, partitions=[]))
        topic.partitions.append(
            FetchPartition(
                partition=tp.partition,
                current_leader_epoch=metadata.leader(tp).epoch,
                fetch_offset=probe.offset,
                partition_max_bytes=_PARTITION_BYTES[probe.limit],
            )
        )
    return FetchRequest(max_bytes=_ANSWER_BYTES, topics=list(topics.values()))


def _read(
    response: FetchResponse, probes: Mapping[TopicPartition, _Probe], question: _Question[T]
) -> Iterator[tuple[TopicPartition, T | _Probe | KcliError]]:
    if response.error_code:
        raise BrokerError(response.error_code, api="Fetch")
    for topic in response.responses:
        for told in topic.partitions:
            tp = TopicPartition(topic.topic, told.partition_index)
            if tp in probes:
                if question.see is not None:
                    question.see(tp, told)
                outcome = _judge(tp, told, probes[tp], question)
                yield tp, outcome


def _judge(tp: TopicPartition, told: PartitionData, probe: _Probe, question: _Question[T]) -> T | _Probe | KcliError:
    if told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return question.nothing
    if told.error_code:
        return BrokerError(told.error_code, api="Fetch", topic=tp.topic, partition=tp.partition)
    if probe.offset >= told.high_watermark:
        return question.nothing
    try:
        found = question.find(told.records or b"", probe.offset)
    except CorruptRecords as problem:
        return CorruptRecords(problem.message, topic=tp.topic, partition=tp.partition, offset=probe.offset)
    if found is None:
        return probe._replace(limit=min(probe.limit + 1, len(_PARTITION_BYTES) - 1))
    if isinstance(found, int):
        return _Probe(found, probe.limit, probe.jumps + 1) if probe.jumps < _MOST_JUMPS else question.nothing
    return found


_NO_TIME = -1


class RecordTime(NamedTuple):
    """The first record at or behind an offset. `offset` -1: there is none. `timestamp_ms` -1: it has no time.

    `append_time`: the broker's clock wrote the time (LogAppendTime), not a producer's. An `offset` behind the one that
    was asked for: what was there is gone (compaction) or was never a record (a transaction's marker).
    """

    offset: int
    timestamp_ms: int = _NO_TIME
    append_time: bool = False


def first_record_time(data: Buffer, offset: int) -> RecordTime | int | None:
    """The record's time; if none of these batches has it, where to read on; None if there is no whole batch.

    `CorruptRecords` for a batch that cannot be read. Of a compressed set of format 1 the newest time is told.
    """
    return FetchedTimes(data).first_behind(offset)


class FetchedTimes:
    """Times of records in fetched batches, for several offsets one after another: the batches are read only once."""

    def __init__(self, data: Buffer) -> None:
        self._walk = walk_batches(data, 0, len(data))
        self._batches = (_Batch(read_batch_info(data, start)) for start in self._walk.starts)
        self._batch = next(self._batches, None)

    def __repr__(self) -> str:
        return f"<FetchedTimes of {len(self._walk.starts)} batches>"

    def first_behind(self, offset: int) -> RecordTime | int | None:
        """What `first_record_time` says. No offset may be below the one that was asked for before."""
        behind: int | None = None
        while self._batch is not None:
            found = self._batch.first_behind(offset)
            if isinstance(found, RecordTime):
                return found
            behind = max(offset, found)
            following = next(self._batches, None)
            if following is None:  # the last one stays, to tell where it ends
                break
            self._batch = following
        if behind is None and self._walk.problem:
            raise CorruptRecords(f"the batch at offset {offset} is damaged: {self._walk.problem}")
        return behind


class _Batch:
    """One batch, or one message of an older format; of its records so many heads are read as had to be."""

    def __init__(self, info: BatchInfo) -> None:
        self._info = info
        self._heads: Iterator[RecordHead] | None = None
        self._head_offset = -1
        self._head_ms = _NO_TIME

    def first_behind(self, offset: int) -> RecordTime | int:
        """The record, or the offset behind this batch."""
        info = self._info
        behind = info.last_offset + 1
        if behind <= offset or not info.record_count or info.is_control:
            return behind
        if info.magic < 2:
            first = offset if info.codec else info.last_offset
            return RecordTime(first, info.base_timestamp_ms, info.is_append_time)
        first = max(offset, info.base_offset)
        # Nothing was compacted away: the header may tell enough, though the records be compressed.
        if info.record_count == behind - info.base_offset:
            if info.is_append_time:
                return RecordTime(first, info.max_timestamp_ms, append_time=True)
            if first == info.base_offset and info.delete_horizon_ms is None:
                return RecordTime(first, info.base_timestamp_ms)
        if self._heads is None:
            self._heads = iter_record_heads(read_payload(memoryview(info.records)), info.record_count)
        while self._head_offset < offset:
            head = next(self._heads, None)
            if head is None:
                return behind
            self._head_offset, self._head_ms = info.base_offset + head[0], info.base_timestamp_ms + head[1]
        timestamp_ms = info.max_timestamp_ms if info.is_append_time else self._head_ms
        return RecordTime(self._head_offset, timestamp_ms, info.is_append_time)
