"""The group to forecast: one of the cluster, or one that the command line describes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from kcli.assignors.model import Member, Topic
from kcli.errors import ConfigError, DisconnectedError, NotFound, TimeoutExpired
from kcli.structs import TopicPartition
from kcli.text import format_count

if TYPE_CHECKING:
    from kcli.admin.assignments import LiveGroup
    from kcli.admin.groups.group import GroupMember
    from kcli.cli.options import Common


class Situation(NamedTuple):
    """Members with their partitions, and topics. `assignor` is today's, "" if there is none.

    `live` is None for a described group, which has no lag or rate.
    """

    assignor: str
    topics: Mapping[str, Topic]
    members: Sequence[Member]
    live: LiveGroup | None = None

    @property
    def before(self) -> dict[str, tuple[TopicPartition, ...]]:
        """The partitions that each member has today."""
        return {member.id: member.owned for member in self.members}

    @property
    def described(self) -> dict[str, GroupMember]:
        """The members as the coordinator describes them, by id."""
        return {} if self.live is None else {member.id: member for member in self.live.group.members}

    def find(self, name: str) -> str:
        """Return the id of the member with this id, instance id or client id.

        `NotFound` without such a member; `ConfigError` for a client id of several members.
        """
        for ids in (
            [member.id for member in self.members if member.id == name],
            [member.id for member in self.members if member.instance_id == name],
            [member.id for member in self.described.values() if member.client_id == name],
        ):
            if len(ids) > 1:
                raise ConfigError(
                    f"{name} is the client id of {len(ids)} members; give a member id: {', '.join(sorted(ids))}"
                )
            if ids:
                return ids[0]
        known = ", ".join(sorted(member.id for member in self.members))
        raise NotFound(f"there is no member {name}; " + (f"the members are {known}" if known else "the group is empty"))


def topics_of_cluster(common: Common, names: Iterable[str]) -> dict[str, Topic]:
    """Return topics of the cluster. `BrokerError` for one that does not exist."""
    from kcli.admin.topics import find_partitions
    from kcli.client.metadata import partition_count, replica_racks

    names = sorted(names)
    deadline_ms = common.deadline_ms()
    try:
        with closing(common.connect()) as client:
            find_partitions(client, dict.fromkeys(names), deadline_ms)
            cluster = client.metadata.cluster
    except (TimeoutExpired, DisconnectedError) as error:
        hint = f"to run without a cluster, give --topic NAME=N for {', '.join(names)}"
        raise TimeoutExpired(f"{error}; {hint}") from error
    infos = {name: cluster.topics[name] for name in names}
    return {
        name: Topic(partition_count(info), replica_racks(cluster, info), info.topic_id) for name, info in infos.items()
    }


def described_situation(
    common: Common,
    assignor: str,
    members: Sequence[Member],
    given: Mapping[str, Topic | None],
    more_topics: Iterable[str] = (),
) -> Situation:
    """Return the members and topics of the command line; only incomplete topics are looked up in the cluster."""
    named = frozenset(given).union(*(member.topics for member in members))
    if not named:
        raise ConfigError(
            "no topic is given; add topics to --member NAME=TOPIC,TOPIC, or give --topic TOPIC=PARTITIONS"
        )
    members = [member if member.topics else member._replace(topics=named) for member in members]
    wanted: set[str] = set().union(*(member.topics for member in members))
    for member in members:
        for topic, _ in member.owned:
            if topic not in wanted and topic not in given:
                raise ConfigError(f"--owned: no member subscribes to topic {topic}, and no --topic names it")
    topics = {name: topic for name, topic in given.items() if topic is not None}
    if unknown := {*wanted, *given, *more_topics} - topics.keys():
        topics |= topics_of_cluster(common, unknown)
    for member in members:
        for tp in member.owned:
            if tp.partition >= topics[tp.topic].partitions:
                count = format_count(topics[tp.topic].partitions, "partition")
                raise ConfigError(f"--owned: there is no partition {tp}; topic {tp.topic} has {count}")
    return Situation(assignor, topics, members)


def live_situation(common: Common, group: str, more_topics: Iterable[str]) -> Situation:
    """Return a group of the cluster as it is now."""
    from kcli.admin.assignments import read_live_group

    more = list(more_topics)
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        found = read_live_group(client, group, deadline_ms, more_topics=more)
    return Situation(found.assignor, found.topics, found.members, found)
