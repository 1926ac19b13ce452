"""Options without effect, and invalid topics, are refused in one line before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.fake import run_kcli


@pytest.mark.usefixtures("without_java")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("skew", "t", "--by", "topic", "--top", "3"), "--top requires --by key"),
        (("skew", "t", "--max-offsets-per-trigger", "5"), "--max-offsets-per-trigger requires export --once"),
        (("skew", "t", "--dry-run", "-O", "csv:x.csv"), "--dry-run has no result for a file; use -O csv"),
        (("skew", "a,b"), "topic 'a,b' is not valid; separate topics by spaces: a b"),
        (("skew", "--topic-partition", "a b:0"), "topic 'a b' is not valid; use letters, digits, '.', '_' and '-'"),
        (("skew", ".."), "topic '..' is not valid"),
        (("skew", "t", "--option", "Strating=1"), "Strating is not an option"),
        (("skew", "t", "--option", "MINPARTITIONS=none"), "minPartitions: the value is not valid; use a whole number"),
        (("duplicates", "t", "--summary", "--top", "3"), "--top cannot be combined with --summary"),
        (("compare", "t", "u", "--summary", "--top", "3"), "--top cannot be combined with --summary"),
        (("compare", "t", "u,v"), "topic 'u,v' is not valid; separate topics by spaces: u v"),
        (("group-offsets", "--from", "-1h"), "--from cannot be used: group-offsets reads the present offsets"),
        (("group-offsets", "t", "--until", "-1h"), "--until cannot be used: group-offsets"),
        (("export", "t", "--to", "x", "--max-offsets-per-trigger", "5"), "requires export --once or --follow"),
        (
            ("sql", "SELECT 1", "--topic-partition", "t:0"),
            "--topic-partition cannot be used; use topic('orders:0,1') in the statement",
        ),
        (("sql", "SELECT 1 FROM topic('t,u')"), "topic 't,u' is not valid; separate topics by spaces: t u"),
    ],
)
def test_options_without_effect_are_refused_in_one_line(words: tuple[str, ...], expected: str) -> None:
    result = run_kcli("spark", *words, "-b", "127.0.0.1:1")
    assert (result.status, result.out) == (2, b"")
    assert expected in result.err
    assert result.err.count("\n") == 1


@pytest.mark.usefixtures("without_java")
def test_a_password_in_an_option_of_the_source_is_a_warning_and_is_not_shown() -> None:
    secured = ("--option", "kafka.sasl.password=hunter2", "--option", "kafka.ssl.key.password=env:NAME")
    result = run_kcli("spark", "skew", "t", *secured, "--option", "nonsense=1", "-b", "127.0.0.1:1")
    assert result.err.splitlines()[0] == (
        "kcli: warning: --option kafka.sasl.password: other users can see it in the process list; use "
        "kafka.sasl.password=env:NAME or file:PATH"
    )
    assert "hunter2" not in result.err


@pytest.mark.usefixtures("without_java")
def test_the_second_cluster_of_a_comparison_has_its_own_login(tmp_path: Path) -> None:
    file = tmp_path / "second.properties"
    file.write_text("metadata.broker.list=b\nsasl.jaas.config=${env:NO}\nsecurity.protocol=SASL_SSL\n")
    result = run_kcli("spark", "compare", "t", "--command-config2", str(file), "-b", "127.0.0.1:1")
    assert result.status == 2
    assert "sasl.jaas.config refers to a config provider that config.providers does not declare" in result.err
