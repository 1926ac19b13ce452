"""mypy knows the constructors and attributes of messages."""

import subprocess
import sys
from pathlib import Path


def test_mypy_takes_right_uses_and_finds_wrong_ones() -> None:
    file = Path(__file__).with_name("typed_use.py")
    command = [sys.executable, "-m", "mypy", "--strict", str(file)]

    done = subprocess.run(command, cwd=file.parents[2], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout
