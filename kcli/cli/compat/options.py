"""The options of Apache's group tool, 4.3.1, and which of them go together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kcli.cli.compat.problems import Misused
from kcli.cli.compat.words import Given, Option, split

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
SCENARIOS = (
    *("to-offset", "shift-by", "to-datetime", "by-duration"),
    *("to-earliest", "to-latest", "to-current", "from-file"),
)
WITHOUT_EITHER = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)

_TABLE = (
    Option("bootstrap-server", "Brokers to ask first. Needed for all but --validate-regex.", "required", "HOST:PORT"),
    Option("command-config", "A Kafka properties file.", "required", "FILE"),
    Option("timeout", "How long to wait for brokers, in ms; 30000 by default.", "required", "MS"),
    Option("list", "Print the groups' names; with --state or --type a table."),
    Option("describe", "Print offsets and lag, or --members, or --state."),
    Option("delete", "Delete groups with all that they have committed. At once: there is no --execute."),
    Option("reset-offsets", "Plan another position, and with --execute commit it."),
    Option("delete-offsets", "Forget what a group has committed for --topic. At once: there is no --execute."),
    Option("validate-regex", "Say whether the brokers can read a pattern (RE2).", "required", "PATTERN"),
    Option("group", "Which group.", "required", "GROUP", repeatable=True),
    Option("all-groups", "All of them."),
    Option("topic", "Which topic, and which partitions of it.", "required", "TOPIC[:0,1,2]", repeatable=True),
    Option("all-topics", "All partitions that the group has committed."),
    Option("state", "With --list: the states, or groups in these.", "optional", "STATE,..", ("describe", "list")),
    Option("type", "With --list: the types, or groups of these.", "optional", "TYPE,..", ("list",)),
    Option("offsets", "With --describe: the offsets; the default.", only_with=("describe",)),
    Option("members", "With --describe: the members.", only_with=("describe",)),
    Option("verbose", "With --describe: more columns.", only_with=("describe",)),
    Option("to-earliest", "To the start of the log."),
    Option("to-latest", "To the end of the log."),
    Option("to-current", "To what is committed; without that, to the end of the log."),
    Option("to-offset", "To this offset.", "required", "OFFSET"),
    Option("shift-by", "Forward, or back with a number below 0.", "required", "NUMBER"),
    Option("to-datetime", "To the first record at or after it; UTC.", "required", "YYYY-MM-DDTHH:mm:SS.sss"),
    Option("by-duration", "To the first record at or after so long ago.", "required", "PnDTnHnMnS"),
    Option("from-file", "As in a file that --export wrote.", "required", "FILE"),
    Option("dry-run", "Only show; the default."),
    Option("execute", "Commit what is shown. A snapshot is kept: kcli offsets undo."),
    Option("export", "Print CSV for --from-file instead of a table."),
    Option("version", "Print the version."),
    Option("apache-exit-codes", "End with the statuses of Apache's tool: 1 for wrong usage, else 0."),
)  # fmt: skip
OPTIONS = {option.name: option for option in (*_TABLE, Option("help", ""))}


def documented() -> Sequence[Option]:
    """The options to tell people of."""
    return _TABLE


def read_options(words: Sequence[str], warn: Callable[[str], object]) -> Given:
    """The options given; `warn` hears what the tool says on the way.

    What does not go together is Misused, in the tool's words and the order of its checks.
    """
    given = split(words, OPTIONS)
    if "help" in given or "version" in given:
        return given
    if "validate-regex" not in given and "bootstrap-server" not in given:
        raise Misused('Missing required argument "[bootstrap-server]"')
    _check_describe(given)
    _check_deletions(given)
    if "reset-offsets" in given:
        _check_reset(given, warn)
    _exclude(given, "group", ("all-groups",))
    _exclude(given, "group", ("list",))
    _exclude(given, "topic", ("list", "describe"))
    if len(given.any_of(ACTIONS)) != 1:
        raise Misused(f"Command must include exactly one action: {', '.join('--' + name for name in ACTIONS)}")
    return given


def _check_describe(given: Given) -> None:
    if "describe" not in given:
        return
    _demand_groups(given, "describe")
    views = ("members", "offsets", "state")
    if len(given.any_of(views)) > 1:
        raise Misused(f"Option [describe] takes at most one of these options: {_listed(views)}")
    if given.values("state"):
        raise Misused("Option [describe] does not take a value for [state]")


def _check_deletions(given: Given) -> None:
    if "delete" in given:
        _demand_groups(given, "delete")
        if "topic" in given:
            raise Misused("The consumer does not support topic-specific offset deletion from a consumer group.")
    if "delete-offsets" in given and not ("group" in given and "topic" in given):
        raise Misused(f"Option [delete-offsets] takes the following options: {_listed(('group', 'topic'))}")


def _check_reset(given: Given, warn: Callable[[str], object]) -> None:
    if "dry-run" in given and "execute" in given:
        raise Misused("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if "dry-run" not in given and "execute" not in given:
        warn(WITHOUT_EITHER)
    _demand_groups(given, "reset-offsets")
    for name in SCENARIOS:
        _exclude(given, name, (other for other in SCENARIOS if other != name))


def _demand_groups(given: Given, action: str) -> None:
    if not given.any_of(("group", "all-groups")):
        raise Misused(f"Option [{action}] takes one of these options: {_listed(('group', 'all-groups'))}")


def _exclude(given: Given, name: str, others: Iterable[str]) -> None:
    if name in given and (found := given.any_of(others)):
        raise Misused(f'Option "[{name}]" can\'t be used with option "[{found[0]}]"')


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"[{name}]" for name in names)
