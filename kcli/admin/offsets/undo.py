"""Plans that restore the offsets of a snapshot; an offset that was not committed then is deleted again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.admin.offsets.checks import check_cluster
from kcli.admin.offsets.offset_plan import (
    WHOLE_TOPIC,
    OffsetPlan,
    OffsetRow,
    PartitionFacts,
    ToCurrent,
    distance,
    make_plan,
)
from kcli.admin.offsets.reset import gather_facts
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import OffsetAndMetadata, TopicPartition
from kcli.text import format_time

if TYPE_CHECKING:
    from kcli.admin.offsets.reset import GroupFacts
    from kcli.admin.snapshots import Change, Snapshot
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import Cluster
    from kcli.client.requests import Results

_GONE = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}


def plan_undo(client: ConsumerNetworkClient, snapshot: Snapshot, deadline_ms: float) -> OffsetPlan:
    """Plan to restore a snapshot. WrongCluster if the client is connected to another cluster. Changes nothing."""
    check_cluster(client, snapshot.cluster_id, deadline_ms)
    facts = gather_facts(client, snapshot.names, snapshot.scope, ToCurrent(), deadline_ms)
    return undo_plan(snapshot, facts, client.metadata.cluster, client.clock.wall_ms())


def undo_plan(snapshot: Snapshot, facts: Results[str, GroupFacts], cluster: Cluster, made_ms: int) -> OffsetPlan:
    """Return the plan from the current state, whether the change was written wholly, partly or not at all. Pure.

    Offsets are restored with epochs and metadata, also those outside the log now. A topic that was deleted or recreated
    is skipped, because its offsets mean nothing any more.
    """
    rows = []
    by_partition = {(group, fact.tp): fact for group, found in facts.values.items() for fact in found.partitions}
    for change in snapshot.changes:
        group, tp = change.key
        if group in facts.errors:
            error = facts.errors[group]
            rows.append(OffsetRow(change.key, None, change.before, "refuse", error.message, error))
            continue
        fact = _fact_of(group, tp, by_partition)
        reason = _topic_is_gone(tp, snapshot, fact, cluster)
        if reason is not None:
            rows.append(OffsetRow(change.key, fact.committed, fact.committed, "skip", reason))
        else:
            rows.append(_row(change, fact, snapshot))
    states = {group: found.state for group, found in facts.values.items()}
    return make_plan("undo", rows, made_ms, states, snapshot.cluster_id)


def _fact_of(
    group: str, tp: TopicPartition, facts: Mapping[tuple[str, TopicPartition], PartitionFacts]
) -> PartitionFacts:
    found = facts.get((group, tp)) or facts.get((group, TopicPartition(tp.topic, WHOLE_TOPIC)))
    return found._replace(tp=tp) if found is not None else PartitionFacts(tp)


def _topic_is_gone(tp: TopicPartition, snapshot: Snapshot, fact: PartitionFacts, cluster: Cluster) -> str | None:
    if isinstance(fact.error, BrokerError) and fact.error.code in _GONE:
        return "the topic or partition does not exist any more"
    then, now = snapshot.topic_ids.get(tp.topic), cluster.topics.get(tp.topic)
    if then is not None and now is not None and now.topic_id is not None and str(now.topic_id) != then:
        return "the topic was deleted and recreated since"
    return None


def _row(change: Change, fact: PartitionFacts, snapshot: Snapshot) -> OffsetRow:
    key, now, before = change.key, fact.committed, change.before
    when = f"before the {snapshot.noun} of {format_time(snapshot.made_ms)}"
    if now == before:
        return OffsetRow(key, now, now, "keep", f"as {when}")
    since = "" if now == change.after else "; another client has committed since"
    if before is None:
        return OffsetRow(key, now, None, "delete", f"no committed offset {when}{since}")
    reread, skipped = distance(now, before, fact)
    why = f"as {when}{since}{_outside(before, fact)}"
    return OffsetRow(key, now, before, "move", why, None, reread, skipped)


def _outside(offset: OffsetAndMetadata, fact: PartitionFacts) -> str:
    if fact.start is not None and offset.offset < fact.start:
        return f"; the log starts at {fact.start} now"
    if fact.end is not None and offset.offset > fact.end:
        return f"; the log ends at {fact.end} now"
    return ""
