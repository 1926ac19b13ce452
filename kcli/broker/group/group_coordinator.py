"""GroupCoordinator: the groups by name.

A broker coordinates the groups of the partitions that it leads: see `coordinator_partitions`. The requests of members
are in `classic_requests` and `consumer_heartbeats` (KIP-848), which is imported at its first use.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from kcli.broker.cluster.features import GROUP_VERSION
from kcli.broker.group.classic_group import ClassicGroup
from kcli.broker.group.classic_requests import ClassicRequests
from kcli.broker.group.expiry import GroupFacts
from kcli.broker.group.group_records import group_record
from kcli.broker.group.rebalancer import Rebalancer
from kcli.broker.group.states import COMMIT_ERRORS, GroupEvent, GroupState
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kcli.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kcli.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kcli.protocol.offsets_topic import GroupMetadataValue
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.config import BrokerConfig
    from kcli.broker.group.classic_members import ClassicMembers
    from kcli.broker.group.consumer_changes import ConsumerChanges
    from kcli.broker.group.consumer_group import ConsumerGroup, Groups
    from kcli.broker.group.consumer_heartbeats import ConsumerHeartbeats
    from kcli.broker.group.group_records import KeyAndValue
    from kcli.broker.group.offset_store import OffsetStore
    from kcli.broker.serving.timer import Timer
    from kcli.clock import Clock

FIRST_COMMIT_VERSION_WITH_NOT_FOUND = 9
FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND = 6

CLASSIC, CONSUMER = "classic", "consumer"


class GroupCoordinator:
    """All groups by name, and the requests of administrators."""

    def __init__(
        self, config: BrokerConfig, timer: Timer, clock: Clock, store: OffsetStore, cluster: ClusterView
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._clock = clock
        self._store = store
        self._rebalancer = Rebalancer(config.group_initial_rebalance_delay_ms, timer, clock, store)
        self._groups: Groups = {}
        #: The requests of members that use the classic protocol.
        self.classic = ClassicRequests(
            config, clock, self._rebalancer, self._groups, lambda: (self._classic_members, self._changes)
        )

    def __repr__(self) -> str:
        return f"<GroupCoordinator {len(self._groups)} groups, {self._rebalancer.deadlines!r}>"

    @cached_property
    def _changes(self) -> ConsumerChanges:
        from kcli.broker.group.consumer_changes import ConsumerChanges

        return ConsumerChanges(self._cluster, self._rebalancer, self._groups)

    @cached_property
    def consumers(self) -> ConsumerHeartbeats:
        """The heartbeats of members of consumer groups."""
        from kcli.broker.group.consumer_heartbeats import ConsumerHeartbeats

        return ConsumerHeartbeats(self._cluster, self._changes, self._groups, self._clock)

    @cached_property
    def _classic_members(self) -> ClassicMembers:
        from kcli.broker.group.classic_members import ClassicMembers

        return ClassicMembers(self._cluster, self._changes, self.consumers)

    # ---- member requests ----

    def check_commit(
        self,
        group_id: str,
        generation_id: int,
        member_id: str,
        group_instance_id: str | None,
        *,
        api_version: int = FIRST_COMMIT_VERSION_WITH_NOT_FOUND,
        is_transactional: bool = False,
        partitions: Iterable[TopicPartition] = (),
    ) -> ErrorCode:
        """Return NONE if this sender may commit offsets; a classic member's commit counts as a heartbeat.

        A member of a consumer group that is behind its epoch may commit only `partitions` which it has had since.

        With `is_transactional` (TxnOffsetCommit, whose versions are others) it does not: the group's state is not
        checked, and a sender that does not name a member may commit, as producers before KIP-447 do.

        Without a generation (-1) the group need not exist: the store then creates a "simple" group.
        """
        group = self._groups.get(group_id)
        if group is None:
            if generation_id < 0:
                return ErrorCode.NONE
            is_new = api_version >= FIRST_COMMIT_VERSION_WITH_NOT_FOUND and not is_transactional
            return ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
        if not isinstance(group, ClassicGroup):
            from kcli.broker.group.consumer_commits import Committer, check_commit

            topics = self._cluster.topics
            return check_commit(
                group,
                Committer(generation_id, member_id, group_instance_id),
                [(topics[tp.topic].topic_id, tp.partition) for tp in partitions if tp.topic in topics],
                api_version=api_version,
                is_transactional=is_transactional,
            )
        error = _check_commit(group, generation_id, member_id, group_instance_id, is_transactional)
        if error is ErrorCode.NONE and not is_transactional and member_id in group.members:
            self._rebalancer.start_session(group, group.members[member_id])
        return error

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return NONE if this sender may read committed offsets; a member of a consumer group only in its epoch."""
        group = self._groups.get(group_id)
        if group is None or isinstance(group, ClassicGroup):
            return ErrorCode.NONE
        from kcli.broker.group.consumer_commits import check_fetch

        return check_fetch(group, member_id, member_epoch)

    # ---- admin requests ----

    @property
    def serves_consumer_groups(self) -> bool:
        """True if the cluster has the feature group.version, and the broker's settings have the protocol."""
        has_protocol = CONSUMER in self._config.group_coordinator_rebalance_protocols
        return has_protocol and self._cluster.features.get(GROUP_VERSION, 0) > 0

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """Return the consumer group of this id. BrokerError GROUP_ID_NOT_FOUND for an unknown or a classic group."""
        group = self._groups.get(group_id)
        if group is None:
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if isinstance(group, ClassicGroup):
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return group

    def describe_groups(self, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
        """Return state and members of the requested groups."""
        described = []
        for group_id in request.groups:
            group = self._groups.get(group_id)
            if isinstance(group, ClassicGroup):
                described.append(_describe(group))
            else:
                problem = "not found." if group is None else "is not a classic group."
                described.append(_describe_unknown(group_id, problem, context.api_version))
        return DescribeGroupsResponse(groups=described)

    def list_groups(self, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        """Return the groups in one of the requested states and types (none given: all). Case does not matter."""
        states = {state.strip().lower() for state in request.states_filter}
        types = {group_type.strip().lower() for group_type in request.types_filter}
        return ListGroupsResponse(
            groups=[
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state.value,
                    group_type=CLASSIC if isinstance(group, ClassicGroup) else CONSUMER,
                )
                for group in self._groups.values()
                if (not states or group.state.value.lower() in states)
                and (not types or (CLASSIC if isinstance(group, ClassicGroup) else CONSUMER) in types)
            ]
        )

    def delete_groups(self, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
        """Delete groups without members, with their offsets."""
        names = dict.fromkeys(request.groups_names)
        return DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id=name, error_code=self._delete_one(name)) for name in names]
        )

    def _delete_one(self, group_id: str) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not group.can(GroupEvent.DELETED) if isinstance(group, ClassicGroup) else group.members:
            return ErrorCode.NON_EMPTY_GROUP
        error = self._store.delete_group(group_id, self._clock.wall_ms())
        if error is ErrorCode.NONE:
            self.forget(group_id)
        return error

    # ---- the offset store's interface (GroupRegistry) ----

    def restore(self, group_id: str, value: GroupMetadataValue | ConsumerGroup | None) -> None:
        """Restore a group from its record or records; None: a group that only has offsets.

        The members' sessions start now.
        """
        previous = self._groups.pop(group_id, None)
        if previous is not None:
            self._cancel_timers(previous)
        if value is None:
            self._groups[group_id] = ClassicGroup(group_id, now_wall_ms=self._clock.wall_ms())
        elif isinstance(value, GroupMetadataValue):
            self._restore_classic(group_id, value)
        else:
            self._groups[group_id] = value
            self._changes.restore(value)

    def _restore_classic(self, group_id: str, value: GroupMetadataValue) -> None:
        group = self._groups[group_id] = ClassicGroup.from_record(group_id, value)
        for member in group.members.values():
            self._rebalancer.start_session(group, member)
        if len(group.members) > self._config.group_max_size:  # lowered since: the last members to rejoin are refused
            self._rebalancer.prepare_rebalance(group)

    def group_ids(self) -> list[str]:
        """Return the names of all groups."""
        return [*self._groups]

    def facts(self, group_id: str) -> GroupFacts | None:
        """Return the facts that the expiry of a group's offsets depends on; None for an unknown group."""
        group = self._groups.get(group_id)
        return None if group is None else group.facts()

    def tombstones(self, group_id: str) -> list[KeyAndValue]:
        """Return the tombstones of all records of a group."""
        group = self._groups.get(group_id)
        if group is None or isinstance(group, ClassicGroup):
            return [group_record(group_id, None)]
        return self._changes.tombstones(group)

    def unload(self, group_id: str) -> None:
        """Drop a group that another broker coordinates from now on. Its parked requests get NOT_COORDINATOR."""
        group = self._groups.pop(group_id)
        if isinstance(group, ClassicGroup):
            self._rebalancer.abandon(group, ErrorCode.NOT_COORDINATOR)
        else:
            self._changes.forget(group)

    def forget(self, group_id: str) -> None:
        """Drop an Empty group after its tombstones are written. ValueError when it has members."""
        group = self._groups[group_id]
        if isinstance(group, ClassicGroup):
            group.move(GroupEvent.DELETED, self._clock.wall_ms())
        elif group.members:
            raise ValueError(f"group {group_id} has {len(group.members)} members")
        self._cancel_timers(group)
        del self._groups[group_id]

    def _cancel_timers(self, group: ClassicGroup | ConsumerGroup) -> None:
        if isinstance(group, ClassicGroup):
            self._rebalancer.forget(group)
        else:
            self._changes.forget(group)


def _check_commit(
    group: ClassicGroup, generation_id: int, member_id: str, group_instance_id: str | None, is_transactional: bool
) -> ErrorCode:
    """Return NONE for a member of this generation, and for any sender without a generation while the group is Empty.

    In a transaction the state does not matter, and the sender need not name a member.
    """
    names_no_member = generation_id < 0 and member_id == "" and group_instance_id is None
    if (generation_id < 0 and group.state is GroupState.EMPTY) or (names_no_member and is_transactional):
        return ErrorCode.NONE
    if names_no_member:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(member_id, group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE if is_transactional else COMMIT_ERRORS[group.state]


def _describe(group: ClassicGroup) -> DescribedGroup:
    """Describe a group; protocol and subscriptions only when Stable, because they change until then."""
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=m.member_id,
                group_instance_id=m.group_instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                member_metadata=m.metadata(group.protocol) if is_stable else b"",
                member_assignment=m.assignment,
            )
            for m in group.members.values()
        ],
    )


def _describe_unknown(group_id: str, problem: str, version: int) -> DescribedGroup:
    """Describe a group that is unknown, or of the consumer protocol, as Dead; from v6 on with GROUP_ID_NOT_FOUND."""
    if version >= FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND:
        return DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {problem}").detail,
        )
    return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
