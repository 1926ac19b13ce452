"""A consumer group of KIP-848: members, epochs, target assignment and resolved regular expressions. Pure.

Kafka's ConsumerGroup and ConsumerGroupMember. All of a group is in records of __consumer_offsets: `ConsumerGroup.apply`
takes them one by one, at start and after each append, so memory and log cannot differ. A member is immutable; its next
state is computed as another member, and becomes current with its records.

Three epochs: the **group epoch** counts changes of subscriptions and topics. The **assignment epoch** is the group
epoch that the target assignment was computed for. The **member epoch** is the assignment epoch that a member has
reached: it stays behind until the member has revoked what it must.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from functools import singledispatchmethod
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import UUID

from kcli.broker.group.expiry import CONSUMER, GroupFacts
from kcli.protocol import consumer_group_records as records

if TYPE_CHECKING:
    from kcli.broker.group.classic_group import ClassicGroup

# All groups of a coordinator, by name.
Groups: TypeAlias = "dict[str, ClassicGroup | ConsumerGroup]"
# The partitions that a member has, by topic id: each with the epoch at which it was assigned.
Partitions: TypeAlias = Mapping[UUID, Mapping[int, int]]
# The partitions that a member shall have, by topic id.
Target: TypeAlias = Mapping[UUID, frozenset[int]]

LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
INITIAL_EPOCH = 1  # of group and assignment; the first change makes it 2


class MemberState(IntEnum):
    """The step of a member's reconciliation, as in its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # the client must give up partitions first
    UNRELEASED_PARTITIONS = 2  # other members have not yet given up partitions that this one shall have
    UNKNOWN = 127  # of a later version


class ConsumerGroupState(Enum):
    """The value is the state's name in ConsumerGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ResolvedRegex(NamedTuple):
    """The topics that match a regular expression, the version of the metadata looked at, and when (wall clock)."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(frozen=True)
class ConsumerGroupMember:
    """One member: identity, subscription, epochs and partitions.

    `pending_revocation` are partitions that the client has to give up. `classic` is there for a member that uses the
    classic protocol in this group.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topics: frozenset[str] = frozenset()
    subscribed_regex: str | None = ""
    server_assignor: str | None = None
    assigned: Partitions = field(default_factory=dict)
    pending_revocation: Partitions = field(default_factory=dict)
    classic: records.ClassicMemberMetadata | None = None

    def __repr__(self) -> str:
        static = f" instance={self.instance_id}" if self.instance_id is not None else ""
        kind = " classic" if self.classic is not None else ""
        return (
            f"<ConsumerGroupMember {self.member_id}{static}{kind} epoch={self.member_epoch} {self.state.name} "
            f"assigned={count(self.assigned)} revoking={count(self.pending_revocation)}>"
        )

    def at_epoch(self, member_epoch: int) -> ConsumerGroupMember:
        """Return the member at another epoch; its present one becomes the previous."""
        return replace(self, member_epoch=member_epoch, previous_member_epoch=self.member_epoch)

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Return whether the member has all that the target assignment of this epoch gives it."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def has_subscription_of(self, other: ConsumerGroupMember) -> bool:
        """Return whether both subscribe by the same names and the same expression."""
        return (self.subscribed_topics, self.regex) == (other.subscribed_topics, other.regex)

    @property
    def regex(self) -> str | None:
        """The regular expression of the subscription, None without one."""
        return self.subscribed_regex or None

    def assignment_epoch(self, topic_id: UUID, partition: int) -> int | None:
        """Return the epoch at which a partition was assigned, also while it is revoked; None if it is not here."""
        for partitions in (self.assigned, self.pending_revocation):
            epoch = partitions.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None


def count(partitions: Partitions | Target) -> int:
    """Return the number of partitions."""
    return sum(len(numbers) for numbers in partitions.values())


class ConsumerGroup:
    """One group.

    `targets` is the target assignment by member id, `static_member_ids` the member id of each instance id.
    `seen_topics` are ids and partition counts of the topics that the metadata hash was last computed of; not stored.
    """

    protocol_type = CONSUMER

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerGroupMember] = {}
        self.targets: dict[str, Target] = {}
        self.resolved_regexes: dict[str, ResolvedRegex] = {}
        self.static_member_ids: dict[str, str] = {}
        self.seen_topics: frozenset[tuple[UUID, int]] | None = None
        self._owner_epochs: dict[tuple[UUID, int], int] = {}
        # Made at the next use after a change of subscriptions, because most heartbeats change none.
        self._subscribed_topics: frozenset[str] | None = None
        self._subscribed_regexes: Counter[str] | None = None

    def __repr__(self) -> str:
        return (
            f"<ConsumerGroup {self.group_id!r} {self.state.value} epoch={self.group_epoch} "
            f"assignment={self.assignment_epoch} members={len(self.members)}>"
        )

    # ---- derived ----

    @property
    def state(self) -> ConsumerGroupState:
        """The state, as it follows from the epochs and members."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """Return the member that holds an instance id; None without one."""
        return self.members.get(self.static_member_ids.get(instance_id, "")) if instance_id is not None else None

    def target(self, member_id: str, instance_id: str | None = None) -> Target:
        """Return a member's target assignment: of the member that holds the instance id, if one is given."""
        if instance_id is not None:
            member_id = self.static_member_ids.get(instance_id, "")
        return self.targets.get(member_id, {})

    def owner_epoch(self, topic_id: UUID, partition: int) -> int:
        """Return the member epoch of the member that still has a partition; -1 if it is free."""
        return self._owner_epochs.get((topic_id, partition), -1)

    def topics_of(self, member: ConsumerGroupMember) -> frozenset[str]:
        """Return the topics that a member subscribes to, by name or by a regular expression that is resolved."""
        resolved = self.resolved_regexes.get(member.regex) if member.regex is not None else None
        return member.subscribed_topics if resolved is None else member.subscribed_topics | resolved.topics

    def subscribed_topics(self, members: Iterable[ConsumerGroupMember] | None = None) -> frozenset[str]:
        """Return all topics that the members, or these ones in their place, subscribe to."""
        if members is not None:
            return frozenset().union(*map(self.topics_of, members))
        if self._subscribed_topics is None:
            self._subscribed_topics = frozenset().union(*map(self.topics_of, self.members.values()))
        return self._subscribed_topics

    @property
    def subscribed_regexes(self) -> Counter[str]:
        """The number of members that subscribe to each regular expression."""
        if self._subscribed_regexes is None:
            regexes = (member.regex for member in self.members.values())
            self._subscribed_regexes = Counter(regex for regex in regexes if regex is not None)
        return self._subscribed_regexes

    def _forget_subscriptions(self) -> None:
        self._subscribed_topics = self._subscribed_regexes = None

    def members_with(self, member: ConsumerGroupMember) -> list[ConsumerGroupMember]:
        """Return all members, with this one in place of the one of the same id, or last if it is new."""
        return [*{**self.members, member.member_id: member}.values()]

    def server_assignors(self, members: Iterable[ConsumerGroupMember] | None = None) -> Counter[str]:
        """Return the number of members that prefer each server assignor."""
        chosen = self.members.values() if members is None else members
        return Counter(member.server_assignor for member in chosen if member.server_assignor is not None)

    def facts(self) -> GroupFacts:
        """Return the facts that the expiry of offsets depends on."""
        return GroupFacts(self.state.value, CONSUMER, self.subscribed_topics(), -1)

    # ---- changes ----

    def update(self, member: ConsumerGroupMember) -> None:
        """Add a member, or replace the one of the same id."""
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
        if old is None or not old.has_subscription_of(member):
            self._forget_subscriptions()
        self.members[member.member_id] = member
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, numbers in partitions.items():
                self._owner_epochs.update({(topic_id, number): member.member_epoch for number in numbers})
        if member.instance_id is not None:
            self.static_member_ids[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member, if there is one of this id."""
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._release(old)
        self._forget_subscriptions()
        if old.instance_id is not None and self.static_member_ids.get(old.instance_id) == member_id:
            del self.static_member_ids[old.instance_id]

    def _release(self, member: ConsumerGroupMember) -> None:
        """Free the partitions of a member, except those that another member has at another epoch by now."""
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, numbers in partitions.items():
                for number in numbers:
                    if self._owner_epochs.get((topic_id, number)) == member.member_epoch:
                        del self._owner_epochs[topic_id, number]

    # ---- records ----

    @singledispatchmethod
    def apply(self, key: object, value: object) -> None:
        """Change the group as one of its records says; the value None is a tombstone."""
        raise TypeError(f"{type(key).__name__} is not the key of a record of a consumer group")

    @apply.register
    def _(self, key: records.ConsumerGroupMetadataKey, value: records.ConsumerGroupMetadataValue | None) -> None:
        self.group_epoch = INITIAL_EPOCH if value is None else value.epoch
        self.metadata_hash = 0 if value is None else value.metadata_hash

    @apply.register
    def _(
        self,
        key: records.ConsumerGroupMemberMetadataKey,
        value: records.ConsumerGroupMemberMetadataValue | None,
    ) -> None:
        if value is None:
            self.remove(key.member_id)
            return
        classic = value.classic_member_metadata
        self.update(
            replace(
                self.members.get(key.member_id) or ConsumerGroupMember(key.member_id),
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                subscribed_topics=frozenset(value.subscribed_topic_names),
                subscribed_regex=value.subscribed_topic_regex,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                server_assignor=value.server_assignor,
                # One without a protocol stands for a record that lacks the field.
                classic=classic if classic is not None and classic.supported_protocols else None,
            )
        )

    @apply.register
    def _(
        self,
        key: records.ConsumerGroupTargetAssignmentMetadataKey,
        value: records.ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        self.assignment_epoch = -1 if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    @apply.register
    def _(
        self,
        key: records.ConsumerGroupTargetAssignmentMemberKey,
        value: records.ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = {
                topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
            }

    @apply.register
    def _(
        self,
        key: records.ConsumerGroupCurrentMemberAssignmentKey,
        value: records.ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        member = self.members.get(key.member_id)
        if value is None:
            if member is not None:
                left = replace(
                    member,
                    member_epoch=LEAVE_EPOCH,
                    previous_member_epoch=LEAVE_EPOCH,
                    assigned={},
                    pending_revocation={},
                )
                self.update(left)
            return
        self.update(
            replace(
                member or ConsumerGroupMember(key.member_id),
                member_epoch=value.member_epoch,
                previous_member_epoch=value.previous_member_epoch,
                state=_member_state(value.state),
                assigned=_partitions(value.assigned_partitions, value.member_epoch),
                pending_revocation=_partitions(value.partitions_pending_revocation, value.member_epoch),
            )
        )

    @apply.register
    def _(
        self,
        key: records.ConsumerGroupRegularExpressionKey,
        value: records.ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        self._forget_subscriptions()
        if value is None:
            self.resolved_regexes.pop(key.regular_expression, None)
        else:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            self.resolved_regexes[key.regular_expression] = resolved


def _member_state(value: int) -> MemberState:
    return MemberState(value) if value in (0, 1, 2) else MemberState.UNKNOWN


def _partitions(topics: Iterable[records.CurrentPartitions], member_epoch: int) -> Partitions:
    """Return the partitions of a record. One of before Kafka 4.3 has no assignment epochs: the member's counts."""
    return {
        topic.topic_id: dict(
            zip(topic.partitions, topic.assignment_epochs or [member_epoch] * len(topic.partitions), strict=False)
        )
        for topic in topics
    }
