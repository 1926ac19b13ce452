"""SQL in which topics are tables: `topic('orders')`, `batches('orders', from => '-1h')`, and `lag`, `groups`, ... Pure.

Spark's own parser reads the statements; here only those names are looked for, wherever Spark would see a name: not in
literals, quoted names and comments. Source: "Lexical structure" in Spark's SQL reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kcli.errors import ConfigError

#: What a call may be of, and the view that stands for it.
CALLS = {"topic": "records", "records": "records", "batches": "batches", "gaps": "gaps"}
#: Tables that need no topic.
TABLES = ("lag", "groups", "members", "offsets", "commits")
_SPAN = ("from", "until")

_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*)
    |(?P<raw>[rR](?:'[^']*'|"[^"]*"))
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<word>[^\W\d]\w*)
    |(?P<number>\d\w*)
    |(?P<space>\s+)
    |(?P<sign>=>|\|>|.)""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A piece of SQL; `kind` is a group's name in the pattern above."""

    kind: str
    text: str

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words


class Relation(NamedTuple):
    """A table of ours in a statement: the view, the topics as they were written, and the span."""

    view: str
    topics: tuple[str, ...] = ()
    start: str | None = None
    until: str | None = None


class Statement(NamedTuple):
    """One statement as tokens, without its semicolon."""

    tokens: list[Token]

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens)

    @property
    def words(self) -> list[str]:
        """Its names, whether quoted or not, in lower case; without those of calls to tables."""
        tokens = [token for token in self.tokens if token.kind not in ("space", "comment")]
        return [
            token.text.strip("`").lower()
            for token, after in zip(tokens, [*tokens[1:], None], strict=True)
            if token.kind in ("word", "quoted")
            and not (token.is_word(*CALLS) and after is not None and after.text == "(")
        ]


def split_statements(text: str) -> list[Statement]:
    """The statements of a script, between semicolons; those with nothing in them are left out."""
    statements: list[list[Token]] = [[]]
    for token in _tokens(text):
        if token == ("sign", ";"):
            statements.append([])
        else:
            statements[-1].append(token)
    return [Statement(it) for it in statements if any(token.kind not in ("space", "comment") for token in it)]


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None, "every character is a token at least"
        kind, end = str(match.lastgroup), match.end()
        if match[0] == "/*":
            end = _end_of_comment(text, at)
        yield Token(kind, text[at:end])
        at = end


def _end_of_comment(text: str, at: int) -> int:
    """Comments in brackets may hold others."""
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return len(text)


def find_relations(statement: Statement, name: Callable[[Relation], str]) -> Statement:
    """The statement with each call replaced by what `name` calls it, and `name` told of each table too, under whose
    own name it stays. ConfigError for calls that are malformed."""
    tokens, found, at = statement.tokens, [], 0
    while at < len(tokens):
        token = tokens[at]
        following = _next(tokens, at + 1)
        is_call = following < len(tokens) and tokens[following].text == "("
        if token.is_word(*CALLS) and is_call and not _is_part_of_name(tokens, at):
            relation, at = _read_call(tokens, at, following)
            found.append(Token("quoted", f"`{name(relation)}`"))
            continue
        if token.is_word(*TABLES) and not is_call and _is_table(tokens, at):
            name(Relation(token.text.lower()))
        found.append(token)
        at += 1
    return Statement(found)


def _next(tokens: Sequence[Token], at: int) -> int:
    """The place of the next token that is neither space nor comment."""
    while at < len(tokens) and tokens[at].kind in ("space", "comment"):
        at += 1
    return at


def _before(tokens: Sequence[Token], at: int) -> Token | None:
    return next((it for it in reversed(tokens[:at]) if it.kind not in ("space", "comment")), None)


def _is_part_of_name(tokens: Sequence[Token], at: int) -> bool:
    before = _before(tokens, at)
    return before is not None and before.text == "."


def _is_table(tokens: Sequence[Token], at: int) -> bool:
    """Whether this can be the name of a table: behind FROM, JOIN, TABLE, a comma, and so on. To make one more view than
    is needed does no harm, as nothing is read for it."""
    before = _before(tokens, at)
    return before is not None and before.text != "." and (before.kind == "word" or before.text in (",", "("))


def _read_call(tokens: Sequence[Token], at: int, opening: int) -> tuple[Relation, int]:
    """`topic('a', 'b:0,1', from => '-1h')`, and the place behind it."""
    called = tokens[at].text.lower()
    closing = next((n for n in range(opening, len(tokens)) if tokens[n].text == ")"), None)
    if closing is None:
        raise ConfigError(f"{called}( is not closed")
    topics: list[str] = []
    span: dict[str, str] = {}
    for argument in _arguments(tokens[opening + 1 : closing]):
        kinds = [token.kind for token in argument]
        if kinds == ["text"]:
            topics.append(_literal(argument[0].text))
        elif kinds == ["word", "sign", "text"] and argument[0].is_word(*_SPAN) and argument[1].text == "=>":
            span[argument[0].text.lower()] = _literal(argument[2].text)
        else:
            words = "".join(token.text for token in argument)
            raise ConfigError(f"{called}('TOPIC', ..., from => 'START', until => 'END') has no argument like {words!r}")
    if not topics:
        raise ConfigError(f"{called}() lacks a topic, as in {called}('orders')")
    return Relation(CALLS[called], tuple(topics), span.get("from"), span.get("until")), closing + 1


def _arguments(tokens: Sequence[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == "," and token.kind == "sign":
            found.append([])
        elif token.kind not in ("space", "comment"):
            found[-1].append(token)
    return [argument for argument in found if argument] if len(found) == 1 else found


def _literal(text: str) -> str:
    """A string literal's text; topics and times need no other escapes than these."""
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def columns_read(statement: Statement, known: Sequence[str], usual: Sequence[str]) -> list[str]:
    """Of the columns `known` those that the statement names; and all `usual` ones, unless it is sure to name what it
    needs."""
    words = set(statement.words)
    named = [name for name in known if name.lower() in words]
    if _takes_all(statement):
        return [*usual, *(name for name in named if name not in usual)]
    return named


# What takes columns without naming them, anywhere or as the first word; FROM alone selects all of them as well.
_TAKING_ALL = {"natural", "table", "pivot", "unpivot"}
_SHOWING_ALL = {"describe", "desc", "show", "from"}
_BEHIND_TABLES = {"where", "on", "using"}


def _takes_all(statement: Statement) -> bool:
    tokens = [token for token in statement.tokens if token.kind not in ("space", "comment")]
    words = [it.text.lower() for it, after in zip(tokens, [*tokens[1:], None], strict=True) if _is_name(it, after)]
    return (
        any(token.text == "*" and not _is_counted(tokens, at) for at, token in enumerate(tokens))
        or any(token.text == "|>" for token in tokens)
        or any(_renames(tokens, at) for at, token in enumerate(tokens) if token.is_word(*CALLS))
        or words.count("select") < words.count("from")
        or words[:1] == []
        or words[0] in _SHOWING_ALL
        or not _TAKING_ALL.isdisjoint(words)
    )


def _is_name(token: Token, after: Token | None) -> bool:
    return token.kind == "word" and (after is None or after.text != "=>")


def _is_counted(tokens: Sequence[Token], at: int) -> bool:
    return at >= 2 and tokens[at - 1].text == "(" and tokens[at - 2].is_word("count")


def _renames(tokens: Sequence[Token], at: int) -> bool:
    """Whether a call is followed by names for its columns, in their order: `topic('orders') AS t(k, v, ...)`."""
    closing = next((n for n in range(at, len(tokens)) if tokens[n].text == ")"), len(tokens))
    behind = [token for token in tokens[closing + 1 : closing + 4] if not token.is_word("as")]
    return len(behind) > 1 and behind[1].text == "(" and not behind[0].is_word(*_BEHIND_TABLES)
