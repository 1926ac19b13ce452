"""Snapshots of topic settings: the values before one change, for its undo."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kcli.admin.state_files import StateFiles

#: The folder of these snapshots under $XDG_STATE_HOME/kcli.
FOLDER = "topic-settings"
_FORMAT, _VERSION = "kcli.topic-settings.snapshot", 1


class SettingChange(NamedTuple):
    """A setting of a topic before and after a change; None: not set on the topic, so inherited from the broker."""

    topic: str
    name: str
    before: str | None
    after: str | None


class SettingSnapshot(NamedTuple):
    """Settings before one change. `kind` is that of the plan; `topic_ids` has ids as text, if brokers return them."""

    id: str
    made_ms: int
    kind: str
    cluster_id: str | None
    bootstrap: str
    changes: tuple[SettingChange, ...]
    topic_ids: Mapping[str, str] = {}

    @property
    def topics(self) -> list[str]:
        """Topics of the change, sorted."""
        return sorted({change.topic for change in self.changes})


class SettingStore(StateFiles[SettingSnapshot]):
    """Snapshots of settings in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, as_text, from_text)


def as_text(snapshot: SettingSnapshot) -> str:
    """Return the content of the file: JSON in ASCII."""
    data = {"format": _FORMAT, "version": _VERSION, **snapshot._asdict()}
    data["changes"] = [change._asdict() for change in snapshot.changes]
    data["topic_ids"] = dict(snapshot.topic_ids)
    return json.dumps(data, indent=2) + "\n"


def from_text(text: str, snapshot_id: str) -> SettingSnapshot:
    """Parse the content that `as_text` returns. ValueError, KeyError, TypeError or AttributeError for anything else."""
    data = json.loads(text)
    expected = {"format": _FORMAT, "version": _VERSION, "id": snapshot_id}
    for name, value in expected.items():
        if data[name] != value:
            raise ValueError(f"its {name} is {data[name]!r}, not {value!r}")
    return SettingSnapshot(
        snapshot_id,
        _typed(data["made_ms"], int),
        _typed(data["kind"], str),
        _optional(data["cluster_id"]),
        _typed(data["bootstrap"], str),
        tuple(
            SettingChange(
                _typed(row["topic"], str), _typed(row["name"], str), _optional(row["before"]), _optional(row["after"])
            )
            for row in data["changes"]
        ),
        {_typed(name, str): _typed(value, str) for name, value in data["topic_ids"].items()},
    )


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not a {'number' if kind is int else 'text'}")
    return value


def _optional(value: Any) -> str | None:
    text: str | None = None if value is None else _typed(value, str)
    return text
