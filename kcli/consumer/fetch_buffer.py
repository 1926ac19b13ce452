"""What one fetch response brought, and its division into pieces whose decoded size is bounded. Pure.

Batch headers are never compressed: where a section ends, in offsets, is known before anything is decoded, so the next
fetch can leave first. And a section may be cut between any two of its batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from kcli.consumer.subscription import FetchPosition
from kcli.errors import KcliError
from kcli.structs import TopicPartition

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
