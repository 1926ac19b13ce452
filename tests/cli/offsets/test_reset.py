"""`kcli offsets reset` and `undo` on the embedded broker and on Apache's: the plan is applied as shown, and undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.structs import OffsetAndMetadata
from kcli.text import format_timestamp
from tests.cli.offsets.scene import PER_PARTITION, STEP_MS, Scene
from tests.real_kafka import Kafka


@pytest.fixture
def scene(any_kafka: Kafka, tmp_path: Path) -> Scene:
    return Scene(any_kafka, tmp_path)


def test_a_plan_is_shown_and_nothing_is_written(scene: Scene) -> None:
    shown = scene.reset("--to-earliest", "--topic", scene.topic)
    assert shown.status == 0
    assert shown.text.split("\n")[0].split() == [
        *("GROUP", "TOPIC", "PARTITION", "ACTION", "OLD", "NEW", "REREAD", "SKIPPED", "BYTES", "FIRST-RECORD", "WHY")
    ]
    first = f"{format_timestamp(scene.begin_ms)}:key_0"
    rows = scene.rows(shown)
    assert [row[:6] for row in rows] == [
        ["0", "move", "4", "0", "4", "0"],
        ["1", "move", "7", "0", "7", "0"],
        ["2", "move", "-", "0", "0", "0"],
    ]
    assert [row[7] for row in rows] == [first] * 3
    assert all(row[6].startswith("~") and int(row[6][1:]) > 0 for row in rows[:2])
    assert [" ".join(row[8:]) for row in rows] == ["log start", "log start", "log start; no committed offset before"]
    assert f"{scene.group} (Empty): 3 to move; re-reads 11 records (~" in shown.err
    assert f"{scene.group} has no committed offset in {scene.topic}-2" in shown.err
    assert shown.err.endswith("nothing was written; use --execute to apply the plan\n")
    assert scene.committed() == scene.before
    assert not scene.snapshots


@pytest.mark.parametrize(
    ("words", "positions"),
    [
        (["--to-earliest"], {0: 0, 1: 0, 2: 0}),
        (["--to-latest"], {0: 10, 1: 10, 2: 10}),
        (["--to-current", "--if-no-record", "end"], {0: 4, 1: 7, 2: 10}),
        (["--to-offset", "3"], {0: 3, 1: 3, 2: 3}),
        (["--to-offset", "-3"], {0: 7, 1: 7, 2: 7}),
        (["--to-offset", "+4"], {0: 4, 1: 4, 2: 4}),
        (["--shift-by", "-2", "--if-no-record", "skip"], {0: 2, 1: 5}),
        (["--to-offset", "99", "--if-out-of-range", "clamp"], {0: 10, 1: 10, 2: 10}),
        (["--to-datetime", "@{5}"], {0: 5, 1: 5, 2: 5}),
        (["--to-datetime", "{text}"], {0: 6, 1: 6, 2: 6}),
        (["--to-datetime", "-30m", "--if-no-record", "end"], {0: 10, 1: 10, 2: 10}),
        (["--by-duration", "PT2H"], {0: 0, 1: 0, 2: 0}),
        (["--by-duration", "1m", "--if-no-record", "skip"], {0: 4, 1: 7}),
    ],
)
def test_every_target_is_reset_and_undone(scene: Scene, words: list[str], positions: dict[int, int]) -> None:
    """The committed offsets are those of the dry run; undo restores all of it, missing commits included."""
    stamps = {"text": format_timestamp(scene.begin_ms + 6 * STEP_MS - 1)}
    words = [word.replace("{5}", str(scene.begin_ms + 5 * STEP_MS)).format(**stamps) for word in words]
    planned = scene.reset(*words, "--all-topics", "--output", "json")
    assert planned.status == 0, planned.err
    done = scene.reset(*words, "--all-topics", "--execute", "--output", "json")
    assert done.status == 0, done.err
    assert scene.positions() == positions
    for item in scene.items(done):
        at = scene.tp(item["partition"])
        new = item["new"] and OffsetAndMetadata(
            item["new"]["offset"],
            -1 if item["new"]["leader_epoch"] is None else item["new"]["leader_epoch"],
            item["new"]["metadata"],
        )
        assert scene.committed().get(at) == new
    new_of = [(item["partition"], item["action"], item["new"]) for item in scene.items(planned)]
    assert [(item["partition"], item["action"], item["new"]) for item in scene.items(done)] == new_of

    changed = positions != {0: 4, 1: 7}
    assert len(scene.snapshots) == changed
    if changed:
        undone = scene.offsets("undo", "--last", "--execute")
        assert undone.status == 0, undone.err
    assert scene.committed() == scene.before


def test_only_partitions_in_scope_are_changed(scene: Scene) -> None:
    assert scene.reset("--to-offset", "1", "--topic", f"{scene.topic}:1", "--execute").status == 0
    assert scene.positions() == {0: 4, 1: 1}


def test_reset_to_the_offsets_of_another_group(scene: Scene) -> None:
    other = scene.kafka.new_name("other")
    told = {scene.tp(1): OffsetAndMetadata(2, 0, "of the other"), scene.tp(2): OffsetAndMetadata(9, 0, "")}
    scene.commit(told, other)
    assert scene.reset("--to-group-of", other, "--all-topics", "--execute").status == 0
    assert scene.committed() == {scene.tp(0): scene.before[scene.tp(0)], **told}
    assert scene.committed(other) == told


def test_reset_to_the_offsets_of_a_file(scene: Scene, tmp_path: Path) -> None:
    """Apache's CSV, from a file and from standard input: no scope is needed, the notes of before stay."""
    lines = f"{scene.topic},0,1\n{scene.topic},2,8\n"
    (tmp_path / "positions.csv").write_text(lines)
    assert scene.reset("--from-file", str(tmp_path / "positions.csv"), "--execute").status == 0
    assert scene.positions() == {0: 1, 1: 7, 2: 8}
    assert scene.committed()[scene.tp(0)].metadata == scene.before[scene.tp(0)].metadata
    assert scene.offsets("undo", "--last", "--execute").status == 0
    assert scene.reset("--from-file", "-", "--topic", f"{scene.topic}:2", "--execute", stdin=lines.encode()).status == 0
    assert scene.positions() == {0: 4, 1: 7, 2: 8}


def test_several_groups_are_reset_together(scene: Scene) -> None:
    others = [scene.kafka.new_name("several") for _ in range(2)]
    for name in others:
        scene.commit({scene.tp(0): OffsetAndMetadata(9)}, name)
    pattern = f"^({'|'.join(others)})$"
    done = scene.offsets("reset", "--match", pattern, "--shift-by", "-4", "--topic", f"{scene.topic}:0", "--execute")
    assert done.status == 0, done.err
    assert [scene.positions(name) for name in others] == [{0: 5}, {0: 5}]
    both = scene.offsets("reset", *others, "--to-latest", "--topic", f"{scene.topic}:0", "--execute")
    assert both.status == 0, both.err
    assert [scene.positions(name) for name in others] == [{0: 10}, {0: 10}]
    assert len(scene.snapshots) == 2
    assert scene.offsets("undo", "--last", "--execute").status == 0
    assert [scene.positions(name) for name in others] == [{0: 5}, {0: 5}]
    assert scene.positions() == {0: 4, 1: 7}


def test_a_missing_group_is_created_and_the_undo_deletes_its_offsets(scene: Scene) -> None:
    name = scene.kafka.new_name("new")
    shown = scene.offsets("reset", name, "--to-latest", "--topic", scene.topic)
    assert shown.status == 0
    assert f"group {name} does not exist (did you mean " in shown.err
    assert "; the commit creates it" in shown.err
    assert scene.offsets("reset", name, "--to-latest", "--topic", scene.topic, "--execute").status == 0
    assert scene.positions(name) == dict.fromkeys(range(3), PER_PARTITION)
    assert scene.offsets("undo", "--last", "--execute").status == 0
    assert scene.positions(name) == {}


def test_snapshots_are_listed_and_undone_by_id(scene: Scene) -> None:
    assert scene.offsets("undo", "--list").text.split("\n")[1:] == [""]
    scene.reset("--to-earliest", "--all-topics", "--execute")
    after_first = scene.committed()
    scene.reset("--to-latest", "--all-topics", "--execute")
    listed = scene.offsets("undo", "--list", "--output", "json")
    assert listed.status == 0
    first, second = scene.items(listed)
    assert [(it["kind"], it["groups"], it["partitions"]) for it in (first, second)] == [("reset", [scene.group], 3)] * 2
    assert first["id"] < second["id"]

    dry = scene.offsets("undo", second["id"])
    assert dry.status == 0
    assert dry.err.endswith("nothing was written; use --execute to apply the plan\n")
    assert len(scene.snapshots) == 2
    assert scene.offsets("undo", second["id"], "--execute").status == 0
    assert scene.committed() == after_first
    again = scene.offsets("undo", second["id"], "--execute")
    assert again.status == 0
    assert "the plan has no changes" in again.err
    assert scene.offsets("undo", first["id"], "--execute").status == 0
    assert scene.committed() == scene.before
    kinds = [it["kind"] for it in scene.items(scene.offsets("undo", "--list", "--output", "json"))]
    assert kinds == ["reset", "reset", "undo", "undo"]


def test_undo_reports_commits_of_other_clients(scene: Scene) -> None:
    scene.reset("--to-earliest", "--all-topics", "--execute")
    scene.commit({scene.tp(1): OffsetAndMetadata(9)})
    shown = scene.offsets("undo", "--last")
    assert [("since" in line) for line in shown.text.splitlines()[1:]] == [False, True, False]


def test_a_saved_plan_is_a_json_document_of_kind_plan(scene: Scene) -> None:
    saved = scene.reset("--to-earliest", "--all-topics", "--output", "json")
    document = saved.document
    assert (document["kcli"], document["kind"], document["plan"]) == (1, "offsets.plan", "reset")
    assert document["states"] == {scene.group: "Empty"}
