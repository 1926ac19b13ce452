"""Snapshots of committed offsets: one file for each change, on disk before the first commit, for an undo."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.admin.state_files import StateFiles
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

_FORMAT, _VERSION = "kcli.offsets.snapshot", 1
_NOUNS = {"delete": "offset deletion", "group-delete": "group deletion"}


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


class SnapshotStore(StateFiles[Snapshot]):
    """Snapshots in a folder, which is created for the first one. A snapshot stays, unless its change was not made."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, as_text, from_text)


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
