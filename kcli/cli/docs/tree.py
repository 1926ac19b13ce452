"""All commands as plain data, read from the parser's own tree."""

from __future__ import annotations

from typing import Any, NamedTuple

from kcli.cli.app import report
from kcli.cli.command_table import COMMANDS
from kcli.cli.environment import Environment
from kcli.cli.parser import build_tree


class OptionDoc(NamedTuple):
    """An option:

    `names` as typed, the longest first, and `value` the placeholder of its value (None: a flag).
    """

    names: tuple[str, ...]
    value: str | None
    help: str
    repeatable: bool


class CommandDoc(NamedTuple):
    """A command: `words` after `kcli`, `summary` the line in a list, `description` the paragraphs of its help."""

    words: tuple[str, ...]
    summary: str
    description: str
    arguments: tuple[tuple[str, str], ...]
    options: tuple[OptionDoc, ...]


def read_tree() -> list[CommandDoc]:
    """Return every command, in the order of the command table."""
    root: Any = build_tree(Environment.of_process(), report, whole=True)
    return [_command(words, root) for words in COMMANDS]


def read_command(words: tuple[str, ...], env: Environment) -> CommandDoc:
    """Return one command; no other command is imported."""
    return _command(words, build_tree(env, report, words))


def _command(words: tuple[str, ...], root: Any) -> CommandDoc:
    command = root
    for word in words:
        command = command.commands[word]
    arguments, options = [], []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            arguments.append((parameter.make_metavar(None).strip("{}"), parameter.help or ""))
        elif not parameter.hidden:
            options.append(_option(parameter))
    options.append(OptionDoc(("--help", "-h"), None, "Show the help and exit.", repeatable=False))
    return CommandDoc(words, COMMANDS[words], command.help or "", tuple(arguments), tuple(options))


def _option(parameter: Any) -> OptionDoc:
    names = tuple(sorted((*parameter.opts, *parameter.secondary_opts), key=len, reverse=True))
    value = None if parameter.is_flag else parameter.metavar or parameter.type.name.upper()
    text = parameter.help or ""
    has_default = value is not None and parameter.default not in (None, "", []) and not parameter.multiple
    if has_default and not text.endswith("]"):
        text += f" [{parameter.default}]"
    return OptionDoc(names, value, text, bool(parameter.multiple))
