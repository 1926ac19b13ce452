"""Plans that set, copy and delete committed offsets: their facts, read with few requests, and their rows.

Nothing here changes anything; `apply.apply_plan` does. The decisions are pure functions of `offset_plan`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.committed_offsets import committed_offsets
from kcli.admin.groups.describe import describe_groups
from kcli.admin.groups.group import is_absent
from kcli.admin.groups.listing import similar_groups
from kcli.admin.logs.log_bounds import learn_topics, log_bounds, may_pass
from kcli.admin.offsets.checks import check_cluster
from kcli.admin.offsets.offset_plan import (
    ABSENT,
    WHOLE_GROUP,
    WHOLE_TOPIC,
    FromOffsets,
    IfNoRecord,
    IfOutOfRange,
    OffsetPlan,
    OffsetRow,
    PartitionFacts,
    Target,
    make_plan,
    plan_reset,
)
from kcli.admin.offsets.positions import check_scope, read_positions
from kcli.client.offset_lookup import list_offsets
from kcli.client.requests import Results, half_deadline
from kcli.client.routing import Coordinators
from kcli.errors import ConfigError, KcliError, NotFound, TimeoutExpired
from kcli.log_place import Place
from kcli.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kcli.text import group_text

if TYPE_CHECKING:
    from kcli.admin.groups.group import Group
    from kcli.admin.offsets.offset_plan import Scope
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import Cluster

    Committed = Mapping[TopicPartition, OffsetAndMetadata | KcliError]


def plan_group_reset(
    client: ConsumerNetworkClient,
    groups: Iterable[str],
    target: Target,
    deadline_ms: float,
    *,
    scope: Scope = None,
    if_no_record: IfNoRecord = "refuse",
    if_out_of_range: IfOutOfRange = "refuse",
) -> OffsetPlan:
    """Plan to move the committed offsets of these groups to a target. Changes nothing.

    A group that cannot be described, or that has nothing to move, is a refused row.
    """
    names = list(groups)
    facts = gather_facts(client, names, scope, target, deadline_ms)
    rows: list[OffsetRow] = []
    similar = similar_groups(client, [name for name, fact in facts.values.items() if not fact.partitions], deadline_ms)
    for name in names:
        if name in facts.errors:
            rows.append(refused_group(name, facts.errors[name]))
            continue
        partitions = facts.values[name].partitions
        moved = plan_reset(name, partitions, target, if_no_record=if_no_record, if_out_of_range=if_out_of_range)
        rows += moved or [refused_group(name, _nothing_to_move(name, target, similar.get(name, "")))]
    check_cluster(client, None, deadline_ms)  # requests the cluster id, for the plan
    states = {name: facts.values[name].state for name in names if name in facts.values}
    return make_plan("reset", rows, client.clock.wall_ms(), states, client.metadata.cluster.cluster_id)


def refused_group(group: str, error: KcliError) -> OffsetRow:
    """Return the row of a group whose partitions are unknown."""
    return OffsetRow((group, WHOLE_GROUP), action="refuse", why=error.message, error=error)


def _nothing_to_move(group: str, target: Target, similar: str) -> KcliError:
    if isinstance(target, FromOffsets):
        return NotFound(f"{target.source} has no offsets of group {group_text(group)}")
    return NotFound(
        f"group {group_text(group)} has no committed offsets{similar}; use --topic to set offsets in named topics"
    )


def plan_copy(
    client: ConsumerNetworkClient,
    group: str,
    to_group: str,
    deadline_ms: float,
    *,
    scope: Scope = None,
    if_out_of_range: IfOutOfRange = "refuse",
) -> tuple[OffsetPlan, str]:
    """Plan to commit the offsets, leader epochs and metadata of one group for another one.

    Return the plan and the state of the group that is copied. NotFound if it has no offsets in scope.
    """
    if group == to_group:
        raise ConfigError(f"cannot copy group {group_text(group)} to itself")
    source = read_positions(client, {group: None}, scope, deadline_ms)[group]
    check_scope(source.offsets, scope, f"group {group_text(group)}")
    if not source.offsets:
        raise NotFound(f"group {group_text(group)} has no committed offsets")
    target = FromOffsets({(to_group, tp): at for tp, at in source.offsets.items()}, f"group {group_text(group)}")
    plan = plan_group_reset(client, [to_group], target, deadline_ms, if_out_of_range=if_out_of_range)
    return replace(plan, kind="copy"), source.state


def plan_delete(client: ConsumerNetworkClient, group: str, scope: Scope, deadline_ms: float) -> OffsetPlan:
    """Plan to delete the committed offsets of a group in scope. NotFound for a part of the scope without offsets."""
    source = read_positions(client, {group: None}, scope, deadline_ms)[group]
    check_scope(source.offsets, scope, f"group {group_text(group)}")
    check_cluster(client, None, deadline_ms)  # requests the cluster id, for the plan
    rows = [OffsetRow((group, tp), at, None, "delete", "as requested") for tp, at in source.offsets.items()]
    states, cluster_id = {group: source.state}, client.metadata.cluster.cluster_id
    return make_plan("delete", rows, client.clock.wall_ms(), states, cluster_id)


def target_in_file(text: str, source: str) -> tuple[FromOffsets, str | None]:
    """Return the offsets of a plan or export as a target, and the id of its cluster, None if the file has none."""
    from kcli.admin.offsets.plan_files import Positions
    from kcli.admin.offsets.plan_reading import offsets_of, read_plan_file

    content = read_plan_file(text, source)
    target = content.target(source) if isinstance(content, Positions) else offsets_of(content, source)
    return target, content.cluster_id


def target_of_group(client: ConsumerNetworkClient, group: str, deadline_ms: float) -> FromOffsets:
    """Return the committed offsets of another group as a target, with leader epochs and metadata.

    NotFound if the group has none; the error of a partition whose offset cannot be read is raised.
    """
    results = committed_offsets(client, [group], deadline_ms)
    for error in results.errors.values():
        raise error
    offsets: dict[tuple[str | None, TopicPartition], OffsetAndMetadata] = {}
    for tp, committed in results.values[group].items():
        if isinstance(committed, KcliError):
            raise committed
        offsets[None, tp] = committed
    if not offsets:
        raise NotFound(f"group {group_text(group)} has no committed offsets")
    return FromOffsets(offsets, f"group {group_text(group)}")


class GroupFacts(NamedTuple):
    """A group, None if it does not exist, and its partitions in scope, sorted."""

    group: Group | None
    partitions: list[PartitionFacts]

    @property
    def state(self) -> str:
        """Kafka's name of the group's state; ABSENT for a group that does not exist."""
        return ABSENT if self.group is None else self.group.state


def gather_facts(
    client: ConsumerNetworkClient, groups: Iterable[str], scope: Scope, target: Target, deadline_ms: float
) -> Results[str, GroupFacts]:
    """Return the facts of each group. A group that cannot be described, or whose offsets cannot be read, is an error.

    A topic or partition in scope that does not exist is a fact with an error; a topic has the number WHOLE_TOPIC. The
    number of requests grows with the brokers, not with groups or partitions. While an error is retriable, its group is
    asked for again until the deadline, because one error refuses the whole plan.
    """
    names = list(dict.fromkeys(groups))
    facts: Results[str, GroupFacts] = Results()
    pending = names
    for _ in client.attempts(deadline_ms):
        latest = _gather_once(client, pending, scope, target, deadline_ms)
        is_late = client.clock.now_ms() >= deadline_ms
        for name in pending:
            if is_late and name in facts.values and _may_pass(latest, name):
                continue  # the errors of the attempt before say more than the time-outs of the last one
            if name in latest.values:
                facts.values[name] = latest.values[name]
                facts.errors.pop(name, None)
            elif name not in facts.values:
                facts.errors[name] = latest.errors[name]
        pending = [name for name in pending if _may_pass(latest, name)]
        if not pending:
            break
    facts.values = {name: facts.values[name] for name in names if name in facts.values}
    return facts


def _may_pass(facts: Results[str, GroupFacts], name: str) -> bool:
    """True if more time may cure an error of the group or of one of its partitions."""
    known = facts.values.get(name)
    errors = [facts.errors.get(name)] if known is None else [partition.error for partition in known.partitions]
    return any(map(may_pass, errors))


def _gather_once(
    client: ConsumerNetworkClient, groups: Iterable[str], scope: Scope, target: Target, deadline_ms: float
) -> Results[str, GroupFacts]:
    names = dict.fromkeys(groups)
    coordinators = Coordinators(client)
    described = describe_groups(client, names, half_deadline(client, deadline_ms), coordinators=coordinators)
    absent = [name for name, error in described.errors.items() if is_absent(error)]
    committed = committed_offsets(
        client, [*described.values, *absent], half_deadline(client, deadline_ms), coordinators=coordinators
    )
    learn_topics(client, _topics(committed.values, scope, target), half_deadline(client, deadline_ms))
    partitions = {
        name: _partitions(client.metadata.cluster, offsets, scope, target.partitions(name))
        if isinstance(target, FromOffsets)
        else _partitions(client.metadata.cluster, offsets, scope)
        for name, offsets in committed.values.items()
    }
    logs = _log_facts(client, {tp for tps in partitions.values() for tp in tps}, target, deadline_ms)
    facts: Results[str, GroupFacts] = Results(errors={**described.errors, **committed.errors})
    for name in [name for name in names if name in partitions]:
        offsets = committed.values[name]
        facts.errors.pop(name, None)
        with_commits = [_with_commit(logs[tp], offsets.get(tp)) for tp in partitions[name]]
        facts.values[name] = GroupFacts(described.values.get(name), with_commits)
    return facts


def _topics(committed: Mapping[str, Committed], scope: Scope, target: Target) -> set[str]:
    """Return all topics of the plan."""
    if scope is not None:
        return set(scope)
    if isinstance(target, FromOffsets):
        return {tp.topic for _, tp in target.offsets}
    return {tp.topic for offsets in committed.values() for tp in offsets}


def _partitions(
    cluster: Cluster, committed: Committed, scope: Scope, listed: Iterable[TopicPartition] | None = None
) -> list[TopicPartition]:
    """Return the partitions in scope for a group, sorted; `listed` are those of a file or of another group."""
    if scope is None and listed is not None:
        return sorted(listed)
    if scope is None:
        known = {tp for topic in {tp.topic for tp in committed} for tp in _all_of(cluster, topic)}
        return sorted(known | committed.keys())
    partitions: set[TopicPartition] = set()
    for topic, numbers in scope.items():
        if numbers is None:
            partitions.update(_all_of(cluster, topic) or [TopicPartition(topic, WHOLE_TOPIC)])
        else:
            partitions.update(TopicPartition(topic, number) for number in numbers)
    return sorted(partitions)


def _all_of(cluster: Cluster, topic: str) -> list[TopicPartition]:
    known = cluster.topics.get(topic)
    return [TopicPartition(topic, number) for number in known.partitions] if known is not None else []


def _log_facts(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], target: Target, deadline_ms: float
) -> dict[TopicPartition, PartitionFacts]:
    """Return the facts that the leaders know."""
    tps = list(partitions)
    bounds = log_bounds(client, tps, half_deadline(client, deadline_ms))
    at_times: Results[TopicPartition, OffsetAndTimestamp] = Results()
    if isinstance(target, Place) and target.kind == "time":
        known = [tp for tp in tps if isinstance(bounds.starts.get(tp), int)]
        at_times = _at_times(client, dict.fromkeys(known, target.n), deadline_ms)
    facts = {}
    for tp in tps:
        start, end = bounds.starts.get(tp), bounds.ends.get(tp)
        errors = [e for e in (end, start, at_times.errors.get(tp)) if isinstance(e, KcliError)]
        facts[tp] = PartitionFacts(
            tp,
            start=start if isinstance(start, int) else None,
            end=end if isinstance(end, int) else None,
            at_time=at_times.values.get(tp),
            error=errors[0] if errors else None,
        )
    return facts


def _at_times(
    client: ConsumerNetworkClient, times: Mapping[TopicPartition, int], deadline_ms: float
) -> Results[TopicPartition, OffsetAndTimestamp]:
    try:
        return list_offsets(client, times, deadline_ms)
    except TimeoutExpired as error:
        return Results(errors=dict.fromkeys(times, error))


def _with_commit(facts: PartitionFacts, committed: OffsetAndMetadata | KcliError | None) -> PartitionFacts:
    if isinstance(committed, KcliError):
        return facts._replace(error=facts.error or committed)
    return facts._replace(committed=committed)
