"""Every command line in the README and the guide is valid usage: without a broker, only the connection fails."""

from __future__ import annotations

import re
import shlex
from itertools import takewhile
from pathlib import Path

import pytest

from kcli.cli import exit_status
from tests.cli.fake import run_kcli

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "kcli" / "cli" / "docs" / "guide.md")
NOT_RUN = (["broker"], ["demo"], ["spark", "doctor"], ["offsets", "apply"])
"""These start a broker, use no broker, or read a file that another line writes."""


def command_lines() -> list[list[str]]:
    """Return the words of each line that begins with kcli, up to a pipe or a redirection."""
    blocks = re.findall(r"^```sh\n(.*?)^```", "\n".join(page.read_text() for page in PAGES), re.DOTALL | re.MULTILINE)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    ours = [[*takewhile(lambda word: word not in ("|", "<", ">"), line)] for line in lines if line[:1] == ["kcli"]]
    return [line[1:] for line in ours if not any(line[1 : 1 + len(start)] == start for start in NOT_RUN)]


@pytest.mark.parametrize("words", command_lines(), ids=" ".join)
def test_a_documented_command_line_is_valid(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    more = ["--dry-run"] if words[0] == "spark" else []
    done = run_kcli(*words, *more, "--bootstrap-server", "127.0.0.1:1", "--timeout", "0.05")
    without = (words[0], words[1]) == ("assignor", "show")
    assert done.status == (exit_status.DONE if without else exit_status.INCOMPLETE), done.err


def test_the_pages_have_command_lines() -> None:
    assert len(command_lines()) >= 50
