"""Local targets of an export: the checks before it, and the removal of what an unfinished one leaves.

A file sink of Spark lists its files in `_spark_metadata`, and its readers follow that list; readers of other folders
skip names that begin with an underscore or a dot.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kcli.errors import ConfigError, Refused
from kcli.spark.pipelines.files.shape import FILES
from kcli.spark.stream_checkpoint import local_path, newest_batch

if TYPE_CHECKING:
    from kcli.spark.pipelines.files.export import Export

_TEMPORARY = "_temporary"


def check_target(export: Export, *, stream: bool) -> None:
    """Raise Refused for a local target that Spark would refuse later, or that would lose records silently, and
    ConfigError for one that cannot be a folder.

    A file sink skips batches whose numbers it already has from another checkpoint, its readers skip files that it has
    not written, and it fails permanently at the first compaction of a list without earlier batches.
    """
    to = local_path(export.to)
    if export.checkpoint is not None and (folder := local_path(export.checkpoint)) is not None:
        _check_folder("--checkpoint", folder)
    if export.dead_letter is not None and (folder := local_path(export.dead_letter)) is not None:
        _check_folder("--dead-letter", folder)
        if to is not None and (folder == to or to in folder.parents):
            raise ConfigError(f"--dead-letter: {folder} is in --to, whose readers would read it; use another folder")
    if to is None:
        return
    _check_folder("--to", to)
    written = newest_batch(to / "_spark_metadata")
    if not stream and export.mode == "error" and to.exists():
        raise Refused(f"{export.to} exists already; use another --to, or --mode append or overwrite")
    if not stream and export.mode == "append" and written >= 0:
        raise Refused(
            f"{export.to} was written by --once or --follow, so appended files would not be read; use another --to"
        )
    if not stream and export.mode == "append" and export.shape.format in FILES:
        _check_layout(export, to)
    checkpoint = local_path(export.checkpoint_location)
    if not stream or checkpoint is None:
        return
    planned = newest_batch(checkpoint / "offsets")
    if written > planned:
        raise Refused(
            f"{export.to} was written with another checkpoint than {export.checkpoint_location}, so Spark would skip "
            "records; use that --checkpoint, or another --to"
        )
    if export.shape.format not in FILES:
        return
    if newest_batch(checkpoint / "commits") > written:
        raise Refused(
            f"{export.to} does not have the batches of {export.checkpoint_location}; use the folder that has them, "
            "or another --checkpoint and an empty --to"
        )
    if planned < 0 and to.is_dir() and any(map(_is_data, to.iterdir())):
        raise Refused(
            f"{export.to} has other files, which would not be read beside those of a stream; use another --to"
        )
    if written >= 0:
        _check_layout(export, to)


def _check_layout(export: Export, to: Path) -> None:
    """Raise Refused if all files of earlier exports have another format or other folders: no reader could read both."""
    found: tuple[str, list[str]] | None = None
    for path in _data_files(to):
        if (form := _format_of(path)) is not None:
            folders = path.relative_to(to).parent.parts
            found = (form, [unquote(name.partition("=")[0]) for name in folders])
            if found == (export.shape.format, list(export.shape.partition_by)):
                return
    if found is None:
        return
    form, names = found
    if form != export.shape.format:
        raise Refused(
            f"{export.to} has files of the format {form}, beside which {export.shape.format} could not be read; use "
            f"--format {form}, or another --to"
        )
    option = f"--partition-by {','.join(names)}" if names else "no --partition-by"
    raise Refused(f"{export.to} has files of an export with {option}; use the same, or another --to")


def _data_files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if _is_data(Path(name))]
        yield from (Path(place, name) for name in files if _is_data(Path(name)))


def _format_of(path: Path) -> str | None:
    """Return the format that Spark's name of a file has, such as part-00000-UUID-c000.json.gz; None for others."""
    if not path.name.startswith("part-"):
        return None
    parts = ["text" if part == "txt" else part for part in path.name.split(".")[1:]]
    return next((part for part in parts if part in FILES), None)


def _check_folder(option: str, folder: Path) -> None:
    """Raise ConfigError if a folder cannot be made here, or not be written."""
    nearest = next(path for path in (folder, *folder.parents, Path("/")) if os.path.lexists(path))
    if not nearest.is_dir():
        place = "" if nearest == folder else f"{folder} cannot be made: "
        raise ConfigError(f"{option}: {place}{nearest} is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(f"{option}: {nearest} is not writable")


class Unfinished:
    """Files of an unfinished batch export to a local folder: Spark leaves them if it is interrupted or the disk is
    full, and refuses the folder the next time.

    Made before the export. It removes only what an unfinished write leaves, never data, because another process may
    write to the folder as well.
    """

    def __init__(self, export: Export) -> None:
        self._to = local_path(export.to)
        self._mode = export.mode
        self._had_target = self._to is not None and self._to.exists()
        self._had_temporary = self._to is not None and (self._to / _TEMPORARY).exists()

    def remove(self) -> str | None:
        """Remove them, and return a line about it; None if there is nothing to say. Never raises."""
        if self._to is None or not self._to.is_dir() or (self._to / "_SUCCESS").exists():
            return None
        made_temporary = not self._had_temporary and (self._to / _TEMPORARY).exists()
        if made_temporary:
            shutil.rmtree(self._to / _TEMPORARY, ignore_errors=True)
        if self._had_target:
            lost = "; its old files are gone" if self._mode == "overwrite" else ""
            return f"the unfinished files in {self._to} were removed{lost}" if made_temporary else None
        for path in [*self._to.glob("._*.crc"), *self._to.glob(".part-*.crc")]:
            path.unlink(missing_ok=True)
        try:
            self._to.rmdir()
        except OSError:
            return f"{self._to} is incomplete; remove it, or use --mode overwrite"
        return f"the unfinished {self._to} was removed"


def _is_data(path: Path) -> bool:
    """Return whether readers of files read it: they skip hidden names."""
    return not path.name.startswith(("_", "."))
