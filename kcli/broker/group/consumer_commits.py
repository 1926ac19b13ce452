"""The rules of OffsetCommit, TxnOffsetCommit and OffsetFetch for members of consumer groups (KIP-848). Pure.

A member commits in its member epoch. One that has not got its last heartbeat response commits in an older epoch: that
is accepted for partitions which it has had since that epoch or longer (KIP-1251). Source: Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from kcli.broker.group.consumer_group import ConsumerGroup, ConsumerGroupMember
from kcli.error_codes import ErrorCode


class Committer(NamedTuple):
    """The sender of a commit as it names itself; -1, "" and None if it names no member."""

    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None


_FIRST_VERSION_OF_CONSUMER_MEMBERS = 9


def check_commit(
    group: ConsumerGroup,
    sender: Committer,
    partitions: Iterable[tuple[UUID, int]],
    *,
    api_version: int,
    is_transactional: bool,
) -> ErrorCode:
    """Return NONE if the sender may commit offsets of all these partitions: pairs of a topic id and a number.

    Without an epoch an administrator commits while the group is Empty. A transaction need not name a member.
    """
    epoch = sender.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    if is_transactional and sender == (-1, "", None):
        return ErrorCode.NONE
    member = group.members.get(sender.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_classic = member.classic is not None
    if not is_transactional and not is_classic and api_version < _FIRST_VERSION_OF_CONSUMER_MEMBERS:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.member_epoch:
        return ErrorCode.NONE
    if epoch < member.member_epoch and all(
        _has_had(member, epoch, topic_id, number) for topic_id, number in partitions
    ):
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if is_classic or is_transactional else ErrorCode.STALE_MEMBER_EPOCH


def _has_had(member: ConsumerGroupMember, epoch: int, topic_id: UUID, number: int) -> bool:
    """Return whether the member has had a partition since this epoch or longer."""
    since = member.assignment_epoch(topic_id, number)
    return since is not None and since <= epoch


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> ErrorCode:
    """Return NONE for a member in its epoch, and for a sender that names no member."""
    if member_id is None and member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_epoch == member.member_epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
