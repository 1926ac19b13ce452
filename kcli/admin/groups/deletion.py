"""Groups deleted and members removed: the only module of this package that changes anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.admin.groups.model import GroupMember
from kcli.client.routing import Gathered

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient


def delete_groups(client: ConsumerNetworkClient, groups: Iterable[str], deadline_ms: float) -> Gathered[str, None]:
    """Delete groups without members, with their offsets. NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, ... under their names."""
    raise NotImplementedError


def remove_members(
    client: ConsumerNetworkClient, group: str, members: Iterable[GroupMember], reason: str, deadline_ms: float
) -> Gathered[str, None]:
    """Make members leave a group, by member id. A live dynamic member joins again at once; a static one's place is free.

    `reason` goes to the broker's log (KIP-800, from 3.2 on; 255 characters of it).
    """
    raise NotImplementedError
