"""The distribution: sdist and wheel, an installation with manual pages and completions, and a single file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from kcli import __version__
from kcli.cli.completion.scripts import FILES, SCRIPTS
from tests.needs import skip_or_fail

ROOT = Path(__file__).parents[1]
SOURCES = ("kcli", "man", "completions", "LICENSE", "MANIFEST.in", "README.md", "CONTRIBUTING.md")
COMPLETIONS = {
    "bash": "share/bash-completion/completions",
    "zsh": "share/zsh/site-functions",
    "fish": "share/fish/vendor_completions.d",
}

pytestmark = pytest.mark.slow


def needs_tool(name: str) -> None:
    """Skip the test, or fail it with CI=true, without this package, which runs in a process of its own."""
    if find_spec(name) is None:
        skip_or_fail(f"no package {name}; install kcli-kafka[test]")


def run(*command: str | Path, **environ: str) -> str:
    """Run a program outside the repository, without the variables of Python and kcli, and return its output."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KCLI_", "PIP_"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd="/",
        env={**inherited, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Distribution:
    """The sdist, and the wheel that is built from it, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sdist = folder / f"kcli_kafka-{__version__}.tar.gz"
        self.wheel = folder / f"kcli_kafka-{__version__}-py3-none-any.whl"


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    """Build from a copy, without the network: `build` makes the wheel from the sdist alone."""
    needs_tool("build")
    needs_tool("setuptools")
    if int(metadata.version("setuptools").partition(".")[0]) < 77:
        skip_or_fail("setuptools is older than 77")
    copy = tmp_path_factory.mktemp("source")
    for name in (*SOURCES, *(path.name for path in ROOT.glob("*.toml")), *(path.name for path in ROOT.glob("*.py"))):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy)
    (copy / "tests").mkdir()
    (copy / "tests" / "needs.py").touch()
    built = Distribution(tmp_path_factory.mktemp("dist"))
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", built.folder, copy)
    return built


@pytest.fixture(scope="module")
def installed(distribution: Distribution, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment with the wheel. It takes the dependencies from the environment of the tests."""
    needs_tool("pip")
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    (site_packages,) = folder.glob("lib/python*/site-packages")
    dependencies = Path(metadata.distribution("typer").locate_file(""))
    (site_packages / "dependencies.pth").write_text(f"{dependencies}\n")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "--python", python)
    run(*pip, "install", "--no-deps", "--no-index", "--no-compile", "--ignore-installed", distribution.wheel)
    return folder


def test_the_index_would_accept_the_files(distribution: Distribution) -> None:
    needs_tool("twine")
    run(sys.executable, "-m", "twine", "check", "--strict", distribution.sdist, distribution.wheel)


def test_the_wheel_has_all_modules_and_data(distribution: Distribution) -> None:
    with zipfile.ZipFile(distribution.wheel) as wheel:
        names = set(wheel.namelist())
        description = wheel.read(f"kcli_kafka-{__version__}.dist-info/METADATA").decode()
    ours = {path for path in (ROOT / "kcli").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path.relative_to(ROOT).as_posix() for path in ours} <= names
    assert not [name for name in names if "tests" in Path(name).parts]
    assert "License-Expression: Apache-2.0" in description
    for shell, folder in COMPLETIONS.items():
        assert f"kcli_kafka-{__version__}.data/data/{folder}/{FILES[shell]}" in names


def test_the_sdist_has_what_a_packager_needs(distribution: Distribution) -> None:
    with tarfile.open(distribution.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"LICENSE", "README.md", "CONTRIBUTING.md", "pyproject.toml", "tests/needs.py", "man/kcli.1"} <= names


def test_an_installation_has_manual_pages_and_completions(installed: Path) -> None:
    pages = {path.name for path in (installed / "share" / "man").rglob("*.[17]")}
    assert pages == {path.name for path in (ROOT / "man").iterdir()}
    for shell, folder in COMPLETIONS.items():
        assert (installed / folder / FILES[shell]).read_text() == SCRIPTS[shell]


def test_the_installed_program_runs(installed: Path) -> None:
    assert run(installed / "bin" / "kcli", "--version") == f"kcli {__version__}\n"
    assert "kcli-consume-topic - Read a range" in run(installed / "bin" / "kcli", "help", "consume")
    for page, title in (("guide", "# Guide\n"), ("library", "# The library\n")):
        assert run(installed / "bin" / "kcli", "help", page).startswith(title)
    where = run(installed / "bin" / "python", "-c", "import kcli; print(kcli.__file__)")
    assert where.startswith(str(installed))


@pytest.mark.parametrize("found_by", ["PATH", "MANPATH"])
def test_man_finds_the_pages_of_an_installation(installed: Path, found_by: str) -> None:
    if shutil.which("man") is None:
        skip_or_fail("there is no `man` on the PATH")
    environ = {"MANPAGER": "cat", "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]}
    if found_by == "PATH":
        environ["PATH"] = f"{installed / 'bin'}:{environ['PATH']}"
    else:
        environ["MANPATH"] = f"{installed / 'share' / 'man'}:"
    page = " ".join(re.sub(r".\x08", "", run("man", "kcli-consume-topic", **environ)).split())
    assert "kcli-consume-topic - Read a range of a topic" in page
    assert "EXAMPLES" in page
    assert "sasl.jaas.config" in run("man", "7", "kcli-configuration", **environ)


def with_their_requirements(lines: Iterable[str]) -> dict[str, metadata.Distribution]:
    """Return the installed distributions that these lines of requirements name, and those that they need, by name."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(lines)
    while waiting:
        line = waiting.pop()
        needed = re.match(r"[\w.-]+", line)
        if needed is None or "extra ==" in line or needed[0] in found:
            continue
        try:
            found[needed[0]] = metadata.distribution(needed[0])
        except metadata.PackageNotFoundError:  # needed on other systems
            continue
        waiting += found[needed[0]].requires or ()
    return found


def test_a_single_file_runs_the_demo(distribution: Distribution, tmp_path: Path) -> None:
    """The guide's command, with dependencies from the environment of the tests instead of an index."""
    needs_tool("shiv")
    site_packages = tmp_path / "site-packages"
    with zipfile.ZipFile(distribution.wheel) as wheel:
        described = wheel.read(f"kcli_kafka-{__version__}.dist-info/METADATA").decode()
    for needed in with_their_requirements(re.findall(r"^Requires-Dist: (.*)", described, re.MULTILINE)).values():
        for file in needed.files or ():
            if ".." not in file.parts and not {"tests", "__pycache__"} & set(file.parts):
                target = site_packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(needed.locate_file(file))
    single = tmp_path / "kcli.pyz"
    offline = ("--no-deps", "--no-index", distribution.wheel)
    run(
        *(sys.executable, "-m", "shiv", "-q", "-c", "kcli", "-E", "-o", single, "--uncompressed"),
        *("--site-packages", site_packages, *offline),
    )
    shutil.rmtree(site_packages)
    home = {"HOME": str(tmp_path), "SHIV_ROOT": str(tmp_path / "shiv")}
    assert run(sys.executable, "-I", single, "--version", **home) == f"kcli {__version__}\n"
    shown = run(sys.executable, "-I", single, "demo", **home)
    assert "The demo is complete" in shown
    assert "$ kcli group lag --all" in shown
