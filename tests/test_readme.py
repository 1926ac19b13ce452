"""The pages for people: each command line is valid usage, and all paths and names exist.

A command line runs without a broker: only the connection fails.
"""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

import pytest

from kcli import __version__
from kcli.cli import exit_status
from kcli.cli.output import json
from tests.certificates import Certificates
from tests.cli.fake import run_kcli
from tests.needs import needs_kerberos_library, needs_package
from tests.snippets import PAGES

ROOT = Path(__file__).parents[1]
CHANGELOG = ROOT / "CHANGELOG.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
BENCH = ROOT / "tests" / "bench" / "README.md"
NOT_RUN = (
    ["broker"],
    ["demo"],
    ["group", "metrics"],
    ["spark", "archive"],
    ["spark", "compact"],
    ["spark", "doctor"],
    ["offsets", "apply"],
    ["compat"],
)
"""These start a server, use no broker, or read a file that another line writes."""
PACKAGES = {
    "jq": {"--where", "--select"},
    "google.protobuf": {"value=protobuf"},
}
NO_CLUSTER = (
    ["profile", "list"],
    ["profile", "use"],
    *(["help", *more] for more in (["consume"], ["lag"], [])),
    ["completion", "bash"],
)


def command_lines() -> list[list[str]]:
    """Return the words of each line that begins with kcli, up to a pipe or a redirection."""
    blocks = re.findall(r"^```sh\n(.*?)^```", "\n".join(page.read_text() for page in PAGES), re.DOTALL | re.MULTILINE)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    ours = [[*takewhile(lambda word: word not in ("|", "<", ">"), line)] for line in lines if line[:1] == ["kcli"]]
    return [line[1:] for line in ours if not any(line[1 : 1 + len(start)] == start for start in NOT_RUN)]


@pytest.mark.parametrize("words", command_lines(), ids=" ".join)
def test_a_documented_command_line_is_valid(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificates: Certificates
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "kcli").mkdir()
    (tmp_path / "kcli" / "config.toml").write_text("[profile.prod]")
    (tmp_path / "orders.avsc").write_text('"string"')
    (tmp_path / "order.proto").write_text('syntax = "proto3"; package shop; message Order { int64 id = 1; }')
    (tmp_path / "client.properties").write_text("security.protocol=PLAINTEXT\n")
    shutil.copy(certificates.authority(), tmp_path / "ca.pem")
    if "sasl.mechanism=GSSAPI" in words:
        needs_kerberos_library()
    for package, marks in PACKAGES.items():
        if marks & set(words):
            needs_package(package)
    more = ["--dry-run"] if words[0] == "spark" else []
    connecting = ["--bootstrap-server", "127.0.0.1:1", "--timeout", "0.05"] if words[:2] not in NO_CLUSTER else []
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "PASSWORD": "x", "KCLI_SCHEMA_REGISTRY": "http://127.0.0.1:1"}
    done = run_kcli(*words, *more, *connecting, environ=environ)
    without = words[:2] in (["assignor", "show"], ["profile", "show"], *NO_CLUSTER)
    assert done.status == (exit_status.DONE if without else exit_status.INCOMPLETE), done.err


def test_the_pages_have_command_lines() -> None:
    assert len(command_lines()) >= 50


def marked(page: Path) -> list[str]:
    """Return the code and the links of a page's text; placeholders such as <command> become patterns."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    found = re.findall(r"`([^`]+)`|\]\(([^)]+)\)", text)
    return [re.sub(r"<\w+>", "*", code or link) for code, link in found]


@pytest.mark.parametrize("page", [*PAGES, CONTRIBUTING], ids=lambda page: page.name)
def test_paths_exist(page: Path) -> None:
    paths = [word for word in marked(page) if re.fullmatch(r"(\.?[\w*-]+/)+[\w.*-]*|[\w-]+\.(md|py)", word)]
    assert [path for path in paths if not any(ROOT.glob(path)) and not any(ROOT.glob(f"*/**/{path}"))] == []
    assert paths


@pytest.mark.slow
@pytest.mark.parametrize("module", sorted({*re.findall(r"tests\.bench\.[a-z]\w+", BENCH.read_text("utf-8"))}))
def test_each_program_of_the_measurements_shows_its_options(module: str) -> None:
    process = subprocess.run([sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith("usage: ")


def test_names_in_the_recipes_exist() -> None:
    words = marked(CONTRIBUTING)
    files = [path for folder in ("kcli", "tests") for path in (ROOT / folder).rglob("*.py")]
    code = {word for path in files for word in re.findall(r"\w+", path.read_text())}
    names = {word for word in words if re.fullmatch(r"[A-Za-z_]\w+", word)}
    assert names <= code
    assert len(names) >= 40
    for word in {word for word in words if re.fullmatch(r"kcli(\.\w+)+", word)}:
        module, _, name = word.rpartition(".")
        assert hasattr(importlib.import_module(module), name) or find_spec(word), word


def test_the_contracts_are_those_of_the_changelog() -> None:
    """A change of these numbers breaks scripts: it needs a line in CHANGELOG.md, and a new version of the document."""
    text = CHANGELOG.read_text("utf-8")
    assert f"\n## {__version__} (" in text
    assert json.VERSION == 1
    assert '`"kcli": 1`' in text
    assert tuple(exit_status.MEANINGS) == (0, 1, 2, 3, 4, 5, 6, 130)


def test_no_text_installs_the_other_program_of_this_name() -> None:
    """On PyPI, `kcli` is a manager of virtual machines; this distribution is `kcli-kafka`."""
    suffixes = {".py", ".md", ".toml", ".1", ".7", ".fish", ".bash", ""}
    folders = ("kcli", "tests", "man", "completions", ".ci")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    files += [*ROOT.glob("*.md"), *ROOT.glob("*.toml")]
    texts = {str(path): path.read_text().replace(r"\-", "-") for path in files if path.is_file()}  # man pages: \-
    wrong = re.compile(r"pip3? install (?:-\S+ )*['\"]?kcli(?!-kafka)|\"kcli\[")
    assert [path for path, text in texts.items() if wrong.search(text)] == []
    assert 'name = "kcli-kafka"' in texts[str(ROOT / "pyproject.toml")]
