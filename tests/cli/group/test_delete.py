"""`kcli group delete --execute` and Apache's `--delete` save the offsets that they delete, and `undo` restores them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.broker.testing.control import DROP
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from tests.cli.fake import Result, run_kcli
from tests.cli.offsets.scene import Scene
from tests.real_kafka import Kafka


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as serving:
        yield serving


@pytest.fixture
def scene(broker: EmbeddedBroker, tmp_path: Path) -> Scene:
    return Scene(Kafka(broker.address, tmp_path), tmp_path)


def delete(scene: Scene, *words: str, state: Path | None = None) -> Result:
    where = ("-b", scene.kafka.bootstrap_servers, "--timeout", "10")
    environ = {"XDG_STATE_HOME": str(state or scene.state)}
    return run_kcli("group", "delete", scene.group, *where, *words, environ=environ)


def compat(scene: Scene, *words: str) -> Result:
    where = ("--bootstrap-server", scene.kafka.bootstrap_servers, "--group", scene.group)
    return run_kcli("compat", "consumer-groups", *where, *words, environ={"XDG_STATE_HOME": str(scene.state)})


def test_the_undo_of_a_deleted_group_restores_offsets_epochs_and_metadata(any_kafka: Kafka, tmp_path: Path) -> None:
    """An older, unrelated reset is not what `--last` takes back."""
    scene = Scene(any_kafka, tmp_path)
    other = any_kafka.new_name("group")
    scene.commit(scene.before, other)
    assert scene.offsets("reset", other, "--to-earliest", "--all-topics", "--execute").status == 0
    deleted = delete(scene, "--execute")
    assert deleted.status == 0
    assert f"to restore the deleted offsets: kcli offsets undo {scene.snapshots[-1].stem} --execute" in deleted.err
    assert scene.committed() == {}
    undone = scene.offsets("undo", "--last", "--execute")
    assert undone.status == 0, undone
    assert f": the group deletion of {scene.group} (2 partitions), " in undone.err
    assert "s ago\n" in undone.err
    assert scene.committed() == scene.before
    assert scene.positions(other) == {0: 0, 1: 0, 2: 0}


def test_a_plan_saves_nothing(scene: Scene) -> None:
    assert delete(scene).status == 0
    assert not scene.snapshots


def test_a_group_is_not_deleted_without_a_snapshot(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = delete(scene, "--execute", state=tmp_path / "file")
    assert result.status == 4
    assert "the snapshot cannot be written to" in result.err
    assert result.err.endswith("; nothing was deleted\n")
    assert scene.committed() == scene.before


def test_a_group_that_may_be_deleted_is_reported_as_unknown_with_its_undo(broker: EmbeddedBroker, scene: Scene) -> None:
    broker.intercept("DeleteGroups", lambda *_: DROP)
    result = delete(scene, "--execute", "--timeout", "1")
    assert result.status == 5
    assert result.text.splitlines()[1].split()[1] == "unknown"
    assert "to restore the deleted offsets: kcli offsets undo " in result.err


@pytest.mark.parametrize("words", ["--delete", "--delete-offsets --topic {topic}:1"])
def test_offsets_that_compat_deletes_are_restored(scene: Scene, words: str) -> None:
    result = compat(scene, *words.format(topic=scene.topic).split())
    assert result.status == 0, result
    assert scene.committed() != scene.before
    undo = f"kcli offsets undo {scene.snapshots[-1].stem} --execute"
    assert result.err == f"kcli: to restore the deleted offsets: {undo}\n"
    assert scene.offsets("undo", "--last", "--execute").status == 0
    assert scene.committed() == scene.before


def test_a_refused_deletion_leaves_no_snapshot(broker: EmbeddedBroker, scene: Scene) -> None:
    refused = DeletableGroupResult(group_id=scene.group, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    broker.intercept("DeleteGroups", lambda *_: DeleteGroupsResponse(results=[refused]))
    result = delete(scene, "--execute")
    assert result.status == 4
    assert "undo" not in result.err
    assert not scene.snapshots


def test_a_group_with_members_is_not_in_the_snapshot_of_a_deletion(scene: Scene) -> None:
    """Apache's tool deletes the other groups. An undo that includes a group with members would be refused."""
    with scene.member():
        assert compat(scene, "--delete").status == 4
        assert compat(scene, "--delete-offsets", "--topic", scene.topic).status == 4
    assert not scene.snapshots
