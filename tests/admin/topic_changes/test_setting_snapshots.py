"""Snapshots of topic settings on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.admin.state_files import SnapshotError
from kcli.admin.topic_changes.setting_snapshots import SettingChange, SettingSnapshot, SettingStore

SNAPSHOT = SettingSnapshot(
    "20240131T100000.123Z-4f2a91",
    1_706_695_200_123,
    "alter",
    None,
    "localhost:9092",
    (SettingChange("t", "cleanup.policy", None, "compact"), SettingChange("s", "retention.ms", "7", None)),
    {"t": "00000000-0000-0000-0000-000000000001"},
)


def test_a_snapshot_is_unchanged_after_a_round_trip(tmp_path: Path) -> None:
    store = SettingStore(tmp_path / "settings")
    store.write(SNAPSHOT)
    assert store.load(SNAPSHOT.id) == SNAPSHOT
    assert store.last(None) == SNAPSHOT
    assert SNAPSHOT.topics == ["s", "t"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"kcli.topic-settings.snapshot"', '"kcli.offsets.snapshot"'),
        ('"version": 1', '"version": 2'),
        ('"before": "7"', '"before": 7'),
        ('"made_ms": 1706695200123', '"made_ms": "x"'),
        ('"topic": "t"', '"subject": "t"'),
        ('"4f2a91"', ""),
        ("{", "["),
    ],
)
def test_a_damaged_file_is_an_error(tmp_path: Path, old: str, new: str) -> None:
    store = SettingStore(tmp_path)
    store.write(SNAPSHOT)
    path = store.path(SNAPSHOT.id)
    text = path.read_text()
    path.write_text(text.replace(old, new) if old in text else "")
    with pytest.raises(SnapshotError, match="is not a snapshot of kcli"):
        store.load(SNAPSHOT.id)
