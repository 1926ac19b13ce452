"""Producer ids: unique across restarts, copied logs and damaged files."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.broker.producer_ids import BLOCK_SIZE, FILE_NAME, ProducerIds
from kcli.errors import ConfigError
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.structs import TopicPartition
from tests.broker.rig import Rig, batch


@pytest.fixture
def rig() -> Rig:
    return Rig()


def ask(rig: Rig, version: int = 4, **fields: Any) -> tuple[int, int, int]:
    """Return error, producer id and epoch."""
    answer = rig.ask(InitProducerIdRequest(**{"transactional_id": None, **fields}), version)
    return answer.error_code, answer.producer_id, answer.producer_epoch


def test_ids_increase_and_epochs_start_at_zero(rig: Rig) -> None:
    assert [ask(rig, version) for version in range(6)] == [(0, id, 0) for id in range(6)]


def test_ids_are_unique_across_restarts(rig: Rig) -> None:
    given = [ask(rig)[1] for _ in range(3)]
    for _ in range(2):
        rig.producer_ids = ProducerIds(rig.data_dir, rig.files)
        given += [ask(rig)[1] for _ in range(BLOCK_SIZE + 1)]
    assert len(set(given)) == len(given)


def test_ids_in_copied_logs_are_not_assigned(rig: Rig) -> None:
    rig.topic("t")
    adopted = batch("a", producer_id=4711, producer_epoch=0, base_sequence=0)
    rig.replica_manager.append_internal(TopicPartition("t", 0), adopted, rig.clock.wall_ms())
    highest = rig.log_manager.highest_producer_id
    assert highest == 4711
    assert ProducerIds(rig.data_dir, rig.files, highest_seen=highest).next() == 4712


def test_an_invented_id_at_the_end_of_the_range_uses_up_no_ids(rig: Rig) -> None:
    rig.topic("t")
    for invented in ((1 << 63) - 1, 1 << 62):
        records = batch("a", producer_id=invented, producer_epoch=0, base_sequence=0)
        rig.replica_manager.append_internal(TopicPartition("t", 0), records, rig.clock.wall_ms())
    assert rig.log_manager.highest_producer_id == -1


def test_damaged_file_raises_instead_of_restarting_at_zero(rig: Rig) -> None:
    for content in (
        b"",
        b"{}",
        b'{"version":1,"next_producer_id":"7"}',
        b'{"version":2,"next_producer_id":7}',
        b"\xff",
    ):
        rig.files.write_atomically(f"{rig.data_dir}/{FILE_NAME}", content)
        with pytest.raises(ConfigError, match=FILE_NAME):
            ProducerIds(rig.data_dir, rig.files)


def test_full_disk_is_coordinator_not_available(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rig.files, "write_atomically", fail)
    assert ask(rig) == (15, -1, -1)


def test_inconsistent_requests_are_refused(rig: Rig) -> None:
    assert ask(rig, producer_id=5, producer_epoch=-1) == (42, -1, -1)
    assert ask(rig, producer_id=-1, producer_epoch=5) == (42, -1, -1)
    assert ask(rig, producer_id=5, producer_epoch=0)[0] == 0, "idempotent producers get a new id"
