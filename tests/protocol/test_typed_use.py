"""mypy knows the constructors and attributes of messages."""

from pathlib import Path

import pytest

from tests.test_checks import run


@pytest.mark.slow
def test_mypy_accepts_valid_uses_and_rejects_invalid_ones() -> None:
    file = Path(__file__).with_name("typed_use.py")

    done = run("mypy", "--strict", str(file))

    assert done.returncode == 0, done.stdout
