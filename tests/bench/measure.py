"""Wall time, CPU time and peak memory of a command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

LAUNCHER = (sys.executable, "-I", "-S", str(Path(__file__).parent.parent / "launcher.py"))


class Measured(NamedTuple):
    """Seconds of wall clock, seconds of user plus system CPU, and peak resident memory in MB (10^6 bytes)."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def measure(command: list[str], output: Path, folder: Path, stdin: Path = Path(os.devnull)) -> Measured:
    """Run the command in `folder` with stdout to `output`; a failing command ends the bench with its output."""
    errors, costs = output.with_suffix(".stderr"), output.with_suffix(".costs")
    with stdin.open("rb") as given, output.open("wb") as stdout, errors.open("wb") as stderr:
        launched = [*LAUNCHER, str(costs), *command]
        done = subprocess.run(launched, stdin=given, stdout=stdout, stderr=stderr, cwd=folder)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{errors.read_text()[-2000:]}")
    wall, cpu, peak_kib = map(float, costs.read_text().split())
    return Measured(wall, cpu, peak_kib * 1024 / 1e6)
