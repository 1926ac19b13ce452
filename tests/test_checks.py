"""The linters are part of the test run: lint, format, and strict types of the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "check",
    [("ruff", "check", "kcli", "tests"), ("ruff", "format", "--check", "kcli", "tests"), ("mypy", "--strict", "kcli")],
    ids=lambda check: " ".join(check[:2]),
)
def test_nothing_to_complain_about(check: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-m", *check], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(check)}:\n{done.stdout}{done.stderr}"
