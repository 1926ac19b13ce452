"""The extra `spark` alone brings everything that the Spark commands need, in a virtual environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from kcli.cli.command_table import COMMANDS
from tests.needs import skip_or_fail
from tests.real_kafka import OwnBroker
from tests.spark.groups import topic_with
from tests.test_dependency_floors import PROJECT

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("java")]
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("every_command.py")


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment that has kcli and what `pip install '.[spark]'` would install."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=300)
    python = folder / "bin" / "python"
    [site] = folder.glob("lib/*/site-packages")
    for name in ("kcli", "pyspark_kcli.py"):
        (site / name).symlink_to(ROOT / name)
    for distribution in required_by_the_extra("spark"):
        for file in distribution.files or ():
            if ".." not in file.parts:
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                (site / file).symlink_to(file.locate())
    return python


def required_by_the_extra(extra: str) -> Iterable[Distribution]:
    """Return the installed distributions that kcli with this extra requires, and those that they require."""
    found: dict[str, Distribution] = {}
    given = PROJECT["project"]
    waiting = [Requirement(text) for text in given["dependencies"] + given["optional-dependencies"][extra]]
    known = set()
    while waiting:
        required = waiting.pop()
        if str(required) in known or (required.marker and not required.marker.evaluate()):
            continue
        known.add(str(required))
        found[required.name] = distribution = installed(required)
        for more in map(Requirement, distribution.requires or ()):
            if more.marker and any(more.marker.evaluate({"extra": name}) for name in required.extras):
                more.marker = None
            waiting.append(more)
    return found.values()


def installed(required: Requirement) -> Distribution:
    try:
        distribution = Distribution.from_name(required.name)
    except PackageNotFoundError:
        skip_or_fail(f"no package {required.name}; install kcli-kafka[spark]")
    assert required.specifier.contains(distribution.version), f"{required}, but {distribution.version} is installed"
    return distribution


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
