"""Times of the first records at offsets: one small Fetch for each leader, a larger one for large batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from kcli.client.requests import Results
from kcli.client.routing import ask_leaders
from kcli.error_codes import ErrorCode
from kcli.errors import CorruptRecords, KcliError, RecordTooLarge, TimeoutExpired
from kcli.protocol.primitives import int64
from kcli.protocol.records.batch import BatchInfo, Buffer, read_batch_info, walk_batches
from kcli.protocol.records.scan import RecordHead, iter_record_heads, read_payload
from kcli.settings import MAX_DECOMPRESSED_BYTES
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import Metadata
    from kcli.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData

__all__ = ["RecordTime", "record_times", "records_at"]

T = TypeVar("T")

Find: TypeAlias = Callable[[Buffer, int, int], "T | int | None"]
"""(fetched batches, offset, largest decompressed size) -> facts about the first record at or after the offset.

Or the offset to fetch next if these batches do not have it; or None if no batch is complete."""

OnResponse: TypeAlias = "Callable[[TopicPartition, PartitionData], None]"

_LAST_VERSION_WITH_NAMES = 12  # later versions of Fetch have topic ids
# A broker omits a batch above the limit of its partition, except for the first batch of the response. So each request
# returns at least one batch, and repeated requests for the other partitions return all of them in the end.
_PARTITION_BYTES = (8 << 10, 256 << 10, 2 << 20)
_RESPONSE_BYTES = 32 << 20
_MAX_SKIPS = 20  # transaction markers and compacted batches before the next record


class _Probe(NamedTuple):
    """The next fetch of a partition: its offset, the index of its limit in bytes, and the skips so far."""

    offset: int
    limit: int = 0
    skips: int = 0


class _Reader(Generic[T]):
    """Callbacks for a partition of a response. A class, because a NamedTuple cannot be generic before Python 3.11."""

    def __init__(self, find: Find[T], default: T, on_response: OnResponse | None, max_bytes: int) -> None:
        self.find, self.default, self.on_response, self.max_bytes = find, default, on_response, max_bytes


def record_times(
    client: ConsumerNetworkClient, positions: Mapping[TopicPartition, Iterable[int]], deadline_ms: float
) -> Results[tuple[TopicPartition, int], RecordTime]:
    """Return the time of the first record at or after each of these offsets, by partition and offset.

    A request has one offset of each partition, the smallest first. Its response often has the records at the next ones,
    which are then not requested.
    """
    results: Results[tuple[TopicPartition, int], RecordTime] = Results()
    remaining = {tp: sorted(set(offsets), reverse=True) for tp, offsets in positions.items()}
    requested = False
    while remaining := {tp: offsets for tp, offsets in remaining.items() if offsets}:
        if requested and client.clock.now_ms() >= deadline_ms:
            error = client.timed_out("the times of records")
            results.errors.update({(tp, offset): error for tp, offsets in remaining.items() for offset in offsets})
            break
        offsets_now = {tp: offsets.pop() for tp, offsets in remaining.items()}
        records = records_at(client, offsets_now, deadline_ms, _find_time, (RecordTime(-1), FetchedTimes(b"")))
        results.errors.update({(tp, offsets_now[tp]): error for tp, error in records.errors.items()})
        for tp, (first, fetched) in records.values.items():
            results.values[tp, offsets_now[tp]] = first
            for offset, following in _following_times(first, fetched, remaining[tp]):
                results.values[tp, offset] = following
        requested = True
    return results


def _find_time(data: Buffer, offset: int, max_bytes: int) -> tuple[RecordTime, FetchedTimes] | int | None:
    fetched = FetchedTimes(data, max_bytes)
    first = fetched.first_from(offset)
    return (first, fetched) if isinstance(first, RecordTime) else first


def _following_times(first: RecordTime, fetched: FetchedTimes, offsets: list[int]) -> Iterator[tuple[int, RecordTime]]:
    """Yield the times at those of the offsets (in descending order) that the same batches have; remove them."""
    with suppress(CorruptRecords, RecordTooLarge):  # the next request reports it
        while offsets:
            if first.offset < offsets[-1]:
                following = fetched.first_from(offsets[-1])
                if not isinstance(following, RecordTime):
                    return
                first = following
            yield offsets.pop(), first


def records_at(
    client: ConsumerNetworkClient,
    positions: Mapping[TopicPartition, int],
    deadline_ms: float,
    find: Find[T],
    default: T,
    *,
    on_response: OnResponse | None = None,
    max_attempts: int | None = None,
) -> Results[TopicPartition, T]:
    """Return the result of `find` for the first record at or after each of these offsets; `default` without a record.

    A partition without a result after `max_attempts` requests to its leader (None: no limit), or at the deadline, is an
    error. `on_response` is called with the response of each partition.
    """
    results: Results[TopicPartition, T] = Results()
    probes = {tp: _Probe(offset) for tp, offset in positions.items()}
    reader = _Reader(find, default, on_response, client.config.max_decompressed_batch_bytes)
    attempts = 0
    while probes:
        attempts += 1
        fetched = _fetch(client, probes, deadline_ms, reader)
        results.errors.update(fetched.errors)
        probes = {}
        for tp, outcome in fetched.values.items():
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
    reader: _Reader[T],
) -> Results[TopicPartition, T | _Probe]:
    return ask_leaders(
        client,
        probes,
        lambda _node, tps: _request(client.metadata, {tp: probes[tp] for tp in tps}),
        lambda response: _read(response, probes, reader),
        deadline_ms,
        max_version=_LAST_VERSION_WITH_NAMES,
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
    return FetchRequest(max_bytes=_RESPONSE_BYTES, topics=list(topics.values()))


def _read(
    response: FetchResponse, probes: Mapping[TopicPartition, _Probe], reader: _Reader[T]
) -> Iterator[tuple[TopicPartition, T | _Probe | KcliError]]:
    if response.error_code:
        raise response.broker_error(response.error_code, api="Fetch")
    for topic in response.responses:
        for partition in topic.partitions:
            tp = TopicPartition(topic.topic, partition.partition_index)
            if tp in probes:
                if reader.on_response is not None:
                    reader.on_response(tp, partition)
                result = _read_partition(response, tp, partition, probes[tp], reader)
                yield tp, result


def _read_partition(
    response: FetchResponse, tp: TopicPartition, partition: PartitionData, probe: _Probe, reader: _Reader[T]
) -> T | _Probe | KcliError:
    if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return reader.default
    if partition.error_code:
        return response.broker_error(partition.error_code, api="Fetch", topic=tp.topic, partition=tp.partition)
    if probe.offset >= partition.high_watermark:
        return reader.default
    try:
        found = reader.find(partition.records or b"", probe.offset, reader.max_bytes)
    except CorruptRecords as error:
        return CorruptRecords(error.message, topic=tp.topic, partition=tp.partition, offset=probe.offset)
    except RecordTooLarge as error:
        error.evidence |= {"topic": tp.topic, "partition": tp.partition}
        return error
    if found is None:
        return probe._replace(limit=min(probe.limit + 1, len(_PARTITION_BYTES) - 1))
    if isinstance(found, int):
        return _Probe(found, probe.limit, probe.skips + 1) if probe.skips < _MAX_SKIPS else reader.default
    return found


_NO_TIME = -1


class RecordTime(NamedTuple):
    """The first record at or after an offset. `offset` -1: there is none. `timestamp_ms` -1: it has no timestamp.

    `append_time`: the broker set the timestamp (LogAppendTime), not the producer. `offset` is after the requested one
    if the record there was compacted away or is a transaction marker.
    """

    offset: int
    timestamp_ms: int = _NO_TIME
    append_time: bool = False


class FetchedTimes:
    """Times of records in fetched batches, for ascending offsets. Each batch is read once."""

    def __init__(self, data: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> None:
        """`max_bytes` bounds the decompressed records of a batch."""
        self._walk = walk_batches(data, 0, len(data))
        self._batches = (_Batch(read_batch_info(data, start), max_bytes) for start in self._walk.starts)
        self._batch = next(self._batches, None)

    def __repr__(self) -> str:
        return f"<FetchedTimes of {len(self._walk.starts)} batches>"

    def first_from(self, offset: int) -> RecordTime | int | None:
        """Return the time of the first record at or after an offset, which must not be below the previous one.

        If these batches do not have it, return the offset to fetch next; None if no batch is complete. CorruptRecords
        or RecordTooLarge for a batch that cannot be read. A compressed message of format 1 has the newest time of its
        records.
        """
        next_offset: int | None = None
        while self._batch is not None:
            first = self._batch.first_from(offset)
            if isinstance(first, RecordTime):
                return first
            next_offset = max(offset, first)
            following = next(self._batches, None)
            if following is None:  # keep the last batch: its end is the result for later offsets
                break
            self._batch = following
        if next_offset is None and self._walk.problem:
            raise CorruptRecords(f"the batch at offset {offset} is damaged: {self._walk.problem}")
        return next_offset


class _Batch:
    """A batch, or a message of an older format. The heads of its records are read on demand."""

    def __init__(self, info: BatchInfo, max_bytes: int) -> None:
        self._info = info
        self._max_bytes = max_bytes
        self._heads: Iterator[RecordHead] | None = None
        self._head_offset = -1
        self._head_ms = _NO_TIME

    def first_from(self, offset: int) -> RecordTime | int:
        """Return the record, or the end offset of this batch."""
        info = self._info
        end = info.last_offset + 1
        if end <= offset or not info.record_count or info.is_control:
            return end
        if info.magic < 2:
            first = offset if info.codec else info.last_offset
            return RecordTime(first, info.base_timestamp_ms, info.is_append_time)
        first = max(offset, info.base_offset)
        # Without compaction the header of the batch may suffice, so compressed records are not decompressed.
        if info.record_count == end - info.base_offset:
            if info.is_append_time:
                return RecordTime(first, info.max_timestamp_ms, append_time=True)
            if first == info.base_offset and info.delete_horizon_ms is None:
                return RecordTime(first, info.base_timestamp_ms)
        if self._heads is None:
            self._heads = iter_record_heads(read_payload(memoryview(info.records), self._max_bytes), info.record_count)
        while self._head_offset < offset:
            head = next(self._heads, None)
            if head is None:
                return end
            self._head_offset, self._head_ms = info.base_offset + head[0], int64(info.base_timestamp_ms + head[1])
        timestamp_ms = info.max_timestamp_ms if info.is_append_time else self._head_ms
        return RecordTime(self._head_offset, timestamp_ms, info.is_append_time)
