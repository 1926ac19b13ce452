"""Snapshots: the values that a change replaces, in one file for each change, on disk before the change is made.

A snapshot has the values of one kind of resource: committed offsets (`OFFSETS`), settings of topics (`SETTINGS`), or of
other owners (`KINDS_OF_SETTINGS`). An undo restores them. Files of earlier versions, in which each kind has a form of
its own, and settings a folder of their own, are read too.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.client.requests import Results
from kcli.errors import ConfigError, KcliError, NotFound
from kcli.private_files import make_folder
from kcli.structs import OffsetAndMetadata, ResourceKind, TopicPartition
from kcli.whole_files import replacing, sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kcli.client.consumer_network_client import ConsumerNetworkClient

OFFSETS, SETTINGS = "offsets", "settings"
KINDS_OF_SETTINGS: dict[ResourceKind, str] = {
    "topic": SETTINGS,
    "broker": "broker-settings",
    "group": "group-settings",
    "client-metrics": "client-metrics-settings",
}
_OWNERS = {resource: kind for kind, resource in KINDS_OF_SETTINGS.items()}
NAMES = {OFFSETS: "committed offsets", **{resource: f"{kind} settings" for resource, kind in _OWNERS.items()}}
_FORMAT, _VERSION = "kcli.snapshot", 1
_FORMATS = {_FORMAT: "", "kcli.offsets.snapshot": OFFSETS, "kcli.topic-settings.snapshot": SETTINGS}
_NOUNS = {"delete": "offset deletion", "group-delete": "group deletion"}


def kind_of_settings(resource: str) -> ResourceKind:
    """Return the kind of the owners of the settings in a snapshot."""
    return _OWNERS[resource]


class SnapshotError(KcliError):
    """A snapshot cannot be written or read. Nothing was changed after it."""


class Change(NamedTuple):
    """A value before and after a change; None: no value of its own. `key` is that of the row in the plan.

    For offsets the key is a group and a partition, for settings the owner and the name of the setting.
    """

    key: Any
    before: Any
    after: Any


class Snapshot(NamedTuple):
    """Values before one change. Whether the change was made is not in the snapshot.

    `id` sorts by time, `made_ms` is since the epoch, `resource` is one of NAMES, `kind` is that of the plan.
    `topic_ids` are the ids (as text) of the topics at that time, if the cluster returned them: a recreated topic has
    another id.
    """

    id: str
    made_ms: int
    resource: str
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
    def names(self) -> list[str]:
        """Groups, topics or other owners of the change, sorted."""
        return sorted({change.key[0] for change in self.changes})

    @property
    def scope(self) -> dict[str, Sequence[int] | None]:
        """Partitions of a change of offsets by topic, sorted."""
        numbers: dict[str, set[int]] = {}
        for _, tp in (change.key for change in self.changes):
            numbers.setdefault(tp.topic, set()).add(tp.partition)
        return {topic: sorted(numbers[topic]) for topic in sorted(numbers)}


def new_snapshot(
    client: ConsumerNetworkClient, resource: str, kind: str, changes: Iterable[Change], topic_ids: Mapping[str, str]
) -> Snapshot:
    """Return a snapshot that is made now, on the cluster of the client."""
    now_ms, cluster_id = client.clock.wall_ms(), client.metadata.cluster.cluster_id
    bootstrap = client.config.bootstrap_servers
    return Snapshot(new_id(now_ms), now_ms, resource, kind, cluster_id, bootstrap, tuple(changes), topic_ids)


def new_id(wall_ms: int) -> str:
    """Return an id such as `20240131T100000.123Z-4f2a91`: the time, then a random part."""
    moment = datetime.fromtimestamp(wall_ms / 1000, timezone.utc)
    return f"{moment:%Y%m%dT%H%M%S}.{wall_ms % 1000:03}Z-{os.urandom(3).hex()}"


def default_folder(environ: Mapping[str, str], name: str = "snapshots") -> Path:
    """Return $XDG_STATE_HOME/kcli/`name`, by default under ~/.local/state (XDG Base Directory specification)."""
    state = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):  # the specification ignores relative paths
        return Path(state, "kcli", name)
    home = environ.get("HOME", "") or os.path.expanduser("~")
    if not os.path.isabs(home):
        raise ConfigError("no home directory for snapshots; set XDG_STATE_HOME")
    return Path(home, ".local", "state", "kcli", name)


class SnapshotStore:
    """Snapshots in a folder, which is created for the first one. A snapshot stays, unless its change was not made.

    Those in the folder `earlier` are read too. `on_write` is called with each snapshot that was written, before its
    change is made.
    """

    def __init__(
        self, folder: Path, earlier: Path | None = None, on_write: Callable[[Snapshot], object] = lambda _: None
    ) -> None:
        self.folder = folder
        self._earlier = earlier
        self.on_write = on_write

    @classmethod
    def default(
        cls, environ: Mapping[str, str], on_write: Callable[[Snapshot], object] = lambda _: None
    ) -> SnapshotStore:
        """Return the store of the user."""
        return cls(default_folder(environ), default_folder(environ, "topic-settings"), on_write)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.folder}>"

    def path(self, snapshot_id: str) -> Path:
        """Return the path of the snapshot with this id."""
        name = f"{snapshot_id}.json"
        if self._earlier is not None and (self._earlier / name).is_file():
            return self._earlier / name
        return self.folder / name

    def write(self, snapshot: Snapshot) -> None:
        """Write the snapshot, whole or not at all; when this returns, it survives a crash of the machine."""
        try:
            self._make_folder()
            with replacing(self.folder / f"{snapshot.id}.json", mode=0o600, durable=True) as file:
                file.write(as_text(snapshot).encode("ascii"))
            sync_folder(self.folder)
        except OSError as error:
            reason = error.strerror or error
            raise SnapshotError(f"the snapshot cannot be written to {self.folder}: {reason}") from None
        self.on_write(snapshot)

    def discard(self, snapshot_id: str) -> None:
        """Remove the snapshot of a change that was certainly not made. A file that cannot be removed stays."""
        with contextlib.suppress(OSError):
            self.path(snapshot_id).unlink()

    def load(self, snapshot_id: str, resource: str | None = None) -> Snapshot:
        """Return the snapshot with this id, of any resource or of this one.

        NotFound for an unknown id and for a snapshot of another resource, SnapshotError for an invalid file.
        """
        path = self.path(snapshot_id)
        if not _is_id(snapshot_id) or not path.is_file():
            raise NotFound(f"there is no snapshot {snapshot_id} in {self.folder}")
        try:
            found = from_text(path.read_text(encoding="utf-8"), snapshot_id)
        except OSError as error:
            raise SnapshotError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SnapshotError(f"{path} is not a snapshot of kcli: {error}") from None
        if resource not in (None, found.resource):
            has = f"snapshot {snapshot_id} has {NAMES[found.resource]}, and no {NAMES[resource or '']}"
            raise NotFound(f"{has}; use kcli undo {snapshot_id}")
        return found

    def ids(self) -> list[str]:
        """Return all ids, oldest first. SnapshotError for a folder that cannot be read."""
        found: set[str] = set()
        for folder in (self.folder, self._earlier):
            try:
                files = [] if folder is None else [entry.name for entry in os.scandir(folder) if entry.is_file()]
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise SnapshotError(f"{folder} cannot be read: {error.strerror}") from None
            found |= {name.removesuffix(".json") for name in files if name.endswith(".json")}
        return sorted(filter(_is_id, found))

    def list(self, resource: str | None = None) -> Results[str, Snapshot]:
        """Return all snapshots, or those of a resource, by id, oldest first; a damaged file is an error beside them."""
        found: Results[str, Snapshot] = Results()
        for snapshot_id in self.ids():
            try:
                found.values[snapshot_id] = self.load(snapshot_id, resource)
            except SnapshotError as error:
                found.errors[snapshot_id] = error
            except NotFound:
                continue
        return found

    def last(self, cluster_id: str | None, resource: str | None = None) -> Snapshot:
        """Return the newest snapshot of this cluster that is not of an undo, so that a second undo changes nothing.

        NotFound if there is none, SnapshotError if a newer one cannot be read: it may be the last one.
        """
        for snapshot_id in reversed(self.ids()):
            found = self.load(snapshot_id)
            if found.cluster_id == cluster_id and found.kind != "undo" and resource in (None, found.resource):
                return found
        raise NotFound(f"there is no snapshot of this cluster in {self.folder}")

    def _make_folder(self) -> None:
        if not self.folder.is_dir():
            make_folder(self.folder)
            for parent in (self.folder.parent, self.folder.parent.parent):
                with contextlib.suppress(OSError):  # a parent folder of another user may not be readable
                    sync_folder(parent)


def _is_id(text: str) -> bool:
    """Return False for a path to another folder, and for the name of an incomplete file."""
    return bool(text) and not text.startswith(".") and not set(text) & {"/", "\\", "\0"}


def as_text(snapshot: Snapshot) -> str:
    """Return the content of the file: JSON in ASCII, a line for each change."""
    head = {"format": _FORMAT, "version": _VERSION, **snapshot._asdict(), "topic_ids": dict(snapshot.topic_ids)}
    del head["changes"]
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    item = _offset_item if snapshot.resource == OFFSETS else partial(_setting_item, _OWNERS[snapshot.resource])
    changes = ",\n".join(f"    {json.dumps(item(change))}" for change in snapshot.changes)
    return "\n".join(["{", *lines, '  "changes": [', changes, "  ]", "}", ""])


def from_text(text: str, snapshot_id: str) -> Snapshot:
    """Parse the content that `as_text` returns, also in the forms of earlier versions.

    ValueError, KeyError, TypeError or AttributeError for anything else.
    """
    data = json.loads(text)
    if data["format"] not in _FORMATS:
        raise ValueError(f"its format is {data['format']!r}")
    if data["version"] != _VERSION:
        raise ValueError(f"its version is {data['version']}, and this kcli knows {_VERSION}")
    if data["id"] != snapshot_id:
        raise ValueError(f"its id is {data['id']!r}")
    resource = _FORMATS[data["format"]] or data["resource"]
    if resource not in NAMES:
        raise ValueError(f"it has {resource!r}")
    return Snapshot(
        snapshot_id,
        _typed(data["made_ms"], int),
        resource,
        _typed(data["kind"], str),
        _optional(data["cluster_id"]),
        _typed(data["bootstrap"], str),
        tuple(
            _offset_change(item) if resource == OFFSETS else _setting_change(_OWNERS[resource], item)
            for item in data["changes"]
        ),
        {_typed(name, str): _typed(value, str) for name, value in data["topic_ids"].items()},
    )


def _offset_item(change: Change) -> dict[str, Any]:
    (group, tp), before, after = change
    offsets = {name: None if at is None else at._asdict() for name, at in (("before", before), ("after", after))}
    return {"group": group, "topic": tp.topic, "partition": tp.partition, **offsets}


def _offset_change(item: Mapping[str, Any]) -> Change:
    tp = TopicPartition(_typed(item["topic"], str), _typed(item["partition"], int))
    return Change((_typed(item["group"], str), tp), _offset(item["before"]), _offset(item["after"]))


def _offset(item: Mapping[str, Any] | None) -> OffsetAndMetadata | None:
    if item is None:
        return None
    epoch = _typed(item["leader_epoch"], int)
    return OffsetAndMetadata(_typed(item["offset"], int), epoch, _typed(item["metadata"], str))


def _setting_item(kind: ResourceKind, change: Change) -> dict[str, Any]:
    (owner, name), before, after = change
    return {kind: owner, "name": name, "before": before, "after": after}


def _setting_change(kind: ResourceKind, item: Mapping[str, Any]) -> Change:
    key = (_typed(item[kind], str), _typed(item["name"], str))
    return Change(key, _optional(item["before"]), _optional(item["after"]))


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not a {'whole number' if kind is int else 'text'}")
    return value


def _optional(value: Any) -> str | None:
    text: str | None = None if value is None else _typed(value, str)
    return text
