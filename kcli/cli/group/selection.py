"""Which groups a command is about: those named, all, or those whose name matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    import re

    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.requests import Results
    from kcli.errors import KcliError
    from kcli.structs import Node

GroupNames = Annotated[list[str] | None, Argument(metavar="[GROUP...]", help="Groups by name.")]
AllGroups = Annotated[bool, Option("--all", help="All groups of the cluster.")]
Match = Annotated[
    str | None, Option("--match", metavar="REGEX", help="Groups in whose name this is found; ^ and $ anchor it.")
]
IsolationLevel = Annotated[
    str | None,
    Option(
        "--isolation-level", metavar="LEVEL", help="read_committed: up to the last stable offset. [read_uncommitted]"
    ),
]
Execute = Annotated[bool, Option("--execute", help="Do it; without this it only shows what would be done.")]
NoTimeLag = Annotated[bool, Option("--no-time-lag", help="Do not look at the record at each committed offset.")]


class Selected(NamedTuple):
    """The groups meant, each with its type where that is known, sorted; and the brokers that did not tell theirs."""

    groups: dict[str, str | None]
    unheard: dict[Node, KcliError]

    def failures(self, answers: Results[str, Any]) -> list[KcliError]:
        """Of whole groups and of brokers: what is not in the answers for these groups."""
        return [*answers.errors.values(), *self.unheard.values()]


def check_selection(names: Sequence[str], match: str | None, *, every: bool | None = None) -> re.Pattern[str] | None:
    """Is it clear which groups are meant? The pattern of `match`. ConfigError if not: before anything is sent.

    `every` is None for a command that cannot be meant for all groups.
    """
    if sum((bool(names), bool(every), match is not None)) != 1:
        others = "--match REGEX" if every is None else "--all, or --match REGEX"
        raise ConfigError(f"say which groups, in one way: their names, or {others}")
    check_names(names)
    return pattern(match)


def check_names(names: Sequence[str]) -> None:
    """ConfigError if one is empty, as an unset variable of a script is."""
    if "" in names:
        raise ConfigError("a group has a name: '' is none")


def pattern(match: str | None) -> re.Pattern[str] | None:
    """The regular expression of --match, None without; ConfigError says what is wrong with it."""
    import re

    try:
        return None if match is None else re.compile(match)
    except re.error as error:
        raise ConfigError(f"--match '{match}' is not a regular expression: {error}") from None


def select_groups(
    client: ConsumerNetworkClient, names: Sequence[str], found: re.Pattern[str] | None, deadline_ms: float
) -> Selected:
    """The groups with these `names` (nothing is asked for that), else all whose name has the pattern in it."""
    if names:
        return Selected(dict.fromkeys(dict.fromkeys(names)), {})
    from kcli.admin.groups.listing import list_groups

    listed = list_groups(client, deadline_ms)
    groups = {g.group: g.type for told in listed.values.values() for g in told if not found or found.search(g.group)}
    return Selected(dict(sorted(groups.items())), listed.errors)
