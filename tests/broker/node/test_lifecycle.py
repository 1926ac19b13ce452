"""Registration and heartbeats of a node (KIP-631), answered by hand."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kcli.broker.cluster.cluster_values import Listener
from kcli.broker.cluster.features import SUPPORTED_FEATURES
from kcli.broker.node.lifecycle import Lifecycle, State
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kcli.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


def lifecycle(previous_epoch: int = -1) -> Lifecycle:
    return Lifecycle(
        node_id=2,
        cluster_id="c",
        incarnation_id=UUID(int=7),
        listeners=[Listener("PLAINTEXT", "h", 1)],
        rack="r",
        directory_id=UUID(int=8),
        previous_epoch=previous_epoch,
    )


def beat(node: Lifecycle, now_ms: float = 0, **answer: Any) -> BrokerHeartbeatRequest:
    """Return the heartbeat that is due, after answering it."""
    assert node.due_ms() <= now_ms
    request = node.next_request()
    assert isinstance(request, BrokerHeartbeatRequest)
    node.on_response(BrokerHeartbeatResponse(**answer), now_ms)
    return request


def registered(epoch: int = 50) -> Lifecycle:
    node = lifecycle()
    node.next_request()
    node.on_response(BrokerRegistrationResponse(broker_epoch=epoch), 0)
    return node


def running() -> Lifecycle:
    node = registered()
    beat(node, is_caught_up=True)
    node.is_ready = True
    beat(node, is_caught_up=True, is_fenced=False)
    return node


def test_the_registration_has_listeners_features_directory_and_the_epoch_of_the_last_clean_shutdown() -> None:
    request = lifecycle(previous_epoch=41).next_request()
    assert isinstance(request, BrokerRegistrationRequest)
    assert (request.broker_id, request.cluster_id, request.rack, request.previous_broker_epoch) == (2, "c", "r", 41)
    assert (request.incarnation_id, request.log_dirs) == (UUID(int=7), [UUID(int=8)])
    assert {
        one.name: (one.min_supported_version, one.max_supported_version) for one in request.features
    } == SUPPORTED_FEATURES


def test_a_node_is_fenced_until_it_has_applied_its_registration_and_opened_its_partitions() -> None:
    node = registered(epoch=50)
    node.applied_offset = 12
    first = beat(node, is_caught_up=False)
    assert (first.broker_epoch, first.current_metadata_offset, first.want_fence) == (50, 12, True)
    assert first.cordoned_log_dirs is None
    assert node.due_ms() == 10
    beat(node, 10, is_caught_up=True)
    assert node.state is State.RECOVERY
    assert node.due_ms() == 2010

    node.is_ready = True
    ready = beat(node, 20, is_caught_up=True, is_fenced=True)
    assert not ready.want_fence
    assert ready.cordoned_log_dirs == []
    assert node.state is State.RECOVERY
    beat(node, 30, is_caught_up=True, is_fenced=False)
    assert node.state is State.RUNNING
    assert node.due_ms() == 2030


def test_a_running_node_that_is_fenced_keeps_its_state_and_does_not_want_to_be_fenced() -> None:
    node = running()
    beat(node, 2000, is_caught_up=True, is_fenced=True)
    assert node.state is State.RUNNING
    assert node.is_fenced
    assert not beat(node, 4000, is_caught_up=True, is_fenced=False).want_fence


def test_a_registration_is_tried_again_while_the_old_session_lives() -> None:
    node = lifecycle()
    pauses = []
    for _ in range(6):
        now_ms = node.due_ms()
        assert isinstance(node.next_request(), BrokerRegistrationRequest)
        node.on_response(BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION), now_ms)
        pauses.append(node.due_ms() - now_ms)
    assert pauses == [100, 200, 400, 800, 1000, 1000]
    assert node.fault == "DUPLICATE_BROKER_REGISTRATION"
    node.on_response(BrokerRegistrationResponse(broker_epoch=9), 5000)
    assert (node.epoch, node.fault) == (9, None)


def test_a_failed_heartbeat_is_sent_again_and_changes_no_state() -> None:
    node = running()
    node.on_failure("connection refused", 2000)
    assert (node.state, node.fault, node.due_ms()) == (State.RUNNING, "connection refused", 2100)
    beat(node, 2100, is_caught_up=True, is_fenced=False)
    assert node.fault is None


def test_a_shutdown_is_requested_at_once_and_repeated_until_it_is_granted() -> None:
    node = running()
    node.wants_shutdown = True
    assert beat(node, 1, is_caught_up=True, is_fenced=False).want_shut_down
    assert node.state is State.SHUTTING_DOWN
    assert node.due_ms() == 101
    beat(node, 101, is_caught_up=True, should_shut_down=True)
    assert node.state is State.STOPPED
    assert node.due_ms() == float("inf")
