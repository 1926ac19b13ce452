"""The runbooks in tests/runbooks on our broker and on Apache's: they branch on exit statuses alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcli.structs import OffsetAndMetadata
from tests.cli.offsets.scene import STEP_MS, Scene
from tests.interop.process import ROOT
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

RUNBOOKS = ROOT / "tests" / "runbooks"


@pytest.fixture
def scene(any_kafka: Kafka, tmp_path: Path) -> Scene:
    return Scene(any_kafka, tmp_path)


def run(scene: Scene, folder: Path, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a runbook as a process, with kcli on its PATH and the cluster in its environment."""
    shim = folder / "kcli"
    shim.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m kcli "$@"\n')
    shim.chmod(0o755)
    environ = {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "KCLI_BOOTSTRAP_SERVER": scene.kafka.bootstrap_servers,
        "XDG_STATE_HOME": str(scene.state),
    }
    command = ["bash", str(RUNBOOKS / f"{name}.sh"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, cwd=folder, env=environ, check=False)


def test_a_group_is_rewound_and_put_back(scene: Scene, tmp_path: Path) -> None:
    """Its records are an hour old: two hours back is their beginning, and half an hour back there are none."""
    look = ("sh", "-c", f"kcli offsets show {scene.group} --output jsonl > seen")
    done = run(scene, tmp_path, "rewind", scene.group, "2h", *look)
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line) for line in (tmp_path / "seen").read_text().split("\n") if line]
    assert [(item["partition"], item["offset"]) for item in seen] == [(0, 0), (1, 0), (2, 0)]
    assert scene.committed() == scene.before

    assert run(scene, tmp_path, "rewind", scene.group, "PT30M", "false").returncode == 10
    assert scene.committed() == scene.before
    assert run(scene, tmp_path, "rewind", "no-such-group", "2h", "touch", "ran").returncode == 3
    with scene.member():
        running = run(scene, tmp_path, "rewind", scene.group, "2h", "touch", "ran")
    assert running.returncode == 4
    assert running.stderr.endswith(f"stop the consumers of {scene.group} first\n")
    assert not (tmp_path / "ran").exists()
    assert scene.committed() == scene.before


def test_a_poison_record_is_kept_and_skipped(scene: Scene, tmp_path: Path) -> None:
    done = run(scene, tmp_path, "skip_poison", scene.group, scene.topic, "0", "4", "poison.json")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "poison.json").read_text())["key"] == "key 4"
    assert scene.positions() == {0: 5, 1: 7}
    behind = run(scene, tmp_path, "skip_poison", scene.group, scene.topic, "0", "99", "none.json")
    assert behind.returncode in (5, 11), behind.stderr
    missing = run(scene, tmp_path, "skip_poison", scene.group, "no-such-topic", "0", "4", "none.json")
    assert missing.returncode == 3
    with scene.member():
        assert run(scene, tmp_path, "skip_poison", scene.group, scene.topic, "0", "5", "six.json").returncode == 4
    assert scene.positions() == {0: 5, 1: 7}


def test_positions_are_saved_and_restored_on_a_second_group(scene: Scene, tmp_path: Path) -> None:
    new = scene.kafka.new_name("migrated")
    done = run(scene, tmp_path, "migrate", scene.group, new, "positions.json")
    assert done.returncode == 0, done.stderr
    assert scene.committed(new) == scene.committed() == scene.before
    assert len(json.loads((tmp_path / "positions.json").read_text())["items"]) == 2

    assert run(scene, tmp_path, "migrate", "no-such-group", new, "other.json").returncode == 3
    assert not (tmp_path / "other.json").exists()
    with scene.member():  # of the group that is to be overwritten
        assert run(scene, tmp_path, "migrate", new, scene.group, "back.json").returncode == 4
    assert scene.committed() == scene.before


def test_a_deployment_waits_for_the_lag_with_a_limit(scene: Scene, tmp_path: Path) -> None:
    behind = run(scene, tmp_path, "gate", scene.group, "8", "1", "touch", "deployed")
    assert (behind.returncode, (tmp_path / "deployed").exists()) == (5, False), behind.stderr
    assert behind.stderr.endswith(f"{scene.group} is behind: not deployed\n")
    assert run(scene, tmp_path, "gate", scene.group, "9", "20", "sh", "-c", "exit 7").returncode == 7
    scene.commit({scene.tp(0): OffsetAndMetadata(10), scene.tp(1): OffsetAndMetadata(10)})
    assert run(scene, tmp_path, "gate", scene.group, "0", "20", "touch", "deployed").returncode == 0
    assert (tmp_path / "deployed").exists()
    assert run(scene, tmp_path, "gate", "no-such-group", "0", "0.5", "true").returncode == 5


def test_a_window_of_three_topics_is_kept(scene: Scene, tmp_path: Path) -> None:
    others = [Scene(scene.kafka, tmp_path) for _ in range(2)]
    topics = [one.topic for one in (scene, *others)]
    begin_ms = max(one.begin_ms for one in (scene, *others))
    window = (str(begin_ms), str(begin_ms + 5 * STEP_MS))
    done = run(scene, tmp_path, "incident", *window, "window.jsonl", *topics)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "window.jsonl").read_text().splitlines()]
    assert {record["topic"] for record in records} == set(topics)
    assert all(begin_ms <= record["timestamp"] < begin_ms + 5 * STEP_MS for record in records)
    assert len(records) == len(topics) * 3 * 5
    assert run(scene, tmp_path, "incident", *window, "none.jsonl", topics[0], "no-such-topic").returncode == 3
    assert not list(tmp_path.glob("none.jsonl*"))
