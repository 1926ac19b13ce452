"""Answers to a TAB in the form of each shell, with the table of the real commands and without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.cli.command_table import GROUPS
from kcli.cli.completion import cluster_names
from kcli.cli.completion.answer import reply
from kcli.cli.completion.command_line import Question

BREAKS = " \t\n\"'@><=;|&(:"


def kind_and_words(line: str, *, shell: str = "bash", config: Path = Path("/nowhere")) -> tuple[str, list[str]]:
    """Return the first line of the answer and the other lines."""
    text = line if shell == "bash" else line.replace(" ", "\0") + "\0"
    environ = {"KCLI_WORDBREAKS": BREAKS, "XDG_CONFIG_HOME": str(config), "HOME": str(config)}
    kind, *words = reply(shell, text, environ).split("\n")[:-1]
    return kind, words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kcli prod", ["produce"]),
        ("kcli --v", ["--version"]),
        ("kcli topic cr", ["create"]),
        ("kcli topic list --out", ["--output"]),
        ("kcli topic list --output j", ["json", "jsonl"]),
        ("kcli topic list --output=j", ["json", "jsonl"]),
        ("kcli topic list -Oj", ["-Ojson", "-Ojsonl"]),
        ("kcli consume topic orders --gre", ["--grep"]),
        ("kcli consume orders --gre", ["--grep"]),
        ("kcli consume orders --grep ", []),
        ("kcli consume orders --isolation-level read_c", ["read_committed"]),
        ("kcli consume orders -o e", ["end"]),
        ("kcli group list --state Empty,St", ["Empty,Stable"]),
        ("kcli group describe --sort time", ["time-lag"]),
        ("kcli group explain g --fail-on w", ["warning"]),
        ("kcli produce orders --acks a", ["all"]),
        ("kcli spark duplicates orders --by key,v", ["key,value"]),
        ("kcli spark export t --format p", ["parquet"]),
        ("kcli topic create t -c cleanup.policy=delete,c", []),
        ("kcli topic create t -c cleanup.policy=c", ["compact"]),
        ("kcli topic list -X security.protocol=SASL_", ["SASL_PLAINTEXT", "SASL_SSL"]),
        ("kcli topic list -X enable.auto.commit=", ["true", "false"]),
        ("kcli broker run -c auto.create.topics.enable=f", ["false"]),
        ("kcli completion z", ["zsh"]),
        ("kcli help conf", ["configuration"]),
        ("kcli help prod", ["produce"]),
        ("kcli help group expl", ["explain"]),
    ],
)
def test_words_and_values_are_completed(line: str, words: list[str]) -> None:
    assert kind_and_words(line) == ("words", words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kcli topic list -X isolation.l", ["isolation.level="]),
        ("kcli topic create t --config max.message.b", ["max.message.bytes="]),
        ("kcli broker run -c num.par", ["num.partitions="]),
        ("kcli spark export t --option minP", ["minPartitions="]),
    ],
)
def test_no_space_follows_the_name_of_a_property(line: str, words: list[str]) -> None:
    assert kind_and_words(line) == ("joined", words)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("kcli topic list --command-config ", "files 0"),
        ("kcli topic list --command-config=/etc/", "files 17"),
        ("kcli topic list -X ssl.keystore.location=/etc/", "files 22"),
        ("kcli topic list --property=ssl.keystore.location=/etc/", "files 33"),
        ("kcli consume orders --schema-file value=ord", "files 6"),
        ("kcli consume orders --schema-file=ord", "files 14"),
        ("kcli offsets apply pl", "files 0"),
        ("kcli produce orders rec", "files 0"),
        ("kcli spark export orders --to la", "dirs 0"),
        ("kcli spark skew orders --report o", "files 0"),
    ],
)
def test_paths_are_left_to_the_shell(line: str, kind: str) -> None:
    assert kind_and_words(line) == (kind, [])


def test_an_option_is_offered_once_unless_it_can_be_repeated() -> None:
    _, options = kind_and_words("kcli topic list --output json -X client.id=a --")
    assert "--output" not in options
    assert {"--property", "--long", "--help"} <= set(options)
    assert "-l" not in options
    assert "-l" in kind_and_words("kcli topic list -")[1]


def test_the_arguments_are_not_offered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_names, "cluster_names", lambda *_: ["orders", "payments"])
    assert kind_and_words("kcli topic describe orders ")[1] == ["payments"]
    assert kind_and_words("kcli consume ")[1] == ["topic", "orders", "payments"]
    assert kind_and_words("kcli group list --topic ")[1] == ["orders", "payments"]
    assert kind_and_words("kcli consume orders:")[1] == []


def test_a_name_that_would_be_an_option_is_offered_only_where_it_is_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_names, "cluster_names", lambda *_: ["--execute", "-v", "orders"])
    assert kind_and_words("kcli topic describe ")[1] == ["orders"]
    assert kind_and_words("kcli topic describe -- ")[1] == ["--execute", "-v", "orders"]
    assert kind_and_words("kcli topic describe -- -")[1] == ["--execute", "-v"]
    assert kind_and_words("kcli group list --topic ")[1] == ["--execute", "-v", "orders"]


@pytest.mark.parametrize(
    ("line", "kind", "arguments"),
    [
        ("kcli topic describe ", "topic", ()),
        ("kcli group describe ", "group", ()),
        ("kcli offsets reset billing --topic ", "topic", ("billing",)),
        ("kcli offsets copy billing --to-group ", "group", ("billing",)),
        ("kcli group remove-members billing --member ", "member", ("billing",)),
        ("kcli group remove-members billing --instance-id ", "instance-id", ("billing",)),
        ("kcli assignor diff billing --remove ", "member", ("billing",)),
        ("kcli cluster api-versions --node ", "node", ()),
        ("kcli spark export ", "topic", ()),
        ("kcli spark lag-history --groups ", "group", ()),
        ("kcli offsets undo ", "snapshot", ()),
        ("kcli topic undo ", "setting-snapshot", ()),
    ],
)
def test_names_are_asked_of_the_cluster_of_the_line(
    line: str, kind: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Question] = []
    monkeypatch.setattr(cluster_names, "cluster_names", lambda question, _environ: asked.append(question) or [])
    words = line.split(" ")
    kind_and_words(" ".join([*words[:-1], "-b", "b:9", "-P", "prod", "--command-config", "f", ""]))
    kind_and_words(" ".join([*words[:3], "-b", "b:9", "-Pprod", "--command-config=f", *words[3:]]))
    assert asked[-1].kind == kind
    assert tuple(asked[-1].arguments) == arguments
    assert asked[-1].options["--bootstrap-server"] == ["b:9"]
    assert asked[-1].options["--command-config"] == ["f"]
    assert asked[-1].options["--profile"] == ["prod"]


def test_the_names_of_profiles_are_completed_with_their_brokers(tmp_path: Path) -> None:
    assert kind_and_words("kcli topic list -P p", config=tmp_path) == ("words", [])
    (tmp_path / "kcli").mkdir()
    (tmp_path / "kcli" / "config.toml").write_text(
        '# [profile.no]\n[profile.prod]\nbootstrap-servers = "p:9"\n[profile.prod.properties]\n[profile.pre-1]\n'
    )
    assert kind_and_words("kcli topic list -P p", config=tmp_path) == ("words", ["prod", "pre-1"])
    assert kind_and_words("kcli profile use n", config=tmp_path) == ("words", ["none"])
    assert kind_and_words("kcli topic list -P prod", shell="fish", config=tmp_path) == ("words", ["prod\tp:9"])


def test_zsh_and_fish_get_descriptions() -> None:
    assert kind_and_words("kcli top", shell="zsh")[1] == [f"topic:{GROUPS['topic']}"]
    assert kind_and_words("kcli top", shell="fish")[1] == [f"topic\t{GROUPS['topic']}"]
    assert kind_and_words("kcli topic list --output=js", shell="fish")[1] == ["--output=json\t", "--output=jsonl\t"]


HOSTILE = ["$(reboot)", "a b", "x;y", "-rf", "`id`", "it's", 'say "hi"', "back\\slash", "glob*", "a:b", "two\nlines"]


def test_names_are_inserted_as_text_in_bash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_names, "cluster_names", lambda *_: HOSTILE)
    assert kind_and_words("kcli group describe ")[1] == [
        *(
            r"\$\(reboot\)",
            r"a\ b",
            r"x\;y",
            r"\`id\`",
            r"it\'s",
            r"say\ \"hi\"",
            r"back\\slash",
            r"glob\*",
            "a:b",
        )
    ]
    assert kind_and_words("kcli group describe 'a")[1] == ["a b", "a:b"]
    assert kind_and_words('kcli group describe "')[1] == ["a b", "x;y", "it's", "glob*", "a:b"]
    assert kind_and_words("kcli group describe a:")[1] == []


def test_colons_are_escaped_for_zsh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_names, "cluster_names", lambda *_: HOSTILE)
    assert r"a\:b" in kind_and_words("kcli group describe ", shell="zsh")[1]
    assert r"back\\slash" in kind_and_words("kcli group describe ", shell="zsh")[1]


@pytest.mark.parametrize("line", ["", "kcli", "x"])
def test_a_line_without_a_word_to_complete_has_no_answer(line: str) -> None:
    assert reply("bash", line, {}) == ""
    assert reply("fish", line + "\0", {}) == ""
