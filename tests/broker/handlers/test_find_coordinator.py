"""FindCoordinator: the offsets topic that it creates, and the answer if that is not possible."""

from __future__ import annotations

import errno

import pytest

from kcli.broker.testing.memory_files import Fault
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.single_broker import Node


@pytest.mark.parametrize("version", [0, 3, 4, 6])
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC])
def test_offsets_topic_that_cannot_be_created_makes_clients_try_again(version: int, code: int) -> None:
    node = Node()
    node.files.faults.append(Fault("open", "partition.metadata", code, skip=20, times=2))
    request = FindCoordinatorRequest(coordinator_keys=["g"]) if version >= 4 else FindCoordinatorRequest(key="g")

    def ask() -> tuple[int, int]:
        answer = node.ask(request, version)
        found = answer.coordinators[0] if version >= 4 else answer
        return found.error_code, found.node_id

    assert ask() == (15, -1)
    node.files.faults.clear()
    assert (node.log_manager.failed, dict(node.cluster.topics), node.directories()) == (None, {}, set())
    node.restart()
    assert not node.cluster.topics
    assert ask() == (0, 1)
    assert len(node.directories()) == 50
