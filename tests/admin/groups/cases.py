"""Surveys of groups, made of literals."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.admin.groups.group import Group, GroupMember
from kcli.admin.groups.lag import PartitionLag
from kcli.admin.groups.survey import GroupSurvey
from kcli.errors import KcliError
from kcli.structs import Node, OffsetAndMetadata, TopicPartition

NODE = Node(1, "kafka-1", 9092)
Numbers = tuple[int | None, int, int] | KcliError  # committed, start, end


def tp(text: str) -> TopicPartition:
    """Return the partition of a name such as `orders-0`."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def member(name: str, *owned: str, instance_id: str | None = None, **more: object) -> GroupMember:
    partitions = tuple(map(tp, owned))
    return GroupMember(f"{name}-id", name, f"{name}.host", instance_id, owned=partitions, **more)  # type: ignore[arg-type]


def group(*members: GroupMember, name: str = "billing", state: str = "Stable", kind: str = "classic") -> Group:
    return Group(name, kind, state, NODE, "consumer", "range", members=members)


def survey(
    rows: Mapping[str, Numbers],
    *members: GroupMember,
    ages: Mapping[str, tuple[int | None, str | None]] | None = None,
    error: KcliError | None = None,
    **more: str,
) -> GroupSurvey:
    """Return a survey of these rows. `ages`: time lags with their notes; by default 0, or None with a lag."""
    owners = {owned: m for m in members for owned in m.owned}
    found = []
    for name, row in rows.items():
        owner = (owners[tp(name)],) if tp(name) in owners else ()
        if isinstance(row, KcliError):
            found.append(PartitionLag("billing", tp(name), members=owner, error=row))
            continue
        at, start, end = row
        lag = None if at is None else max(0, end - at)
        age, note = (ages or {}).get(name, (0 if lag == 0 else None, None))
        committed = None if at is None else OffsetAndMetadata(at)
        found.append(PartitionLag("billing", tp(name), committed, start, end, lag, age, note, owner))
    return GroupSurvey(group(*members, **more), found, error)
