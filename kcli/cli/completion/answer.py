"""The answer to a TAB: `kcli __complete SHELL` reads a line from standard input and prints the candidates.

The first line of the answer is the kind: `words`; `joined`, words after which no space follows; `files` or `dirs`,
which the shell lists itself, and the number of characters before the path. Then come the candidates, one per line, each
with its description where the shell shows one. After an error nothing is printed, and the status is 0.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kcli.cli.completion.command_line import COMMAND, OPTION, PAGE, Question, Table, question, split_words

_FOLDER = os.path.dirname(__file__)
_MAX_INPUT = 1 << 20
#: Words that mean nothing to bash. Other words are written with backslashes.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%^")

# Pages of the manual that are not those of commands; see `kcli.cli.help.help`.
_PAGES = {
    "configuration": "Client properties, their sources, and passwords.",
    "guide": "The main commands by subject.",
    "spark-recipes": "Recipes for Apache Spark.",
}


class Answer(NamedTuple):
    """Candidates for `Question.text` with their descriptions; or a kind of path, and the text before the path."""

    kind: str
    candidates: Mapping[str, str] = {}
    before_path: str = ""


def main(shell: str) -> int:
    """Answer for bash, zsh or fish."""
    try:
        text = sys.stdin.buffer.read(_MAX_INPUT).decode(errors="surrogateescape")
        sys.stdout.buffer.write(reply(shell, text, os.environ).encode(errors="surrogateescape"))
        sys.stdout.buffer.flush()
    except Exception:  # a completion that fails must not disturb the line
        if os.environ.get("KCLI_DEBUG") == "1":
            raise
    return 0


def reply(shell: str, text: str, environ: Mapping[str, str]) -> str:
    """Return the text for the shell. `text` is the line of bash up to the cursor, or the words of zsh or fish, each
    with a NUL at its end; the last word is the one at the cursor.
    """
    kept, quote = "", ""
    if shell == "bash":
        words, kept, quote = split_words(text, environ.get("KCLI_WORDBREAKS", ""))
    else:
        words = text.split("\0")[:-1]
    if len(words) < 2:
        return ""
    table = _load_table()
    asked = question(words[1:], table)
    answer = candidates(asked, table, environ)
    found = _matching(answer.candidates, asked, prefixes_only=shell == "bash")
    if answer.kind in ("files", "dirs"):
        return f"{answer.kind} {len(asked.prefix + answer.before_path)}\n"
    return "\n".join((answer.kind, *_SHELLS[shell](asked.prefix, found, kept, quote))) + "\n"


def _load_table() -> Table:
    import json

    with open(os.path.join(_FOLDER, "command_table.json"), encoding="utf-8") as file:
        table: Table = json.load(file)
    return table


def candidates(asked: Question, table: Table, environ: Mapping[str, str]) -> Answer:
    """Return the candidates of a question, also those that do not match its text."""
    if asked.kind == COMMAND:
        return Answer("words", _commands(asked.path, table, asked.text))
    if asked.kind == PAGE:
        return Answer("words", {**_commands("", table), **_PAGES})
    if asked.kind == OPTION:
        return Answer("words", _options(asked))
    if asked.kind in table["properties"]:
        return _properties(asked, table["properties"][asked.kind])
    if asked.kind in ("file", "dir"):
        side = asked.text.partition("=")[0]  # --schema-file value=orders.avsc
        return Answer(f"{asked.kind}s", before_path=f"{side}=" if side in ("key", "value") else "")
    names = dict.fromkeys(asked.choices, "")
    if asked.kind == "profile":
        names |= _profiles(environ)
    elif asked.kind and not set(asked.text) & set(":=@"):  # these begin the partitions of a topic, for example
        from kcli.cli.completion.cluster_names import cluster_names

        names |= dict.fromkeys(cluster_names(asked, environ), "")
    if asked.is_before_options and not asked.prefix:
        names = {name: description for name, description in names.items() if not name.startswith("-")}
    for given in asked.arguments if not asked.prefix else ():
        names.pop(given, None)
    is_open = any(name.endswith(("=", "<", ":", "/")) for name in names)
    return Answer("joined" if is_open else "words", names)


def _commands(path: str, table: Table, text: str = "") -> dict[str, str]:
    commands = table["commands"]
    if path:
        return {
            words.partition(" ")[2]: command["help"]
            for words, command in commands.items()
            if words.startswith(f"{path} ")
        }
    if text.startswith("-"):
        return {"--help": "Show the help and exit.", "--version": "Print the version."}
    lone = {words: command["help"] for words, command in commands.items() if " " not in words}
    return {**table["families"], **lone}


def _options(asked: Question) -> dict[str, str]:
    """Return the options that can be given, by their long names; by their short ones too, if these are asked for."""
    names = {}
    for option in asked.command["options"]:
        if option["names"][0] not in asked.options or option.get("many"):
            for name in option["names"]:
                if name.startswith("--") or not asked.text.startswith("--"):
                    names[name] = option["help"]
    return names


def _properties(asked: Question, properties: Mapping[str, Mapping[str, Any]]) -> Answer:
    """Return the names of properties, or the values of the one in the text."""
    name, equals, _ = asked.text.partition("=")
    if not equals:
        return Answer("joined", {f"{known}=": str(entry["help"]) for known, entry in properties.items()})
    entry = properties.get(name, {})
    if entry.get("value") == "file":
        return Answer("files", before_path=f"{name}=")
    return Answer("words", {f"{name}={value}": "" for value in entry.get("choices", ())})


def _profiles(environ: Mapping[str, str]) -> dict[str, str]:
    from kcli.cli.environment import Environment
    from kcli.cli.profile.profile_file import NONE, path_of, read_file

    env = Environment(sys.stdin, sys.stdout, sys.stderr, environ)
    profiles = read_file(path_of(env)).profiles.values()
    return {**{profile.name: profile.bootstrap_servers or "" for profile in profiles}, NONE: "Use no profile."}


def _matching(found: Mapping[str, str], asked: Question, *, prefixes_only: bool) -> dict[str, str]:
    """Return the candidates for the text that can be written on one line. zsh and fish also find parts of names."""
    text = asked.text if prefixes_only else asked.text.lower()
    return {
        name: description
        for name, description in found.items()
        if name.isprintable() and (name.startswith(text) if prefixes_only else text in name.lower())
    }


def _for_bash(prefix: str, found: Mapping[str, str], kept: str, quote: str) -> Iterable[str]:
    """Yield the candidates without the part that bash keeps, escaped for the quotes in which they are inserted."""
    for name in found:
        word = (prefix + name)[len(kept) :]
        if not quote:
            yield "".join(letter if letter in _PLAIN or not letter.isascii() else f"\\{letter}" for letter in word)
        elif not set(word) & set("'" if quote == "'" else '"\\$`!'):
            yield word


def _for_zsh(prefix: str, found: Mapping[str, str], _kept: str, _quote: str) -> Iterable[str]:
    """Yield candidates as `_describe` takes them; it quotes them itself."""
    for name, description in found.items():
        word = (prefix + name).replace("\\", "\\\\").replace(":", "\\:")
        yield f"{word}:{description}" if description else word


def _for_fish(prefix: str, found: Mapping[str, str], _kept: str, _quote: str) -> Iterable[str]:
    for name, description in found.items():
        yield f"{prefix}{name}\t{description}"


_SHELLS = {"bash": _for_bash, "zsh": _for_zsh, "fish": _for_fish}
