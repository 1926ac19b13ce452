"""Completion in bash, zsh and fish, each in a terminal. The script is loaded as the documentation says."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.cli.completion.scripts import FILES, SCRIPTS
from tests.cli.completion.terminal import COMMANDS, ShellTerminal, install_command
from tests.cli.fake import run_kcli
from tests.cli.loopback import LoopbackBroker, loopback_broker

WEIRD = "weird $(touch pwned);`touch pwned`&it's *"
HOME = """
[profile.prod]
bootstrap-servers = "{address}"
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[LoopbackBroker]:
    with loopback_broker(topics={"orders": 1, "payments": 1, "with.dots-and_more": 1, WEIRD: 1}) as broker:
        yield broker


@pytest.fixture(scope="module", params=list(COMMANDS))
def shell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, broker: LoopbackBroker
) -> Iterator[ShellTerminal]:
    home = tmp_path_factory.mktemp(request.param)
    (home / ".config" / "kcli").mkdir(parents=True)
    (home / ".config" / "kcli" / "config.toml").write_text(HOME.format(address=broker.address))
    (home / "plan one.json").touch()
    (home / "lake").mkdir()
    (home / "later").touch()
    with ShellTerminal(request.param, home, {"SERVER": broker.address}) as terminal:
        yield terminal


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("kcli prod", "kcli produce"),
        ("kcli topic desc", "kcli topic describe"),
        ("kcli topic list --comm", "kcli topic list --command-config"),
        ("kcli topic list -O jsonl --inter", "kcli topic list -O jsonl --internal"),
        ("kcli topic list --output cs", "kcli topic list --output csv"),
        ("kcli topic list --output=cs", "kcli topic list --output=csv"),
        ("kcli group list --state Empty,Stab", "kcli group list --state Empty,Stable"),
        ("kcli topic list -X isolation.level=read_c", "kcli topic list -X isolation.level=read_committed"),
        ("kcli topic list -P pr", "kcli topic list -P prod"),
        ("kcli topic list --command-config lat", "kcli topic list --command-config later"),
        ("kcli topic list --command-config=lat", "kcli topic list --command-config=later"),
        ("kcli topic list -X ssl.key", "kcli topic list -X ssl.key"),
        ("kcli topic list -X ssl.ca.location=x --prop", "kcli topic list -X ssl.ca.location=x --property"),
        ("kcli topic list -X ssl.truststore.location=lat", "kcli topic list -X ssl.truststore.location=later"),
        ("kcli spark export orders --to la", "kcli spark export orders --to lake"),
        ("kcli no-such-command x", "kcli no-such-command x"),
    ],
)
def test_a_line_is_completed(shell: ShellTerminal, typed: str, completed: str) -> None:
    words = shell.completed(typed)
    assert [word.rstrip("/") for word in words] == completed.split()  # zsh removes the slash before a space


def test_a_path_with_a_space_is_quoted(shell: ShellTerminal) -> None:
    assert shell.completed("kcli offsets apply pla") == ["kcli", "offsets", "apply", "plan one.json"]


def test_no_space_follows_the_name_of_a_property(shell: ShellTerminal) -> None:
    """The value can be typed, or completed, at once."""
    words = shell.completed("kcli topic list -X isolation.lev\tread_c")
    assert words == ["kcli", "topic", "list", "-X", "isolation.level=read_committed"]


@pytest.mark.parametrize("option", ["-b $SERVER", "--bootstrap-server=$SERVER", "-P prod"])
def test_topics_of_the_named_cluster_are_completed(shell: ShellTerminal, option: str) -> None:
    deadline = time.monotonic() + 20
    while (words := shell.completed(f"kcli topic describe {option} pay"))[-1] != "payments":
        assert time.monotonic() < deadline, words
    assert shell.completed(f"kcli consume {option} with.d")[-1] == "with.dots-and_more"


def test_a_name_of_a_hostile_cluster_is_text(shell: ShellTerminal, request: pytest.FixtureRequest) -> None:
    deadline = time.monotonic() + 20
    while (words := shell.completed("kcli topic describe -P prod weird"))[-1] == "weird":
        assert time.monotonic() < deadline
    assert words[-1] == WEIRD
    shell.run("test ! -e pwned && printf '%s%s' un touched")
    shell.wait_for("untouched")


def test_several_candidates_are_listed(shell: ShellTerminal) -> None:
    shell.forget()
    shell.send("kcli offsets \t\t")
    for name in ("apply", "copy", "undo"):
        shell.wait_for(rf"\b{name}\b")
    shell.send("\x03\x03")
    shell.run("true")


def test_a_password_is_not_asked_for(shell: ShellTerminal) -> None:
    properties = "-X security.protocol=SASL_PLAINTEXT -X sasl.username=me -X sasl.password=prompt"
    line = f"kcli topic describe -b 127.0.0.1:1 {properties} o"
    assert shell.completed(line) == line.split()
    assert "kcli: " not in shell.output


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_the_command_prints_the_stored_script(name: str) -> None:
    printed = run_kcli("completion", name)
    assert (printed.status, printed.err) == (0, "")
    stored = Path(__file__).parents[3] / "completions" / FILES[name]
    assert printed.text == stored.read_text()


def test_another_shell_is_refused() -> None:
    done = run_kcli("completion", "tcsh")
    assert done.status == 2
    assert "'tcsh' is not valid; use bash, zsh or fish" in done.err


def test_the_script_of_zsh_works_from_a_folder_of_functions(tmp_path: Path) -> None:
    """As an installed package has it: zsh loads the file at the first completion."""
    functions = tmp_path / "site-functions"
    functions.mkdir()
    (functions / "_kcli").write_text(SCRIPTS["zsh"])
    with ShellTerminal(
        "zsh", tmp_path, load=f"fpath=({functions} $fpath); autoload -Uz compinit; compinit -u"
    ) as shell:
        assert shell.completed("kcli topic desc") == ["kcli", "topic", "describe"]
        assert shell.completed("kcli topic crea") == ["kcli", "topic", "create"]


def test_a_path_to_the_program_is_used(tmp_path: Path) -> None:
    """bash completes by the last part of the path, and asks the program that the line starts."""
    with ShellTerminal("bash", tmp_path) as shell:
        (tmp_path / "other").mkdir()
        other = install_command(tmp_path / "other")
        other.write_text("#!/bin/sh\necho words\necho from-the-other\n")
        assert shell.completed("other/kcli f") == ["other/kcli", "from-the-other"]
        assert shell.completed("~/other/kcli f")[1] == "from-the-other"
        assert shell.completed("kcli prod") == ["kcli", "produce"]


@pytest.mark.parametrize(("name", "check"), [("bash", "bash -n"), ("zsh", "zsh -n"), ("fish", "fish --no-execute")])
def test_the_shell_can_parse_its_script(name: str, check: str) -> None:
    script = Path(__file__).parents[3] / "completions" / FILES[name]
    try:
        done = subprocess.run([*check.split(), str(script)], capture_output=True, text=True, timeout=20)
    except FileNotFoundError:
        pytest.skip(f"there is no `{name}` on the PATH")
    assert (done.returncode, done.stderr) == (0, "")
    assert not re.search(r"[^\x00-\x7f]", script.read_text())
