"""Archive of the classes that Spark's JVM loads (JEP 350), for later sessions of the same user.

With it a JVM maps classes instead of reading, checking and linking those of 300 jars: up to the end of the first job
it takes two thirds of the CPU time. The archive belongs to one installation of PySpark, one version of Java and one
class path; a JVM that it does not fit ignores it. Only `kcli spark doctor --class-archive` writes it: the JVM writes
170 MB at its end, which takes longer than a start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen

    from kcli.spark.deploy.java import Java

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_QUIET = "-Xlog:disable"  # otherwise a JVM with an unsuitable archive prints a warning on its standard output


def archive_path(home: Path, java: Java) -> Path:
    """Return the path of the archive of the Spark in `home`."""
    return home / f"classes-{java.version}.jsa"


def using_archive(home: Path | None, java: Java) -> dict[str, str]:
    """Return the settings that make a session use the archive. The result is empty if the archive does not exist."""
    if home is None:
        return {}
    archive = archive_path(home, java)
    return {JAVA_OPTIONS: f'"-XX:SharedArchiveFile={archive}" {_QUIET}'} if archive.is_file() else {}


class NewArchive:
    """An archive that the JVM of the next session writes when it ends. Then call `publish`."""

    def __init__(self, home: Path, java: Java) -> None:
        self.path = archive_path(home, java)
        self._fresh = self.path.with_suffix(f".{os.getpid()}")

    def settings(self, conf: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of the session: `conf`, and the Java option that writes the archive."""
        given = conf.get(JAVA_OPTIONS, "")
        return {**conf, JAVA_OPTIONS: f'{given} "-XX:ArchiveClassesAtExit={self._fresh}" {_QUIET}'.lstrip()}

    def publish(self, jvm: Popen[bytes] | None) -> bool:
        """Make later sessions use the archive, after `jvm` has ended; False, without an archive, if it did not write
        one or did not end by itself.
        """
        if jvm is None or jvm.returncode != 0 or not self._fresh.is_file():
            self._fresh.unlink(missing_ok=True)
            return False
        self._fresh.replace(self.path)
        return True
