"""A command line that is being typed: its words, the command that they name, and the value at the cursor. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

#: `command_table.json`; see `kcli.cli.docs.completion_table` for its content.
Table = Mapping[str, Any]
#: The kinds of `Question` that are not kinds of values.
COMMAND, OPTION, PAGE = "command", "option", "page"


class Question(NamedTuple):
    """The text that is completed.

    `kind` is COMMAND, OPTION, PAGE (of the manual) or the kind of a value in the table; "" has no candidates. `text` is
    the part of the current word that candidates begin with, and `prefix` the part before it. `command` is the entry of
    the table, `path` the words of the command. `options` has the values of the options that are given before the
    cursor, by their longest name, and `arguments` the arguments. `choices` are the values of a kind that lists them.
    `is_before_options`: a word that begins with `-` would be an option here.
    """

    kind: str
    text: str
    prefix: str = ""
    path: str = ""
    command: Mapping[str, Any] = {}
    options: Mapping[str, Sequence[str]] = {}
    arguments: Sequence[str] = ()
    choices: Sequence[str] = ()
    is_before_options: bool = False


def question(words: Sequence[str], table: Table) -> Question:
    """Return the question of these words after `kcli`; the last one is at the cursor, and may be empty."""
    *before, current = words
    path, rest = _command(before, table)
    if path not in table["commands"]:
        return Question("" if rest else COMMAND, current, path=path)
    short = table["short_forms"].get(path.partition(" ")[0])
    if short and len(before) == 1 and not current.startswith("-"):  # kcli consume TAB: a command or a topic
        asked = _Line(table["commands"][path], path).question(current)
        return asked._replace(choices=[word for word in (short,) if word.startswith(current)])
    if path == "help":  # its arguments name a command, or another page
        return Question(COMMAND if rest else PAGE, current, path=" ".join(rest))
    line = _Line(table["commands"][path], path)
    for word in rest:
        line.read(word)
    return line.question(current)


def _command(words: Sequence[str], table: Table) -> tuple[str, Sequence[str]]:
    """Return the command, or the family, that the words name, and the other words."""
    commands, families = table["commands"], table["families"]
    if not words:
        return "", ()
    first, *rest = words
    if first in commands:
        return first, rest
    if first not in families:
        return "", words
    if rest and f"{first} {rest[0]}" in commands:
        return f"{first} {rest[0]}", rest[1:]
    if first in table["short_forms"]:
        return f"{first} {table['short_forms'][first]}", rest
    return first, rest


class _Line:
    """The words of a command that are read so far."""

    def __init__(self, command: Mapping[str, Any], path: str) -> None:
        self.command, self.path = command, path
        self.options: dict[str, list[str]] = {}
        self.arguments: list[str] = []
        self._by_name = {name: option for option in command["options"] for name in option["names"]}
        self._waiting: Mapping[str, Any] | None = None  # an option whose value is the next word
        self._only_arguments = False

    def read(self, word: str) -> None:
        """Take one complete word."""
        if self._waiting is not None:
            self._give(self._waiting, word)
            self._waiting = None
        elif self._only_arguments or not word.startswith("-") or word == "-":
            self.arguments.append(word)
        elif word == "--":
            self._only_arguments = True
        else:
            for option, value in self._options_of(word):
                if "value" in option and value is None:
                    self._waiting = option
                else:
                    self._give(option, value or "")

    def question(self, current: str) -> Question:
        """Return the question of the word at the cursor."""
        if self._waiting is not None:
            return self._value(self._waiting, current, "")
        if not self._only_arguments and current.startswith("-"):
            for option, value in self._options_of(current):
                if value is not None and "value" in option:
                    return self._value(option, value, current[: len(current) - len(value)])
            return self._asked(OPTION, current)
        position, known = len(self.arguments), self.command["arguments"]
        if position >= len(known) and not (known and known[-1].get("many")):
            return self._asked("" if self._only_arguments or current else OPTION, current)
        asked = self._value(known[min(position, len(known) - 1)], current, "")
        return asked._replace(is_before_options=not self._only_arguments)

    def _options_of(self, word: str) -> Iterator[tuple[Mapping[str, Any], str | None]]:
        """Yield the options of a word, `--name=value` or short ones joined, each with the value in the same word."""
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            if name in self._by_name:
                yield self._by_name[name], value if equals else None
            return
        for index, letter in enumerate(word[1:], 2):
            option = self._by_name.get(f"-{letter}")
            if option is None:
                return
            if "value" in option:
                yield option, word[index:] or None
                return
            yield option, None

    def _give(self, option: Mapping[str, Any], value: str) -> None:
        self.options.setdefault(option["names"][0], []).append(value)

    def _value(self, declared: Mapping[str, Any], text: str, prefix: str) -> Question:
        kind = declared["value"]
        if declared.get("list"):
            head, comma, text = text.rpartition(",")
            prefix += head + comma
            given = head.split(",")
            return self._asked(kind, text, prefix)._replace(
                choices=[choice for choice in declared.get("choices", ()) if choice not in given]
            )
        return self._asked(kind, text, prefix)._replace(choices=declared.get("choices", ()))

    def _asked(self, kind: str, text: str, prefix: str = "") -> Question:
        return Question(kind, text, prefix, self.path, self.command, self.options, self.arguments)


def split_words(line: str, breaks: str = "") -> tuple[list[str], str, str]:
    """Split a line of bash up to the cursor.

    Return its words without quotes, the part of the last word that bash does not replace (up to its last break
    character or opening quote), and the quote that is open at the end.
    """
    words: list[str] = []
    word, is_begun, kept, quote, escaped = "", False, 0, "", False
    for letter in line:
        if letter.isspace() and not quote and not escaped:
            if is_begun:
                words.append(word)
            word, is_begun, kept = "", False, 0
            continue
        is_begun = True
        if escaped or (quote and letter not in (quote, "\\" if quote == '"' else quote)):
            word, escaped = word + letter, False
        elif letter == "\\":
            escaped = True
        elif letter in "'\"":
            quote, kept = "" if quote else letter, len(word)
        else:
            word += letter
            kept = len(word) if letter in breaks else kept
    return [*words, word], word[:kept], quote
