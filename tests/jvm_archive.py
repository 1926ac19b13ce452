"""Archives of loaded classes (JEP 350), with which the tests' JVMs start in two thirds of the CPU time.

An archive is made once, in the cache, by a JVM that does what the others will do, and fits that version of Java and
those jars. A JVM whose archive does not fit goes on without it. CPU time of Kafka 4.3.1, with and without: a broker
until it answers 2.8 and 4.4 s, a tool 0.8 and 1.2 s.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path

QUIET = "-Xlog:disable"  # a JVM whose archive does not fit would say so on its standard output


def archive_flags(archive: Path, train: Callable[[tuple[str, ...]], None]) -> tuple[str, ...]:
    """The JVM options for using `archive`, which `train` has a JVM write at its end if given the options for that."""
    with locked(archive.with_suffix(".lock")):
        if not archive.exists():
            fresh = archive.with_suffix(".new")
            train((f"-XX:ArchiveClassesAtExit={fresh}", QUIET))
            if not fresh.exists():
                return ()
            fresh.rename(archive)  # whole or not at all
    return (f"-XX:SharedArchiveFile={archive}", QUIET)


@contextlib.contextmanager
def locked(path: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold a lock file among processes; the kernel frees it when its holder dies."""
    with path.open("w") as handle:
        fcntl.flock(handle, how)
        yield
