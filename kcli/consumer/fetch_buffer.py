"""Fetched responses, and their delivery to the caller in chunks of bounded decoded size. No I/O.

Batch headers are never compressed, so the end offset of a section is known before it is decoded, and the next fetch can
be sent first. A section can be cut between any two of its batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kcli.consumer.subscription import FetchPosition, PartitionFailure, SubscriptionState
from kcli.errors import KcliError, RecordTooLarge
from kcli.protocol.records.batch import CODEC_MASK, MAGIC_AT, read_batch_info, walk_batches
from kcli.settings import MAX_DECOMPRESSED_BYTES
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.protocol.records.columns import RecordColumns
    from kcli.protocol.records.decode import DecodedSection, RecordSection

#: An alternative decoder of sections, for example of batch headers; its `columns` can be cut by offset like records.
Decode: TypeAlias = "Callable[[Sequence[RecordSection]], list[DecodedSection]]"

CHUNK_BYTES = 8 << 20
# Assumed until a compressed batch is decoded: so large that a batch is a chunk of its own.
FIRST_EXPANSION = 1e9


class Section(NamedTuple):
    """Batches of one partition, fetched from `fetch_offset` on.

    `aborted` are the aborted transactions as (producer id, first offset); None under read_uncommitted. `topic_id` is
    None if the broker does not send ids.
    """

    tp: TopicPartition
    data: memoryview
    fetch_offset: int
    aborted: list[tuple[int, int]] | None = None
    topic_id: UUID | None = None


class CompletedFetch:
    """One fetch response: the decoded sections and then others that are not delivered yet, then the failures.

    `started`: some were delivered. `record_counts` are the delivered records by topic.
    """

    __slots__ = ("decoded", "failures", "node_id", "record_counts", "sections", "started")

    def __init__(self, node_id: int, sections: list[Section], failures: list[PartitionFailure]) -> None:
        self.node_id = node_id
        self.sections = deque(sections)
        self.decoded: deque[tuple[Section, DecodedSection]] = deque()
        self.record_counts: dict[str, int] = {}
        self.failures = failures
        self.started = False

    def next_chunk(self, expansion: float, chunk_bytes: int = CHUNK_BYTES) -> list[Section]:
        """Return the next sections, cut so that they decode to about `chunk_bytes`; at least one batch.

        `expansion` is the expected ratio of decoded size to size on the wire of compressed batches.
        """
        chunk: list[Section] = []
        room = float(chunk_bytes)
        while self.sections and room > 0:
            section = self.sections.popleft()
            cost = len(section.data) * expansion if is_compressed(section.data) else len(section.data)
            if cost > room and (cut := cut_section(section, len(section.data) * room / cost)) is not None:
                section, remaining = cut
                self.sections.appendleft(remaining)
            chunk.append(section)
            room -= cost
        return chunk

    def put_back(self, sections: list[Section]) -> None:
        """Put sections, the part that was too large for one chunk, back in front of the others."""
        self.sections.extendleft(reversed(sections))


def is_compressed(data: memoryview) -> bool:
    """True if the first batch is compressed; the other batches are assumed to be the same."""
    if len(data) < 23:
        return False
    attributes_at = 22 if data[MAGIC_AT] >= 2 else 17
    return bool(data[attributes_at] & CODEC_MASK)


def position_after(data: memoryview) -> FetchPosition | None:
    """Return the position after the last whole batch, by its header alone, not verified. None: no whole batch."""
    starts = walk_batches(data, 0, len(data)).starts
    return _position_after_batch(data, starts[-1]) if starts else None


def _position_after_batch(data: memoryview, start: int) -> FetchPosition:
    info = read_batch_info(data, start)
    return FetchPosition(info.last_offset + 1, info.leader_epoch)


def cut_section(section: Section, at_bytes: float) -> tuple[Section, Section] | None:
    """Cut the section between two batches, after about `at_bytes` and at least one batch. None: there is one batch."""
    starts = walk_batches(section.data, 0, len(section.data)).starts
    index = next((i for i, start in enumerate(starts) if i > 0 and start >= at_bytes), len(starts) - 1)
    if index < 1:
        return None
    middle = _position_after_batch(section.data, starts[index - 1]).offset
    first = section._replace(data=section.data[: starts[index]])
    remaining = section._replace(data=section.data[starts[index] :], fetch_offset=middle)
    if section.aborted:
        remaining = remaining._replace(aborted=_still_aborting(section.data, starts[:index], section.aborted))
    return first, remaining


def _still_aborting(data: memoryview, starts: Iterable[int], aborted: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the aborted transactions whose marker is not in these batches.

    A producer has one transaction at a time, so its first marker after a transaction's first offset ends that
    transaction.
    """
    for info in (read_batch_info(data, start) for start in starts):
        if info.is_control:
            aborted = [(id, first) for id, first in aborted if id != info.producer_id or first > info.base_offset]
    return aborted


class FetchBuffer:
    """The received responses, oldest first. Advances the consumed positions, and collects the failures of partitions.

    A partition is halted at an offset while a fetch from there would be useless: until the received data is decoded and
    shows an error, or until its failure has been returned. A `decode` function of the caller gets whole responses.
    `on_completed` is called with the records by topic of each response that is completely delivered.
    """

    def __init__(
        self,
        subscription: SubscriptionState,
        *,
        check_crcs: bool,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
        decode: Decode | None = None,
        on_completed: Callable[[dict[str, int]], object] = len,
    ) -> None:
        #: Most records that one `take` returns; None: those of one chunk.
        self.max_records: int | None = None
        self._on_completed = on_completed
        self._subscription = subscription
        self._check_crcs = check_crcs
        self._max_decompressed_bytes = max_decompressed_bytes
        self._decode = decode
        self._received: deque[CompletedFetch] = deque()
        self._halted: dict[TopicPartition, int] = {}
        self._failures: dict[TopicPartition, PartitionFailure] = {}
        self._expansion = FIRST_EXPANSION
        self._has_decoded = False

    def __len__(self) -> int:
        return len(self._received)

    @property
    def expansion(self) -> float | None:
        """Ratio of decoded size to received size; 1.0 without compression, None before the first records."""
        if self._expansion != FIRST_EXPANSION:
            return self._expansion
        return 1.0 if self._has_decoded else None

    # --- received

    def add(self, received: CompletedFetch) -> None:
        """Add a response, unless it is empty."""
        if received.sections or received.failures:
            self._received.append(received)
        for failure in received.failures:
            self.halt(failure.tp, failure.offset)

    def halt(self, tp: TopicPartition, offset: int) -> None:
        """Do not fetch from this offset for now."""
        self._halted[tp] = offset
        self._subscription.updated.add(tp)

    def is_halted(self, tp: TopicPartition, offset: int) -> bool:
        """True if fetching from this offset is halted. A call with another offset of `tp` ends the halt."""
        if self._halted.get(tp) == offset:
            return True
        self._halted.pop(tp, None)
        return False

    def has_unstarted(self, node_id: int) -> bool:
        """True if a response of this broker is waiting of which nothing was delivered."""
        return any(response.node_id == node_id and not response.started for response in self._received)

    def start_next(self) -> None:
        """Mark the oldest response as started, so that its broker can be sent the next fetch."""
        if self._received:
            self._received[0].started = True

    def forget(self, tp: TopicPartition) -> None:
        """Forget a partition that is no longer read."""
        self._halted.pop(tp, None)
        self._failures.pop(tp, None)

    def clear(self) -> None:
        """Drop all responses."""
        self._received.clear()

    # --- delivered

    def take(self) -> list[tuple[TopicPartition, RecordColumns]]:
        """Decode and return the next chunk of the oldest response, and advance the positions."""
        if not self._received:
            return []
        received = self._received[0]
        if not received.decoded:
            self._decode_chunk(received)
        handed = self._hand_over(received)
        if not received.sections and not received.decoded:
            self._received.popleft()
            self._failures.update((failure.tp, failure) for failure in received.failures)
            if received.record_counts:
                self._on_completed(received.record_counts)
        return handed

    def _decode_chunk(self, received: CompletedFetch) -> None:
        whole = self._decode is not None
        next_chunk = received.next_chunk(0.0) if whole else received.next_chunk(self._expansion)
        chunk = [section for section in next_chunk if self._continues(section)]
        try:
            decoded = self._decoded(chunk)
        except MemoryError:
            decoded = [self._decoded_alone(section) for section in chunk]
        if self._decode is None:
            self._learn_expansion(chunk, decoded)
        self._has_decoded = True
        received.decoded.extend(zip(chunk, decoded, strict=True))
        received.put_back(
            [
                _remaining_section(s, part.remaining)
                for s, part in zip(chunk, decoded, strict=True)
                if part.remaining is not None
            ]
        )

    def _decoded(self, chunk: list[Section]) -> list[DecodedSection]:
        from kcli.protocol.records.decode import RecordSection, decode_sections

        sections = [
            RecordSection(part.tp.topic, part.tp.partition, part.data, part.fetch_offset, part.aborted)
            for part in chunk
        ]
        if self._decode is not None:
            return self._decode(sections)
        return decode_sections(
            sections, check_crcs=self._check_crcs, max_decompressed_bytes=self._max_decompressed_bytes
        )

    def _decoded_alone(self, section: Section) -> DecodedSection:
        """Decode one section of a chunk for which the memory was too small: only those that need too much fail."""
        from kcli.protocol.records.columns import RecordColumns
        from kcli.protocol.records.compression import out_of_memory
        from kcli.protocol.records.sections import DecodedSection

        try:
            return self._decoded([section])[0]
        except MemoryError:
            offset = section.fetch_offset
            error = out_of_memory(section.tp, offset, len(section.data))
            return DecodedSection(RecordColumns.empty(), offset, error=error)

    def _hand_over(self, received: CompletedFetch) -> list[tuple[TopicPartition, RecordColumns]]:
        """Deliver the decoded sections, at most `max_records`."""
        handed: list[tuple[TopicPartition, RecordColumns]] = []
        room = self.max_records
        while received.decoded and (room is None or room > 0):
            section, decoded = received.decoded.popleft()
            if not self._continues(section):
                continue  # the caller has moved the position since the section was decoded
            if room is not None and len(decoded.columns) > room:
                decoded, later = _cut_decoded(decoded, room)
                received.decoded.appendleft((section._replace(fetch_offset=decoded.next_offset), later))
            columns, counts = self._deliver(section, decoded), received.record_counts
            counts[section.tp.topic] = counts.get(section.tp.topic, 0) + len(columns)
            if len(columns):
                handed.append((section.tp, columns))
                room = None if room is None else room - len(columns)
        return handed

    def take_failures(self) -> list[PartitionFailure]:
        """Return the failures at current positions, once; then these partitions are fetched again."""
        failures, self._failures = self._failures, {}
        current = []
        for failure in failures.values():
            self._end_halt(failure.tp)
            state = self._subscription.get(failure.tp)
            if state is not None and state.position is not None and state.position.offset == failure.offset:
                current.append(failure)
        return current

    def _continues(self, section: Section) -> bool:
        """True if the section begins at the position. That of a paused partition is dropped and fetched again."""
        state = self._subscription.get(section.tp)
        if state is None or state.paused or state.position is None or not state.belongs_to(section.topic_id):
            continues = False
        else:
            continues = state.position.offset == section.fetch_offset
        if not continues:
            self._end_halt(section.tp)
        return continues

    def _deliver(self, section: Section, decoded: DecodedSection) -> RecordColumns:
        """Advance the position to the end of the decoded records, cut off at the end of the range."""
        tp, columns = section.tp, decoded.columns
        state = self._subscription.state(tp)
        end, offset = state.end, decoded.next_offset
        is_cut = end is not None and offset > end
        if end is not None and is_cut:
            offset = end
            columns = columns.take(slice(0, int(columns.offsets.searchsorted(end))))
        if offset > section.fetch_offset:
            position = FetchPosition(offset, decoded.last_epoch)
            self._subscription.delivered(tp, position, has_records=len(columns) > 0)
        error = decoded.error or self._too_large(section, decoded)
        if error is not None and (end is None or offset < end):
            self._failures[tp] = PartitionFailure(tp, offset, error)
            self.halt(tp, offset)
            self._subscription.rewind(tp)
        else:
            self._end_halt(tp)
            if is_cut:
                self._subscription.rewind(tp)  # the records from the end on are fetched when the range has another end
        return columns

    def _end_halt(self, tp: TopicPartition) -> None:
        if self._halted.pop(tp, None) is not None:
            self._subscription.updated.add(tp)

    def _too_large(self, section: Section, decoded: DecodedSection) -> KcliError | None:
        """Return the error of a batch that is cut off. Kafka sends the first batch whole since 0.10.1 (KIP-74)."""
        if not decoded.truncated or decoded.next_offset > section.fetch_offset:
            return None
        (topic, partition), offset = section.tp, section.fetch_offset
        text = f"the record at offset {offset} of {section.tp} is cut off by max.partition.fetch.bytes"
        return RecordTooLarge(text, topic=topic, partition=partition, offset=offset, received=len(section.data))

    def _learn_expansion(self, chunk: list[Section], decoded: list[DecodedSection]) -> None:
        """Measure the expansion of compressed records, which have decoded buffers of their own.

        Partitions differ, so a large expansion decreases slowly.
        """
        packed = [(section, part) for section, part in zip(chunk, decoded, strict=True) if is_compressed(section.data)]
        buffers = {id(part.columns.buffer): len(part.columns.buffer) for _, part in packed if len(part.columns)}
        if buffers:
            expansion = max(1.0, sum(buffers.values()) / sum(len(section.data) for section, _ in packed))
            before = 1.0 if self._expansion == FIRST_EXPANSION else self._expansion
            self._expansion = max(expansion, before * 0.9)


def _cut_decoded(decoded: DecodedSection, count: int) -> tuple[DecodedSection, DecodedSection]:
    """Return the first `count` records, and the others. The leader epoch within a section is unknown."""
    columns = decoded.columns
    first = columns.take(slice(0, count))
    cut = decoded._replace(columns=first, next_offset=int(columns.offsets[count]), last_epoch=-1)
    cut = cut._replace(error=None, truncated=False, remaining=None)
    return cut, decoded._replace(columns=columns.take(slice(count, None)))


def _remaining_section(section: Section, remaining: RecordSection) -> Section:
    """Return the part of a section that the decoder did not unpack because it is too large for one chunk."""
    aborted = None if remaining.aborted is None else list(remaining.aborted)
    return section._replace(data=memoryview(remaining.data), fetch_offset=remaining.fetch_offset, aborted=aborted)
