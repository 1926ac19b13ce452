"""Snapshots of committed offsets: one file for each change, on disk before the first commit, for an undo."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.client.requests import Results
from kcli.errors import ConfigError, KcliError, NotFound
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

_FORMAT, _VERSION = "kcli.offsets.snapshot", 1
_NOUNS = {"delete": "offset deletion", "group-delete": "group deletion"}


class SnapshotError(KcliError):
    """A snapshot cannot be written or read. No offset was written after it."""


class Change(NamedTuple):
    """A committed offset before and after a change; None: no offset."""

    group: str
    tp: TopicPartition
    before: OffsetAndMetadata | None
    after: OffsetAndMetadata | None


class Snapshot(NamedTuple):
    """Offsets before one change. Whether the change was written is not in the snapshot.

    `id` sorts by time, `made_ms` is since the epoch, `kind` is that of the plan, or "group-delete". `topic_ids` are the
    ids (as text) of the topics at that time, if the cluster returned them: a recreated topic has another id.
    """

    id: str
    made_ms: int
    kind: str
    cluster_id: str | None
    bootstrap: str
    changes: tuple[Change, ...]
    topic_ids: Mapping[str, str] = {}

    @property
    def noun(self) -> str:
        """The kind of the change in a sentence: `reset`, `group deletion`."""
        return _NOUNS.get(self.kind, self.kind)

    @property
    def groups(self) -> list[str]:
        """Groups of the change, sorted."""
        return sorted({change.group for change in self.changes})

    @property
    def scope(self) -> dict[str, Sequence[int] | None]:
        """Partitions of the change by topic, sorted."""
        numbers: dict[str, set[int]] = {}
        for change in self.changes:
            numbers.setdefault(change.tp.topic, set()).add(change.tp.partition)
        return {topic: sorted(numbers[topic]) for topic in sorted(numbers)}


def default_folder(environ: Mapping[str, str]) -> Path:
    """Return $XDG_STATE_HOME/kcli/snapshots, by default under ~/.local/state (XDG Base Directory specification)."""
    state = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):  # the specification ignores relative paths
        return Path(state, "kcli", "snapshots")
    home = environ.get("HOME", "") or os.path.expanduser("~")
    if not os.path.isabs(home):
        raise ConfigError("no home directory for snapshots; set XDG_STATE_HOME")
    return Path(home, ".local", "state", "kcli", "snapshots")


def new_id(wall_ms: int) -> str:
    """Return an id such as `20240131T100000.123Z-4f2a91`: the time, then a random part."""
    moment = datetime.fromtimestamp(wall_ms / 1000, timezone.utc)
    return f"{moment:%Y%m%dT%H%M%S}.{wall_ms % 1000:03}Z-{os.urandom(3).hex()}"


class SnapshotStore:
    """Snapshots in a folder, which is created for the first one. A snapshot stays, unless its change was not made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"<SnapshotStore {self.folder}>"

    def path(self, snapshot_id: str) -> Path:
        """Return the path of the snapshot with this id."""
        return self.folder / f"{snapshot_id}.json"

    def write(self, snapshot: Snapshot) -> None:
        """Write the snapshot, whole or not at all; when this returns, it survives a crash of the machine."""
        hidden = self.folder / f".{snapshot.id}.tmp"
        try:
            self._make_folder()
            file = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with open(file, "w", encoding="ascii") as out:
                    out.write(as_text(snapshot))
                    out.flush()
                    os.fsync(out.fileno())
                os.rename(hidden, self.path(snapshot.id))
            except BaseException:
                os.unlink(hidden)
                raise
            _sync_folder(self.folder)
        except OSError as error:
            reason = error.strerror or error
            raise SnapshotError(f"the snapshot cannot be written to {self.folder}: {reason}") from None

    def discard(self, snapshot_id: str) -> None:
        """Remove the snapshot of a change that was certainly not made. A file that cannot be removed stays."""
        with contextlib.suppress(OSError):
            self.path(snapshot_id).unlink()

    def load(self, snapshot_id: str) -> Snapshot:
        """Return the snapshot with this id. NotFound for an unknown id, SnapshotError for an invalid file."""
        if not _is_id(snapshot_id) or not self.path(snapshot_id).is_file():
            raise NotFound(f"there is no snapshot {snapshot_id} in {self.folder}")
        try:
            return from_text(self.path(snapshot_id).read_text(encoding="utf-8"), snapshot_id)
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

    def list(self) -> Results[str, Snapshot]:
        """Return all snapshots by id, oldest first; a damaged file is an error beside the others."""
        found: Results[str, Snapshot] = Results()
        for snapshot_id in self.ids():
            try:
                found.values[snapshot_id] = self.load(snapshot_id)
            except SnapshotError as error:
                found.errors[snapshot_id] = error
        return found

    def last(self, cluster_id: str | None) -> Snapshot:
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
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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


def as_text(snapshot: Snapshot) -> str:
    """Return the content of the file: JSON in ASCII, a line for each change."""
    head = {
        "format": _FORMAT,
        "version": _VERSION,
        "id": snapshot.id,
        "kind": snapshot.kind,
        "made_ms": snapshot.made_ms,
        "cluster_id": snapshot.cluster_id,
        "bootstrap": snapshot.bootstrap,
        "topic_ids": dict(snapshot.topic_ids),
    }
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    changes = ",\n".join(f"    {json.dumps(_change_as_json(change))}" for change in snapshot.changes)
    return "\n".join(["{", *lines, '  "changes": [', changes, "  ]", "}", ""])


def from_text(text: str, snapshot_id: str) -> Snapshot:
    """Parse the content that `as_text` returns. ValueError, KeyError, TypeError or AttributeError for anything else."""
    data = json.loads(text)
    if data["format"] != _FORMAT:
        raise ValueError(f"its format is {data['format']!r}")
    if data["version"] != _VERSION:
        raise ValueError(f"its version is {data['version']}, and this kcli knows {_VERSION}")
    if data["id"] != snapshot_id:
        raise ValueError(f"its id is {data['id']!r}")
    return Snapshot(
        snapshot_id,
        _whole_number(data["made_ms"]),
        _text(data["kind"]),
        None if data["cluster_id"] is None else _text(data["cluster_id"]),
        _text(data["bootstrap"]),
        tuple(map(_change, data["changes"])),
        {_text(name): _text(value) for name, value in data["topic_ids"].items()},
    )


def _change_as_json(change: Change) -> dict[str, Any]:
    return {
        "group": change.group,
        "topic": change.tp.topic,
        "partition": change.tp.partition,
        "before": _offset_as_json(change.before),
        "after": _offset_as_json(change.after),
    }


def _offset_as_json(it: OffsetAndMetadata | None) -> dict[str, Any] | None:
    return None if it is None else it._asdict()


def _change(data: Mapping[str, Any]) -> Change:
    tp = TopicPartition(_text(data["topic"]), _whole_number(data["partition"]))
    return Change(_text(data["group"]), tp, _offset(data["before"]), _offset(data["after"]))


def _offset(data: Mapping[str, Any] | None) -> OffsetAndMetadata | None:
    if data is None:
        return None
    epoch = _whole_number(data["leader_epoch"])
    return OffsetAndMetadata(_whole_number(data["offset"]), epoch, _text(data["metadata"]))


def _whole_number(data: object) -> int:
    if not isinstance(data, int) or isinstance(data, bool):
        raise TypeError(f"{data!r} is not a whole number")
    return data


def _text(data: object) -> str:
    if not isinstance(data, str):
        raise TypeError(f"{data!r} is not a text")
    return data
