"""Options of `kcli assignor diff`: checked before any request, then applied to the group."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kcli.assignors.forecast import Changes, forecast_assignment
from kcli.assignors.lookup import NAMES, assignor_name, name_on_server
from kcli.assignors.model import Member, Topic
from kcli.cli.assignor.grammar import (
    GENERATION,
    parse_assignors,
    parse_counts,
    parse_described_topics,
    parse_members,
    parse_owned,
)
from kcli.cli.assignor.situation import Situation, described_situation, live_situation
from kcli.cli.parser import given_options
from kcli.errors import ConfigError, NotFound, Refused

if TYPE_CHECKING:
    from kcli.cli.assignor.options import ChangeOptions, DescribedOptions
    from kcli.cli.options import Common

_MORE = re.compile(r"[+-][0-9]{1,5}")


class DiffOptions(NamedTuple):
    """Parsed options.

    `group` None: the members and topics are given as options. Empty `assignors`: today's assignor.
    """

    group: str | None
    assignors: list[str]
    changes: Changes
    members: list[Member]
    topics: dict[str, Topic | None]
    strategy: str | None

    @classmethod
    def parse(
        cls,
        group: str | None,
        given: ChangeOptions,
        described: DescribedOptions,
        strategy: str | None,
    ) -> DiffOptions:
        """Check and parse the options. `ConfigError` for invalid ones."""
        assignors = parse_assignors("--to", given.to, given.compare or [])
        if given.members is not None and not _MORE.fullmatch(given.members):
            raise ConfigError(f"--members: '{given.members}' is not valid; use +N to add N members or -N to remove N")
        changes = Changes(
            int(given.members or 0),
            parse_members("--add", given.add or []),
            given.remove or (),
            parse_counts("--partitions", given.partitions or []),
        )
        members = parse_owned(described.owned or [], parse_members("--member", described.member or []))
        today = None if strategy is None else assignor_name(strategy, option="--strategy")
        if group is not None:
            _check_alone(group, described, strategy)
        elif not members:
            raise ConfigError(
                "GROUP is missing; give a group of the cluster, or describe one with --member NAME=TOPIC,TOPIC"
            )
        elif today is None and not assignors:
            raise ConfigError("the assignor is missing; give --strategy NAME or --to NAME")
        return cls(group, assignors, changes, members, parse_described_topics(described.topic or []), today)

    def assignors_for(self, situation: Situation) -> list[str]:
        """Return the assignors to forecast, by default today's. `Refused` if kcli does not have that one."""
        names = self.assignors or [situation.assignor]
        if situation.live is not None and situation.live.group.type == "consumer":
            names = list(dict.fromkeys(map(name_on_server, names)))
        if names == [""]:
            raise Refused(f"group {self.group} has no members and therefore no assignor; give one with --to NAME")
        if names[0] not in NAMES:
            raise Refused(
                f"group {self.group} uses assignor {names[0]}, which kcli does not have; give another "
                "one with --to NAME"
            )
        return names

    def changes_for(self, situation: Situation) -> Changes:
        """Return the changes with members by their ids."""
        changes = self.changes._replace(remove=[situation.find(name) for name in self.changes.remove])
        if situation.live is not None and not situation.members and not any(added.topics for added in changes.add):
            raise Refused(f"group {self.group} has no members; add some with --add NAME=TOPIC,TOPIC")
        return changes


def _check_alone(group: str, described: DescribedOptions, strategy: str | None) -> None:
    if group == "":
        raise ConfigError("the group name must not be empty")
    for option, value in {**given_options(described), "--strategy": strategy}.items():
        if value:
            raise ConfigError(
                f"{option} describes a group that need not exist; it cannot be combined with GROUP ({group})"
            )


def situation_of(common: Common, options: DiffOptions) -> Situation:
    """Return the group of the cluster, or the described one. `NotFound` for an unknown topic in --add."""
    wanted: set[str] = set().union(*(member.topics for member in options.changes.add))
    if options.group is not None:
        situation = live_situation(common, options.group, wanted)
        for topic in sorted(wanted - situation.topics.keys() - options.changes.partitions.keys()):
            raise NotFound(f"--add: there is no topic {topic}; to assume one, add --partitions {topic}=N")
        return situation
    today = options.strategy or options.assignors[0]
    wanted -= options.changes.partitions.keys()
    situation = described_situation(common, today, options.members, options.topics, wanted)
    if any(member.owned for member in options.members):
        return situation
    shares = forecast_assignment(today, situation.topics, situation.members).final
    members = [m._replace(owned=tuple(shares[m.id]), generation=GENERATION) for m in situation.members]
    return situation._replace(members=members)
