"""Options of Apache's group tool 4.3.1: parsing, combinations, and values. Pure.

Command lines are split as Apache's tools do it (JOpt Simple 5, without abbreviations). An option starts with one or two
dashes; its value follows `=` or is the next word, even if that starts with a dash. An optional value is the next word
unless that starts with a dash. Words that belong to no option are ignored, as are all words after `--`. A value is
checked when it is used, not before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from kcli.cli.compat.messages import Failed, InvalidUsage
from kcli.structs import TopicPartition

_NUMBER = re.compile(r"[+-]?[0-9]+")
_LIMIT = 2**63


class Option(NamedTuple):
    """An option; `value` is "none", "required" or "optional"; `metavar` and `help` are for the help text.

    `only_with`: the option is available only with one of these.
    """

    name: str
    help: str
    value: Literal["none", "required", "optional"] = "none"
    metavar: str = ""
    only_with: tuple[str, ...] = ()
    repeatable: bool = False


class Given:
    """The options of one command line, with their values."""

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}

    def __repr__(self) -> str:
        return f"<Given {self._values}>"

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def add(self, name: str, value: str | None) -> None:
        """Add an occurrence of an option; None: without a value."""
        values = self._values.setdefault(name, [])
        if value is not None:
            values.append(value)

    def any_of(self, names: Iterable[str]) -> list[str]:
        """Return those of these options that are given."""
        return [name for name in names if name in self]

    def values(self, name: str) -> list[str]:
        """Return all values of a repeatable option."""
        return self._values.get(name, [])

    def value(self, name: str) -> str | None:
        """Return the value of an option that is not repeatable; None if it is absent or has no value."""
        values = self.values(name)
        if len(values) > 1:
            raise Failed(f"Found multiple arguments for option {name}, but you asked for only one", 2)
        return values[0] if values else None

    def number(self, name: str) -> int | None:
        """Return the value as a signed 64-bit number."""
        text = self.value(name)
        if text is None:
            return None
        if not _NUMBER.fullmatch(text) or not -_LIMIT <= int(text) < _LIMIT:
            raise Failed(f"Cannot parse argument '{text}' of option {name}", 2)
        return int(text)


def split(words: Sequence[str], options: Mapping[str, Option]) -> Given:
    """Return the given options. `InvalidUsage` for an option that is unknown, lacks its value or is not available."""
    given = Given()
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == "--":
            break
        if not _is_option(word):
            continue
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        if name not in options:
            raise InvalidUsage(f"{name if word.startswith('--') else word[1]} is not a recognized option")
        given.add(name, value if equals else _separate_value(options[name], rest))
    _check_available(given, options.values())
    return given


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _separate_value(option: Option, rest: list[str]) -> str | None:
    """Return the value of an option that is not written with `=`."""
    if option.value == "required":
        if not rest:
            raise InvalidUsage(f"Option {option.name} requires an argument")
        return rest.pop()
    if option.value == "optional" and rest and not (_is_option(rest[-1]) or rest[-1] == "--"):
        return rest.pop()
    return None


def _check_available(given: Given, options: Iterable[Option]) -> None:
    alone = [
        option.name
        for option in options
        if option.name in given and option.only_with and not given.any_of(option.only_with)
    ]
    if alone and "help" not in given:
        raise InvalidUsage(f"Option(s) [{', '.join(alone)}] are unavailable given other options on the command line")


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

_OPTION_TABLE = (
    Option(
        "bootstrap-server",
        "Connect to these brokers first; required except for --validate-regex.",
        "required",
        "HOST:PORT",
    ),
    Option("command-config", "Read Kafka client properties from a file.", "required", "FILE"),
    Option("timeout", "Wait at most this many milliseconds for brokers. [30000]", "required", "MS"),
    Option("list", "Print the names of groups; with --state or --type a table."),
    Option("describe", "Print offsets and lag, or --members, or --state."),
    Option("delete", "Delete groups and their committed offsets at once; there is no --execute."),
    Option("reset-offsets", "Plan new offsets; with --execute commit them."),
    Option("delete-offsets", "Delete committed offsets for --topic at once; there is no --execute."),
    Option("validate-regex", "Check that a pattern is valid for brokers (RE2).", "required", "PATTERN"),
    Option("group", "Select a group; repeatable.", "required", "GROUP", repeatable=True),
    Option("all-groups", "Select all groups."),
    Option(
        "topic", "Select a topic, or some of its partitions; repeatable.", "required", "TOPIC[:0,1,2]", repeatable=True
    ),
    Option("all-topics", "Select all partitions with a committed offset."),
    Option(
        "state",
        "With --list: show states, or only groups in these states.",
        "optional",
        "STATE,..",
        ("describe", "list"),
    ),
    Option("type", "With --list: show types, or only groups of these types.", "optional", "TYPE,..", ("list",)),
    Option("offsets", "With --describe: show offsets; the default.", only_with=("describe",)),
    Option("members", "With --describe: show members.", only_with=("describe",)),
    Option("verbose", "With --describe: show more columns.", only_with=("describe",)),
    Option("to-earliest", "Reset to the start of the log."),
    Option("to-latest", "Reset to the end of the log."),
    Option("to-current", "Reset to the committed offset, or else to the end of the log."),
    Option("to-offset", "Reset to this offset.", "required", "OFFSET"),
    Option("shift-by", "Move the offset forward; a negative number moves it back.", "required", "NUMBER"),
    Option(
        "to-datetime", "Reset to the first record at or after this time (UTC).", "required", "YYYY-MM-DDTHH:mm:SS.sss"
    ),
    Option("by-duration", "Reset to the first record at or after this long ago.", "required", "PnDTnHnMnS"),
    Option("from-file", "Reset to the offsets in a file written by --export.", "required", "FILE"),
    Option("dry-run", "Show the plan only; the default."),
    Option("execute", "Commit the plan; a snapshot is kept for kcli offsets undo."),
    Option("export", "Print CSV for --from-file instead of a table."),
    Option("version", "Print the version."),
    Option("apache-exit-codes", "Return the exit statuses of Apache's tool: 1 for invalid usage, else 0."),
)
OPTIONS = {option.name: option for option in (*_OPTION_TABLE, Option("help", ""))}


def documented_options() -> Sequence[Option]:
    """Return the options for help, manual page and completion."""
    return _OPTION_TABLE


def read_options(words: Sequence[str], warn: Callable[[str], object]) -> Given:
    """Return the given options; `warn` prints the tool's warnings.

    `InvalidUsage` for an invalid combination, with the tool's message and in the order of its checks.
    """
    given = split(words, OPTIONS)
    if "help" in given or "version" in given:
        return given
    if "validate-regex" not in given and "bootstrap-server" not in given:
        raise InvalidUsage('Missing required argument "[bootstrap-server]"')
    _check_describe(given)
    _check_deletions(given)
    if "reset-offsets" in given:
        _check_reset(given, warn)
    _exclude(given, "group", ("all-groups",))
    _exclude(given, "group", ("list",))
    _exclude(given, "topic", ("list", "describe"))
    if len(given.any_of(ACTIONS)) != 1:
        raise InvalidUsage(f"Command must include exactly one action: {', '.join('--' + name for name in ACTIONS)}")
    return given


def _check_describe(given: Given) -> None:
    if "describe" not in given:
        return
    _demand_groups(given, "describe")
    views = ("members", "offsets", "state")
    if len(given.any_of(views)) > 1:
        raise InvalidUsage(f"Option [describe] takes at most one of these options: {_listed(views)}")
    if given.values("state"):
        raise InvalidUsage("Option [describe] does not take a value for [state]")


def _check_deletions(given: Given) -> None:
    if "delete" in given:
        _demand_groups(given, "delete")
        if "topic" in given:
            raise InvalidUsage("The consumer does not support topic-specific offset deletion from a consumer group.")
    if "delete-offsets" in given and not ("group" in given and "topic" in given):
        raise InvalidUsage(f"Option [delete-offsets] takes the following options: {_listed(('group', 'topic'))}")


def _check_reset(given: Given, warn: Callable[[str], object]) -> None:
    if "dry-run" in given and "execute" in given:
        raise InvalidUsage("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if "dry-run" not in given and "execute" not in given:
        warn(WITHOUT_EITHER)
    _demand_groups(given, "reset-offsets")
    for name in SCENARIOS:
        _exclude(given, name, (other for other in SCENARIOS if other != name))


def _demand_groups(given: Given, action: str) -> None:
    if not given.any_of(("group", "all-groups")):
        raise InvalidUsage(f"Option [{action}] takes one of these options: {_listed(('group', 'all-groups'))}")


def _exclude(given: Given, name: str, others: Iterable[str]) -> None:
    if name in given and (found := given.any_of(others)):
        raise InvalidUsage(f'Option "[{name}]" can\'t be used with option "[{found[0]}]"')


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"[{name}]" for name in names)


_PARTITION_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


def parse_partitions(text: str) -> list[TopicPartition]:
    """Return the partitions in `TOPIC:0,1,2`, in the given order, as the tool parses them."""
    topic, _, rest = text.partition(":")
    if not topic or not rest or ":" in rest.rstrip(":"):
        raise InvalidUsage(f"Invalid topic arg '{text}', expected topic name and partitions")
    numbers = rest.rstrip(":").rstrip(",").split(",")
    for number in numbers:
        if not _PARTITION_NUMBER.fullmatch(number):
            raise InvalidUsage(f"Invalid partition '{number}' specified in topic arg '{text}''")
    return [TopicPartition(topic, int(number)) for number in numbers]
