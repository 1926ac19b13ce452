"""Options of `kcli assignor diff`: checked before any request, then applied to the group."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
from kcli.errors import ConfigError, NotFound, Refused

if TYPE_CHECKING:
    from kcli.cli.options import Common

Texts = Sequence[str] | None
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
        to: str | None,
        members: str | None,
        add: Texts,
        remove: Texts,
        partitions: Texts,
        compare: Texts,
        *,
        given: tuple[Texts, Texts, Texts],
        strategy: str | None,
    ) -> DiffOptions:
        """Check and parse the options; `given` are --member, --topic and --owned. `ConfigError` for invalid ones."""
        assignors = [assignor_name(to, option="--to")] if to is not None else []
        assignors += [name for name in parse_assignors("--compare", compare or []) if name not in assignors]
        if members is not None and not _MORE.fullmatch(members):
            raise ConfigError(f"--members: '{members}' is not valid; use +N to add N members or -N to remove N")
        changes = Changes(
            int(members or 0),
            parse_members("--add", add or []),
            remove or (),
            parse_counts("--partitions", partitions or []),
        )
        described = parse_owned(given[2] or [], parse_members("--member", given[0] or []))
        today = None if strategy is None else assignor_name(strategy, option="--strategy")
        if group is not None:
            _check_alone(group, given, strategy)
        elif not described:
            raise ConfigError(
                "GROUP is missing; give a group of the cluster, or describe one with --member NAME=TOPIC,TOPIC"
            )
        elif today is None and not assignors:
            raise ConfigError("the assignor is missing; give --strategy NAME or --to NAME")
        return cls(group, assignors, changes, described, parse_described_topics(given[1] or []), today)

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
        if situation.live is not None and not situation.members and not any(it.topics for it in changes.add):
            raise Refused(f"group {self.group} has no members; add some with --add NAME=TOPIC,TOPIC")
        return changes


def _check_alone(group: str, given: tuple[Texts, Texts, Texts], strategy: str | None) -> None:
    if group == "":
        raise ConfigError("the group name must not be empty")
    options = dict(zip(("--member", "--topic", "--owned", "--strategy"), (*given, strategy), strict=True))
    for option, value in options.items():
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
