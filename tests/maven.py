"""Jars and programs from Maven Central, fetched once into the test cache, under a lock."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.real_kafka import COPY_JARS, KafkaUnavailable, cache_directory, locked


def artifact(group: str, name: str, version: str, more: str = "", *, transitive: bool = True) -> str:
    """Return the dependency of a Maven project, `more` is XML inside it."""
    none = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"{more}{'' if transitive else none}</dependency>"
    )


def fetched(what: str, name: str, dependencies: str) -> Path:
    """Return the folder `name` of the cache with these dependencies, archives unpacked. Safe for concurrent processes.

    Raises KafkaUnavailable, which names `what`, without Java or Maven.
    """
    if shutil.which("java") is None:
        raise KafkaUnavailable(f"no {what}: there is no `java` (17 or newer) on the PATH")
    folder = cache_directory() / name
    if folder.is_dir():
        return folder
    if shutil.which("mvn") is None:
        raise KafkaUnavailable(f"no {what}: {folder} is empty and there is no `mvn` on the PATH to fill it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{name}.lock")):
        if not folder.is_dir():
            _download(what, dependencies, folder)
    return folder


def _download(what: str, dependencies: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as scratch:
        project, files = Path(scratch, "pom.xml"), Path(scratch, "files")
        project.write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>kcli</groupId><artifactId>for-tests</artifactId>"
            f"<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>\n"
        )
        command = [*COPY_JARS, "-f", str(project), f"-DoutputDirectory={files}"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        if done.returncode != 0 or not list(files.iterdir()):
            output = (done.stdout + done.stderr).strip().splitlines()
            raise KafkaUnavailable(f"no {what}: Maven failed: {output[0] if output else 'no output'}")
        for archive in files.glob("*.tar.gz"):
            with tarfile.open(archive) as members:
                members.extractall(files, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
            archive.unlink()
        files.rename(folder)  # atomic
