"""Parser of table names in SQL: `topic('orders')`, `batches('orders', from => '-1h')`, `lag`, `groups` and others.
Pure.

Spark parses the statements; this module only finds and replaces these names, except in literals, quoted names and
comments. Source: "Lexical structure" in Spark's SQL reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kcli.errors import ConfigError

#: The table functions, with their views.
CALLS = {"topic": "records", "records": "records", "batches": "batches", "gaps": "gaps"}
#: The tables without topics.
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
    """A token of SQL; `kind` is the name of a group in the pattern."""

    kind: str
    text: str

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words


class Relation(NamedTuple):
    """A table of kcli in a statement: the view, the topics as written, and the range."""

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
    def names(self) -> list[str]:
        """The names in the statement, quoted or not, in lower case; without those of table functions."""
        tokens = [token for token in self.tokens if token.kind not in ("space", "comment")]
        return [
            token.text.strip("`").lower()
            for token, next_token in zip(tokens, [*tokens[1:], None], strict=True)
            if token.kind in ("word", "quoted")
            and not (token.is_word(*CALLS) and next_token is not None and next_token.text == "(")
        ]


def split_statements(text: str) -> list[Statement]:
    """Split a script at semicolons; empty statements are dropped."""
    statements: list[list[Token]] = [[]]
    for token in _tokens(text):
        if token == ("sign", ";"):
            statements.append([])
        else:
            statements[-1].append(token)
    return [
        Statement(statement)
        for statement in statements
        if any(token.kind not in ("space", "comment") for token in statement)
    ]


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
    """Return the end of a comment; bracketed comments can be nested."""
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return len(text)


def replace_relations(statement: Statement, name: Callable[[Relation], str]) -> Statement:
    """Return the statement with each table function replaced by the result of `name`.

    `name` is also called for each table without topics, which keeps its own name. ConfigError for malformed calls.
    """
    tokens, replaced_tokens, at = statement.tokens, [], 0
    while at < len(tokens):
        token = tokens[at]
        next_index = _next_token(tokens, at + 1)
        is_call = next_index < len(tokens) and tokens[next_index].text == "("
        if token.is_word(*CALLS) and is_call and not _is_part_of_name(tokens, at):
            relation, at = _read_call(tokens, at, next_index)
            replaced_tokens.append(Token("quoted", f"`{name(relation)}`"))
            continue
        if token.is_word(*TABLES) and not is_call and _is_table(tokens, at):
            name(Relation(token.text.lower()))
        replaced_tokens.append(token)
        at += 1
    return Statement(replaced_tokens)


def _next_token(tokens: Sequence[Token], at: int) -> int:
    """Return the index of the next token that is not space or comment."""
    while at < len(tokens) and tokens[at].kind in ("space", "comment"):
        at += 1
    return at


def _previous(tokens: Sequence[Token], at: int) -> Token | None:
    return next((token for token in reversed(tokens[:at]) if token.kind not in ("space", "comment")), None)


def _is_part_of_name(tokens: Sequence[Token], at: int) -> bool:
    previous = _previous(tokens, at)
    return previous is not None and previous.text == "."


def _is_table(tokens: Sequence[Token], at: int) -> bool:
    """Return whether this can be a table name: after FROM, JOIN, TABLE, a comma, and so on. A false positive only makes
    a view that is not read.
    """
    previous = _previous(tokens, at)
    return previous is not None and previous.text != "." and (previous.kind == "word" or previous.text in (",", "("))


def _read_call(tokens: Sequence[Token], at: int, opening: int) -> tuple[Relation, int]:
    """Parse `topic('a', 'b:0,1', from => '-1h')`; return the relation and the index after it."""
    function = tokens[at].text.lower()
    closing = next((n for n in range(opening, len(tokens)) if tokens[n].text == ")"), None)
    if closing is None:
        raise ConfigError(f"{function}( has no closing parenthesis")
    topics: list[str] = []
    span: dict[str, str] = {}
    for argument in _arguments(tokens[opening + 1 : closing]):
        kinds = [token.kind for token in argument]
        if kinds == ["text"]:
            topics.append(_literal(argument[0].text))
        elif kinds == ["word", "sign", "text"] and argument[0].is_word(*_SPAN) and argument[1].text == "=>":
            span[argument[0].text.lower()] = _literal(argument[2].text)
        else:
            text = "".join(token.text for token in argument)
            raise ConfigError(
                f"{function}: {text!r} is not a valid argument; "
                f"use {function}('TOPIC', ..., from => 'START', until => 'END')"
            )
    if not topics:
        raise ConfigError(f"{function}() has no topic; use {function}('orders')")
    return Relation(CALLS[function], tuple(topics), span.get("from"), span.get("until")), closing + 1


def _arguments(tokens: Sequence[Token]) -> list[list[Token]]:
    arguments: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == "," and token.kind == "sign":
            arguments.append([])
        elif token.kind not in ("space", "comment"):
            arguments[-1].append(token)
    return [argument for argument in arguments if argument] if len(arguments) == 1 else arguments


def _literal(text: str) -> str:
    """Return the text of a string literal; topics and times need no other escapes."""
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def columns_read(statement: Statement, known: Sequence[str], usual: Sequence[str]) -> list[str]:
    """Return the columns of `known` that the statement names, and all `usual` ones unless it names all that it
    needs.
    """
    names = set(statement.names)
    named = [name for name in known if name.lower() in names]
    if _uses_all_columns(statement):
        return [*usual, *(name for name in named if name not in usual)]
    return named


# Syntax that uses columns without naming them: anywhere, or as the first word. FROM without SELECT selects all as well.
_USES_ALL = {"natural", "table", "pivot", "unpivot"}
_FIRST_WORD_USES_ALL = {"describe", "desc", "show", "from"}
_AFTER_TABLES = {"where", "on", "using"}


def _uses_all_columns(statement: Statement) -> bool:
    tokens = [token for token in statement.tokens if token.kind not in ("space", "comment")]
    names = [
        token.text.lower()
        for token, next_token in zip(tokens, [*tokens[1:], None], strict=True)
        if _is_name(token, next_token)
    ]
    return (
        any(token.text == "*" and not _is_counted(tokens, at) for at, token in enumerate(tokens))
        or any(token.text == "|>" for token in tokens)
        or any(_has_column_aliases(tokens, at) for at, token in enumerate(tokens) if token.is_word(*CALLS))
        or names.count("select") < names.count("from")
        or names[:1] == []
        or names[0] in _FIRST_WORD_USES_ALL
        or not _USES_ALL.isdisjoint(names)
    )


def _is_name(token: Token, next_token: Token | None) -> bool:
    return token.kind == "word" and (next_token is None or next_token.text != "=>")


def _is_counted(tokens: Sequence[Token], at: int) -> bool:
    return at >= 2 and tokens[at - 1].text == "(" and tokens[at - 2].is_word("count")


def _has_column_aliases(tokens: Sequence[Token], at: int) -> bool:
    """Return whether column aliases follow a call: `topic('orders') AS t(k, v, ...)`."""
    closing = next((n for n in range(at, len(tokens)) if tokens[n].text == ")"), len(tokens))
    following = [token for token in tokens[closing + 1 : closing + 4] if not token.is_word("as")]
    return len(following) > 1 and following[1].text == "(" and not following[0].is_word(*_AFTER_TABLES)
