"""The sections of the manual pages: examples that can be parsed, defaults, environment variables and files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kcli.cli import exit_status
from kcli.cli.app import report
from kcli.cli.command_table import COMMANDS
from kcli.cli.docs.examples import Example, examples
from kcli.cli.docs.tree import read_tree
from kcli.cli.parser import build_tree
from tests.cli.fake import FakeEnvironment

ROOT = Path(__file__).parents[3]
SECTIONS = ("NAME", "SYNOPSIS", "DESCRIPTION", "ARGUMENTS", "OPTIONS", "EXAMPLES", "ENVIRONMENT", "FILES")


def stored(*words: str, section: int = 1) -> str:
    page = (ROOT / "man" / f"{'-'.join(('kcli', *words))}.{section}").read_text(encoding="utf-8")
    return page.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "").replace("\\fI", "").replace("\\e", "\\")


@pytest.fixture(scope="module")
def tree() -> Any:
    return build_tree(FakeEnvironment(), report, whole=True)


ALL = [(words, example) for words in COMMANDS for example in examples().get(words, ())]


def test_every_command_has_an_example() -> None:
    """An example is a line of kcli/cli/docs/guide.md."""
    assert [" ".join(words) for words in COMMANDS if not examples().get(words)] == []


@pytest.mark.parametrize(("words", "example"), ALL, ids=lambda it: getattr(it, "line", None))
def test_an_example_is_a_valid_command_line(words: tuple[str, ...], example: Example, tree: Any) -> None:
    """tests/test_readme.py also runs the lines that need no more than a cluster."""
    command = tree
    for word in words:
        command = command.commands[word]
    given = example.words[len(words) if tuple(example.words[: len(words)]) == words else 1 :]
    command.make_context(" ".join(words), given)
    assert example.line in stored(*words)
    assert example.comment.lower() in stored(*words).lower()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_sections_of_a_page_are_in_their_order(words: tuple[str, ...]) -> None:
    found = [line[4:] for line in stored(*words).splitlines() if line.startswith(".SH ")]
    usual = (*SECTIONS, "EXIT STATUS", "SEE ALSO")
    assert found == [title for title in usual if title in found]
    assert {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "ENVIRONMENT", "EXIT STATUS"} <= set(found)


def test_the_default_of_an_option_is_on_its_page(tree: Any) -> None:
    texts = {(command.words, option.names): option.help for command in read_tree() for option in command.options}
    for (words, names), text in texts.items():
        command = tree
        for word in words:
            command = command.commands[word]
        found = [parameter for parameter in command.params if set(parameter.opts) <= set(names)]
        default = found[0].default if found else None
        if default not in (None, "", [], False) and not found[0].is_flag:
            assert text.endswith("]"), (words, names)


def test_a_page_has_the_variables_and_files_of_its_options() -> None:
    page = stored("topic", "list")
    for text in ("KCLI_BOOTSTRAP_SERVER", "KCLI_PROFILE", "~/.config/kcli/config.toml", "The same as --timeout."):
        assert text in page
    assert "~/.local/state/kcli/" not in page
    assert "~/.local/state/kcli/" in stored("offsets", "reset")
    assert "KCLI_BOOTSTRAP_SERVER" not in stored("broker", "run")
    assert "~/.cache/kcli/schemas/" in stored("schema", "list")


def test_the_page_of_kcli_has_all_statuses_variables_files_and_commands() -> None:
    page = stored()
    for status, text in exit_status.MEANINGS.items():
        assert f".TP\n{status}\n{text}" in page
    for name in (
        "KCLI_COMMAND_CONFIG",
        "NO_COLOR",
        "~/.cache/kcli/completion/",
        "~/.local/state/kcli/",
        ".SH EXAMPLES",
    ):
        assert name in page
    assert all(" ".join(words) in page for words in COMMANDS)


def test_troff_accepts_every_page() -> None:
    if shutil.which("groff") is None:
        pytest.skip("there is no `groff` on the PATH")
    pages = sorted(str(path) for path in (ROOT / "man").iterdir())
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-wall", "-Wbreak", "-z", *pages], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
