"""Which groups there are: one ListGroups for each broker, side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kcli.client.routing import Gathered
from kcli.structs import Node

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it.

    `type`: classic, consumer, share, streams or what a newer broker says; brokers older than 3.8 have but classic ones.
    `state` is "" from brokers older than 2.6. `protocol_type` is "consumer" for consumers, "connect" for Connect's
    workers, "" for a group that only has committed offsets.
    """

    group: str
    type: str
    state: str
    protocol_type: str
    coordinator: Node


def list_groups(
    client: ConsumerNetworkClient, deadline_ms: float, states: Iterable[str] = (), types: Iterable[str] = ()
) -> Gathered[Node, list[ListedGroup]]:
    """The groups of each broker, sorted by name; only those in one of these states and of one of these types.

    Case does not matter in states and types; () is any. A broker that does not answer is an error under its node.
    """
    raise NotImplementedError
