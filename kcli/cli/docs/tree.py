"""All commands as plain data, read from the parser's own tree."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

# A metavar that lists the possible values: table|json|jsonl.
_CHOICES = re.compile(r"[a-z][\w-]*(\|[a-z][\w-]*)+")


class OptionDoc(NamedTuple):
    """An option:

    `names` as typed, `value` the placeholder of its value (None: a flag), `choices` its possible values.
    """

    names: tuple[str, ...]
    value: str | None
    help: str
    repeatable: bool

    @property
    def choices(self) -> tuple[str, ...]:
        found = self.value is not None and _CHOICES.fullmatch(self.value)
        return tuple(found.string.split("|")) if found else ()

    @property
    def is_profile(self) -> bool:
        return self.value == "PROFILE"

    @property
    def is_file(self) -> bool:
        return self.value in ("FILE", "DIR", "PATH")


class CommandDoc(NamedTuple):
    """A command: `words` after `kcli`, `summary` the line in a list, `description` the paragraphs of its help."""

    words: tuple[str, ...]
    summary: str
    description: str
    arguments: tuple[tuple[str, str], ...]
    options: tuple[OptionDoc, ...]


def read_tree() -> list[CommandDoc]:
    """Return every command, in the order of the command table."""
    from kcli.cli.app import report
    from kcli.cli.command_table import COMMANDS
    from kcli.cli.environment import Environment
    from kcli.cli.parser import build_tree

    root: Any = build_tree(Environment.of_process(), report, whole=True)
    commands = []
    for words, summary in COMMANDS.items():
        command = root
        for word in words:
            command = command.commands[word]
        commands.append(_command(words, summary, command))
    return commands


def groups() -> dict[str, str]:
    """Return the first words that need a second one, with their help lines."""
    from kcli.cli.command_table import GROUPS

    return dict(GROUPS)


def short_forms() -> dict[str, str]:
    """Return the groups whose second word may be omitted, with that word."""
    from kcli.cli.command_table import SHORT_FOR

    return dict(SHORT_FOR)


def _command(words: tuple[str, ...], summary: str, command: Any) -> CommandDoc:
    arguments, options = [], []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            arguments.append((parameter.make_metavar(None).strip("{}"), parameter.help or ""))
        elif not parameter.hidden:
            options.append(_option(parameter))
    options.append(OptionDoc(("--help", "-h"), None, "Show the help and exit.", repeatable=False))
    return CommandDoc(words, summary, command.help or "", tuple(arguments), tuple(options))


def _option(parameter: Any) -> OptionDoc:
    names = tuple(sorted((*parameter.opts, *parameter.secondary_opts), key=len, reverse=True))
    value = None if parameter.is_flag else parameter.metavar or parameter.type.name.upper()
    text = parameter.help or ""
    has_default = value is not None and parameter.default not in (None, "", []) and not parameter.multiple
    if has_default and not text.endswith("]"):
        text += f" [{parameter.default}]"
    return OptionDoc(names, value, text, bool(parameter.multiple))
