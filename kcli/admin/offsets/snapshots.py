"""What `--execute` found before it changed anything: one file for each, on the disk before the first commit."""

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


class SnapshotError(KcliError):
    """A snapshot that cannot be written or read. What was to be written after it was not."""


class Change(NamedTuple):
    """A committed offset before, and what was to be committed; None: nothing."""

    group: str
    tp: TopicPartition
    before: OffsetAndMetadata | None
    after: OffsetAndMetadata | None


class Snapshot(NamedTuple):
    """The state before one execute, as far as that was about to change it; whether it has, only the cluster knows.

    `id` sorts by time, `made_ms` is since the epoch, `kind` is that of the plan. `topic_ids` are the ids (as text)
    that topics had then, where the cluster told: a topic made anew under its old name has another one.
    """

    id: str
    made_ms: int
    kind: str
    cluster_id: str | None
    bootstrap: str
    changes: tuple[Change, ...]
    topic_ids: Mapping[str, str] = {}

    @property
    def groups(self) -> list[str]:
        """The groups that it is about, sorted."""
        return sorted({change.group for change in self.changes})

    @property
    def scope(self) -> dict[str, Sequence[int] | None]:
        """The partitions that it is about, by topic, sorted."""
        numbers: dict[str, set[int]] = {}
        for change in self.changes:
            numbers.setdefault(change.tp.topic, set()).add(change.tp.partition)
        return {topic: sorted(numbers[topic]) for topic in sorted(numbers)}


def default_folder(environ: Mapping[str, str]) -> Path:
    """$XDG_STATE_HOME/kcli/snapshots, by default under ~/.local/state (XDG Base Directory specification)."""
    state = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):  # the specification has relative ones ignored
        return Path(state, "kcli", "snapshots")
    home = environ.get("HOME", "") or os.path.expanduser("~")
    if not os.path.isabs(home):
        raise ConfigError("there is no home directory to keep snapshots in; set XDG_STATE_HOME")
    return Path(home, ".local", "state", "kcli", "snapshots")


def new_id(wall_ms: int) -> str:
    """`20240131T100000.123Z-4f2a91`: the time, then chance for those made in the same millisecond."""
    moment = datetime.fromtimestamp(wall_ms / 1000, timezone.utc)
    return f"{moment:%Y%m%dT%H%M%S}.{wall_ms % 1000:03}Z-{os.urandom(3).hex()}"


class SnapshotStore:
    """Snapshots in a folder, which is made when the first is written. Nothing is ever removed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"<SnapshotStore {self.folder}>"

    def path(self, snapshot_id: str) -> Path:
        """Where the snapshot with this id is, or would be."""
        return self.folder / f"{snapshot_id}.json"

    def write(self, snapshot: Snapshot) -> None:
        """Put it on the disk, whole or not at all; when this returns, it outlives a crash of the machine."""
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
        except OSError as problem:
            reason = problem.strerror or problem
            raise SnapshotError(f"the snapshot cannot be written to {self.folder}: {reason}") from None

    def load(self, snapshot_id: str) -> Snapshot:
        """The snapshot with this id; NotFound if there is none, SnapshotError if its file is not one."""
        if not _is_id(snapshot_id) or not self.path(snapshot_id).is_file():
            raise NotFound(f"there is no snapshot {snapshot_id} in {self.folder}")
        try:
            return from_text(self.path(snapshot_id).read_text(encoding="utf-8"), snapshot_id)
        except OSError as problem:
            raise SnapshotError(f"{self.path(snapshot_id)} cannot be read: {problem.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise SnapshotError(f"{self.path(snapshot_id)} is not a snapshot of kcli: {problem}") from None

    def ids(self) -> list[str]:
        """The ids that there are, oldest first."""
        try:
            return sorted(path.stem for path in self.folder.glob("*.json") if _is_id(path.stem))
        except OSError as problem:
            raise SnapshotError(f"{self.folder} cannot be read: {problem.strerror}") from None

    def list(self) -> Results[str, Snapshot]:
        """All snapshots by id, oldest first; a file that is none, or a damaged one, is an error beside the others."""
        found: Results[str, Snapshot] = Results()
        for snapshot_id in self.ids():
            try:
                found.values[snapshot_id] = self.load(snapshot_id)
            except SnapshotError as error:
                found.errors[snapshot_id] = error
        return found

    def last(self, cluster_id: str | None) -> Snapshot:
        """The newest of this cluster that was not itself made by an undo: to undo the last twice changes nothing more.

        NotFound if there is none, SnapshotError if one that is newer than that cannot be read.
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
                with contextlib.suppress(OSError):  # one that is not ours may not be ours to open
                    _sync_folder(parent)


def _sync_folder(folder: Path) -> None:
    """A name in a folder is on the disk when the folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_id(text: str) -> bool:
    """No path that leads elsewhere, and none of our half-written files."""
    return bool(text) and not text.startswith(".") and not set(text) & {"/", "\\", "\0"}


def as_text(snapshot: Snapshot) -> str:
    """The file: JSON in plain ASCII, a line for each change."""
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
    """What `as_text` wrote; ValueError, KeyError, TypeError or AttributeError for anything else."""
    told = json.loads(text)
    if told["format"] != _FORMAT:
        raise ValueError(f"its format is {told['format']!r}")
    if told["version"] != _VERSION:
        raise ValueError(f"its version is {told['version']}, and this kcli knows {_VERSION}")
    if told["id"] != snapshot_id:
        raise ValueError(f"it is {told['id']!r} by what it says itself")
    return Snapshot(
        snapshot_id,
        _whole_number(told["made_ms"]),
        _text(told["kind"]),
        None if told["cluster_id"] is None else _text(told["cluster_id"]),
        _text(told["bootstrap"]),
        tuple(map(_change, told["changes"])),
        {_text(name): _text(value) for name, value in told["topic_ids"].items()},
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


def _change(told: Mapping[str, Any]) -> Change:
    tp = TopicPartition(_text(told["topic"]), _whole_number(told["partition"]))
    return Change(_text(told["group"]), tp, _offset(told["before"]), _offset(told["after"]))


def _offset(told: Mapping[str, Any] | None) -> OffsetAndMetadata | None:
    if told is None:
        return None
    epoch = _whole_number(told["leader_epoch"])
    return OffsetAndMetadata(_whole_number(told["offset"]), epoch, _text(told["metadata"]))


def _whole_number(told: object) -> int:
    if not isinstance(told, int) or isinstance(told, bool):
        raise TypeError(f"{told!r} is not a whole number")
    return told


def _text(told: object) -> str:
    if not isinstance(told, str):
        raise TypeError(f"{told!r} is not a text")
    return told
