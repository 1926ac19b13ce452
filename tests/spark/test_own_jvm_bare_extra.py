"""The extra `spark` alone brings everything that the Spark commands need, in a virtual environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.cli.command_table import COMMANDS
from tests.needs import skip_or_fail
from tests.real_kafka import OwnBroker
from tests.spark.groups import topic_with

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("java")]
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("every_command.py")


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The interpreter of a virtual environment made by `pip install '.[spark]'`; skipped if packages cannot be had."""
    folder = tmp_path_factory.mktemp("bare")
    source = folder / "source"  # the build writes into the source folder
    for name in ("kcli", "man", "completions"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "pyspark_kcli.py"):
        shutil.copy(ROOT / name, source)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=300)
    python = folder / "venv" / "bin" / "python"
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "-q",
        "--no-compile",
        "--disable-pip-version-check",
        f"{source}[spark]",
    ]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    done = subprocess.run(  # from the network
        install, stdin=nothing, stdout=nothing, stderr=pipe, text=True, env=environment(), timeout=600
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [""]
        skip_or_fail(f"pip could not install kcli with the extra spark: {lines[-1]}")
    yield python
    shutil.rmtree(folder)  # 900 MB


def environment() -> dict[str, str]:
    """Return this environment without paths to Python packages and settings of Spark."""
    own = ("PYTHON", "SPARK", "PYSPARK", "KCLI", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


def test_every_spark_command_runs_with_the_bare_extra(bare_python: Path, our_kafka: OwnBroker, tmp_path: Path) -> None:
    topic, other = topic_with(our_kafka, 30, 20), topic_with(our_kafka, 30, 20)
    done = subprocess.run(
        [str(bare_python), str(SCRIPT), our_kafka.bootstrap_servers, topic, other, str(tmp_path)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        env={**environment(), "XDG_CACHE_HOME": str(tmp_path)},
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    statuses = json.loads(done.stdout.splitlines()[-1])
    assert statuses == {path[1]: 0 for path in COMMANDS if path[0] == "spark"}, done.stderr[-4000:]
