"""Assignment of a live group, as an assignor sees it: the input of a forecast. Joins no group, changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.group import CLASSIC, CONSUMER, Group, GroupMember
from kcli.admin.groups.lag import PartitionLag
from kcli.admin.groups.listing import with_suggestions
from kcli.admin.groups.survey import GroupSurvey, survey_groups
from kcli.admin.logs.log_bounds import learn_topics, log_bounds
from kcli.assignors.lookup import name_on_server
from kcli.assignors.model import Member, Topic
from kcli.client.metadata import partition_count, replica_racks
from kcli.client.offset_lookup import list_offsets
from kcli.client.requests import half_deadline
from kcli.error_codes import ErrorCode
from kcli.errors import Refused, TimeoutExpired
from kcli.patterns import InvalidRegex, compile_regex
from kcli.protocol.consumer_protocol import PROTOCOL_TYPE
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient

RATE_WINDOW_MS = 60_000
GENERATION = 1  # no API returns the generation of a classic group; it only has to be equal for all members

_REBALANCING = ("PreparingRebalance", "CompletingRebalance")
_NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


class LiveGroup(NamedTuple):
    """A group as an assignor sees it now.

    `members` own the partitions that they will claim at the next rebalance: in a classic group the assigned ones, in a
    group whose broker assigns (KIP-848) the target. `assignor` is a name of `assignors.lookup`, "" if there is none
    yet. `missing` are subscribed topics that do not exist. `lags` and `rates` have the partitions where they are known;
    a rate is in offsets per second over the last `RATE_WINDOW_MS`, by record timestamps.
    """

    group: Group
    assignor: str
    topics: dict[str, Topic]
    members: list[Member]
    missing: list[str]
    lags: dict[TopicPartition, float]
    rates: dict[TopicPartition, float]

    @property
    def unknown_lags(self) -> set[TopicPartition]:
        """Owned partitions with unknown lag: without a committed offset, or failed."""
        return {tp for member in self.members for tp in member.owned} - self.lags.keys()


def read_live_group(
    client: ConsumerNetworkClient, name: str, deadline_ms: float, *, more_topics: Iterable[str] = ()
) -> LiveGroup:
    """Return the group, after a rebalance is complete, with its topics and those of `more_topics` that exist.

    BrokerError GROUP_ID_NOT_FOUND for a group that does not exist, Refused for one that is not of consumers or whose
    subscriptions cannot be decoded, TimeoutExpired if it rebalances until the deadline.
    """
    survey = _stable_survey(client, name, deadline_ms)
    group = survey.group
    matching = _matching_patterns(client, group.members, deadline_ms)
    members = [_member(member, matching) for member in group.members]
    names: set[str] = set().union(*(member.topics for member in members))
    topics = _topics(client, {*names, *group.topics, *more_topics}, deadline_ms)
    lags = {row.tp: float(lag) for row in survey.partitions if (lag := _lag(row)) is not None}
    rates = _rates(client, topics, deadline_ms)
    assignor = name_on_server(group.assignor) if group.type == CONSUMER else group.assignor
    return LiveGroup(group, assignor, topics, members, sorted(names - topics.keys()), lags, rates)


def _stable_survey(client: ConsumerNetworkClient, name: str, deadline_ms: float) -> GroupSurvey:
    for _ in client.attempts(deadline_ms):
        surveyed = survey_groups(client, [name], deadline_ms)
        for error in with_suggestions(client, surveyed.errors, deadline_ms).values():
            raise error
        survey = surveyed.values[name]
        _check(survey.group)
        if survey.group.state not in _REBALANCING:
            return survey
    raise TimeoutExpired(f"group {name} was still rebalancing at the deadline ({survey.group.state})")


def _check(group: Group) -> None:
    if group.type not in (CLASSIC, CONSUMER) or group.protocol_type not in ("", PROTOCOL_TYPE):
        kind = group.type if group.type != CLASSIC else group.protocol_type
        raise Refused(f"{group.group} is a group of type {kind}, whose partitions are not assigned by an assignor")
    for member in group.members:
        if member.error is not None:
            raise Refused(f"the subscription of member {member.id} cannot be decoded: {member.error}")


def _matching_patterns(
    client: ConsumerNetworkClient, members: Iterable[GroupMember], deadline_ms: float
) -> dict[str, frozenset[str]]:
    """Return the topics that match each pattern, by RE2, as brokers do. Refused for a pattern that RE2 refuses."""
    patterns = {member.pattern for member in members if member.pattern}
    if not patterns:
        return {}
    names = [name for name, info in client.topics_metadata(None, deadline_ms).topics.items() if not info.error]
    found = {}
    for pattern in patterns:
        try:
            found[pattern] = frozenset(filter(compile_regex(pattern).matches, names))
        except InvalidRegex as error:
            raise Refused(f"kcli cannot match the subscribed pattern /{pattern}/: {error}") from None
    return found


def _lag(row: PartitionLag) -> int | None:
    """Return the lag; 0 for an empty log, even without a committed offset."""
    return 0 if row.lag is None and row.end is not None and row.start == row.end else row.lag


def _member(member: GroupMember, matching: dict[str, frozenset[str]]) -> Member:
    topics = frozenset(member.topics) | matching.get(member.pattern or "", frozenset())
    owned = member.owned if member.target is None else member.target
    return Member(member.id, topics, owned, GENERATION, member.rack, member.instance_id)


def _topics(client: ConsumerNetworkClient, names: Iterable[str], deadline_ms: float) -> dict[str, Topic]:
    """Return the existing topics. BrokerError for a topic that may not be described."""
    names = sorted(names)
    learn_topics(client, names, deadline_ms)
    cluster = client.metadata.cluster
    found = {}
    for name in names:
        info = cluster.topics.get(name)
        if info is None:
            raise TimeoutExpired(f"no broker returned metadata of topic {name}")
        if info.partitions:
            found[name] = Topic(partition_count(info), replica_racks(cluster, info), info.topic_id)
        elif info.error not in _NOT_THERE and (error := cluster.topic_error(name)) is not None:
            raise error
    return found


def _rates(client: ConsumerNetworkClient, topics: dict[str, Topic], deadline_ms: float) -> dict[TopicPartition, float]:
    """Return the growth of partitions in offsets per second, since the first record in the window."""
    partitions = [TopicPartition(name, number) for name, topic in topics.items() for number in range(topic.partitions)]
    bounds = log_bounds(client, partitions, half_deadline(client, deadline_ms))
    ends = {tp: end for tp, end in bounds.ends.items() if isinstance(end, int)}
    since_ms = client.clock.wall_ms() - RATE_WINDOW_MS
    found = list_offsets(client, dict.fromkeys(ends, since_ms), deadline_ms).values
    return {
        tp: max(0, ends[tp] - first.offset) * 1000 / RATE_WINDOW_MS if first.offset >= 0 else 0.0
        for tp, first in found.items()
    }
