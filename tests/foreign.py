"""Foreign clients in environments of their own, fetched once into the test cache, under a lock.

A client that cannot be fetched skips the test with the reason; with CI=true it fails the test.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.needs import skip_or_fail
from tests.real_kafka import cache_directory, locked

SCRIPTS = Path(__file__).parent / "interop" / "clients" / "scripts"
FETCH_TIMEOUT_S = 600


class ForeignFailure(AssertionError):
    """A foreign client ended with an error; the text holds its output."""


def python_with(*requirements: str) -> Path:
    """Return the interpreter of a virtual environment with exactly these packages, each pinned: `name==version`."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache_directory() / f"python-{version}-{'-'.join(sorted(requirements)).replace('==', '-')}"
    interpreter = folder / "bin" / "python"
    with _created_once(folder) as missing:
        if missing or not _succeeds([str(interpreter), "-c", ""]):
            shutil.rmtree(folder, ignore_errors=True)
            _fetch([sys.executable, "-m", "venv", str(folder)])
            _fetch([str(interpreter), "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements])
    return interpreter


def node_with(*packages: str) -> Path:
    """Return a `node_modules` folder with these npm packages, each pinned: `name@version`."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            skip_or_fail(f"there is no `{program}` on the PATH")
    folder = cache_directory() / f"node-{'-'.join(sorted(packages)).replace('@', '-')}"
    with _created_once(folder) as missing:
        if missing:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            _fetch(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *packages])
    return folder / "node_modules"


@contextlib.contextmanager
def _created_once(folder: Path) -> Iterator[bool]:
    """Lock the folder and yield whether it must be created; it counts as created when the body succeeds.

    A folder that could not be created is not tried again by this process.
    """
    if folder not in _failed:
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            with locked(folder.with_name(folder.name + ".lock")):
                complete = folder / "complete"
                yield not complete.exists()
                complete.touch()
            return
        except _FetchFailed as failure:
            _failed[folder] = str(failure)
    skip_or_fail(_failed[folder])


class _FetchFailed(Exception):
    """A client could not be fetched; the message gives the reason."""


# Folders that could not be created, with the reason. Many tests need the same one, and each would wait for the network.
_failed: dict[Path, str] = {}


def _fetch(command: list[str]) -> None:
    line = " ".join(command)
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise _FetchFailed(f"`{line}` did not end within {FETCH_TIMEOUT_S} s") from None
    if done.returncode != 0:
        output = (done.stderr + done.stdout).strip().splitlines()
        raise _FetchFailed(f"`{line}` failed: {output[-1] if output else 'no output'}")


def _succeeds(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=30).returncode == 0
    except OSError:
        return False


class Script:
    """A script of tests/interop/clients/scripts: it takes arguments and prints one JSON document."""

    def __init__(self, command: list[str], **environment: str) -> None:
        self._command = command
        self._environment = {**os.environ, **environment}

    def __call__(self, *arguments: object, timeout_s: float = 90) -> Any:
        """Run the script and return the JSON document in its last line of output. A failure raises `ForeignFailure`."""
        command = [*self._command, *map(str, arguments)]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, env=self._environment, timeout=timeout_s
            )
        except subprocess.TimeoutExpired as expired:
            output = (expired.stderr or b"").decode(errors="replace")
            raise ForeignFailure(f"{' '.join(command)} did not end within {timeout_s} s:\n{output[-4000:]}") from None
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if done.returncode != 0:
            raise ForeignFailure(f"{' '.join(command)} ended with {done.returncode}:\n{out[-2000:]}{err[-4000:]}")
        return json.loads(out.splitlines()[-1])


def python_script(name: str, *requirements: str) -> Script:
    """Return a Python script that runs with these packages."""
    return Script([str(python_with(*requirements)), str(SCRIPTS / name)])


def node_script(name: str, *packages: str) -> Script:
    """Return a JavaScript program that runs with these packages."""
    return Script(["node", str(SCRIPTS / name)], NODE_PATH=str(node_with(*packages)))


def go_program(name: str) -> Script:
    """Return a Go program of the scripts that prints one JSON document."""
    return Script([str(go_binary(name))])


def go_binary(name: str) -> Path:
    """Return a Go program of the scripts, built once with the modules of its go.sum.

    Without Go the test is skipped, with CI=true too: Debian's package is too old for the modules.
    """
    if shutil.which("go") is None:
        pytest.skip("there is no `go` on the PATH")
    source = SCRIPTS / name
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(source.iterdir()))).hexdigest()[:12]
    folder = cache_directory() / f"go-{name}-{digest}"
    with _created_once(folder) as missing:
        if missing:
            folder.mkdir(exist_ok=True)
            _fetch(["go", "build", "-C", str(source), "-o", str(folder / name), "."])
    return folder / name
