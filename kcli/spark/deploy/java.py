"""Check for a Java that can run Spark, before Spark is started. Source: Spark's overview page (4.x: Java 17+)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kcli.errors import ConfigError

OLDEST = 17
CURE = f"install a JRE {OLDEST} or newer, or set JAVA_HOME to one"


class Java(NamedTuple):
    """A Java installation: path of the program, and its version, like 17.0.15."""

    path: str
    version: str

    @property
    def major(self) -> int:
        return major_version(self.version)


def major_version(version: str) -> int:
    """Return 17 for 17.0.15, 8 for 1.8.0_392, 0 for an invalid version."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java(environ: Mapping[str, str]) -> str | None:
    """Return the `java` that Spark's launcher runs: that of JAVA_HOME, otherwise the one on the PATH."""
    home = environ.get("JAVA_HOME")
    if home:
        return os.path.join(home, "bin", "java")
    return shutil.which("java", path=environ.get("PATH"))


def check_java(environ: Mapping[str, str]) -> Java:
    """Return the Java that Spark will run on. `ConfigError`, with the cure, if it is missing or too old."""
    path = find_java(environ)
    if path is None:
        raise ConfigError(f"Spark needs Java, but there is no `java` on the PATH: {CURE}")
    version = _release_file_version(path) or _printed_version(path)
    if version is None:
        origin = " of JAVA_HOME" if environ.get("JAVA_HOME") else ""
        raise ConfigError(f"Spark needs Java, but {path}{origin} cannot be run: {CURE}")
    java = Java(path, version)
    if java.major < OLDEST:
        raise ConfigError(f"Spark needs Java {OLDEST} or newer, but {path} is Java {version}: {CURE}")
    return java


def _release_file_version(path: str) -> str | None:
    """Return the version in the installation's `release` file: much faster than starting a JVM."""
    try:
        text = Path(path).resolve(strict=True).parent.parent.joinpath("release").read_text(errors="replace")
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="?([^"\s]+)', text, re.MULTILINE)
    return match[1] if match else None


def _printed_version(path: str) -> str | None:
    try:
        result = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', result.stderr + result.stdout)
    return match[1] if match else None
