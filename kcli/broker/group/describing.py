"""What the group APIs tell of groups to administrators. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcli.broker.group.group import Group
from kcli.broker.group.states import GroupState
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from kcli.protocol.messages.list_groups import ListedGroup

FIRST_VERSION_WITH_NOT_FOUND = 6
CLASSIC = "classic"

# READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS by the numbers of KIP-430: all that can be done to a group.
ALL_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
NOT_ASKED = -(2**31)


def describe(group: Group, *, with_operations: bool) -> DescribedGroup:
    """State and members; the protocol and the members' subscriptions only when Stable, as they change before that."""
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
        authorized_operations=ALL_OPERATIONS if with_operations else NOT_ASKED,
    )


def describe_unknown(group_id: str, version: int, *, with_operations: bool) -> DescribedGroup:
    """A group that is not there: Dead, and from v6 also an error that says so."""
    if version >= FIRST_VERSION_WITH_NOT_FOUND:
        return DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} not found.",
        )
    operations = ALL_OPERATIONS if with_operations else NOT_ASKED
    return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value, authorized_operations=operations)


def listed(groups: Iterable[Group], states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
    """The groups in one of these states and of one of these types; none given: all. Case does not matter."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {group_type.strip().lower() for group_type in types}
    if wanted_types and CLASSIC not in wanted_types:
        return []
    return [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=CLASSIC,
        )
        for group in groups
        if not wanted_states or group.state.value.lower() in wanted_states
    ]
