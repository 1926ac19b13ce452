"""mypy infers the types of the clients for asyncio."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_checks import run


@pytest.mark.slow
def test_mypy_infers_results_and_finds_wrong_arguments() -> None:
    done = run("mypy", "--strict", str(Path(__file__).with_name("typed_use.py")))

    assert done.returncode == 0, done.stdout
