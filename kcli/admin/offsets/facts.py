"""What plans are made from: groups, what they have committed, and the logs, asked with few requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kcli.admin.groups.bounds import learn_topics, log_bounds
from kcli.admin.groups.committed import committed_offsets
from kcli.admin.groups.describe import describe_groups
from kcli.admin.groups.model import Group
from kcli.admin.groups.patience import half_of
from kcli.admin.offsets.plan import ABSENT, WHOLE_TOPIC, PartitionFacts
from kcli.admin.offsets.targets import FromOffsets, Target, ToTime
from kcli.client.offset_lookup import list_offsets
from kcli.client.requests import Results
from kcli.client.routing import Coordinators
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired
from kcli.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import Cluster

    Committed = Mapping[TopicPartition, OffsetAndMetadata | KcliError]

Scope: TypeAlias = Mapping[str, "Sequence[int] | None"] | None
"""Topic to partitions (None: all of them), as `kcli.text.parse_topics` gives it. None: all partitions of each topic in
which a group has commits; for `FromOffsets` those that it tells of."""


class GroupFacts(NamedTuple):
    """A group, None where it is not there, and its partitions in scope, sorted."""

    group: Group | None
    partitions: list[PartitionFacts]

    @property
    def state(self) -> str:
        """Kafka's word for the group's state; ABSENT for one that is not there."""
        return ABSENT if self.group is None else self.group.state


def gather_facts(
    client: ConsumerNetworkClient, groups: Iterable[str], scope: Scope, target: Target, deadline_ms: float
) -> Results[str, GroupFacts]:
    """The facts of each group. A group that cannot be described, or whose commits cannot be read, is an error.

    A topic or partition in scope that is not there is a fact with an error, of a topic under the number WHOLE_TOPIC. It
    takes a few requests for each broker, however many groups and partitions there are.
    """
    names = dict.fromkeys(groups)
    coordinators = Coordinators(client)
    described = describe_groups(client, names, half_of(client, deadline_ms), coordinators=coordinators)
    absent = [name for name, error in described.errors.items() if _is_absent(error)]
    committed = committed_offsets(
        client, [*described.values, *absent], half_of(client, deadline_ms), coordinators=coordinators
    )
    learn_topics(client, _topics(committed.values, scope, target), half_of(client, deadline_ms))
    partitions = {
        name: _partitions(client.metadata.cluster, offsets, scope, target.partitions(name))
        if isinstance(target, FromOffsets)
        else _partitions(client.metadata.cluster, offsets, scope)
        for name, offsets in committed.values.items()
    }
    logs = _logs(client, {tp for its in partitions.values() for tp in its}, target, deadline_ms)
    facts: Results[str, GroupFacts] = Results(errors={**described.errors, **committed.errors})
    for name in [name for name in names if name in partitions]:
        offsets = committed.values[name]
        facts.errors.pop(name, None)
        told = [_with_commit(logs[tp], offsets.get(tp)) for tp in partitions[name]]
        facts.values[name] = GroupFacts(described.values.get(name), told)
    return facts


def _is_absent(error: KcliError) -> bool:
    return isinstance(error, BrokerError) and error.code == ErrorCode.GROUP_ID_NOT_FOUND


def _topics(committed: Mapping[str, Committed], scope: Scope, target: Target) -> set[str]:
    """Every topic that has to do with the plan."""
    if scope is not None:
        return set(scope)
    if isinstance(target, FromOffsets):
        return {tp.topic for _, tp in target.offsets}
    return {tp.topic for offsets in committed.values() for tp in offsets}


def _partitions(
    cluster: Cluster, committed: Committed, scope: Scope, told: Iterable[TopicPartition] | None = None
) -> list[TopicPartition]:
    """The partitions in scope for a group, sorted; `told` are those that a file or another group tells of."""
    if scope is None and told is not None:
        return sorted(told)
    if scope is None:
        known = {tp for topic in {tp.topic for tp in committed} for tp in _all_of(cluster, topic)}
        return sorted(known | committed.keys())
    found: set[TopicPartition] = set()
    for topic, numbers in scope.items():
        if numbers is None:
            found.update(_all_of(cluster, topic) or [TopicPartition(topic, WHOLE_TOPIC)])
        else:
            found.update(TopicPartition(topic, number) for number in numbers)
    return sorted(found)


def _all_of(cluster: Cluster, topic: str) -> list[TopicPartition]:
    known = cluster.topics.get(topic)
    return [TopicPartition(topic, number) for number in known.partitions] if known is not None else []


def _logs(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], target: Target, deadline_ms: float
) -> dict[TopicPartition, PartitionFacts]:
    """What the leaders know of these partitions."""
    wanted = list(partitions)
    bounds = log_bounds(client, wanted, half_of(client, deadline_ms))
    at_times: Results[TopicPartition, OffsetAndTimestamp] = Results()
    if isinstance(target, ToTime):
        whole = [tp for tp in wanted if isinstance(bounds.starts.get(tp), int)]
        at_times = _at_times(client, dict.fromkeys(whole, target.ms), deadline_ms)
    facts = {}
    for tp in wanted:
        start, end = bounds.starts.get(tp), bounds.ends.get(tp)
        errors = [it for it in (end, start, at_times.errors.get(tp)) if isinstance(it, KcliError)]
        facts[tp] = PartitionFacts(
            tp,
            start=start if isinstance(start, int) else None,
            end=end if isinstance(end, int) else None,
            at_time=at_times.values.get(tp),
            error=errors[0] if errors else None,
        )
    return facts


def _at_times(
    client: ConsumerNetworkClient, wanted: Mapping[TopicPartition, int], deadline_ms: float
) -> Results[TopicPartition, OffsetAndTimestamp]:
    try:
        return list_offsets(client, wanted, deadline_ms)
    except TimeoutExpired as late:
        return Results(errors=dict.fromkeys(wanted, late))


def _with_commit(facts: PartitionFacts, told: OffsetAndMetadata | KcliError | None) -> PartitionFacts:
    if isinstance(told, KcliError):
        return facts._replace(error=facts.error or told)
    return facts._replace(committed=told)
