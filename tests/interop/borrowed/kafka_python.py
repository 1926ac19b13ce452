"""kafka-python's own integration suite, from its source distribution: fetched once, run on any broker.

The distribution lacks two modules that the suite imports; the needed parts of them are written beside it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests.real_kafka import cache_directory, locked

VERSION = "3.0.12"
# Without these the suite skips what needs them.
CODECS = ("python-snappy", "zstandard", "lz4")
MODULES = ("test_admin_integration", "test_consumer_integration", "test_producer_integration")

# A broker that runs already needs no starting, stopping or waiting.
SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self): ...
    def close(self): ...
    def dump_logs(self): ...
    def wait_for(self, pattern, timeout=30): ...


class SpawnedService: ...
"""


class SuiteUnavailable(Exception):
    """This machine cannot get the suite; the message gives the reason."""


class Outcome(NamedTuple):
    """`result` is passed, failed or skipped; `text` is the reason for the latter two."""

    result: str
    text: str


def fetch_suite() -> Path:
    """Return the folder of the unpacked distribution; pip fills it once. Safe for concurrent processes."""
    folder = cache_directory() / f"kafka-python-{VERSION}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                _pip("download", "--no-deps", "--no-binary", ":all:", "-d", scratch, f"kafka-python=={VERSION}")
                (archive,) = Path(scratch).glob("*.tar.gz")
                shutil.unpack_archive(archive, scratch)
                (source,) = (path for path in Path(scratch).iterdir() if path.is_dir())
                _pip("install", "--target", str(source / "codecs"), *CODECS)
                (source / "test" / "__init__.py").touch()
                (source / "test" / "service.py").write_text(SERVICE)
                source.rename(folder)
    return folder


def run_suite(
    address: str, version: str = "4.3.0", *, only: Iterable[str] = (), timeout_s: float = 500
) -> dict[str, Outcome]:
    """Return the outcome of each test (or of each in `only`) on the broker at `address`, by name with parameters."""
    folder = fetch_suite()
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--no-header"]
        command += ["-c", os.devnull, "--rootdir", str(folder), f"--junitxml={report}"]
        chosen = [name.replace("::", ".py::", 1) for name in only] or [f"{module}.py" for module in MODULES]
        command += [f"test/integration/{name}" for name in chosen]
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            "KAFKA_URI": f"kafka://{address}",
            "KAFKA_VERSION": version,
            "KAFKA_ROOT": scratch,
            "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'codecs'}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout_s)
        if not report.exists():
            raise AssertionError(f"the suite did not run:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return dict(_outcome(case) for case in ElementTree.parse(report).iter("testcase"))


def _outcome(case: ElementTree.Element) -> tuple[str, Outcome]:
    name = f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name')}"
    for child in case:
        if child.tag in ("failure", "error", "skipped"):
            result = "skipped" if child.tag == "skipped" else "failed"
            return name, Outcome(result, f"{child.get('message', '')}\n{child.text or ''}")
    return name, Outcome("passed", "")


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SuiteUnavailable(f"no suite of kafka-python: pip {arguments[0]} failed: {done.stderr.strip()[-300:]}")
