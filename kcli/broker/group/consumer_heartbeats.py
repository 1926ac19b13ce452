"""ConsumerGroupHeartbeat: members of consumer groups join, report what they have, and leave (KIP-848).

A heartbeat takes three steps. The member is created or updated; a changed subscription, or changed topics, raise the
group epoch. If the target assignment is of an older group epoch, a new one is computed, but not sooner than
`group.consumer.assignment.interval.ms` after the last. The member is reconciled with the target. All of it becomes
records, which are written as one batch; only then the group and its timers change.

Source: KIP-848 and the behaviour of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import UUID

from kcli.broker.group.classic_group import ClassicGroup
from kcli.broker.group.consumer_group import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroup,
    ConsumerGroupMember,
    Target,
)
from kcli.broker.group.consumer_records import (
    Record,
    assignment_epoch_record,
    current_record,
    group_epoch_record,
    group_records,
    member_tombstones,
    subscription_record,
    target_record,
)
from kcli.broker.group.group_conversion import upgrade
from kcli.broker.group.heartbeat_rules import (
    check_epoch,
    check_instance,
    check_released,
    check_request,
    check_size,
    owned_partitions,
)
from kcli.broker.group.member_reconciliation import Goal, Owned, reconcile
from kcli.broker.group.regex_subscriptions import RegexChange, RegexSubscriptions
from kcli.broker.group.states import GroupState
from kcli.broker.group.target_assignment import compute_targets
from kcli.broker.group.topic_hash import group_hash
from kcli.broker.serving.client_address import host_of_member
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kcli.protocol.offsets_topic import GroupMetadataKey

if TYPE_CHECKING:
    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.config import BrokerConfig
    from kcli.broker.group.consumer_changes import ConsumerChanges
    from kcli.broker.group.consumer_group import Groups
    from kcli.broker.serving.request_context import RequestContext
    from kcli.clock import Clock


MayDescribe: TypeAlias = Callable[[str], bool]


class MemberChange(NamedTuple):
    """A member before and after a heartbeat. `replaced_id` is the former id of a static member that joins again."""

    before: ConsumerGroupMember
    after: ConsumerGroupMember
    replaced_id: str | None

    def members(self, group: ConsumerGroup) -> list[ConsumerGroupMember]:
        """Return the members of the group after the heartbeat."""
        members = {**group.members, self.after.member_id: self.after}
        if self.replaced_id != self.after.member_id:
            members.pop(self.replaced_id or "", None)
        return [*members.values()]

    def keeps_subscriptions(self, group: ConsumerGroup) -> bool:
        """Return whether the members of the group subscribe to the same as before the heartbeat."""
        return self.before.member_id in group.members and self.after.has_subscription_of(self.before)

    @property
    def has_new_topics(self) -> bool:
        return self.before.subscribed_topics != self.after.subscribed_topics

    @property
    def has_new_regex(self) -> bool:
        return self.before.subscribed_regex != self.after.subscribed_regex


class ConsumerHeartbeats:
    """The heartbeats of all consumer groups. `groups` are all groups of the coordinator."""

    def __init__(self, cluster: ClusterView, changes: ConsumerChanges, groups: Groups, clock: Clock) -> None:
        self._regexes = RegexSubscriptions(cluster, changes, groups, clock)
        self._cluster = cluster
        self._changes = changes
        self._groups = groups
        self._clock = clock

    def __repr__(self) -> str:
        return f"<ConsumerHeartbeats {self._changes!r}>"

    @property
    def _settings(self) -> BrokerConfig:
        return self._cluster.settings

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, may_describe: MayDescribe
    ) -> ConsumerGroupHeartbeatResponse:
        """Join, stay or leave. The response has the member's epoch, and its assignment if that has changed.

        A regular expression matches only topics that the client may describe.
        """
        try:
            check_request(request, context.api_version, self._settings.group_consumer_assignors)
            if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
                return self._leave(request)
            return self._beat(request, context, may_describe)
        except BrokerError as error:
            return heartbeat_error(error.code, error.detail)

    # ---- joining and staying ----

    def _beat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, may_describe: MayDescribe
    ) -> ConsumerGroupHeartbeatResponse:
        records: list[Record] = []
        group = self._group_for(request, records)
        owned = owned_partitions(request)
        change = self._change(group, request, context, records)
        group_epoch = self.subscribe(group, change, records, may_describe)
        member = self.advance(group, change, group_epoch, owned, records)
        if error := self._changes.write(group, records):
            return heartbeat_error(error)
        self._changes.start_session(group, member.member_id)
        if member != change.after:
            self._changes.watch_revocation(group, member)
        is_full = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and owned is not None
        )
        shows_assignment = request.member_epoch == 0 or is_full or member.assigned != change.before.assigned
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=self._changes.setting(group, "consumer.heartbeat.interval.ms"),
            assignment=_assignment(member) if shows_assignment else None,
        )

    def subscribe(
        self, group: ConsumerGroup, change: MemberChange, records: list[Record], may_describe: MayDescribe | None
    ) -> int:
        """Add the records of a changed member and of the group epoch that it raises; return the group epoch."""
        if change.after != change.before:
            records.append(subscription_record(group.group_id, change.after))
        regex = self._regexes.update(group, change.before, change.after, records, may_describe)
        # An expression that is not resolved yet raises the epoch when it is; a classic member has none any more.
        has_new_topics = regex is RegexChange.RESOLVED or (
            regex is RegexChange.NEW and change.after.classic is not None
        )
        return self._bump_epoch(group, change, records, has_new_topics=has_new_topics or change.has_new_topics)

    def advance(
        self, group: ConsumerGroup, change: MemberChange, group_epoch: int, owned: Owned, records: list[Record]
    ) -> ConsumerGroupMember:
        """Compute the target assignment, if that is due, and the member's next state; add their records."""
        target_epoch, target = self._update_target(group, group_epoch, change, records)
        return self.reconcile(group, change, (target_epoch, target), owned, records)

    def reconcile(
        self,
        group: ConsumerGroup,
        change: MemberChange,
        epoch_and_target: tuple[int, Target],
        owned: Owned,
        records: list[Record],
    ) -> ConsumerGroupMember:
        """Return the member's next state on its way to a target assignment, and add its record."""
        target_epoch, target = epoch_and_target
        member = change.after
        has_new_subscription = change.has_new_topics or change.has_new_regex
        if has_new_subscription or not member.is_reconciled_to(target_epoch):
            goal = Goal(target_epoch, target, self._is_subscribed(group, member), group.owner_epoch)
            member = reconcile(member, goal, owned, subscription_changed=has_new_subscription)
        if member != change.after:
            records.append(current_record(group.group_id, member))
        return member

    def _group_for(self, request: ConsumerGroupHeartbeatRequest, records: list[Record]) -> ConsumerGroup:
        """Return the group of a member that joins or stays. A joining member makes it, also from a classic one.

        The records then have the tombstone of the classic group, and all of the group that it becomes.
        """
        group_id, joins = request.group_id, request.member_epoch == 0
        group = self._groups.get(group_id)
        if group is None:
            if not joins:
                raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
            return ConsumerGroup(group_id)
        if not isinstance(group, ClassicGroup):
            return group
        if not joins:
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        records.append((GroupMetadataKey(group=group_id), None))
        if group.state is GroupState.EMPTY:
            return ConsumerGroup(group_id)
        upgraded = upgrade(group, self._cluster)
        records += group_records(upgraded)
        return upgraded

    def _change(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        records: list[Record],
    ) -> MemberChange:
        """Return the member before and after it took what the request says. BrokerError if it is not valid."""
        member_id, joins = request.member_id, request.member_epoch == 0
        check_size(group, member_id, self._settings.group_consumer_max_size)
        if member_id == "":
            member_id = new_member_id()
        replaced_id = None
        if request.instance_id is None:
            member = group.members.get(member_id)
            if member is None and not joins:
                raise BrokerError(
                    ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
                )
            member = member or ConsumerGroupMember(member_id)
            check_epoch(member, request)
        else:
            holder = group.static_member(request.instance_id)
            if holder is not None and joins:
                replaced_id = holder.member_id
                check_released(holder, request.instance_id, member_id)
                member = replace_static(group, holder, member_id, records)
            elif joins:
                member = group.members.get(member_id) or ConsumerGroupMember(member_id)
            else:
                member = check_instance(holder, member_id, request.instance_id)
                check_epoch(member, request)
        names = request.subscribed_topic_names
        after = replace(
            member,
            instance_id=member.instance_id if request.instance_id is None else request.instance_id,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=(
                member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
            ),
            server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
            subscribed_topics=member.subscribed_topics if names is None else frozenset(names),
            subscribed_regex=(
                member.subscribed_regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex
            ),
            client_id=context.client_id or "",
            client_host=host_of_member(context.client_host),
            classic=None,
        )
        return MemberChange(member, after, replaced_id)

    # ---- group epoch and target assignment ----

    def _bump_epoch(
        self, group: ConsumerGroup, change: MemberChange, records: list[Record], *, has_new_topics: bool
    ) -> int:
        """Raise the group epoch after a change of the subscription or of the topics; return the group epoch."""
        members = None if change.keeps_subscriptions(group) else change.members(group)
        names = group.subscribed_topics(members)
        if not has_new_topics and not self._has_new_topics(group, names):
            return group.group_epoch
        new_hash = group_hash(names, self._cluster)
        group.seen_topics = self._topics(names)
        if not has_new_topics and new_hash == group.metadata_hash:
            return group.group_epoch
        records.append(group_epoch_record(group.group_id, group.group_epoch + 1, new_hash))
        return group.group_epoch + 1

    def _has_new_topics(self, group: ConsumerGroup, names: Iterable[str]) -> bool:
        """Return whether topics may have changed since the group epoch was raised the last time."""
        return group.seen_topics != self._topics(names)

    def _topics(self, names: Iterable[str]) -> frozenset[tuple[UUID, int]]:
        topics = self._cluster.topics
        return frozenset((topics[name].topic_id, len(topics[name].partitions)) for name in names if name in topics)

    def _update_target(
        self, group: ConsumerGroup, group_epoch: int, change: MemberChange, records: list[Record]
    ) -> tuple[int, Target]:
        """Compute a target assignment if it is of an older group epoch and not too recent.

        Return the epoch of the target assignment and the member's part of it.
        """
        member, now_wall_ms = change.after, self._clock.wall_ms()
        interval_ms = self._changes.setting(group, "consumer.assignment.interval.ms")
        is_recent = (
            group.assignment_timestamp_ms != 0
            and interval_ms != 0
            and now_wall_ms < group.assignment_timestamp_ms + interval_ms
        )
        if group.assignment_epoch >= group_epoch or is_recent:
            return group.assignment_epoch, group.target(member.member_id, member.instance_id)
        targets = compute_targets(
            group, change.members(group), self._cluster, self._settings.group_consumer_assignors[0]
        )
        for member_id, target in targets.items():
            if target != group.targets.get(member_id):
                records.append(target_record(group.group_id, member_id, target))
        records.append(assignment_epoch_record(group.group_id, group_epoch, now_wall_ms))
        return group_epoch, targets.get(member.member_id, {})

    def _is_subscribed(self, group: ConsumerGroup, member: ConsumerGroupMember) -> Callable[[UUID], bool]:
        names = group.topics_of(member)

        def is_subscribed(topic_id: UUID) -> bool:
            topic = self._cluster.topic_by_id(topic_id)
            return topic is not None and topic.name in names

        return is_subscribed

    # ---- leaving ----

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        group = self._groups.get(request.group_id)
        if group is None or isinstance(group, ClassicGroup):
            what = "not found" if group is None else "is not a consumer group"
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {what}.")
        if request.instance_id is None:
            member = group.members.get(request.member_id)
            if member is None:
                raise BrokerError(
                    ErrorCode.UNKNOWN_MEMBER_ID,
                    f"Member {request.member_id} is not a member of group {group.group_id}.",
                )
        else:
            holder = group.static_member(request.instance_id)
            member = check_instance(holder, request.member_id, request.instance_id)
            if request.member_epoch == LEAVE_STATIC_EPOCH:
                return self._leave_for_now(group, member)
        error = self._changes.remove(group, [member])
        if error:
            return heartbeat_error(error)
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def _leave_for_now(self, group: ConsumerGroup, member: ConsumerGroupMember) -> ConsumerGroupHeartbeatResponse:
        """Keep a static member and its partitions until it comes back under another id, or its session ends."""
        left = replace(
            member,
            member_epoch=LEAVE_STATIC_EPOCH,
            assigned={topic_id: dict.fromkeys(numbers, 0) for topic_id, numbers in member.assigned.items()},
            pending_revocation={},
        )
        if error := self._changes.write(group, [current_record(group.group_id, left)]):
            return heartbeat_error(error)
        return ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=LEAVE_STATIC_EPOCH)


def replace_static(
    group: ConsumerGroup, holder: ConsumerGroupMember, member_id: str, records: list[Record]
) -> ConsumerGroupMember:
    """Return the copy of a static member under a new id, and add the records of the replacement."""
    member = replace(holder, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    group_id = group.group_id
    records += member_tombstones(group_id, holder.member_id)
    records.append(subscription_record(group_id, member))
    records.append(target_record(group_id, member_id, group.target(holder.member_id)))
    records.append(current_record(group_id, member))
    return member


def heartbeat_error(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """Return a response with an error."""
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)


def _assignment(member: ConsumerGroupMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in member.assigned.items()
        ]
    )


def new_member_id() -> str:
    """Return a member id as Kafka makes them for clients that have none: the URL-safe Base64 text of a random UUID."""
    from kcli.broker.data_dir import random_uuid, uuid_text

    return uuid_text(random_uuid())
