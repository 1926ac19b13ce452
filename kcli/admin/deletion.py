"""Deleting topics in two steps: a plan that can be shown, then the deletion of exactly what was planned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.topics import delete_topics, describe_topics, partition_bounds
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.errors import KcliError


class PlannedDeletion(NamedTuple):
    """A topic to delete, or the `error` why it cannot be.

    `records` is the sum of end minus start offsets, at most what is stored; None if a partition did not answer.
    """

    topic: str
    topic_id: UUID | None = None
    partitions: int | None = None
    records: int | None = None
    error: KcliError | None = None


def plan_deletion(client: ConsumerNetworkClient, names: Iterable[str], deadline_ms: float) -> list[PlannedDeletion]:
    """What deleting these topics would remove. Changes nothing."""
    names = list(dict.fromkeys(names))
    found = describe_topics(client, names, deadline_ms)
    partitions = [TopicPartition(t.name, number) for t in found.values.values() for number in t.partitions]
    bounds = partition_bounds(client, partitions, deadline_ms)
    plan = []
    for name in names:
        if name in found.errors:
            plan.append(PlannedDeletion(name, error=found.errors[name]))
            continue
        topic = found.values[name]
        counts = [bounds.values.get(TopicPartition(name, number)) for number in topic.partitions]
        records = sum(b.end - b.start for b in counts if b is not None) if None not in counts else None
        plan.append(PlannedDeletion(name, topic.topic_id, len(topic.partitions), records))
    return plan


def apply_deletion(
    client: ConsumerNetworkClient, plan: Sequence[PlannedDeletion], deadline_ms: float
) -> dict[str, KcliError]:
    """Delete the plan's topics that have no error, by id where possible; what failed, by name."""
    wanted = {planned.topic: planned.topic_id for planned in plan if planned.error is None}
    return delete_topics(client, wanted, deadline_ms).errors if wanted else {}
