"""The session of a member of a share group with one broker, and the ranges of acknowledgements (KIP-932). Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
    from kcli.protocol.messages.share_fetch import AcknowledgementBatch, ShareFetchRequest

CLOSING_EPOCH = -1
_MAX_BYTES = 50 << 20
_RECORD_LIMIT = 1


class AcknowledgeType(IntEnum):
    """The outcome of a delivery. A gap is an offset without a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3


class PartitionId(NamedTuple):
    """A partition, with the id of its topic, as the protocol of share groups names it."""

    topic_id: UUID
    partition: int


class Range(NamedTuple):
    """Offsets from `first` to `last` with one type of acknowledgement."""

    first: int
    last: int
    type: AcknowledgeType


def acknowledged_ranges(
    acquired: Iterable[tuple[int, int]], offsets: Sequence[int], type: AcknowledgeType, released_from: int | None
) -> list[Range]:
    """Return the ranges that acknowledge all `acquired` offsets, each a pair of first and last offset.

    `offsets` are the offsets of records, ascending. Records from `released_from` on are released, the others get
    `type`; acquired offsets without a record are gaps.
    """
    return [found for first, last in acquired for found in _ranges(first, last, offsets, type, released_from)]


def _ranges(
    first: int, last: int, offsets: Sequence[int], type: AcknowledgeType, released_from: int | None
) -> Iterator[Range]:
    position = first
    for index in range(bisect_left(offsets, first), bisect_left(offsets, last + 1)):
        offset = offsets[index]
        if offset > position:
            yield Range(position, offset - 1, AcknowledgeType.GAP)
        is_released = released_from is not None and offset >= released_from
        yield Range(offset, offset, AcknowledgeType.RELEASE if is_released else type)
        position = offset + 1
    if position <= last:
        yield Range(position, last, AcknowledgeType.GAP)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Join adjacent ranges of one type. `ranges` ascend."""
    joined: list[Range] = []
    for found in ranges:
        if joined and joined[-1].type == found.type and joined[-1].last + 1 == found.first:
            joined[-1] = joined[-1]._replace(last=found.last)
        else:
            joined.append(found)
    return joined


Acknowledgements = Mapping[PartitionId, Sequence[Range]]


class ShareSession:
    """The share session with one broker: its epoch and its partitions.

    A new session has epoch 0 and its first request carries no acknowledgements. `reset` begins a new one.
    """

    def __init__(self, group: str, member_id: str) -> None:
        self._group = group
        self._member_id = member_id
        self._epoch = 0
        self.partitions: frozenset[PartitionId] = frozenset()

    def __repr__(self) -> str:
        return f"<ShareSession {self._group} epoch={self._epoch} {len(self.partitions)} partitions>"

    @property
    def is_open(self) -> bool:
        """True if the broker may have the session."""
        return self._epoch > 0

    def reset(self) -> None:
        """Begin a new session with the next request."""
        self._epoch, self.partitions = 0, frozenset()

    def fetch(
        self, wanted: Collection[PartitionId], acknowledgements: Acknowledgements, max_records: int, max_wait_ms: int
    ) -> ShareFetchRequest:
        """Return the next request: it acquires at most `max_records` records of the `wanted` partitions.

        A partition with acknowledgements leaves the session one request later.
        """
        from kcli.protocol.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest

        keep = frozenset(wanted) | (frozenset(acknowledgements) & self.partitions)
        added, removed = keep - self.partitions, self.partitions - keep
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            max_records=max_records,
            batch_size=max_records,
            share_acquire_mode=_RECORD_LIMIT,
        )
        request.topics = [
            FetchTopic(
                topic_id=topic_id,
                partitions=[
                    FetchPartition(
                        partition_index=id.partition, acknowledgement_batches=_batches(acknowledgements.get(id, ()))
                    )
                    for id in found
                ],
            )
            for topic_id, found in _by_topic({*added, *acknowledgements})
        ]
        request.forgotten_topics_data = [
            ForgottenTopic(topic_id=topic_id, partitions=[id.partition for id in found])
            for topic_id, found in _by_topic(removed)
        ]
        self.partitions = keep
        self._epoch = self._epoch % (2**31 - 1) + 1
        return request

    def closing(self, acknowledgements: Acknowledgements) -> ShareAcknowledgeRequest:
        """Return the request that closes the session. The broker releases all records without an acknowledgement."""
        from kcli.protocol.messages.share_acknowledge import (
            AcknowledgePartition,
            AcknowledgeTopic,
            ShareAcknowledgeRequest,
        )

        topics = [
            AcknowledgeTopic(
                topic_id=topic_id,
                partitions=[
                    AcknowledgePartition(
                        partition_index=id.partition, acknowledgement_batches=_batches(acknowledgements[id])
                    )
                    for id in ids
                ],
            )
            for topic_id, ids in _by_topic(acknowledgements)
        ]
        self.reset()
        return ShareAcknowledgeRequest(
            group_id=self._group, member_id=self._member_id, share_session_epoch=CLOSING_EPOCH, topics=topics
        )


def _by_topic(partitions: Iterable[PartitionId]) -> list[tuple[UUID, list[PartitionId]]]:
    return [(topic_id, list(found)) for topic_id, found in groupby(sorted(partitions), itemgetter(0))]


def _batches(ranges: Iterable[Range]) -> list[AcknowledgementBatch]:
    from kcli.protocol.messages.share_fetch import AcknowledgementBatch

    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[int(type)])
        for first, last, type in merged(ranges)
    ]
