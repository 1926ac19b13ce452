"""Groups as two looks saw them, made of literals: what the rules of `explain` are told in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcli.admin.explain.findings import Finding
from kcli.admin.explain.observations import Observations, Surroundings
from kcli.admin.explain.rules import explain
from kcli.admin.groups.group import CLASSIC, CONSUMER, Group, GroupMember
from kcli.admin.groups.lag import PartitionLag
from kcli.admin.groups.survey import GroupSurvey
from kcli.client.metadata import PartitionInfo, TopicInfo
from kcli.structs import Node, OffsetAndMetadata, TopicPartition

NODE = Node(1, "kafka-1", 9092)
NOW_MS = 1_700_000_000_000


def tp(name: str) -> TopicPartition:
    """`orders-3`."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def member(name: str, *owned: str, topics: tuple[str, ...] = ("orders",), **more: Any) -> GroupMember:
    """A member called `name`, with these partitions."""
    if isinstance(more.get("target"), tuple):
        more["target"] = tuple(map(tp, more["target"]))
    return GroupMember(f"{name}-1", name, "10.0.0.9", topics=topics, owned=tuple(map(tp, owned)), **more)


def group(*members: GroupMember, state: str = "Stable", type: str = CLASSIC, **more: Any) -> Group:
    if type == CONSUMER:
        more = {"epoch": 7, "target_epoch": 7, **more}
    return Group("billing", type, state, NODE, "consumer", "range", members=members, **more)


def look(
    seen: Group, rows: Mapping[str, tuple[Any, ...]], at_ms: float, **about_rows: Mapping[str, Any]
) -> GroupSurvey:
    """`rows`: partition -> (committed, start, end), None for what is not known; owners come from the group.

    `about_rows`: other fields of rows, by partition.
    """
    partitions = []
    for name, (committed, start, end) in sorted(rows.items()):
        lag = None if committed is None or end is None else max(0, end - committed)
        owners = tuple(m for m in seen.members if tp(name) in m.owned)
        row = PartitionLag(
            seen.group,
            tp(name),
            None if committed is None else OffsetAndMetadata(committed),
            start,
            end,
            lag,
            None,
            None,
            owners,
        )
        partitions.append(row._replace(**{field: by[name] for field, by in about_rows.items() if name in by}))
    return GroupSurvey(seen, partitions, None, at_ms, at_ms)


def topic(name: str, partitions: int = 2, leaderless: tuple[int, ...] = ()) -> TopicInfo:
    """A topic of broker 1; where there is no leader, broker 2 had it and is offline."""
    return TopicInfo(
        name,
        partitions={
            n: PartitionInfo(name, n, -1, 3, (2,), (2,), (2,))
            if n in leaderless
            else PartitionInfo(name, n, 1, 3, (1,), (1,))
            for n in range(partitions)
        },
    )


def around(*topics: TopicInfo, **more: Any) -> Surroundings:
    known = topics or (topic("orders"),)
    return Surroundings(NOW_MS, **{"topics": {t.name: t for t in known}, **more})


def found(first: GroupSurvey, second: GroupSurvey, lies_around: Surroundings | None = None) -> dict[str, Finding]:
    """What is found, by kind; of several of a kind the last."""
    return {finding.kind: finding for finding in explain(Observations(first, second, lies_around or around()))}


def found_in(
    seen: Group,
    rows: Mapping[str, tuple[Any, ...]],
    lies_around: Surroundings | None = None,
    **about_rows: Mapping[str, Any],
) -> dict[str, Finding]:
    """What is found when nothing moved between the observations."""
    return found(look(seen, rows, 0), look(seen, rows, 6000, **about_rows), lies_around)
