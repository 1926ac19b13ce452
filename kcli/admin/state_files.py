"""Files that a change leaves for its undo: one for each change, on disk before the change is made."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from kcli.client.requests import Results
from kcli.errors import ConfigError, KcliError, NotFound
from kcli.private_files import make_folder
from kcli.whole_files import replacing


class SnapshotError(KcliError):
    """A snapshot cannot be written or read. Nothing was changed after it."""


class Saved(Protocol):
    """A snapshot of any format: its id, the time and kind of its change ("undo" for one of an undo), its cluster."""

    @property
    def id(self) -> str: ...
    @property
    def made_ms(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def cluster_id(self) -> str | None: ...
    @property
    def bootstrap(self) -> str: ...


S = TypeVar("S", bound=Saved)


def default_folder(environ: Mapping[str, str], name: str = "snapshots") -> Path:
    """Return $XDG_STATE_HOME/kcli/`name`, by default under ~/.local/state (XDG Base Directory specification)."""
    state = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):  # the specification ignores relative paths
        return Path(state, "kcli", name)
    home = environ.get("HOME", "") or os.path.expanduser("~")
    if not os.path.isabs(home):
        raise ConfigError("no home directory for snapshots; set XDG_STATE_HOME")
    return Path(home, ".local", "state", "kcli", name)


def new_id(wall_ms: int) -> str:
    """Return an id such as `20240131T100000.123Z-4f2a91`: the time, then a random part."""
    moment = datetime.fromtimestamp(wall_ms / 1000, timezone.utc)
    return f"{moment:%Y%m%dT%H%M%S}.{wall_ms % 1000:03}Z-{os.urandom(3).hex()}"


class StateFiles(Generic[S]):
    """Snapshots in a folder, which is created for the first one; `as_text` and `from_text` are their format.

    A snapshot stays, unless its change was not made. `from_text` gets the content and the id, and raises ValueError,
    KeyError, TypeError or AttributeError for anything else.
    """

    def __init__(self, folder: Path, as_text: Callable[[S], str], from_text: Callable[[str, str], S]) -> None:
        self.folder = folder
        self._as_text = as_text
        self._from_text = from_text

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.folder}>"

    def path(self, snapshot_id: str) -> Path:
        """Return the path of the snapshot with this id."""
        return self.folder / f"{snapshot_id}.json"

    def write(self, snapshot: S) -> None:
        """Write the snapshot, whole or not at all; when this returns, it survives a crash of the machine."""
        try:
            self._make_folder()
            with replacing(self.path(snapshot.id), mode=0o600, durable=True) as file:
                file.write(self._as_text(snapshot).encode("ascii"))
            _sync_folder(self.folder)
        except OSError as error:
            reason = error.strerror or error
            raise SnapshotError(f"the snapshot cannot be written to {self.folder}: {reason}") from None

    def discard(self, snapshot_id: str) -> None:
        """Remove the snapshot of a change that was certainly not made. A file that cannot be removed stays."""
        with contextlib.suppress(OSError):
            self.path(snapshot_id).unlink()

    def load(self, snapshot_id: str) -> S:
        """Return the snapshot with this id. NotFound for an unknown id, SnapshotError for an invalid file."""
        if not _is_id(snapshot_id) or not self.path(snapshot_id).is_file():
            raise NotFound(f"there is no snapshot {snapshot_id} in {self.folder}")
        try:
            return self._from_text(self.path(snapshot_id).read_text(encoding="utf-8"), snapshot_id)
        except OSError as error:
            raise SnapshotError(f"{self.path(snapshot_id)} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SnapshotError(f"{self.path(snapshot_id)} is not a snapshot of kcli: {error}") from None

    def ids(self) -> list[str]:
        """Return all ids, oldest first."""
        try:
            return sorted(path.stem for path in self.folder.glob("*.json") if _is_id(path.stem))
        except OSError as error:
            raise SnapshotError(f"{self.folder} cannot be read: {error.strerror}") from None

    def list(self) -> Results[str, S]:
        """Return all snapshots by id, oldest first; a damaged file is an error beside the others."""
        found: Results[str, S] = Results()
        for snapshot_id in self.ids():
            try:
                found.values[snapshot_id] = self.load(snapshot_id)
            except SnapshotError as error:
                found.errors[snapshot_id] = error
        return found

    def last(self, cluster_id: str | None) -> S:
        """Return the newest snapshot of this cluster that is not of an undo, so that a second undo changes nothing.

        NotFound if there is none, SnapshotError if a newer one cannot be read.
        """
        for snapshot_id in reversed(self.ids()):
            found = self.load(snapshot_id)
            if found.cluster_id == cluster_id and found.kind != "undo":
                return found
        raise NotFound(f"there is no snapshot of this cluster in {self.folder}")

    def _make_folder(self) -> None:
        if not self.folder.is_dir():
            make_folder(self.folder)
            for parent in (self.folder.parent, self.folder.parent.parent):
                with contextlib.suppress(OSError):  # a parent folder of another user may not be readable
                    _sync_folder(parent)


def _sync_folder(folder: Path) -> None:
    """Flush the folder, which makes a new file name durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_id(text: str) -> bool:
    """Return False for a path to another folder, and for the name of an incomplete file."""
    return bool(text) and not text.startswith(".") and not set(text) & {"/", "\\", "\0"}
