"""Manual pages and completions: up to date with the commands, and valid for troff and shells."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kcli.cli.docs.__main__ import generated
from kcli.cli.docs.man import page
from kcli.cli.docs.tree import CommandDoc, OptionDoc, read_tree

ROOT = Path(__file__).parent.parent
ASK_BASH = """
source completions/kcli.bash
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_kcli
echo "${COMPREPLY[*]}"
"""


def test_the_stored_pages_and_completions_are_up_to_date() -> None:
    stored = {str(path.relative_to(ROOT)) for folder in ("man", "completions") for path in (ROOT / folder).iterdir()}
    assert stored == set(generated()), "run python -m kcli.cli.docs"
    for name, text in generated().items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, f"{name} is out of date: run python -m kcli.cli.docs"


def completed_by_bash(*words: str) -> list[str]:
    command = ["bash", "-c", ASK_BASH, "bash", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    assert not done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["kcli", "prod"], ["produce"]),
        (["kcli", "topic", "cr"], ["create"]),
        (["kcli", "topic", "list", "--out"], ["--output"]),
        (["kcli", "topic", "list", "--output", "j"], ["json", "jsonl"]),
        (["kcli", "consume", "topic", "orders", "--gre"], ["--grep"]),
        (["kcli", "consume", "orders", "--gre"], ["--grep"]),
        (["kcli", "consume", "orders", "--grep", ""], []),
    ],
)
def test_bash_completes(words: list[str], expected: list[str]) -> None:
    assert completed_by_bash(*words) == expected


@pytest.mark.parametrize("question", ["kcli topic list --output js", "kcli consume orders --isol"])
def test_fish_completes(question: str) -> None:
    if shutil.which("fish") is None:
        pytest.skip("there is no `fish` on the PATH")
    script = f"source completions/kcli.fish; complete -C '{question}'"
    done = subprocess.run(["fish", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    found = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert found == (["json", "jsonl"] if "output" in question else ["--isolation-level"])


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kcli").mkdir()
    (tmp_path / "kcli" / "config.toml").write_text(
        '# [profile.no]\n[profile.prod]\nx = "[profile.no]"\n[profile.prod.properties]\n  [profile.pre-1] # x\n'
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.mark.usefixtures("profiles")
@pytest.mark.parametrize("option", ["-P", "--profile"])
def test_bash_completes_the_names_of_profiles(option: str) -> None:
    assert completed_by_bash("kcli", "topic", "list", option, "p") == ["prod", "pre-1"]


@pytest.mark.usefixtures("profiles")
def test_fish_completes_the_names_of_profiles() -> None:
    if shutil.which("fish") is None:
        pytest.skip("there is no `fish` on the PATH")
    home = ["fish", "--no-config", "-c", "source completions/kcli.fish; complete -C 'kcli topic list -P p'"]
    done = subprocess.run(home, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    assert sorted(line.split("\t")[0] for line in done.stdout.splitlines()) == ["pre-1", "prod"]


@pytest.mark.usefixtures("profiles")
def test_bash_completes_no_profile_without_a_file(tmp_path: Path) -> None:
    (tmp_path / "kcli" / "config.toml").unlink()
    assert completed_by_bash("kcli", "topic", "list", "-P", "p") == []


def test_zsh_can_parse_its_script() -> None:
    if shutil.which("zsh") is None:
        pytest.skip("there is no `zsh` on the PATH")
    done = subprocess.run(["zsh", "-n", "completions/_kcli"], cwd=ROOT, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_has_a_page_with_every_option() -> None:
    for command in read_tree():
        text = (ROOT / "man" / f"kcli-{'-'.join(command.words)}.1").read_text()
        for option in command.options:
            assert all(rf"\fB{name.replace('-', chr(92) + '-')}\fR" in text for name in option.names)


def test_text_that_looks_like_a_troff_request_is_escaped() -> None:
    option = OptionDoc(("--null", "-Z"), "TEXT", "'quoted", repeatable=False)
    text = page(CommandDoc(("x",), "Does x.", ".hidden\n\nA back\\slash.", (), (option,)))
    assert r"\&.hidden" in text
    assert r"A back\eslash." in text
    assert r"\&'quoted" in text
