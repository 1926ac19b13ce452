"""The options of `kcli assignor diff`: checked before anything is sent, then put into terms of the group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.assignors.changes import Changes
from kcli.assignors.comparison import foretell
from kcli.assignors.model import Member, Topic
from kcli.cli.assignor.assignors import NAMES, on_server, parse_assignor, parse_assignors
from kcli.cli.assignor.grammar import GENERATION, parse_counts, parse_members, parse_owned, parse_topic_facts
from kcli.cli.assignor.situation import Situation, given_situation, live_situation
from kcli.errors import ConfigError, NotFound, Refused

if TYPE_CHECKING:
    from kcli.cli.options import Common

Texts = Sequence[str] | None
_MORE = re.compile(r"[+-][0-9]{1,5}")


class DiffOptions(NamedTuple):
    """What was asked for. `group` None: about the members and topics that are given. `assignors`: none, today's."""

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
        """ConfigError for whatever is malformed or contradicts; `given`: --member, --topic and --owned."""
        assignors = [parse_assignor("--to", to)] if to is not None else []
        assignors += [name for name in parse_assignors("--compare", compare or []) if name not in assignors]
        if members is not None and not _MORE.fullmatch(members):
            raise ConfigError(f"--members is +N or -N, so many more or fewer, not '{members}'")
        changes = Changes(
            int(members or 0),
            parse_members("--add", add or []),
            remove or (),
            parse_counts("--partitions", partitions or []),
        )
        described = parse_owned(given[2] or [], parse_members("--member", given[0] or []))
        today = None if strategy is None else parse_assignor("--strategy", strategy)
        if group is not None:
            _check_alone(group, given, strategy)
        elif not described:
            raise ConfigError("say which GROUP, or who its members are: --member NAME=TOPIC,TOPIC for each")
        elif today is None and not assignors:
            raise ConfigError("say which assignor: --strategy NAME or --to NAME")
        return cls(group, assignors, changes, described, parse_topic_facts(given[1] or []), today)

    def assignors_for(self, found: Situation) -> list[str]:
        """The assignors to foretell, today's if none is named; Refused if that is one that we do not know."""
        names = self.assignors or [found.assignor]
        if found.live is not None and found.live.group.type == "consumer":
            names = list(dict.fromkeys(map(on_server, names)))
        if names == [""]:
            raise Refused(f"group {self.group} has no members and so no assignor: say which one, --to NAME")
        if names[0] not in NAMES:
            raise Refused(f"group {self.group} uses the assignor {names[0]}, which kcli lacks; --to NAME is another")
        return names

    def changes_for(self, found: Situation) -> Changes:
        """The changes, with members by their ids."""
        changes = self.changes._replace(remove=[found.find(name) for name in self.changes.remove])
        if found.live is not None and not found.members and not any(it.topics for it in changes.add):
            raise Refused(f"group {self.group} has no members: say who will come, --add NAME=TOPIC,TOPIC")
        return changes


def _check_alone(group: str, given: tuple[Texts, Texts, Texts], strategy: str | None) -> None:
    if group == "":
        raise ConfigError("a group has a name: '' is none")
    options = dict(zip(("--member", "--topic", "--owned", "--strategy"), (*given, strategy), strict=True))
    for option, value in options.items():
        if value:
            raise ConfigError(f"{option} describes a group that is not there, and {group} is one of the cluster")


def situation_of(common: Common, options: DiffOptions) -> Situation:
    """The group as it is, or as the command line describes it; NotFound for a topic of --add that is not there."""
    wanted: set[str] = set().union(*(member.topics for member in options.changes.add))
    if options.group is not None:
        found = live_situation(common, options.group, wanted)
        for topic in sorted(wanted - found.topics.keys() - options.changes.partitions.keys()):
            raise NotFound(f"--add: there is no topic {topic}; --partitions {topic}=N is as if there were")
        return found
    today = options.strategy or options.assignors[0]
    wanted -= options.changes.partitions.keys()
    found = given_situation(common, today, options.members, options.topics, wanted)
    if any(member.owned for member in options.members):
        return found
    shares = foretell(today, found.topics, found.members).final
    members = [it._replace(owned=tuple(shares[it.id]), generation=GENERATION) for it in found.members]
    return found._replace(members=members)
