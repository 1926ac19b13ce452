"""Observations of groups, made of literals, as input for the rules of `explain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcli.admin.explain.findings import Finding
from kcli.admin.explain.observations import ClusterFacts, Observations
from kcli.admin.explain.rules import explain
from kcli.admin.groups.group import CLASSIC, CONSUMER, Group, GroupMember
from kcli.admin.groups.lag import BEYOND_END, PartitionLag
from kcli.admin.groups.survey import GroupSurvey
from kcli.client.metadata import PartitionInfo, TopicInfo
from kcli.structs import Node, OffsetAndMetadata, TopicPartition

NODE = Node(1, "kafka-1", 9092)
NOW_MS = 1_700_000_000_000


def tp(name: str) -> TopicPartition:
    """Return the partition of a name such as `orders-3`."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def member(name: str, *owned: str, topics: tuple[str, ...] = ("orders",), **more: Any) -> GroupMember:
    """Return a member with this client id that owns these partitions."""
    if isinstance(more.get("target"), tuple):
        more["target"] = tuple(map(tp, more["target"]))
    return GroupMember(f"{name}-1", name, "10.0.0.9", topics=topics, owned=tuple(map(tp, owned)), **more)


def group(*members: GroupMember, state: str = "Stable", type: str = CLASSIC, **more: Any) -> Group:
    if type == CONSUMER:
        more = {"epoch": 7, "target_epoch": 7, **more}
    return Group("billing", type, state, NODE, "consumer", "range", members=members, **more)


def group_survey(
    group: Group, rows: Mapping[str, tuple[Any, ...]], at_ms: float, **row_fields: Mapping[str, Any]
) -> GroupSurvey:
    """Return a survey of a group. `rows`: partition -> (committed, start, end), each None if unknown.

    The owners of partitions are taken from the group. `row_fields`: other fields of rows, by partition.
    """
    partitions = []
    for name, (committed, start, end) in sorted(rows.items()):
        lag = None if committed is None or end is None else end - committed if committed <= end else None
        owners = tuple(m for m in group.members if tp(name) in m.owned)
        row = PartitionLag(
            group.group,
            tp(name),
            None if committed is None else OffsetAndMetadata(committed),
            start,
            end,
            lag,
            None,
            BEYOND_END if lag is None and committed is not None and end is not None else None,
            owners,
        )
        partitions.append(row._replace(**{field: by[name] for field, by in row_fields.items() if name in by}))
    return GroupSurvey(group, partitions, None, at_ms, at_ms)


def topic(name: str, partitions: int = 2, leaderless: tuple[int, ...] = ()) -> TopicInfo:
    """Return a topic led by broker 1. The only replica of a leaderless partition is on broker 2, which is offline."""
    return TopicInfo(
        name,
        partitions={
            n: PartitionInfo(name, n, -1, 3, (2,), (2,), (2,))
            if n in leaderless
            else PartitionInfo(name, n, 1, 3, (1,), (1,))
            for n in range(partitions)
        },
    )


def cluster_facts(*topics: TopicInfo, **more: Any) -> ClusterFacts:
    known = topics or (topic("orders"),)
    return ClusterFacts(NOW_MS, **{"topics": {t.name: t for t in known}, **more})


def findings(first: GroupSurvey, second: GroupSurvey, cluster: ClusterFacts | None = None) -> dict[str, Finding]:
    """Return the findings by kind; of several findings of a kind the last."""
    return {finding.kind: finding for finding in explain(Observations(first, second, cluster or cluster_facts()))}


def unchanged_findings(
    group: Group,
    rows: Mapping[str, tuple[Any, ...]],
    cluster: ClusterFacts | None = None,
    **row_fields: Mapping[str, Any],
) -> dict[str, Finding]:
    """Return the findings for a group that did not change between the observations."""
    return findings(group_survey(group, rows, 0), group_survey(group, rows, 6000, **row_fields), cluster)
