"""Failures while `kcli offsets reset` writes: exit statuses and the undo command."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.admin.offsets import apply as applying
from kcli.broker.testing.control import SILENCE
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.cli import app
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.protocol.registry import ApiKey
from tests.cli.fake import FakeEnvironment, Result, run_kcli
from tests.cli.offsets.scene import Scene
from tests.lossy_proxy import lossy_proxy
from tests.real_kafka import Kafka

LOOKING = {"ApiVersions", "FindCoordinator", "DescribeGroups", "OffsetFetch", "Metadata", "ListOffsets", "Fetch"}
LOOKING |= {"DescribeLogDirs", "ConsumerGroupDescribe", "ListGroups"}
ALL = ("--to-earliest", "--all-topics")


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as serving:
        yield serving


@pytest.fixture
def scene(broker: EmbeddedBroker, tmp_path: Path) -> Scene:
    return Scene(Kafka(broker.address, tmp_path), tmp_path)


def asked(broker: EmbeddedBroker, since: int) -> set[str]:
    return {request.api for request in broker.requests[since:]}


def test_a_plan_sends_only_read_requests(broker: EmbeddedBroker, scene: Scene) -> None:
    since = len(broker.requests)
    assert scene.reset(*ALL).status == 0
    assert scene.reset("--to-offset", "99", "--all-topics", "--execute").status == 4
    assert scene.reset("--to-datetime", "now", "--all-topics", "--execute").status == 4
    assert asked(broker, since) <= LOOKING
    assert scene.reset(*ALL, "--execute").status == 0
    assert asked(broker, since) - LOOKING == {"OffsetCommit"}


def test_a_failed_partition_is_a_row_beside_the_written_ones(any_kafka: Kafka, tmp_path: Path) -> None:
    """A note that is longer than brokers take (offset.metadata.max.bytes, 4096)."""
    scene = Scene(any_kafka, tmp_path)
    lines = [f"{scene.group},{scene.topic},{number},1,,{'n' * 5000 * (number == 1)}\n" for number in range(3)]
    file = ("group,topic,partition,offset,leader_epoch,metadata\n" + "".join(lines)).encode()
    result = scene.reset("--from-file", "-", "--execute", stdin=file)
    assert result.status == 1
    assert scene.positions() == {0: 1, 1: 7, 2: 1}
    table, failed = result.text.split("\n\n")
    assert len(table.splitlines()) == 4
    heading, row = failed.splitlines()
    assert heading.split()[3] == "STATUS"
    assert row.split()[1:4] == [scene.topic, "1", "failed"]
    assert "OFFSET_METADATA_TOO_LARGE" in row
    assert "2 partitions moved, 1 partition failed; to undo: kcli offsets undo " in result.err
    assert scene.offsets("undo", "--last", "--execute").status == 0
    assert scene.committed() == scene.before

    items = scene.items(scene.reset("--from-file", "-", "--execute", "--output", "json", stdin=file))
    assert [item["status"] for item in items] == ["moved", "failed", "moved"]
    assert items[1]["error"]["code"] == "OFFSET_METADATA_TOO_LARGE"
    assert [item["snapshot"] for item in items] == [scene.snapshots[-1].stem] * 3


def test_a_silent_coordinator_leaves_a_snapshot_for_undo(broker: EmbeddedBroker, scene: Scene) -> None:
    broker.intercept("OffsetCommit", lambda *_: SILENCE)
    result = scene.offsets("reset", scene.group, *ALL, "--execute", "--timeout", "1.5")
    assert result.status == 5
    assert "3 partitions unknown; to undo: kcli offsets undo " in result.err
    assert "the undo restores these offsets too, whether they were written or not" in result.err
    assert {row[3] for row in map(str.split, result.text.split("\n\n")[1].splitlines()[1:])} == {"unknown"}
    broker.forget_interceptions()
    assert scene.offsets("undo", "--last", "--execute").status == 0
    assert scene.committed() == scene.before


def test_a_leader_that_is_not_ready_until_the_timeout_is_incomplete_and_not_refused(
    broker: EmbeddedBroker, scene: Scene
) -> None:
    """OFFSET_NOT_AVAILABLE after a leader change: status 4 after 11 of 30 s."""
    asked: list[float] = []

    def not_ready(request: ListOffsetsRequest, _: object) -> ListOffsetsResponse:
        asked.append(time.monotonic())
        code = int(ErrorCode.OFFSET_NOT_AVAILABLE)
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(partition_index=it.partition_index, error_code=code)
                        for it in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    broker.intercept("ListOffsets", not_ready)
    result = scene.offsets("reset", scene.group, *ALL, "--execute", "--timeout", "1.5")
    assert result.status == 5
    assert "OFFSET_NOT_AVAILABLE" in result.err
    assert asked[-1] - asked[0] > 1.0  # half of the time was 0.75 s
    assert scene.committed() == scene.before


def test_members_that_join_after_the_check_are_a_refusal(broker: EmbeddedBroker, scene: Scene) -> None:
    def for_members_only(request: OffsetCommitRequest, _: object) -> OffsetCommitResponse:
        code = int(ErrorCode.UNKNOWN_MEMBER_ID)
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=it.partition_index, error_code=code)
                    for it in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return OffsetCommitResponse(topics=topics)

    broker.intercept("OffsetCommit", for_members_only)
    result = scene.reset(*ALL, "--execute")
    assert result.status == 4
    assert "3 partitions failed; nothing was written\n" in result.err
    assert scene.committed() == scene.before
    assert not scene.snapshots


@pytest.mark.parametrize("written", [True, False])
def test_an_interruption_prints_the_undo(scene: Scene, monkeypatch: pytest.MonkeyPatch, *, written: bool) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(applying, "_write" if written else "check_commits", interrupted)
    result = scene.reset(*ALL, "--execute")
    assert result.status == 130
    assert ("some offsets may have been written; to undo: kcli offsets undo " in result.err) is written
    assert result.err.endswith("nothing was written\n") is not written
    assert len(scene.snapshots) == written


class _Broken(io.StringIO):
    """Standard output into a pipe without a reader, or onto a full disk."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def flush(self) -> None:
        raise OSError(self.number, "gone" if self.number == errno.EPIPE else "full")


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC])
def test_a_plan_that_cannot_be_shown_is_not_applied(scene: Scene, number: int) -> None:
    env = FakeEnvironment(environ={"XDG_STATE_HOME": str(scene.state)})
    env.stdout = _Broken(number)
    where = ("-b", scene.kafka.bootstrap_servers)
    status = app.run(["offsets", "reset", scene.group, *ALL, "--execute", *where], env)
    env.stderr.flush()
    assert status == 4
    assert b"cannot show the plan: " in env.err_buffer.getvalue()
    assert scene.committed() == scene.before
    assert not scene.snapshots


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_plan_that_a_full_disk_refuses_is_reported_once(scene: Scene) -> None:
    """The buffered plan raised the error again when the process ended: a second line, and status 1."""
    where = ("-b", scene.kafka.bootstrap_servers)
    command = [sys.executable, "-m", "kcli", "offsets", "reset", scene.group, *ALL, "--execute", *where]
    environ = {**os.environ, "XDG_STATE_HOME": str(scene.state)}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environ, timeout=120)
        unseen = subprocess.run(command, stdout=full, stderr=full, env=environ, timeout=120)
    line = "kcli: cannot show the plan: No space left on device; nothing was written\n"
    assert (done.returncode, done.stderr) == (4, line)
    assert unseen.returncode == 4
    assert scene.committed() == scene.before


def test_a_closed_pipe_does_not_change_the_status_of_a_refusal(scene: Scene) -> None:
    env = FakeEnvironment(environ={"XDG_STATE_HOME": str(scene.state)})
    env.stdout = _Broken(errno.EPIPE)
    words = ("--to-offset", "99", "--all-topics", "--execute", "-b", scene.kafka.bootstrap_servers)
    assert app.run(["offsets", "reset", scene.group, *words], env) == 4


@pytest.mark.parametrize("output", ["jsonl", "csv", "tsv"])
def test_outcome_rows_for_programs(scene: Scene, output: str) -> None:
    told = scene.reset("--to-latest", "--all-topics", "--execute", "--output", output)
    assert told.status == 0
    assert told.text.count("moved") == 3


def test_control_characters_of_metadata_and_keys_are_escaped_on_a_terminal(scene: Scene) -> None:
    producer = scene.kafka.ordered_producer()
    producer.produce(scene.topic, b"v", b"\x1b[2J odd\nkey", partition=0)
    assert producer.flush(30) == 0
    shown = scene.reset("--to-offset", "10", "--topic", f"{scene.topic}:0")
    (row,) = scene.rows(shown)
    assert row[7].endswith(r":\x1b[2J_odd\nkey")


def compat_reset(scene: Scene, state: Path) -> Result:
    words = ("--bootstrap-server", scene.kafka.bootstrap_servers, "--reset-offsets", "--to-earliest")
    scope = ("--group", scene.group, "--all-topics", "--execute")
    return run_kcli("compat", "consumer-groups", *words, *scope, environ={"XDG_STATE_HOME": str(state)})


def test_an_interruption_of_compat_prints_the_undo_command(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(applying, "_write", interrupted)
    result = compat_reset(scene, scene.state)
    assert result.status == 130
    assert f"to undo: kcli offsets undo {scene.snapshots[0].stem} --execute" in result.err


def test_compat_prints_an_undo_command_that_can_be_run(scene: Scene) -> None:
    result = compat_reset(scene, scene.state)
    assert result.status == 0
    assert (
        result.err == f"kcli: to restore the previous offsets: kcli offsets undo {scene.snapshots[0].stem} --execute\n"
    )
    command = result.err.split("kcli offsets ")[1].split()
    assert scene.offsets(*command).status == 0
    assert scene.committed() == scene.before


def test_compat_refuses_a_reset_without_a_snapshot(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = compat_reset(scene, tmp_path / "file")
    assert result.status == 4
    assert "the snapshot cannot be written" in result.text
    assert scene.committed() == scene.before


def test_lost_responses_to_commits_do_not_make_written_offsets_failed(any_kafka: Kafka, tmp_path: Path) -> None:
    scene = Scene(any_kafka, tmp_path)
    groups = [scene.group, *(any_kafka.new_name("group") for _ in range(5))]
    for group in groups[1:]:
        scene.commit(scene.before, group)
    with lossy_proxy(any_kafka.bootstrap_servers, offset_commit="cut", offset_delete="cut") as proxy:
        through = ("-b", proxy.address)
        result = scene.offsets("reset", *groups, "--to-earliest", "--all-topics", "--execute", *through)
        assert result.status == 0, result
        assert "18 partitions moved; to undo: " in result.err
        assert all(scene.positions(group) == {0: 0, 1: 0, 2: 0} for group in groups)
        undone = scene.offsets("undo", "--last", "--execute", *through)
        assert undone.status == 0, undone
    assert all(scene.committed(group) == scene.before for group in groups)
    assert proxy.requests[ApiKey.OFFSET_COMMIT] >= 12
