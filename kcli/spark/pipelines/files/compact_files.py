"""Replacement of small files by larger ones in a folder, so that an interruption at any moment loses nothing.

1. The new files are written below `_compact`, which readers skip. An interruption leaves the folder as it was.
2. `_compact/journal.json` names the new files and those that they replace; it is written completely, then renamed.
3. Each new file is renamed to its place and its old files are deleted; the journal is deleted last. After an
   interruption the next run repeats this step, which has the same result however often it is done. Until then, readers
   may see records of the interrupted file twice, never too few.

In a folder of a stream, readers of Spark see the files in its list, `_spark_metadata/N.compact`. The new files are
renamed first, then the list is replaced by one rename, then the old files are deleted: Spark never reads a record
twice. Files of batches after N, which are not in that list yet, stay.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from kcli.errors import KcliError, Refused
from kcli.whole_files import replacing

WORK = "_compact"
METADATA = "_spark_metadata"
FORMATS = (".parquet", ".orc")
#: A file above this share of the wanted size stays: a larger one would not be worth reading it.
_LARGE = 0.75
_VERSION = "v1"


class DataFile(NamedTuple):
    """A file by its path relative to the folder, and its bytes."""

    path: str
    size: int


class Swap(NamedTuple):
    """A new file, its place among the staged files, and the files that it replaces; relative to the folder."""

    new: str
    staged: str
    old: tuple[str, ...]


class Listing(NamedTuple):
    """The files that may be replaced. `log` is the list of a stream that names them; None without one."""

    files: tuple[DataFile, ...]
    log: str | None


def list_files(folder: Path) -> Listing:
    """Return the data files of a folder and its partition folders. Refused for a table of Delta or Iceberg."""
    for name, what in (("_delta_log", "OPTIMIZE of Delta"), ("metadata", "rewrite_data_files of Iceberg")):
        if (folder / name).is_dir() and (name != "metadata" or any((folder / name).glob("*.metadata.json"))):
            raise Refused(f"{folder} is a table with its own list of files; use {what}")
    found = {path: DataFile(path, (folder / path).stat().st_size) for path in _data_paths(folder)}
    if not (folder / METADATA).is_dir():
        return Listing(tuple(found.values()), None)
    log = newest_log(folder)
    listed = [] if log is None else [_local(entry, folder) for entry in _entries(folder / log)]
    return Listing(tuple(found[path] for path in listed if path in found), log)


def _data_paths(folder: Path) -> Iterator[str]:
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        for name in sorted(names):
            if name.endswith(FORMATS) and not name.startswith(("_", ".")):
                yield str(Path(at, name).relative_to(folder))


def newest_log(folder: Path) -> str | None:
    """Return the newest compacted list of a stream, relative to the folder; None before its tenth batch."""
    names = [path.name for path in (folder / METADATA).glob("*.compact") if path.name.split(".")[0].isdigit()]
    newest = max(names, key=lambda name: int(name.split(".")[0]), default=None)
    return None if newest is None else f"{METADATA}/{newest}"


def plan_groups(files: Sequence[DataFile], target_bytes: int) -> list[tuple[DataFile, ...]]:
    """Return the groups of small files to write as one file each, in order. Pure.

    A group has files of the same partition folder and format, at least two, and about `target_bytes` at most.
    """
    by_place: dict[tuple[str, str], list[DataFile]] = {}
    for file in sorted(files):
        if file.size < target_bytes * _LARGE:
            by_place.setdefault((os.path.dirname(file.path), _kind(file.path)), []).append(file)
    return [group for small in by_place.values() for group in _filled(small, target_bytes) if len(group) > 1]


def _kind(path: str) -> str:
    """Return the compression and format of a file name of Spark, without the number of the file within its task: of
    `part-00000-UUID.c001.snappy.parquet` it is `.snappy.parquet`.
    """
    return "".join(suffix for suffix in Path(path).suffixes if not re.fullmatch(r"\.c[0-9]{3,}", suffix))


def _filled(files: Sequence[DataFile], target_bytes: int) -> Iterator[tuple[DataFile, ...]]:
    group: list[DataFile] = []
    for file in files:
        if group and sum(chosen.size for chosen in group) + file.size > target_bytes:
            yield tuple(group)
            group = []
        group.append(file)
    yield tuple(group)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder. Refused if another process of this machine compacts it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"another process compacts {folder}; wait for it") from None
        yield
    finally:
        os.close(handle)


def commit(folder: Path, swaps: Sequence[Swap], log: str | None) -> None:
    """Replace the old files by the staged ones. Refused if a stream has written a newer list meanwhile."""
    if log is not None and newest_log(folder) != log:
        shutil.rmtree(folder / WORK, ignore_errors=True)
        raise Refused(f"a stream has written to {folder} meanwhile, so nothing was replaced; stop it, and repeat")
    for swap in swaps:
        _sync(folder / swap.staged)
    journal = {"log": log, "swaps": [swap._asdict() for swap in swaps]}
    with replacing(folder / WORK / "journal.json", durable=True) as file:
        file.write(json.dumps(journal).encode())
    _sync(folder / WORK)
    _apply(folder, swaps, log)


def finish_interrupted(folder: Path) -> int:
    """Finish an interrupted replacement, or remove what it has staged; return the number of new files."""
    path = folder / WORK / "journal.json"
    if not path.exists():
        shutil.rmtree(folder / WORK, ignore_errors=True)
        return 0
    try:
        journal = json.loads(path.read_text())
        swaps = [Swap(swap["new"], swap["staged"], tuple(swap["old"])) for swap in journal["swaps"]]
        log = journal.get("log")
        named = [name for swap in swaps for name in (swap.new, swap.staged, *swap.old)]
        if not all(_is_within(name) for name in [*named, *([] if log is None else [log])]):
            raise ValueError("it names a file outside of the folder")
    except (ValueError, KeyError, TypeError):
        raise KcliError(f"{path} is not a journal of kcli; move it away to continue") from None
    _apply(folder, swaps, log)
    return len(swaps)


def _is_within(name: str) -> bool:
    """Return whether a name in the journal, which others may have written, stays below the folder."""
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts


def _apply(folder: Path, swaps: Sequence[Swap], log: str | None) -> None:
    for swap in swaps:
        _move(folder / swap.staged, folder / swap.new)
        if log is None:
            _sync((folder / swap.new).parent)
            _remove(folder, swap)
    if log is not None:
        _replace_in_log(folder, swaps, log)
        for swap in swaps:
            _remove(folder, swap)
    (folder / WORK / "journal.json").unlink()
    shutil.rmtree(folder / WORK, ignore_errors=True)


def _move(staged: Path, new: Path) -> None:
    """Rename a file with its checksum, which Hadoop keeps beside it; nothing to do if it was renamed before."""
    for source, target in ((_checksum(staged), _checksum(new)), (staged, new)):
        if source.exists():
            source.replace(target)
    if not new.exists():
        raise KcliError(f"{new} is missing, and so is {staged}; nothing was deleted")


def _remove(folder: Path, swap: Swap) -> None:
    for old in swap.old:
        (folder / old).unlink(missing_ok=True)
        _checksum(folder / old).unlink(missing_ok=True)


def _checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def _replace_in_log(folder: Path, swaps: Sequence[Swap], log: str) -> None:
    """Replace the entries of the old files by one of each new file, by renaming a whole list."""
    new_of = {old: swap.new for swap in swaps for old in swap.old}
    lines, done = [_VERSION], set()
    for entry in _entries(folder / log):
        new = new_of.get(_local(entry, folder))
        if new is None:
            lines.append(json.dumps(entry, separators=(",", ":")))
        elif new not in done:
            done.add(new)
            lines.append(json.dumps(_entry_of(folder, new, entry), separators=(",", ":")))
    if not done:
        return  # replaced before an interruption
    with replacing(folder / log, partial=folder / WORK / "log.part", durable=True) as file:
        file.write("\n".join(lines).encode())
        _checksum(folder / log).unlink(missing_ok=True)  # Hadoop reads a file without a checksum, not one with another
    _sync(folder / METADATA)


def _entry_of(folder: Path, new: str, like: dict[str, Any]) -> dict[str, Any]:
    status = (folder / new).stat()
    path = like["path"].rpartition("/")[0] + "/" + quote(os.path.basename(new))
    return {**like, "path": path, "size": status.st_size, "modificationTime": int(status.st_mtime * 1000)}


def _entries(log: Path) -> list[dict[str, Any]]:
    """Return the entries of a list. Source: SinkFileStatus and CompactibleFileStreamLog of Spark."""
    version, *lines = log.read_text().splitlines() or [""]
    try:
        if version != _VERSION:
            raise ValueError
        entries = [json.loads(line) for line in lines if line]
        if not all(
            isinstance(entry, dict) and isinstance(entry["path"], str) and entry["action"] == "add" for entry in entries
        ):
            raise ValueError
    except (ValueError, KeyError):
        raise KcliError(f"{log} has a form that is not known; nothing was changed") from None
    return entries


def _local(entry: dict[str, Any], folder: Path) -> str:
    """Return the path of an entry relative to the folder. Spark notes the path that the stream was given, which may
    have symbolic links.
    """
    path = Path(unquote(urlsplit(entry["path"]).path))
    try:
        return str(path.relative_to(folder) if path.is_relative_to(folder) else path.resolve().relative_to(folder))
    except ValueError:
        raise KcliError(f"{path} is in the list of {folder}, but not in this folder; nothing was changed") from None


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
