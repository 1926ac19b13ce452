"""First records at offsets, and their times: one small Fetch for each leader, a larger one for a large batch."""

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
"""(fetched batches, offset) -> a value for the first record from the offset on, the next offset to fetch, or None."""

See: TypeAlias = "Callable[[TopicPartition, PartitionData], None]"

_LAST_WITH_NAMES = 12
# A broker omits a batch above the limit of its partition, except the first batch of a response. So each request gets
# at least one batch, and requests for the remaining partitions with the last limit get all in the end.
_PARTITION_BYTES = (8 << 10, 256 << 10, 2 << 20)
_ANSWER_BYTES = 32 << 20
# Limit of the fetches after control batches and empty batches, where the next record is later in the log.
_MOST_JUMPS = 20


class _Probe(NamedTuple):
    """The offset to fetch, the index of the size limit, and the number of fetches after empty batches."""

    offset: int
    limit: int = 0
    jumps: int = 0


class _Question(Generic[T]):
    """Functions that read a response. Not a named tuple, which cannot be generic before Python 3.11."""

    def __init__(self, find: Find[T], nothing: T, see: See | None) -> None:
        self.find, self.nothing, self.see = find, nothing, see


def record_times(
    client: ConsumerNetworkClient, positions: Mapping[TopicPartition, Iterable[int]], deadline_ms: float
) -> Results[tuple[TopicPartition, int], RecordTime]:
    """Return the time of the first record at or after each of these offsets, by partition and offset, or its error.

    A request has one offset of a partition, the smallest first. Its response often has the records at the next ones.
    """
    results: Results[tuple[TopicPartition, int], RecordTime] = Results()
    pending = {tp: sorted(set(offsets), reverse=True) for tp, offsets in positions.items()}
    number = 0
    while pending := {tp: offsets for tp, offsets in pending.items() if offsets}:
        if number and client.clock.now_ms() >= deadline_ms:
            late = client.timed_out("the times of records")
            results.errors.update({(tp, offset): late for tp, offsets in pending.items() for offset in offsets})
            break
        batch_of_offsets = {tp: offsets.pop() for tp, offsets in pending.items()}
        found = records_at(client, batch_of_offsets, deadline_ms, _find_time, (RecordTime(-1), FetchedTimes(b"")))
        results.errors.update({(tp, batch_of_offsets[tp]): error for tp, error in found.errors.items()})
        for tp, (time, fetched) in found.values.items():
            results.values[tp, batch_of_offsets[tp]] = time
            results.values.update(((tp, offset), it) for offset, it in _other_times(time, fetched, pending[tp]))
        number += 1
    return results


def _find_time(data: Buffer, offset: int) -> tuple[RecordTime, FetchedTimes] | int | None:
    fetched = FetchedTimes(data)
    found = fetched.first_from(offset)
    return (found, fetched) if isinstance(found, RecordTime) else found


def _other_times(found: RecordTime, fetched: FetchedTimes, offsets: list[int]) -> Iterator[tuple[int, RecordTime]]:
    """Yield the times that the fetched batches have for these offsets, and remove these from the list, last first."""
    with suppress(CorruptRecords):  # the offset is requested, and reports the error
        while offsets:
            if found.offset < offsets[-1]:
                following = fetched.first_from(offsets[-1])
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
    max_attempts: int | None = None,
) -> Results[TopicPartition, T]:
    """Return the value of `find` for the first record at or after each of these offsets, `nothing` without a record.

    `find` returns None without a whole batch. An offset without a result after `max_attempts` requests (None: any
    number), or at the deadline, is an error. `see` is called with the response of each partition.
    """
    results: Results[TopicPartition, T] = Results()
    probes = {tp: _Probe(offset) for tp, offset in positions.items()}
    attempts = 0
    while probes:
        attempts += 1
        found = _fetch(client, probes, deadline_ms, _Question(find, nothing, see))
        results.errors.update(found.errors)
        probes = {}
        for tp, outcome in found.values.items():
            if isinstance(outcome, _Probe):
                probes[tp] = outcome
            else:
                results.values[tp] = outcome
        if probes and client.clock.now_ms() >= deadline_ms:
            results.errors.update(dict.fromkeys(probes, client.timed_out("the records")))
            break
        if probes and attempts == max_attempts:
            text = f"the record was not found in {attempts} requests to its leader"
            results.errors.update(dict.fromkeys(probes, TimeoutExpired(text)))
            break
    return results


def _fetch(
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
        for partition in topic.partitions:
            tp = TopicPartition(topic.topic, partition.partition_index)
            if tp in probes:
                if question.see is not None:
                    question.see(tp, partition)
                outcome = _outcome(tp, partition, probes[tp], question)
                yield tp, outcome


def _outcome(
    tp: TopicPartition, partition: PartitionData, probe: _Probe, question: _Question[T]
) -> T | _Probe | KcliError:
    if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return question.nothing
    if partition.error_code:
        return BrokerError(partition.error_code, api="Fetch", topic=tp.topic, partition=tp.partition)
    if probe.offset >= partition.high_watermark:
        return question.nothing
    try:
        found = question.find(partition.records or b"", probe.offset)
    except CorruptRecords as problem:
        return CorruptRecords(problem.message, topic=tp.topic, partition=tp.partition, offset=probe.offset)
    if found is None:
        return probe._replace(limit=min(probe.limit + 1, len(_PARTITION_BYTES) - 1))
    if isinstance(found, int):
        return _Probe(found, probe.limit, probe.jumps + 1) if probe.jumps < _MOST_JUMPS else question.nothing
    return found


_NO_TIME = -1


class RecordTime(NamedTuple):
    """First record at or after an offset. `offset` -1: there is none. `timestamp_ms` -1: it has no timestamp.

    `append_time`: the broker set the time (LogAppendTime), not a producer. An `offset` above the requested one: there
    is no record at that one (compaction, a control record).
    """

    offset: int
    timestamp_ms: int = _NO_TIME
    append_time: bool = False


def first_record_time(data: Buffer, offset: int) -> RecordTime | int | None:
    """Return the time of the record; if these batches do not have it, the next offset to fetch; None without a batch.

    `CorruptRecords` for a batch that cannot be read. A compressed message set of format 1 gives its newest time.
    """
    return FetchedTimes(data).first_from(offset)


class FetchedTimes:
    """Times of records in fetched batches, for several ascending offsets: the batches are read only once."""

    def __init__(self, data: Buffer) -> None:
        self._walk = walk_batches(data, 0, len(data))
        self._batches = (_Batch(read_batch_info(data, start)) for start in self._walk.starts)
        self._batch = next(self._batches, None)

    def __repr__(self) -> str:
        return f"<FetchedTimes of {len(self._walk.starts)} batches>"

    def first_from(self, offset: int) -> RecordTime | int | None:
        """Return the result of `first_record_time`. No offset may be below the previous one."""
        next_offset: int | None = None
        while self._batch is not None:
            found = self._batch.first_from(offset)
            if isinstance(found, RecordTime):
                return found
            next_offset = max(offset, found)
            following = next(self._batches, None)
            if following is None:  # the last batch is kept for its end offset
                break
            self._batch = following
        if next_offset is None and self._walk.problem:
            raise CorruptRecords(f"the batch at offset {offset} is damaged: {self._walk.problem}")
        return next_offset


class _Batch:
    """One batch, or one message of an older format; record heads are read only as far as needed."""

    def __init__(self, info: BatchInfo) -> None:
        self._info = info
        self._heads: Iterator[RecordHead] | None = None
        self._head_offset = -1
        self._head_ms = _NO_TIME

    def first_from(self, offset: int) -> RecordTime | int:
        """Return the record, or the offset after this batch."""
        info = self._info
        next_offset = info.last_offset + 1
        if next_offset <= offset or not info.record_count or info.is_control:
            return next_offset
        if info.magic < 2:
            first = offset if info.codec else info.last_offset
            return RecordTime(first, info.base_timestamp_ms, info.is_append_time)
        first = max(offset, info.base_offset)
        # Without compaction the batch header may be enough, even if the records are compressed.
        if info.record_count == next_offset - info.base_offset:
            if info.is_append_time:
                return RecordTime(first, info.max_timestamp_ms, append_time=True)
            if first == info.base_offset and info.delete_horizon_ms is None:
                return RecordTime(first, info.base_timestamp_ms)
        if self._heads is None:
            self._heads = iter_record_heads(read_payload(memoryview(info.records)), info.record_count)
        while self._head_offset < offset:
            head = next(self._heads, None)
            if head is None:
                return next_offset
            self._head_offset, self._head_ms = info.base_offset + head[0], info.base_timestamp_ms + head[1]
        timestamp_ms = info.max_timestamp_ms if info.is_append_time else self._head_ms
        return RecordTime(self._head_offset, timestamp_ms, info.is_append_time)
