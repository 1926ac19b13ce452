"""Spark's own Kafka connector for tests: the four jars of spark-sql-kafka-0-10, downloaded once by Maven.

The jar names have the releases: if the Maven repository does not have those of the installed Spark, older ones are
used, which were tried with it. Benchmarks that compare with the connector print `releases()`.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from tests.real_kafka import COPY_JARS, cache_directory, locked

CONNECTOR, TOKENS = "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"
# The jars that pip's Spark does not have; the connector's other requirements are among its jars.
JARS = (CONNECTOR, TOKENS, "kafka-clients", "commons-pool2")

# A Maven repository that the connector's project file names first, and that many machines cannot reach.
_UNREACHED = "gcs-maven-central-mirror"
# Maven's messages for a missing file: after a request, and cached.
_ABSENT = ("Could not find artifact", "was not found in")


class ConnectorUnavailable(Exception):
    """The connector is not available on this machine; the text names the missing part."""


class _NotThere(ConnectorUnavailable):
    """The Maven repository answers, but does not have the file."""


class Release(NamedTuple):
    """Releases of the connector and of its token provider (required to load it; not used by the tests)."""

    connector: str
    tokens: str


# Seen 2026-11-21: a Central whose newest connector is 4.2.0, and whose newest token provider is a preview of 4.1.0.
# Both work with Spark 4.3.0: batch, stream, includeHeaders.
OLDER = Release("4.2.0", "4.1.0-preview1")


def connector_jars() -> list[Path]:
    """Return the connector with its requirements: of the installed pyspark's version, otherwise OLDER. Safe between
    processes.
    """
    if shutil.which("java") is None:
        raise ConnectorUnavailable("no Spark connector: there is no `java` (17 or newer) on the PATH")
    try:
        spark = version("pyspark")
    except PackageNotFoundError as error:
        raise ConnectorUnavailable("no Spark connector: pyspark is not installed") from error
    folder = cache_directory() / f"spark-connector-{spark}"
    if not folder.is_dir():
        _fill(folder, [Release(spark, spark), OLDER])
    return [_the_one(folder, name) for name in JARS]


def releases(jars: list[Path]) -> str:
    """Return the names of the jars with versions."""
    return ", ".join(jar.stem for jar in jars)


def _fill(folder: Path, choices: list[Release]) -> None:
    if shutil.which("mvn") is None:
        raise ConnectorUnavailable(f"no Spark connector: {folder} is empty and there is no `mvn` to fill it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / f"{folder.name}.lock"):
        for choice in choices:
            if folder.is_dir():
                return
            try:
                _download(folder, choice)
            except _NotThere:
                if choice == choices[-1]:
                    raise


def _download(folder: Path, release: Release) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as scratch:
        project = Path(scratch, "pom.xml")
        project.write_text(_pom(release))
        jars = Path(scratch, "jars")
        command = [*COPY_JARS, "-Dstyle.color=never", "-f", str(project)]
        command += [f"-DincludeArtifactIds={','.join(JARS)}", f"-DoutputDirectory={jars}"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            message = done.stdout + done.stderr
            kind = _NotThere if any(words in message for words in _ABSENT) else ConnectorUnavailable
            words = message.strip().splitlines() or ["silence"]
            raise kind(f"no Spark connector: Maven could not fetch {release.connector}: {words[0]}")
        for name in JARS:
            _the_one(jars, name)
        jars.rename(folder)  # atomic


def _pom(release: Release) -> str:
    tokens = _coordinates(TOKENS, release.tokens)
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>kcli</groupId><artifactId>connector-for-tests</artifactId>"
        "<version>1</version><packaging>pom</packaging>"
        f"<repositories><repository><id>{_UNREACHED}</id><url>https://repo.maven.apache.org/maven2</url></repository>"
        f"</repositories><dependencyManagement><dependencies>{tokens}</dependencies></dependencyManagement>"
        f"<dependencies>{_coordinates(CONNECTOR, release.connector)}</dependencies></project>\n"
    )


def _coordinates(artifact: str, release: str) -> str:
    return (
        f"<dependency><groupId>org.apache.spark</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{release}</version></dependency>"
    )


def _the_one(folder: Path, name: str) -> Path:
    found = sorted(folder.glob(f"{name}-[0-9]*.jar"))
    if len(found) != 1:
        raise ConnectorUnavailable(f"no Spark connector: {folder} holds {len(found)} jars of {name}")
    return found[0]
