"""Find out before Spark does whether there is a Java that can run it. Source: Spark's overview page (4.x: Java 17+)."""

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
CURE = f"install a JRE of version {OLDEST} or newer, or let JAVA_HOME name one"


class Java(NamedTuple):
    """A Java: the program, and its version as it names it itself, like 17.0.15."""

    path: str
    version: str

    @property
    def major(self) -> int:
        return major_version(self.version)


def major_version(version: str) -> int:
    """17 for 17.0.15, 8 for 1.8.0_392, 0 for what is no version."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java(environ: Mapping[str, str]) -> str | None:
    """The `java` that Spark's launcher takes: JAVA_HOME's, else the one on the PATH."""
    home = environ.get("JAVA_HOME")
    if home:
        return os.path.join(home, "bin", "java")
    return shutil.which("java", path=environ.get("PATH"))


def check_java(environ: Mapping[str, str]) -> Java:
    """The Java that Spark will run on. `ConfigError`, with the cure, if there is none or it is too old."""
    path = find_java(environ)
    if path is None:
        raise ConfigError(f"Spark needs Java, and there is no `java` on the PATH: {CURE}")
    version = _released_version(path) or _asked_version(path)
    if version is None:
        where = "JAVA_HOME names" if environ.get("JAVA_HOME") else "there is"
        raise ConfigError(f"Spark needs Java, and {where} {path}, which cannot be run: {CURE}")
    java = Java(path, version)
    if java.major < OLDEST:
        raise ConfigError(f"Spark needs Java {OLDEST} or newer, and {path} is Java {version}: {CURE}")
    return java


def _released_version(path: str) -> str | None:
    """What the `release` file of an installation says: a fraction of the time that starting a JVM takes."""
    try:
        text = Path(path).resolve(strict=True).parent.parent.joinpath("release").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="?([^"\s]+)', text, re.MULTILINE)
    return found[1] if found else None


def _asked_version(path: str) -> str | None:
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return found[1] if found else None
