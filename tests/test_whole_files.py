"""Replacement of files as a whole, and each writer of kcli that uses it beside a planted symbolic link (CWE-59)."""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from kcli import private_files
from kcli.admin.snapshots import OFFSETS, Snapshot, SnapshotStore
from kcli.broker.files import DiskFiles
from kcli.cli.completion import cached_names
from kcli.cli.consume.checkpointer import CheckpointFile
from kcli.cli.profile.profile_file import choose_current
from kcli.cli.spark.files import write_text
from kcli.consumer.read_checkpoint import Checkpoint, Selection
from kcli.schemas.disk_cache import DiskCache
from kcli.schemas.schema import Schema
from kcli.spark.pipelines.files import compact_files
from kcli.whole_files import replacing

KCLI = Path(__file__).parent.parent / "kcli"


def write_checkpoint(path: Path) -> None:
    file = CheckpointFile(str(path))
    file.write(Checkpoint(None, Selection({}), {}, {}))
    file.close()


def write_profile(path: Path) -> None:
    path.write_text("[profile.dev]\nbootstrap-servers = 'x:1'\n")
    choose_current(str(path), "dev")


def write_journal(path: Path) -> None:
    (path / compact_files.WORK).mkdir(parents=True, exist_ok=True)
    compact_files.commit(path, [], None)


def write_state(path: Path) -> None:
    SnapshotStore(path.parent).write(Snapshot("state", 0, OFFSETS, "reset", None, "", ()))


def write_schema(path: Path) -> None:
    DiskCache(str(path), "https://registry.example").save(1, Schema("AVRO", '"int"'))


def write_names(path: Path) -> None:
    path.mkdir(exist_ok=True)
    cached_names.Cache(str(path)).names("key", lambda: ["a"], 0.0)


WRITERS: dict[str, Callable[[Path], object]] = {
    "checkpoint": write_checkpoint,
    "profile": write_profile,
    "compact": write_journal,
    "spark": lambda path: write_text(str(path), "new"),
    "state": write_state,
    "schema": write_schema,
    "names": write_names,
    "private": lambda path: private_files.write_text(path, "new"),
    "broker": lambda path: DiskFiles().write_atomically(str(path), b"new"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_planted_link_is_never_opened(writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced: list[str] = []
    real_replace = os.replace

    def note(source: Any, target: Any) -> None:
        replaced.append(os.fspath(source))
        real_replace(source, target)

    first, second, victim = tmp_path / "first", tmp_path / "second", tmp_path / "victim"
    for folder in (first, second):
        folder.mkdir()
    victim.write_text("of somebody else")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", note)
        WRITERS[writer](first / "file")
    assert replaced
    for source in replaced:
        planted = second / Path(source).relative_to(first)
        planted.parent.mkdir(parents=True, exist_ok=True)
        planted.symlink_to(victim)
    WRITERS[writer](second / "file")
    assert (victim.read_text(), victim.is_symlink()) == ("of somebody else", False)
    assert not any(path.is_symlink() for path in second.rglob("*"))


def test_a_file_that_appears_at_the_temporary_name_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, partial, victim = tmp_path / "file", tmp_path / "partial", tmp_path / "victim"
    path.write_text("old")
    partial.symlink_to(victim)
    monkeypatch.setattr(os, "unlink", lambda _: None)  # as if somebody made the link again at once
    with pytest.raises(FileExistsError), replacing(path, partial=partial) as file:
        file.write(b"new")
    assert (path.read_text(), victim.exists()) == ("old", False)


def test_an_error_keeps_the_old_file_and_leaves_no_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def write(file: BinaryIO) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), replacing(path, durable=True) as file:
        write(file)
    assert [(it.name, it.read_text()) for it in tmp_path.iterdir()] == [("file", "old")]


def test_the_umask_limits_the_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        for name, mode in (("shared", 0o666), ("private", 0o600)):
            with replacing(tmp_path / name, mode=mode) as file:
                file.write(b"new")
    finally:
        os.umask(before)
    modes = {it.name: stat.S_IMODE(it.stat().st_mode) for it in tmp_path.iterdir()}
    assert modes == {"shared": 0o640, "private": 0o600}


#: Modules that create files in another way, and the reason.
OTHER_WRITERS = {
    "whole_files.py": "the one function",
    "broker/files.py": "segments and locks in the data directory, never truncated",
    "broker/testing/process_cluster.py": "logs in the data directory, appended",
    "cli/completion/cached_names.py": "a pipe",
    "cli/consume/checkpointer.py": "the file that the user names, never truncated",
    "cli/docs/__main__.py": "pages in the source tree",
    "cli/help/help.py": "a folder of mkdtemp",
    "cli/spark/files.py": "a device, or a file in a folder without write permission",
    "schemas/protobuf_schema.py": "a folder of mkdtemp",
    "security/tls.py": "a pipe, or a file in memory",
}


def test_no_other_module_creates_files() -> None:
    found = {
        path.relative_to(KCLI).as_posix() for path in KCLI.rglob("*.py") if any(created_files(path.read_text("utf-8")))
    }
    assert found == OTHER_WRITERS.keys()


def created_files(source: str) -> Iterator[ast.AST]:
    """Yield each call that may create a file: by its name, its mode, or a flag of os.open."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in ("O_CREAT", "O_TRUNC"):
            yield node
        elif isinstance(node, ast.Call):
            is_method = isinstance(node.func, ast.Attribute)
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            values = [
                it.value for it in (*node.args, *(it.value for it in node.keywords)) if isinstance(it, ast.Constant)
            ]
            has_mode = any(isinstance(it, str) and set(it) <= set("rwaxbt+") and set(it) & set("wax") for it in values)
            if (is_method and name in ("write_text", "write_bytes")) or (name in ("open", "fdopen") and has_mode):
                yield node
