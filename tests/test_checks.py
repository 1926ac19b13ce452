"""The linters as tests: lint, format, and strict types of the package."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.real_kafka import cache_directory, locked

ROOT = Path(__file__).parent.parent
CHECKS = [
    pytest.param(("mypy", "--strict", "kcli"), marks=pytest.mark.slow),
    ("ruff", "check", "kcli", "tests"),
    ("ruff", "format", "--check", "kcli", "tests"),
]


def run(tool: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a linter. Only one mypy runs at a time, with a cache that all checkouts share."""
    kept = cache_directory() / "mypy"
    kept.mkdir(parents=True, exist_ok=True)
    cached = ("--cache-dir", str(kept)) if tool == "mypy" else ()
    with locked(kept / "lock") if cached else nullcontext():
        return subprocess.run(
            [sys.executable, "-m", tool, *words, *cached], cwd=ROOT, capture_output=True, text=True, timeout=600
        )


@pytest.mark.parametrize("check", CHECKS, ids=lambda words: " ".join(words[:2]))
def test_the_linter_reports_nothing(check: tuple[str, ...]) -> None:
    done = run(*check)
    assert done.returncode == 0, f"{' '.join(check)}:\n{done.stdout}{done.stderr}"
