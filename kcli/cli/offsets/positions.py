"""Positions of groups, in scope and complete: what an export, a copy and a deletion are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.model import SHARE
from kcli.admin.offsets.plan import ABSENT
from kcli.errors import KcliError, NotFound, Refused
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.admin.offsets.facts import Scope
    from kcli.client.consumer_network_client import ConsumerNetworkClient


class GroupPositions(NamedTuple):
    """What a group has committed in scope, and its state."""

    offsets: dict[TopicPartition, OffsetAndMetadata]
    state: str


def read_positions(
    client: ConsumerNetworkClient, groups: Mapping[str, str | None], scope: Scope, deadline_ms: float
) -> dict[str, GroupPositions]:
    """Everything that these groups (name -> type as far as known) have committed in scope.

    Whole or an error: what was saved with a part missing would be believed to be all.
    """
    from kcli.admin.groups.committed import committed_offsets
    from kcli.admin.groups.describe import describe_groups
    from kcli.client.routing import Coordinators

    coordinators = Coordinators(client)
    described = describe_groups(client, groups, deadline_ms, coordinators=coordinators)
    for error in described.errors.values():
        raise error
    for name, group in described.values.items():
        if group.type == SHARE:
            raise Refused(f"{name} is a share group: it has no committed offsets")
    committed = committed_offsets(client, groups, deadline_ms, coordinators=coordinators)
    for error in committed.errors.values():
        raise error
    return {
        name: GroupPositions(_in_scope(committed.values[name], scope), _state(group.state))
        for name, group in described.values.items()
    }


def _state(word: str) -> str:
    return word or ABSENT


def _in_scope(
    committed: Mapping[TopicPartition, OffsetAndMetadata | KcliError], scope: Scope
) -> dict[TopicPartition, OffsetAndMetadata]:
    offsets = {}
    for tp, found in sorted(committed.items()):
        if not is_in_scope(tp, scope):
            continue
        if isinstance(found, KcliError):
            raise found
        offsets[tp] = found
    return offsets


def is_in_scope(tp: TopicPartition, scope: Scope) -> bool:
    """Is this partition meant? A scope of None is everything."""
    if scope is None:
        return True
    numbers: Iterable[int] | None = scope.get(tp.topic, ())
    return numbers is None or tp.partition in numbers


def check_scope(offsets: Iterable[TopicPartition], scope: Scope, whose: str) -> None:
    """NotFound unless there is something for every topic and every partition that is named."""
    there = set(offsets)
    topics = {tp.topic for tp in there}
    for topic, numbers in (scope or {}).items():
        missing = [str(number) for number in numbers or () if TopicPartition(topic, number) not in there]
        if missing:
            raise NotFound(f"{whose} nothing in {topic}:{','.join(missing)}")
        if topic not in topics:
            raise NotFound(f"{whose} nothing in {topic}")
