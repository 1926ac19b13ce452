"""Options that would do nothing, and topics that cannot be, are refused in one line before anything starts."""

from __future__ import annotations

import pytest

from tests.cli.fake import run_kcli


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("skew", "t", "--by", "topic", "--top", "3"), "--top is for --by key, and for the keys in a --report"),
        (("skew", "t", "--max-offsets-per-trigger", "5"), "--max-offsets-per-trigger is for export --once and"),
        (("skew", "t", "--dry-run", "-o", "csv:x.csv"), "a --dry-run has no result for a file: say -o csv, or none"),
        (("skew", "a,b"), "no topic is called 'a,b': say a b"),
        (("skew", "--topic-partition", "a b:0"), "no topic is called 'a b', only letters, digits, '.', '_' and '-'"),
        (("skew", ".."), "no topic is called '..'"),
        (("skew", "t", "-O", "Strating=1"), "Strating is not an option"),
        (("skew", "t", "-O", "MINPARTITIONS=none"), "minPartitions: 'none' is not valid; use a whole number"),
        (("duplicates", "t", "--summary", "--top", "3"), "--top is for groups, of which --summary tells none"),
        (("compare", "t", "u", "--summary", "--top", "3"), "--top is for differences, of which --summary tells none"),
        (("compare", "t", "u,v"), "no topic is called 'u,v': say u v"),
        (("group-offsets", "--from", "-1h"), "--from is not for group-offsets, which are those of now"),
        (("group-offsets", "t", "--until", "-1h"), "--until is not for group-offsets"),
        (("export", "t", "--to", "x", "--max-offsets-per-trigger", "5"), "is for export --once and --follow"),
        (("sql", "SELECT 1", "--topic-partition", "t:0"), "--topic-partition is not for SQL: say it in the statement"),
        (("sql", "SELECT 1 FROM topic('t,u')"), "no topic is called 't,u': say t u"),
    ],
)
def test_what_would_do_nothing_is_one_line(words: tuple[str, ...], told: str) -> None:
    result = run_kcli("spark", *words, "-b", "127.0.0.1:1")
    assert (result.status, result.out) == (2, b"")
    assert told in result.err
    assert result.err.count("\n") == 1
