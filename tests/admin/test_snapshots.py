"""Snapshots on disk: round trips, durability, damaged files, and the selection of the last one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.admin.snapshots import (
    KINDS_OF_SETTINGS,
    OFFSETS,
    SETTINGS,
    Change,
    Snapshot,
    SnapshotError,
    SnapshotStore,
    as_text,
    default_folder,
    from_text,
    new_id,
)
from kcli.errors import ConfigError, NotFound
from kcli.structs import OffsetAndMetadata, ResourceKind, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
IDS = {"t": "00000000-0000-0000-0000-000000000001"}
SNAPSHOT = Snapshot(
    "20240131T100000.123Z-4f2a91",
    1_706_695_200_123,
    OFFSETS,
    "reset",
    "cluster-a",
    "localhost:9092",
    (
        Change(("g", T1), OffsetAndMetadata(40, 3, "caf\u00e9"), OffsetAndMetadata(0)),
        Change(("g", T0), None, OffsetAndMetadata(7)),
        Change(("h", TopicPartition("s", 2)), OffsetAndMetadata(1), None),
    ),
    IDS,
)
SETTING_CHANGES = (Change(("t", "cleanup.policy"), None, "compact"), Change(("s", "retention.ms"), "7", None))
SETTING_SNAPSHOT = SNAPSHOT._replace(
    id="20240131T100000.124Z-4f2a92", resource=SETTINGS, kind="alter", changes=SETTING_CHANGES, cluster_id=None
)
# The files that versions before 28 November 2026 wrote, made with commit b72447b9.
EARLIER_OFFSETS = """{
  "format": "kcli.offsets.snapshot",
  "version": 1,
  "id": "20240131T100000.123Z-4f2a91",
  "kind": "reset",
  "made_ms": 1706695200123,
  "cluster_id": "cluster-a",
  "bootstrap": "localhost:9092",
  "topic_ids": {"t": "00000000-0000-0000-0000-000000000001"},
  "changes": [
    {"group": "g", "topic": "t", "partition": 1, \
"before": {"offset": 40, "leader_epoch": 3, "metadata": "caf\\u00e9"}, \
"after": {"offset": 0, "leader_epoch": -1, "metadata": ""}},
    {"group": "g", "topic": "t", "partition": 0, "before": null, \
"after": {"offset": 7, "leader_epoch": -1, "metadata": ""}},
    {"group": "h", "topic": "s", "partition": 2, "before": {"offset": 1, "leader_epoch": -1, "metadata": ""}, \
"after": null}
  ]
}
"""
EARLIER_SETTINGS = """{
  "format": "kcli.topic-settings.snapshot",
  "version": 1,
  "id": "20240131T100000.124Z-4f2a92",
  "made_ms": 1706695200123,
  "kind": "alter",
  "cluster_id": null,
  "bootstrap": "localhost:9092",
  "changes": [
    {
      "topic": "t",
      "name": "cleanup.policy",
      "before": null,
      "after": "compact"
    },
    {
      "topic": "s",
      "name": "retention.ms",
      "before": "7",
      "after": null
    }
  ],
  "topic_ids": {
    "t": "00000000-0000-0000-0000-000000000001"
  }
}
"""


def test_a_snapshot_of_settings_is_unchanged_after_a_round_trip(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path / "settings")
    store.write(SETTING_SNAPSHOT)
    assert store.load(SETTING_SNAPSHOT.id) == SETTING_SNAPSHOT
    assert store.last(None) == SETTING_SNAPSHOT
    assert SETTING_SNAPSHOT.names == ["s", "t"]


@pytest.mark.parametrize(
    ("text", "snapshot"), [(EARLIER_OFFSETS, SNAPSHOT), (EARLIER_SETTINGS, SETTING_SNAPSHOT)], ids=[OFFSETS, SETTINGS]
)
def test_files_of_earlier_versions_are_read(text: str, snapshot: Snapshot) -> None:
    assert from_text(text, snapshot.id) == snapshot


def test_the_earlier_folder_of_settings_is_read_beside_the_folder_of_all(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    earlier = default_folder(environ, "topic-settings")
    earlier.mkdir(parents=True)
    (earlier / f"{SETTING_SNAPSHOT.id}.json").write_text(EARLIER_SETTINGS)
    store = SnapshotStore.default(environ)
    store.write(SNAPSHOT)
    newer = SETTING_SNAPSHOT._replace(id="20260101T000000.000Z-a")
    store.write(newer)
    assert list(store.list().values) == [SNAPSHOT.id, SETTING_SNAPSHOT.id, newer.id]
    assert list(store.list(SETTINGS).values) == [SETTING_SNAPSHOT.id, newer.id]
    assert sorted(path.stem for path in store.folder.iterdir()) == [SNAPSHOT.id, newer.id]
    store.discard(newer.id)
    assert store.last(None, SETTINGS) == SETTING_SNAPSHOT
    assert store.last("cluster-a") == SNAPSHOT


def test_a_snapshot_of_another_resource_is_not_found(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    store.write(SETTING_SNAPSHOT)
    with pytest.raises(
        NotFound, match=f"has topic settings, and no committed offsets; use kcli undo {SETTING_SNAPSHOT.id}"
    ):
        store.load(SETTING_SNAPSHOT.id, OFFSETS)
    with pytest.raises(NotFound, match="there is no snapshot of this cluster"):
        store.last(None, OFFSETS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"kcli.snapshot"', '"kcli.offsets.snapshot"'),
        ('"resource": "settings"', '"resource": "quotas"'),
        ('"version": 1', '"version": 2'),
        ('"before": "7"', '"before": 7'),
        ('"made_ms": 1706695200123', '"made_ms": "x"'),
        ('"made_ms": 1706695200123', '"made_ms": true'),
        ('"topic": "t"', '"subject": "t"'),
        ("4f2a92", ""),
        ("{", "["),
    ],
)
def test_a_damaged_file_of_settings_is_an_error(tmp_path: Path, old: str, new: str) -> None:
    store = SnapshotStore(tmp_path)
    store.write(SETTING_SNAPSHOT)
    path = store.path(SETTING_SNAPSHOT.id)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(SnapshotError, match="is not a snapshot of kcli"):
        store.load(SETTING_SNAPSHOT.id)


def test_a_snapshot_is_unchanged_after_a_round_trip(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path / "kcli" / "snapshots")
    store.write(SNAPSHOT)
    assert store.load(SNAPSHOT.id) == SNAPSHOT
    assert store.list().values == {SNAPSHOT.id: SNAPSHOT}
    assert (SNAPSHOT.names, SNAPSHOT.scope) == (["g", "h"], {"s": [2], "t": [0, 1]})
    assert [path.name for path in store.folder.iterdir()] == [f"{SNAPSHOT.id}.json"]


@given(
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    st.text(st.characters(codec=None), max_size=50),  # with lone surrogates, which Java's strings may have
    st.text(min_size=1, max_size=20),
)
def test_offsets_epochs_and_metadata_are_unchanged_after_a_round_trip(
    offset: int, epoch: int, note: str, group: str
) -> None:
    change = Change((group, T0), OffsetAndMetadata(offset, epoch, note), OffsetAndMetadata(0, -1, note))
    snapshot = SNAPSHOT._replace(changes=(change,), cluster_id=None)
    assert from_text(as_text(snapshot).encode().decode(), snapshot.id) == snapshot


def test_the_file_is_json_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path / "kcli" / "snapshots")
    store.write(SNAPSHOT)
    path = store.path(SNAPSHOT.id)
    assert (path.stat().st_mode & 0o777, store.folder.stat().st_mode & 0o777) == (0o600, 0o700)
    document = json.loads(path.read_bytes())
    assert (document["format"], document["resource"], document["kind"], document["cluster_id"]) == (
        "kcli.snapshot",
        "offsets",
        "reset",
        "cluster-a",
    )
    assert document["changes"][1] == {
        "group": "g",
        "topic": "t",
        "partition": 0,
        "before": None,
        "after": {"offset": 7, "leader_epoch": -1, "metadata": ""},
    }


def test_the_file_is_synced_before_the_rename_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits follow: after a crash a snapshot must exist for every commit that was stored."""
    steps: list[str] = []
    real_fsync, real_rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda f: (steps.append(_kind_of(f)), real_fsync(f)))
    monkeypatch.setattr(os, "replace", lambda a, b: (steps.append("rename"), real_rename(a, b)))
    store = SnapshotStore(tmp_path)
    store.write(SNAPSHOT)
    assert steps == ["file", "rename", "folder"]


def _kind_of(handle: int) -> str:
    return "folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file"


def test_a_full_disk_leaves_no_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    store = SnapshotStore(tmp_path)
    with pytest.raises(SnapshotError, match=f"cannot be written to {tmp_path}: No space left on device"):
        store.write(SNAPSHOT)
    assert list(tmp_path.iterdir()) == []


def test_a_partial_file_of_a_crash_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / f".{SNAPSHOT.id}.tmp").write_text(as_text(SNAPSHOT)[:100])
    assert SnapshotStore(tmp_path).ids() == []


def test_a_damaged_file_is_an_error_beside_the_others(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    store.write(SNAPSHOT)
    whole = as_text(SNAPSHOT)
    broken = {
        "20240201T000000.000Z-a": whole[:200],
        "20240201T000000.000Z-b": "[]",
        "20240201T000000.000Z-c": whole.replace('"version": 1', '"version": 2').replace(SNAPSHOT.id, "c"),
        "20240201T000000.000Z-d": whole,
        "20240201T000000.000Z-e": whole.replace('"offset": 40', '"offset": "40"'),
        "20240201T000000.000Z-f": whole.replace("kcli.snapshot", "something.else"),
    }
    for name, text in broken.items():
        store.path(name).write_text(text)
    store.path("20240201T000000.000Z-g").write_bytes(b"\xff\xfe")
    store.path("20240201T000000.000Z-h").write_text("[" * 200_000)
    found = store.list()
    assert list(found.values) == [SNAPSHOT.id]
    assert list(found.errors) == [*broken, "20240201T000000.000Z-g", "20240201T000000.000Z-h"]
    assert all(".json is not a snapshot of kcli: " in str(error) for error in found.errors.values())
    with pytest.raises(SnapshotError):  # the damaged file may be the last snapshot
        store.last("cluster-a")


def test_only_files_are_snapshots(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    store.write(SNAPSHOT)
    store.path("20240201T000000.000Z-a").mkdir()
    store.path("20240201T000000.000Z-b").symlink_to(tmp_path / "gone")
    assert store.ids() == [SNAPSHOT.id]
    assert store.last(SNAPSHOT.cluster_id) == SNAPSHOT


def test_a_folder_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_folder: Path) -> None:
        raise PermissionError(13, "Permission denied")

    assert SnapshotStore(tmp_path / "none").ids() == []
    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(SnapshotError, match=f"{tmp_path} cannot be read: Permission denied"):
        SnapshotStore(tmp_path).ids()


def test_the_last_snapshot_is_of_this_cluster_and_not_of_an_undo(tmp_path: Path) -> None:
    """Otherwise a second undo of the last change, for example in a repeated script, would revert the first undo."""
    store = SnapshotStore(tmp_path)
    for name, kind, cluster_id in [("1", "reset", "a"), ("2", "copy", "a"), ("3", "undo", "a"), ("4", "reset", "b")]:
        store.write(SNAPSHOT._replace(id=name, kind=kind, cluster_id=cluster_id))
    assert store.last("a").id == "2"
    assert store.last("b").id == "4"
    with pytest.raises(NotFound, match="there is no snapshot of this cluster"):
        store.last("c")


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "nothing", ".20240131T100000.123Z-4f2a91"])
def test_an_id_that_is_not_valid_is_not_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.json").write_text(as_text(SNAPSHOT))
    with pytest.raises(NotFound, match="there is no snapshot"):
        SnapshotStore(tmp_path / "snapshots").load(name)
    assert SnapshotStore(tmp_path / "snapshots").ids() == []


def test_ids_sort_by_time() -> None:
    moments = [0, 999, 1_000, 1_706_695_200_123, 1_706_695_200_124, 4_000_000_000_000]
    made = [new_id(ms) for ms in moments]
    assert made == sorted(made)
    assert made[3].startswith("20240131T100000.123Z-")
    assert new_id(5) != new_id(5)


def test_the_default_folder_follows_the_xdg_specification() -> None:
    """XDG Base Directory specification: $XDG_STATE_HOME, unless it is relative; otherwise ~/.local/state."""
    assert default_folder({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/kcli/snapshots")
    assert default_folder({"XDG_STATE_HOME": "s", "HOME": "/h"}) == Path("/h/.local/state/kcli/snapshots")
    assert default_folder({"HOME": "/h"}) == Path("/h/.local/state/kcli/snapshots")


def test_the_default_folder_needs_a_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(ConfigError, match="XDG_STATE_HOME"):
        default_folder({})


@pytest.mark.parametrize(("kind", "resource"), KINDS_OF_SETTINGS.items())
def test_settings_of_each_kind_are_saved(tmp_path: Path, kind: ResourceKind, resource: str) -> None:
    saved = Snapshot("s", 7, resource, "alter", "c", "a:9092", (Change(("1", "log.retention.ms"), None, "9"),))
    store = SnapshotStore(tmp_path)
    store.write(saved)
    assert store.load("s", resource) == saved
    assert f'{{"{kind}": "1", "name": "log.retention.ms", "before": null, "after": "9"}}' in as_text(saved)
    with pytest.raises(NotFound, match=f"has {kind} settings, and no committed offsets"):
        store.load("s", OFFSETS)
