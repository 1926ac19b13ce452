"""Java programs of the tests, compiled once against Kafka's jars and kept in the test cache."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import zipfile
from pathlib import Path

from tests.needs import skip_or_fail
from tests.real_kafka import cache_directory, locked


def compiled(source: Path, jars: Path, *more: Path) -> Path:
    """Return the folder with the classes of one Java file; it depends on the file's content and Kafka's version.

    `more` are folders with other jars that it needs.
    """
    if shutil.which("javac") is None:
        skip_or_fail("there is no `javac` on the PATH")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    folder = cache_directory() / f"java-{jars.name}-{source.stem}-{digest}"
    with locked(folder.with_name(f"java-{source.stem}.lock")):
        if not folder.exists():
            scratch = folder.with_name(folder.name + ".new")
            shutil.rmtree(scratch, ignore_errors=True)
            path = ":".join(f"{folder}/*" for folder in (jars, *more))
            command = ["javac", "-proc:none", "-Xlint:all,-processing", "-cp", path, "-d", str(scratch)]
            done = subprocess.run([*command, str(source)], capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, f"{source.name} does not compile:\n{done.stdout}{done.stderr}"
            scratch.rename(folder)  # atomic
    return folder


def packed(source: Path, jars: Path) -> Path:
    """Return the classes as a jar: a class-data archive holds only classes from jars."""
    folder = compiled(source, jars)
    jar = folder.with_name(f"{folder.name}.jar")
    with locked(folder.with_name(f"java-{source.stem}.lock")):
        if not jar.exists():
            fresh = folder.with_name(f"{folder.name}.new-jar")
            with zipfile.ZipFile(fresh, "w") as archive:
                for file in sorted(folder.rglob("*.class")):
                    archive.write(file, file.relative_to(folder))
            fresh.rename(jar)
    return jar
