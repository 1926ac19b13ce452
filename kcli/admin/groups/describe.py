"""Groups described by their coordinators, each by the API for its type; what type that is is found out if need be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.admin.groups.model import Group, GroupMember
from kcli.client.routing import Gathered

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient

__all__ = ["Group", "GroupMember", "describe_groups"]


def describe_groups(
    client: ConsumerNetworkClient, groups: Mapping[str, str | None], deadline_ms: float
) -> Gathered[str, Group]:
    """These groups (name -> type as far as known) with their members. One that is not there: GROUP_ID_NOT_FOUND."""
    raise NotImplementedError
