"""`kcli offsets show, export, apply, copy, delete` on the embedded broker and on Apache's."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kcli.structs import OffsetAndMetadata
from tests.cli.fake import Result
from tests.cli.offsets.scene import Scene
from tests.real_kafka import Kafka


@pytest.fixture
def scene(any_kafka: Kafka, tmp_path: Path) -> Scene:
    return Scene(any_kafka, tmp_path)


def done(result: Result) -> Result:
    assert result.status == 0, result.err
    return result


def test_show_has_the_position_of_each_offset_in_the_log(scene: Scene) -> None:
    scene.commit({scene.tp(1): OffsetAndMetadata(10, -1, ""), scene.tp(2): OffsetAndMetadata(11, 0, "too far")})
    items = scene.items(done(scene.offsets("show", scene.group, "--output", "json")))
    assert [(it["partition"], it["offset"], it["leader_epoch"], it["where"], it["metadata"]) for it in items] == [
        (0, 4, 0, "in-log", scene.before[scene.tp(0)].metadata),
        (1, 10, None, "at-end", ""),
        (2, 11, 0, "beyond-end", "too far"),
    ]
    mixed = scene.offsets("show", "no-such-group", scene.group)
    assert (mixed.status, len(mixed.text.splitlines())) == (3, 5)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_an_export_is_restored_exactly_and_for_another_group(scene: Scene, form: str, tmp_path: Path) -> None:
    saved = done(scene.offsets("export", scene.group, "--output", form))
    (tmp_path / "saved").write_bytes(saved.out)
    scene.commit({scene.tp(0): OffsetAndMetadata(9, -1, "moved")})
    scene.forget(scene.tp(1))
    planned = done(scene.offsets("apply", str(tmp_path / "saved")))
    assert [row[:4] for row in scene.rows(planned)] == [["0", "move", "9", "4"], ["1", "move", "-", "7"]]
    assert scene.positions() == {0: 9}
    done(scene.offsets("apply", "-", "--execute", stdin=saved.out))
    assert scene.committed() == scene.before
    other = scene.kafka.new_name("other")
    done(scene.offsets("apply", str(tmp_path / "saved"), "--to-group", other, "--execute"))
    assert scene.committed(other) == scene.before


def test_apache_csv_is_written_and_read(scene: Scene) -> None:
    """Its layout knows no notes: those that are committed stay."""
    other = scene.kafka.new_name("other")
    scene.commit({scene.tp(0): OffsetAndMetadata(1, 0, "")}, other)
    one = done(scene.offsets("export", scene.group, "--apache")).text
    assert one == f"{scene.topic},0,4\n{scene.topic},1,7\n"
    both = done(scene.offsets("export", scene.group, other, "--apache", "--topic", f"{scene.topic}:0")).text
    assert sorted(both.splitlines()) == sorted([f"{other},{scene.topic},0,1", f"{scene.group},{scene.topic},0,4"])
    assert scene.offsets("apply", "-", "--execute", stdin=one.encode()).status == 2
    lines = f"{scene.topic},0,2\r\n"
    done(scene.offsets("apply", "-", "--group", scene.group, "--execute", stdin=lines.encode()))
    assert scene.committed()[scene.tp(0)] == OffsetAndMetadata(2, -1, scene.before[scene.tp(0)].metadata)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_saved_plan_is_applied_unchanged_or_refused(scene: Scene, form: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    plan.write_bytes(done(scene.reset("--to-earliest", "--topic", scene.topic, "--output", form)).out)
    scene.commit({scene.tp(1): OffsetAndMetadata(8)})
    refused = scene.is_refused(4, "apply", str(plan))
    assert "had 7 when the plan was made, and has 8 now" in refused.err
    scene.commit(scene.before)
    done(scene.offsets("apply", str(plan), "--execute"))
    assert scene.positions() == {0: 0, 1: 0, 2: 0}
    done(scene.offsets("undo", "--last", "--execute"))
    assert scene.committed() == scene.before


def test_invalid_files_are_refused(scene: Scene, tmp_path: Path) -> None:
    plan = done(scene.reset("--to-earliest", "--topic", scene.topic, "--output", "json")).document
    elsewhere = json.dumps({**plan, "cluster_id": "another-cluster"}).encode()
    assert "another-cluster" in scene.is_refused(4, "apply", "-", stdin=elsewhere).err
    outside = f"{scene.group},{scene.topic},0,99\n{scene.group},{scene.topic},1,5\n".encode()
    assert "0" in scene.is_refused(4, "apply", "-", stdin=outside).err
    assert (
        "line 2: offset: 'x' is not valid" in scene.is_refused(2, "apply", "-", stdin=outside.replace(b",5", b",x")).err
    )
    scene.is_refused(3, "apply", "-", stdin=f"{scene.group},no-such-topic,0,1\n".encode())
    scene.is_refused(2, "apply", str(tmp_path / "nowhere"))
    scene.is_refused(2, "apply", "-", "--to-group", "x", stdin=json.dumps(plan).encode())
    with scene.member():
        scene.is_refused(4, "apply", "-", stdin=json.dumps(plan).encode())
    done(scene.offsets("apply", "-", "--if-out-of-range", "clamp", "--execute", stdin=outside))
    assert scene.positions() == {0: 10, 1: 5}


def test_a_saved_plan_with_an_offset_outside_the_log_is_refused(scene: Scene) -> None:
    plan = done(scene.reset("--to-latest", "--topic", scene.topic, "--output", "json")).document
    plan["items"][1]["new"]["offset"] = 11
    outside = scene.is_refused(4, "apply", "-", stdin=json.dumps(plan).encode())
    assert "11 is after the log end 10 now" in outside.err
    plan["items"][1].update(topic="no-such-topic", old=None)
    scene.is_refused(3, "apply", "-", stdin=json.dumps(plan).encode())


def test_a_copy_keeps_its_source_and_can_be_undone(scene: Scene) -> None:
    other = scene.kafka.new_name("copy")
    scene.commit({scene.tp(2): OffsetAndMetadata(3, 0, "own")}, other)
    done(scene.offsets("copy", scene.group, "--to-group", other))
    assert scene.positions(other) == {2: 3}
    done(scene.offsets("copy", scene.group, "--to-group", other, "--execute"))
    assert scene.committed(other) == {**scene.before, scene.tp(2): OffsetAndMetadata(3, 0, "own")}
    assert scene.committed() == scene.before
    done(scene.offsets("undo", "--last", "--execute"))
    assert scene.committed(other) == {scene.tp(2): OffsetAndMetadata(3, 0, "own")}
    scene.is_refused(3, "copy", "no-such-group", "--to-group", scene.group)
    scene.is_refused(2, "copy", scene.group, "--to-group", scene.group)
    with scene.member():
        scene.is_refused(4, "copy", other, "--to-group", scene.group)


def test_deleted_offsets_are_restored_by_undo(scene: Scene) -> None:
    words = ("delete", scene.group, "--topic", f"{scene.topic}:1")
    shown = done(scene.offsets(*words))
    assert [row[:4] for row in scene.rows(shown)] == [["1", "delete", "7", "-"]]
    assert scene.committed() == scene.before
    done(scene.offsets(*words, "--execute"))
    assert scene.positions() == {0: 4}
    done(scene.offsets("undo", "--last", "--execute"))
    assert scene.committed() == scene.before
    scene.is_refused(3, "delete", scene.group, "--topic", f"{scene.topic}:0,2")
    scene.is_refused(3, "delete", scene.group, "--topic", "no-such-topic")
    with scene.member():
        scene.is_refused(4, *words)


def test_undo_skips_a_recreated_topic(scene: Scene) -> None:
    done(scene.offsets("delete", scene.group, "--topic", scene.topic, "--execute"))
    told = json.loads(scene.snapshots[-1].read_text())
    assert list(told["topic_ids"]) == [scene.topic]
    told["topic_ids"][scene.topic] = "00000000-0000-0000-0000-000000000001"
    scene.snapshots[-1].write_text(json.dumps(told))
    assert "recreated" in done(scene.offsets("undo", "--last", "--execute")).text
    assert scene.committed() == {}


def test_an_export_is_complete_or_fails(scene: Scene) -> None:
    for status, words in (
        (3, (scene.group, "no-such-group")),
        (3, (scene.group, "--topic", "no-such-topic")),
        (3, (scene.group, "--topic", f"{scene.topic}:0,2")),
        (3, ("--match", "^no-such-group$")),
        (2, (scene.group, "--apache", "--output", "json")),
        (2, (scene.group, "--output", "tsv")),
        (2, ()),
    ):
        result = scene.offsets("export", *words)
        assert (result.status, result.out) == (status, b""), words
    with scene.member():
        live = done(scene.offsets("export", scene.group))
    assert "its members continue to commit" in live.err


def test_apache_csv_is_exchanged_with_apaches_tool(real_kafka: Kafka, tmp_path: Path) -> None:
    scene = Scene(real_kafka, tmp_path)
    (tmp_path / "ours.csv").write_bytes(done(scene.offsets("export", scene.group, "--apache")).out)
    scene.commit({scene.tp(0): OffsetAndMetadata(9), scene.tp(1): OffsetAndMetadata(9)})
    where = ["--bootstrap-server", real_kafka.bootstrap_servers, "--group", scene.group, "--reset-offsets"]
    tool = [*real_kafka.java("ConsumerGroupCommand"), *where]
    subprocess.run([*tool, "--from-file", str(tmp_path / "ours.csv"), "--execute"], check=True, timeout=60)
    assert scene.positions() == {0: 4, 1: 7}
    exported = [*tool, "--to-earliest", "--all-topics", "--export", "--dry-run"]
    theirs = subprocess.run(exported, check=True, timeout=60, capture_output=True).stdout
    done(scene.offsets("apply", "-", "--group", scene.group, "--execute", stdin=theirs))
    assert scene.positions() == {0: 0, 1: 0}
