"""Producer ids: unique across restarts, copied logs and full disks."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.broker.serving.request_context import RequestContext
from kcli.broker.testing.memory_files import Fault
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.structs import TopicPartition
from tests.broker.rig import Rig, batch
from tests.broker.single_broker import Node


@pytest.fixture
def rig() -> Rig:
    return Rig()


def ask(rig: Rig, version: int = 4, **fields: Any) -> tuple[int, int, int]:
    """Return error, producer id and epoch."""
    answer = rig.ask(InitProducerIdRequest(**{"transactional_id": None, **fields}), version)
    return answer.error_code, answer.producer_id, answer.producer_epoch


def test_ids_increase_and_epochs_start_at_zero(rig: Rig) -> None:
    assert [ask(rig, version) for version in range(6)] == [(0, id, 0) for id in range(6)]


def test_ids_are_unique_across_restarts() -> None:
    node = Node()
    given = [node.alone.next_producer_id() for _ in range(3)]
    for is_clean in (True, False):
        node.restart(clean=is_clean)
        given += [node.alone.next_producer_id() for _ in range(1001)]
    assert len(set(given)) == len(given)


def test_ids_in_copied_logs_are_not_assigned() -> None:
    node = Node()
    node.cluster.create_topic("t")
    adopted = batch("a", producer_id=4711, producer_epoch=0, base_sequence=0)
    node.replica_manager.append_internal(TopicPartition("t", 0), adopted, node.clock.wall_ms())
    assert node.log_manager.highest_producer_id == 4711
    node.restart()
    assert node.alone.next_producer_id() == 4712


def test_an_invented_id_at_the_end_of_the_range_uses_up_no_ids(rig: Rig) -> None:
    rig.topic("t")
    for invented in ((1 << 63) - 1, 1 << 62):
        records = batch("a", producer_id=invented, producer_epoch=0, base_sequence=0)
        rig.replica_manager.append_internal(TopicPartition("t", 0), records, rig.clock.wall_ms())
    assert rig.log_manager.highest_producer_id == -1


def test_full_disk_is_coordinator_not_available() -> None:
    node = Node()
    node.files.faults.append(Fault("append", code=28))
    request = InitProducerIdRequest(transactional_id=None)
    context = RequestContext(22, 4, 1, "test", "c1", "127.0.0.1", node.clock.now_ms(), node.clock.wall_ms())
    node.membership = node.alone
    answer = node.answer(request, context)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (15, -1, -1)


def test_inconsistent_requests_are_refused(rig: Rig) -> None:
    assert ask(rig, producer_id=5, producer_epoch=-1) == (42, -1, -1)
    assert ask(rig, producer_id=-1, producer_epoch=5) == (42, -1, -1)
    assert ask(rig, producer_id=5, producer_epoch=0)[0] == 0, "idempotent producers get a new id"
