"""Refusals of `kcli offsets reset` and `undo` on both brokers: exit status, and nothing written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcli.structs import OffsetAndMetadata
from kcli.text import format_timestamp
from tests.cli.offsets.scene import STEP_MS, Scene
from tests.real_kafka import Kafka

REFUSED, NOT_FOUND = 4, 3


@pytest.fixture
def scene(any_kafka: Kafka, tmp_path: Path) -> Scene:
    return Scene(any_kafka, tmp_path)


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (["--to-datetime", "{late}", "--all-topics"], REFUSED, "{group}: {t}-0, {t}-1: no record at or after"),
        (["--to-datetime", "{late}", "--topic", "{t}:1"], REFUSED, "{group}: {t}-1: no record at or after {late}"),
        (["--by-duration", "1m", "--all-topics"], REFUSED, "no record at or after"),
        (["--to-offset", "11", "--topic", "{t}"], REFUSED, "11 is after the log end 10"),
        (["--shift-by", "5", "--topic", "{t}:0,1"], REFUSED, "{t}-1: shifted by +5, 12 is after the log end 10"),
        (["--shift-by", "-5", "--topic", "{t}:0,1"], REFUSED, "{t}-0: shifted by -5, -1 is before the log start 0"),
        (["--shift-by", "-1", "--topic", "{t}"], REFUSED, "{t}-2: no committed offset to shift"),
        (["--to-current", "--topic", "{t}"], REFUSED, "{t}-2: no committed offset"),
        (["--from-file", "-"], REFUSED, "{t}-1: as in standard input, 70 is after the log end 10"),
        (["--to-earliest", "--topic", "{t}:0,9"], NOT_FOUND, "{t}-9: "),
        (["--to-earliest", "--topic", "{t}-gone"], NOT_FOUND, "{t}-gone"),
        (["--to-latest", "--topic", "{t}", "--topic", "{t}-gone"], NOT_FOUND, "{t}-gone"),
        (["--to-group-of", "{group}-gone", "--all-topics"], NOT_FOUND, "group {group}-gone has no committed offsets"),
    ],
)
def test_one_refused_row_prevents_the_whole_plan(scene: Scene, words: list[str], status: int, why: str) -> None:
    names = {"group": scene.group, "t": scene.topic, "late": format_timestamp(scene.begin_ms + 60 * STEP_MS)}
    file = f"{scene.topic},0,1\n{scene.topic},1,70\n".encode()
    refused = scene.is_refused(status, "reset", scene.group, *(word.format(**names) for word in words), stdin=file)
    assert why.format(**names) in refused.err
    if "has no committed offsets" not in why:
        assert refused.err.endswith("nothing was written\n")


def test_refused_rows_are_shown_beside_the_others(scene: Scene) -> None:
    words = ("--shift-by", "5", "--topic", f"{scene.topic}:0,1", "--output")
    shown = scene.is_refused(REFUSED, "reset", scene.group, *words, "json")
    assert [(item["action"], item["new"] and item["new"]["offset"]) for item in scene.items(shown)] == [
        ("move", 9),
        ("refuse", None),
    ]
    table = scene.is_refused(REFUSED, "reset", scene.group, *words, "table")
    assert [row[:4] for row in scene.rows(table)] == [["0", "move", "4", "9"], ["1", "refuse", "7", "-"]]


def test_groups_without_offsets_are_refused(scene: Scene) -> None:
    """Without commits --all-topics means nothing, and a pattern that matches nobody too."""
    gone = scene.kafka.new_name("gone")
    refused = scene.is_refused(NOT_FOUND, "reset", gone, "--to-earliest", "--all-topics")
    assert f"group {gone} has no committed offsets" in refused.err
    assert "; use --topic to set offsets in named topics" in refused.err
    assert scene.is_refused(NOT_FOUND, "reset", "--match", f"^{gone}$", "--to-earliest", "--all-topics").out == b""
    both = scene.is_refused(NOT_FOUND, "reset", scene.group, gone, "--to-earliest", "--all-topics")
    assert both.text.count("move") == 3


def test_different_reasons_give_status_4(scene: Scene) -> None:
    words = ("--to-offset", "11", "--topic", scene.topic, "--topic", f"{scene.topic}-gone")
    refused = scene.is_refused(REFUSED, "reset", scene.group, *words)
    assert "after the log end" in refused.err
    assert f"{scene.topic}-gone" in refused.err


def test_a_group_with_members_is_refused(scene: Scene) -> None:
    with scene.member():
        refused = scene.is_refused(REFUSED, "reset", scene.group, "--to-earliest", "--all-topics")
        assert f"refused: group {scene.group} is Stable with 1 member; stop them first" in refused.err
    assert scene.reset("--to-earliest", "--all-topics", "--execute").status == 0
    with scene.member():
        refused = scene.is_refused(REFUSED, "undo", "--last")
        assert "is Stable with 1 member" in refused.err


def test_a_consumer_group_with_members_is_refused(real_kafka: Kafka, tmp_path: Path) -> None:
    """KIP-848: DescribeGroups, which older tools ask, would call it Dead."""
    scene = Scene(real_kafka, tmp_path)
    with scene.member(group_protocol="consumer"):
        refused = scene.is_refused(REFUSED, "reset", scene.group, "--to-earliest", "--all-topics")
        assert f"refused: group {scene.group} is Stable with 1 member; stop them first" in refused.err


def test_one_group_with_members_prevents_the_whole_plan(scene: Scene) -> None:
    idle = scene.kafka.new_name("idle")
    scene.commit({scene.tp(0): OffsetAndMetadata(3)}, idle)
    with scene.member():
        scene.is_refused(REFUSED, "reset", scene.group, idle, "--to-earliest", "--topic", f"{scene.topic}:0")
    assert scene.positions(idle) == {0: 3}


@pytest.mark.parametrize("output", [None, "json"])
def test_commits_between_plan_and_execution_are_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, output: str | None
) -> None:
    from kcli.admin.offsets import preview as module

    looked = module.preview

    def look_slowly(*args: Any) -> Any:
        scene.commit({scene.tp(0): OffsetAndMetadata(5, 0, "meanwhile")})
        return looked(*args)

    monkeypatch.setattr(module, "preview", look_slowly)
    words = () if output is None else ("--output", output)
    refused = scene.reset("--to-earliest", "--all-topics", "--execute", *words)
    assert refused.status == REFUSED
    assert "the plan is out of date" in refused.err
    assert f"{scene.tp(0)} of group {scene.group} had 4 when the plan was made, and has 5 now" in refused.err
    assert refused.err.endswith("nothing was written\n")
    assert scene.committed() == {**scene.before, scene.tp(0): OffsetAndMetadata(5, 0, "meanwhile")}
    assert not scene.snapshots


def test_a_commit_with_other_metadata_is_a_change(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    from kcli.admin.offsets import preview as module

    looked = module.preview

    def look_slowly(*args: Any) -> Any:
        scene.commit({scene.tp(1): OffsetAndMetadata(7, -1, "another note")})
        return looked(*args)

    monkeypatch.setattr(module, "preview", look_slowly)
    refused = scene.reset("--to-earliest", "--topic", f"{scene.topic}:1", "--execute")
    assert refused.status == REFUSED
    assert "another note" in refused.err
    assert scene.positions() == {0: 4, 1: 7}


def test_without_a_snapshot_nothing_is_written(scene: Scene) -> None:
    """The folder of snapshots cannot be made: there is a file in its place."""
    scene.state.write_text("in the way")
    result = scene.reset("--to-earliest", "--all-topics", "--execute")
    assert result.status == REFUSED
    assert "the snapshot cannot be written" in result.err
    assert scene.committed() == scene.before


def test_a_snapshot_of_another_cluster_is_refused(scene: Scene) -> None:
    scene.reset("--to-earliest", "--all-topics", "--execute")
    (snapshot,) = scene.snapshots
    told = json.loads(snapshot.read_text())
    snapshot.write_text(json.dumps({**told, "cluster_id": "elsewhere"}))
    refused = scene.is_refused(REFUSED, "undo", told["id"])
    assert "the plan or file is of cluster elsewhere" in refused.err
    assert "there is no snapshot of this cluster" in scene.is_refused(NOT_FOUND, "undo", "--last").err
    assert scene.is_refused(NOT_FOUND, "undo", "20240131T100000.123Z-4f2a91").out == b""


def test_an_export_of_another_cluster_is_refused(scene: Scene) -> None:
    saved = scene.reset("--to-earliest", "--topic", f"{scene.topic}:0", "--output", "json").document
    words = ("reset", scene.group, "--from-file", "-")
    refused = scene.is_refused(REFUSED, *words, stdin=json.dumps({**saved, "cluster_id": "elsewhere"}).encode())
    assert "the plan or file is of cluster elsewhere" in refused.err
    assert scene.offsets(*words, "--execute", stdin=json.dumps(saved).encode()).status == 0
    assert scene.positions() == {0: 0, 1: 7}
