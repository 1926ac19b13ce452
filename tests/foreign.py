"""Clients that don't live in the tests' own environment: fetched once into the test cache, under a lock.

What cannot be had skips the test that asked, with the reason; with CI=true it is a failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.needs import lacking
from tests.real_kafka import cache_directory, locked

SCRIPTS = Path(__file__).parent / "interop" / "strangers" / "scripts"
FETCH_TIMEOUT_S = 300


class ForeignFailure(AssertionError):
    """A foreign client ended with an error; the text has its words."""


def python_with(*requirements: str) -> Path:
    """The interpreter of a virtual environment that has exactly these packages, each pinned: `name==version`."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache_directory() / f"python-{version}-{'-'.join(sorted(requirements)).replace('==', '-')}"
    interpreter = folder / "bin" / "python"
    with _made_once(folder) as make:
        if make or not _ends_well([str(interpreter), "-c", ""]):
            shutil.rmtree(folder, ignore_errors=True)
            _fetch([sys.executable, "-m", "venv", str(folder)])
            _fetch([str(interpreter), "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements])
    return interpreter


def node_with(*packages: str) -> Path:
    """A `node_modules` folder that has these npm packages, each pinned: `name@version`."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            lacking(f"there is no `{program}` on the PATH")
    folder = cache_directory() / f"node-{'-'.join(sorted(packages)).replace('@', '-')}"
    with _made_once(folder) as make:
        if make:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            _fetch(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *packages])
    return folder / "node_modules"


@contextlib.contextmanager
def _made_once(folder: Path) -> Iterator[bool]:
    """Whether the folder is still to be made, while nobody else makes it; it counts as made when the body ends well."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(folder.name + ".lock")):
        whole = folder / "whole"
        yield not whole.exists()
        whole.touch()


def _fetch(command: list[str]) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        words = (done.stderr + done.stdout).strip().splitlines()
        lacking(f"`{' '.join(command)}` failed: {words[-1] if words else 'silence'}")


def _ends_well(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=30).returncode == 0
    except OSError:
        return False


class Script:
    """A script of tests/interop/strangers/scripts: arguments in, one JSON document out."""

    def __init__(self, command: list[str], **environment: str) -> None:
        self._command = command
        self._environment = {**os.environ, **environment}

    def __call__(self, *arguments: object, timeout_s: float = 90) -> Any:
        """Run it to its end. Its last line of output is JSON, and returned; an error ends the test with its words."""
        command = [*self._command, *map(str, arguments)]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, env=self._environment, timeout=timeout_s
            )
        except subprocess.TimeoutExpired as hung:
            said = (hung.stderr or b"").decode(errors="replace")
            raise ForeignFailure(f"{' '.join(command)} hung for {timeout_s} s:\n{said[-4000:]}") from None
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if done.returncode != 0:
            raise ForeignFailure(f"{' '.join(command)} ended with {done.returncode}:\n{out[-2000:]}{err[-4000:]}")
        return json.loads(out.splitlines()[-1])


def python_script(name: str, *requirements: str) -> Script:
    """A Python script with these packages to import."""
    return Script([str(python_with(*requirements)), str(SCRIPTS / name)])


def node_script(name: str, *packages: str) -> Script:
    """A JavaScript program with these packages to require."""
    return Script(["node", str(SCRIPTS / name)], NODE_PATH=str(node_with(*packages)))
