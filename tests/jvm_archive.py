"""Class-data archives (JEP 350): with them the tests' JVMs start in two thirds of the CPU time.

A training JVM writes the archive once, into the cache. The archive fits one version of Java and of the jars; a JVM
with another version runs without it. CPU time of Kafka 4.3.1, with and without: a broker until it answers 2.8 and
4.4 s, a tool 0.8 and 1.2 s.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path

QUIET = "-Xlog:disable"  # otherwise a JVM with an unsuitable archive prints a warning on its standard output


def archive_flags(archive: Path, train: Callable[[tuple[str, ...]], None]) -> tuple[str, ...]:
    """Return the JVM options for using `archive`; `train` runs a JVM with the options that write it."""
    with locked(archive.with_suffix(".lock")):
        if not archive.exists():
            fresh = archive.with_suffix(".new")
            train((f"-XX:ArchiveClassesAtExit={fresh}", QUIET))
            if not fresh.exists():
                return ()
            fresh.rename(archive)  # atomic
    return (f"-XX:SharedArchiveFile={archive}", QUIET)


@contextlib.contextmanager
def locked(path: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold a lock file between processes; the kernel frees it when its holder dies."""
    with path.open("w") as handle:
        fcntl.flock(handle, how)
        yield
