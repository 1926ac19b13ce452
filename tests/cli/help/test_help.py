"""`kcli help`: pages by their names, with `man` on a terminal, and as plain text elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kcli.cli.command_table import COMMANDS, GROUPS
from tests.cli.fake import run_kcli

ROOT = Path(__file__).parents[3]


def words_of(page: str) -> list[str]:
    """Return the words of a stored page without the requests and fonts of troff."""
    text = (ROOT / "man" / page).read_text(encoding="utf-8")
    text = re.sub(r'^\.TH "(.*?)" "(.)".*', r"\1(\2)", re.sub(r"\\f[BIR]|\\&", "", text))
    text = re.sub(r"^\.(SH )?(?:(?:PP|TP|nf|fi|ft|nh|RS|RE)\b.*)?", "", text, flags=re.MULTILINE)
    return text.replace("\\-", "-").replace("\\e", "\\").split()


@pytest.mark.parametrize("topic", ["consume topic", "consume", "consume-topic", "kcli-consume-topic", "kcli consume"])
def test_a_command_has_several_names(topic: str) -> None:
    shown = run_kcli("help", *topic.split())
    assert (shown.status, shown.err) == (0, "")
    assert shown.text.split() == words_of("kcli-consume-topic.1")
    assert run_kcli("help", topic).text == shown.text


@pytest.mark.parametrize(
    ("topic", "page"),
    [
        ("", "kcli.1"),
        ("kcli", "kcli.1"),
        ("kcli.1", "kcli.1"),
        ("configuration", "kcli-configuration.7"),
        ("group remove-members", "kcli-group-remove-members.1"),
        ("demo", "kcli-demo.1"),
    ],
)
def test_a_page_is_the_stored_one(topic: str, page: str) -> None:
    assert run_kcli("help", *topic.split()).text.split() == words_of(page)


@pytest.mark.parametrize("name", [name for name in GROUPS if name != "consume"])
def test_a_family_has_a_page_with_its_commands(name: str) -> None:
    shown = run_kcli("help", name).text
    for words, summary in COMMANDS.items():
        assert (" ".join(words) in shown and summary in shown) or words[0] != name


@pytest.mark.parametrize("name", ["guide", "library"])
def test_a_handwritten_page_is_a_topic(name: str) -> None:
    assert run_kcli("help", name).text == (ROOT / "kcli" / "cli" / "docs" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("topic", "hint"),
    [
        ("topic lst", "did you mean 'kcli help topic list'?"),
        ("guid", "did you mean 'kcli help guide'?"),
        ("zzzzz", "see 'kcli help'"),
    ],
)
def test_an_unknown_topic_is_refused(topic: str, hint: str) -> None:
    done = run_kcli("help", *topic.split())
    assert (done.status, done.out) == (2, b"")
    assert f"there is no page for '{topic}'; {hint}" in done.err


@pytest.mark.parametrize(
    ("topic", "found"),
    [
        ("lag", ["group describe", "group lag", "group metrics", "group watch", "spark lag-history", "spark sql"]),
        ("Offset", ["spark gaps", "offsets reset", "topic truncate", "spark group-offsets", "offsets"]),
        ("undo offsets", ["offsets", "offsets undo"]),
        ("passwords", ["configuration"]),
        ("symptom", ["guide"]),
        ("migration", ["library"]),
    ],
)
def test_words_are_searched_in_titles_and_summaries(topic: str, found: list[str]) -> None:
    shown = run_kcli("help", *topic.split())
    assert (shown.status, shown.err) == (0, "")
    lines = [line.removeprefix("kcli help ").split("  ")[0] for line in shown.text.splitlines()]
    assert set(found) <= set(lines)
    summaries = {" ".join(words): summary for words, summary in COMMANDS.items()}
    for name, line in zip(lines, shown.text.splitlines(), strict=True):
        assert run_kcli("help", *name.split()).status == 0
        assert line.endswith(summaries.get(name, ""))


@pytest.mark.parametrize("status", [0, 3])
def test_man_shows_the_page_on_a_terminal(tmp_path: Path, status: int) -> None:
    program = tmp_path / "man"
    program.write_text(f'#!/bin/sh\ncp "$1" {tmp_path}/shown; echo "$1" >{tmp_path}/path; exit {status}\n')
    program.chmod(0o755)
    done = run_kcli("help", "topic", "list", terminal=True, environ={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert (done.status, done.out) == (min(status, 1), b"")
    assert (tmp_path / "shown").read_text() == (ROOT / "man" / "kcli-topic-list.1").read_text()
    path = Path((tmp_path / "path").read_text().strip())
    assert path.name == "kcli-topic-list.1"
    assert not path.exists()


def test_without_man_a_terminal_gets_plain_text(tmp_path: Path) -> None:
    shown = run_kcli("help", "topic", "list", terminal=True, environ={"PATH": str(tmp_path)})
    assert shown.status == 0
    assert "kcli-topic-list - List topics." in shown.text


def test_plain_text_fits_the_width() -> None:
    shown = run_kcli("help", "configuration", environ={"COLUMNS": "60"}).text
    long = [line for line in shown.splitlines() if len(line) > 60]
    assert [line for line in long if " " in line.strip() and not line.startswith(" " * 7)] == []
    assert "\\" not in run_kcli("help", "topic", "list").text
