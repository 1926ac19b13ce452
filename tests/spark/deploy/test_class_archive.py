"""The class archive: settings of the sessions that write and use it, and its publication. No JVM runs here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kcli.spark.deploy.class_archive import NewArchive, archive_path, using_archive
from kcli.spark.deploy.java import Java

JAVA = Java("/usr/bin/java", "17.0.15")
OPTIONS = "spark.driver.extraJavaOptions"


def ended(status: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({status})"])
    process.wait()
    return process


def fresh(folder: Path) -> Path:
    """Return the file that the JVM writes, of which the settings have the path."""
    options = NewArchive(folder, JAVA).settings({})[OPTIONS]
    return Path(options.split('"')[1].removeprefix("-XX:ArchiveClassesAtExit="))


def test_no_archive_no_option(tmp_path: Path) -> None:
    assert using_archive(None, JAVA) == {}
    assert using_archive(tmp_path, JAVA) == {}


def test_a_published_archive_is_used_by_the_same_java_only(tmp_path: Path) -> None:
    archive = NewArchive(tmp_path, JAVA)
    fresh(tmp_path).write_bytes(b"classes")
    assert using_archive(tmp_path, JAVA) == {}
    assert archive.publish(ended(0))
    path = archive_path(tmp_path, JAVA)
    assert using_archive(tmp_path, JAVA) == {OPTIONS: f'"-XX:SharedArchiveFile={path}" -Xlog:disable'}
    assert using_archive(tmp_path, JAVA._replace(version="21.0.1")) == {}
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("status", [1, None])
def test_the_archive_of_a_jvm_that_did_not_end_by_itself_is_removed(tmp_path: Path, status: int | None) -> None:
    """A part of an archive must not be published."""
    fresh(tmp_path).write_bytes(b"half")
    assert not NewArchive(tmp_path, JAVA).publish(None if status is None else ended(status))
    assert not [*tmp_path.iterdir()]


def test_a_jvm_without_an_archive_publishes_nothing(tmp_path: Path) -> None:
    assert not NewArchive(tmp_path, JAVA).publish(ended(0))
    assert not [*tmp_path.iterdir()]


def test_java_options_that_are_given_are_kept(tmp_path: Path) -> None:
    settings = NewArchive(tmp_path, JAVA).settings({OPTIONS: "-Xss4m", "spark.driver.memory": "3g"})
    assert settings[OPTIONS].startswith('-Xss4m "-XX:ArchiveClassesAtExit=')
    assert settings["spark.driver.memory"] == "3g"
