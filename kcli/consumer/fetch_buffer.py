"""What one fetch response brought, and its division into pieces whose decoded size is bounded. Pure.

Batch headers are never compressed: where a section ends, in offsets, is known before anything is decoded, so the next
fetch can leave first. And a section may be cut between any two of its batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kcli.consumer.subscription import FetchPosition, SubscriptionState
from kcli.errors import KcliError, RecordTooLarge
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns
    from kcli.protocol.records.decode import DecodedSection, RecordSection

PIECE_BYTES = 8 << 20
# What a compressed batch is taken for until one was decoded: so large that it is a piece of its own.
FIRST_EXPANSION = 1e9


class Section(NamedTuple):
    """Batches of one partition, fetched from `fetch_offset` on.

    `aborted` are the aborted transactions as (producer id, first offset); None: uncommitted is read, too.
    """

    tp: TopicPartition
    data: memoryview
    fetch_offset: int
    aborted: list[tuple[int, int]] | None = None


class Failure(NamedTuple):
    """Why reading on at `offset` is not possible."""

    tp: TopicPartition
    offset: int
    error: KcliError


class Received:
    """One response: its sections still to be handed out, then its failures. `begun`: some have been."""

    __slots__ = ("begun", "failures", "node_id", "sections")

    def __init__(self, node_id: int, sections: list[Section], failures: list[Failure]) -> None:
        self.node_id = node_id
        self.sections = deque(sections)
        self.failures = failures
        self.begun = False

    def next_piece(self, expansion: float, piece_bytes: int = PIECE_BYTES) -> list[Section]:
        """The next sections, cut so that they decode to about `piece_bytes`; one batch at least.

        `expansion` is how much larger than on the wire compressed batches are expected to be.
        """
        piece: list[Section] = []
        room = float(piece_bytes)
        while self.sections and room > 0:
            section = self.sections.popleft()
            cost = len(section.data) * expansion if is_compressed(section.data) else len(section.data)
            if cost > room and (cut := cut_section(section, len(section.data) * room / cost)) is not None:
                section, rest = cut
                self.sections.appendleft(rest)
            piece.append(section)
            room -= cost
        return piece

    def put_back(self, sections: list[Section]) -> None:
        """What turned out to be too much for one piece comes first in the next."""
        self.sections.extendleft(reversed(sections))


def is_compressed(data: memoryview) -> bool:
    """Whether the first batch is compressed; the others are then taken to be, too."""
    from kcli.protocol.records.batch import CODEC_MASK, MAGIC_AT

    if len(data) < 23:
        return False
    attributes_at = 22 if data[MAGIC_AT] >= 2 else 17
    return bool(data[attributes_at] & CODEC_MASK)


def position_after(data: memoryview) -> FetchPosition | None:
    """The position behind the last whole batch by its header alone, not yet verified. None: no whole batch."""
    from kcli.protocol.records.batch import walk_batches

    starts = walk_batches(data, 0, len(data)).starts
    return _behind(data, starts[-1]) if starts else None


def _behind(data: memoryview, start: int) -> FetchPosition:
    from kcli.protocol.records.batch import read_batch_info

    info = read_batch_info(data, start)
    return FetchPosition(info.last_offset + 1, info.leader_epoch)


def cut_section(section: Section, at_bytes: float) -> tuple[Section, Section] | None:
    """The section in two, between batches, the first of about `at_bytes` and one batch at least. None: there is one."""
    from kcli.protocol.records.batch import walk_batches

    starts = walk_batches(section.data, 0, len(section.data)).starts
    index = next((i for i, start in enumerate(starts) if i > 0 and start >= at_bytes), len(starts) - 1)
    if index < 1:
        return None
    middle = _behind(section.data, starts[index - 1]).offset
    first = section._replace(data=section.data[: starts[index]])
    rest = section._replace(data=section.data[starts[index] :], fetch_offset=middle)
    if section.aborted:
        rest = rest._replace(aborted=_still_aborting(section.data, starts[:index], section.aborted))
    return first, rest


def _still_aborting(data: memoryview, starts: Iterable[int], aborted: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The aborted transactions without those whose marker lies in these batches.

    A producer has one transaction at a time, so its first marker behind a transaction's first offset ends it.
    """
    from kcli.protocol.records.batch import read_batch_info

    for info in (read_batch_info(data, start) for start in starts):
        if info.is_control:
            aborted = [it for it in aborted if it[0] != info.producer_id or it[1] > info.base_offset]
    return aborted


#: What else can be made of sections than their records, with `columns` that can be cut by offsets as records can.
Decode: TypeAlias = "Callable[[Sequence[RecordSection]], list[DecodedSection]]"


class Delivery:
    """Moves the caller's positions as records are handed out, and collects what stops a partition.

    A partition is halted at an offset while fetching on from there would be in vain: until what was received is decoded
    and says why, or until its failure has been told. With a `decode` of its own, which does not unpack anything, whole
    responses are handed to that.
    """

    def __init__(self, subscription: SubscriptionState, *, check_crcs: bool, decode: Decode | None = None) -> None:
        self._subscription = subscription
        self._check_crcs = check_crcs
        self._decode = decode
        self._received: deque[Received] = deque()
        self._halted: dict[TopicPartition, int] = {}
        self._failures: dict[TopicPartition, Failure] = {}
        self._expansion = FIRST_EXPANSION

    def __len__(self) -> int:
        return len(self._received)

    # --- what comes in

    def add(self, received: Received) -> None:
        """Queue a response, if there is anything in it."""
        if received.sections or received.failures:
            self._received.append(received)
        for failure in received.failures:
            self.halt(failure.tp, failure.offset)

    def halt(self, tp: TopicPartition, offset: int) -> None:
        """Fetch nothing from this offset for now."""
        self._halted[tp] = offset
        self._subscription.touched.add(tp)

    def is_halted(self, tp: TopicPartition, offset: int) -> bool:
        """Whether fetching from this offset is in vain. Asking about another offset of `tp` ends the halt."""
        if self._halted.get(tp) == offset:
            return True
        self._halted.pop(tp, None)
        return False

    def has_from(self, node_id: int) -> bool:
        """Whether a response of this broker waits that nobody has begun to hand out."""
        return any(it.node_id == node_id and not it.begun for it in self._received)

    def begin_next(self) -> None:
        """The oldest response is about to be handed out: its broker may be asked for another."""
        if self._received:
            self._received[0].begun = True

    def forget(self, tp: TopicPartition) -> None:
        """This partition is no longer read."""
        self._halted.pop(tp, None)
        self._failures.pop(tp, None)

    def clear(self) -> None:
        """Hand out nothing more."""
        self._received.clear()

    # --- what goes out

    def take(self) -> list[tuple[TopicPartition, RecordColumns]]:
        """Decode and hand out the next piece of the oldest response; the positions move behind it."""
        from kcli.protocol.records.decode import RecordSection, decode_sections

        if not self._received:
            return []
        received = self._received[0]
        whole = self._decode is not None
        next_piece = received.next_piece(0.0) if whole else received.next_piece(self._expansion)
        piece = [section for section in next_piece if self._continues(section)]
        sections = [RecordSection(it.tp.topic, it.tp.partition, it.data, it.fetch_offset, it.aborted) for it in piece]
        if self._decode is not None:
            decoded = self._decode(sections)
        else:
            decoded = decode_sections(sections, check_crcs=self._check_crcs)
            self._learn_expansion(piece, decoded)
        handed = [(section.tp, self._hand_out(section, it)) for section, it in zip(piece, decoded, strict=True)]
        received.put_back([_left(s, it.rest) for s, it in zip(piece, decoded, strict=True) if it.rest is not None])
        if not received.sections:
            self._received.popleft()
            self._failures.update((failure.tp, failure) for failure in received.failures)
        return [(tp, columns) for tp, columns in handed if len(columns)]

    def take_failures(self) -> list[Failure]:
        """What stopped partitions at their current position. Told once; then fetching is tried again."""
        failures, self._failures = self._failures, {}
        current = []
        for failure in failures.values():
            self._end_halt(failure.tp)
            state = self._subscription.get(failure.tp)
            if state is not None and state.position is not None and state.position.offset == failure.offset:
                current.append(failure)
        return current

    def _continues(self, section: Section) -> bool:
        """Whether the caller is still where this section begins. What a pause holds up is fetched again later."""
        state = self._subscription.get(section.tp)
        position = None if state is None or state.paused else state.position
        if position is not None and position.offset == section.fetch_offset:
            return True
        self._end_halt(section.tp)
        return False

    def _hand_out(self, section: Section, decoded: DecodedSection) -> RecordColumns:
        """Move the position behind what was decoded, and cut off what lies beyond the partition's end."""
        tp, columns = section.tp, decoded.columns
        state = self._subscription.state(tp)
        end, offset = state.end, decoded.next_offset
        if end is not None and offset > end:
            offset = end
            columns = columns.take(slice(0, int(columns.offsets.searchsorted(end))))
        if offset > section.fetch_offset:
            self._subscription.handed_out(tp, FetchPosition(offset, decoded.last_epoch))
        error = decoded.error or self._too_large(section, decoded)
        if error is not None and (end is None or offset < end):
            self._failures[tp] = Failure(tp, offset, error)
            self.halt(tp, offset)
            self._subscription.rewind(tp)
        else:
            self._end_halt(tp)
        return columns

    def _end_halt(self, tp: TopicPartition) -> None:
        if self._halted.pop(tp, None) is not None:
            self._subscription.touched.add(tp)

    def _too_large(self, section: Section, decoded: DecodedSection) -> KcliError | None:
        """Brokers send a first batch whole, however large, since Kafka 0.10.1 (KIP-74); others may cut it off."""
        if not decoded.truncated or decoded.next_offset > section.fetch_offset:
            return None
        (topic, partition), offset = section.tp, section.fetch_offset
        text = f"the record at offset {offset} of {section.tp} is cut off by max.partition.fetch.bytes"
        return RecordTooLarge(text, topic=topic, partition=partition, offset=offset, received=len(section.data))

    def _learn_expansion(self, piece: list[Section], decoded: list[DecodedSection]) -> None:
        """How much larger than on the wire compressed records are here: they lie in buffers of their own.

        Partitions differ, so a large expansion is forgotten slowly.
        """
        packed = [(section, it) for section, it in zip(piece, decoded, strict=True) if is_compressed(section.data)]
        buffers = {id(it.columns.buffer): len(it.columns.buffer) for _, it in packed if len(it.columns)}
        if buffers:
            expansion = max(1.0, sum(buffers.values()) / sum(len(section.data) for section, _ in packed))
            before = 1.0 if self._expansion == FIRST_EXPANSION else self._expansion
            self._expansion = max(expansion, before * 0.9)


def _left(section: Section, rest: RecordSection) -> Section:
    """What the decoder left of a section because it unpacks to too much at once."""
    aborted = None if rest.aborted is None else list(rest.aborted)
    return section._replace(data=memoryview(rest.data), fetch_offset=rest.fetch_offset, aborted=aborted)
