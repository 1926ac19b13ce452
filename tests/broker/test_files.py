"""Files on disk and in memory: appends, atomic replacement, and locks."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcli.broker.files import DiskFiles
from kcli.broker.testing.memory_files import MemoryFiles


def test_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = DiskFiles().open(str(tmp_path / "f"), create=True)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))
    file.append((b"abcdefgh", b"ij"))
    assert (file.size, file.read_at(0, 100)) == (10, b"abcdefghij")


def test_parts_are_appended_in_order_and_read_at_any_position(tmp_path: Path) -> None:
    files = DiskFiles()
    path = str(tmp_path / "f")
    with pytest.raises(FileNotFoundError):
        files.open(path)
    file = files.open(path, create=True)
    file.append((b"ab", memoryview(b"cd")))
    file.append((b"ef",))
    assert (file.read_at(1, 3), file.read_at(4, 100), file.read_at(99, 1)) == (b"bcd", b"ef", b"")
    file.truncate(2)
    file.append((b"!",))
    file.close()
    assert files.read_bytes(path) == b"ab!"
    assert files.open(path).size == 3


def test_file_is_replaced_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, path = DiskFiles(), str(tmp_path / "checkpoint")
    files.write_atomically(path, b"old")

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(OSError):
            files.write_atomically(path, b"new")
    assert files.read_bytes(path) == b"old"


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_lock_is_exclusive(tmp_path: Path, kind: str) -> None:
    files = DiskFiles() if kind == "disk" else MemoryFiles()
    path = str(tmp_path / ".lock")
    lock = files.lock(path)
    assert lock is not None
    assert files.lock(path) is None
    lock.close()
    again = files.lock(path)
    assert again is not None
    again.close()


def test_lock_is_compatible_with_javas_file_lock(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = DiskFiles().lock(path)
    assert lock is not None
    code = "import fcntl,sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    taken = subprocess.run([sys.executable, "-c", code, path], capture_output=True, timeout=120)
    assert b"BlockingIOError" in taken.stderr
    lock.close()
    assert subprocess.run([sys.executable, "-c", code, path], timeout=120).returncode == 0


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_disk_and_memory_files_behave_the_same(tmp_path: Path, kind: str) -> None:
    files = DiskFiles() if kind == "disk" else MemoryFiles()
    root = str(tmp_path / "data")
    files.make_dir(f"{root}/t-0")
    files.make_dir(f"{root}/t-0")
    files.open(f"{root}/t-0/a", create=True).append((b"abc",))
    files.write_atomically(f"{root}/t-0/b", b"12")
    files.rename(f"{root}/t-0/b", f"{root}/t-0/a")
    files.rename(f"{root}/t-0", f"{root}/t-1")
    files.sync_dir(root)
    assert files.list(root) == ["t-1"]
    assert files.list(f"{root}/t-1") == ["a"]
    assert (files.size(f"{root}/t-1/a"), files.read_bytes(f"{root}/t-1/a")) == (2, b"12")
    assert files.is_dir(f"{root}/t-1")
    assert not files.is_dir(f"{root}/t-1/a")
    for missing in (files.remove, files.size, files.read_bytes, files.modified_ms):
        with pytest.raises(FileNotFoundError):
            missing(f"{root}/t-1/none")
    with pytest.raises(FileNotFoundError):
        files.list(f"{root}/none")
    files.remove(f"{root}/t-1/a")
    assert not files.exists(f"{root}/t-1/a")
    files.write_atomically(f"{root}/t-2", b"")
    files.remove_tree(f"{root}/t-2")
    assert files.list(root) == ["t-1"]
    files.remove_tree(root)
    assert not files.exists(f"{root}/t-1")
