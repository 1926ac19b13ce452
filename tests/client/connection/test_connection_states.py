"""Connection states: every pair of state and event, backoff after failures, addresses, throttling."""

import socket

import pytest

from kcli.client.backoff import Backoff
from kcli.client.connection.connection_states import (
    AUTHENTICATE,
    AUTHENTICATED,
    AUTHENTICATING,
    CHECKING_API_VERSIONS,
    CONNECT,
    CONNECTED,
    CONNECTING,
    DISCONNECTED,
    DROP,
    READY,
    REAUTHENTICATING,
    VERSIONS_RECEIVED,
    ConnectionStates,
    NodeState,
)
from kcli.errors import AuthenticationError

A, B = (socket.AF_INET6, ("::1", 9092, 0, 0)), (socket.AF_INET, ("127.0.0.1", 9092))


EXPECTED = {
    ("disconnected", "connect"): "connecting",
    ("connecting", "connect"): "connecting",
    ("connecting", "connected"): "checking_api_versions",
    ("connecting", "drop"): "disconnected",
    ("checking_api_versions", "connect"): "connecting",
    ("checking_api_versions", "versions received"): "ready",
    ("checking_api_versions", "drop"): "disconnected",
    ("checking_api_versions", "authenticate"): "authenticating",
    ("authenticating", "connect"): "connecting",
    ("authenticating", "authenticated"): "ready",
    ("authenticating", "drop"): "disconnected",
    ("ready", "authenticate"): "reauthenticating",
    ("ready", "drop"): "disconnected",
    ("reauthenticating", "authenticated"): "ready",
    ("reauthenticating", "drop"): "disconnected",
}


def states(setup_ms: float = 10_000) -> ConnectionStates:
    steady = lambda low, high: (low + high) / 2  # noqa: E731
    return ConnectionStates(Backoff(50, 1_000, uniform=steady), Backoff(setup_ms, 30_000, uniform=steady))


def make_ready(table: ConnectionStates, node_id: int, now_ms: float = 0) -> None:
    table.connecting(node_id, "c", [A], now_ms)
    table.connected(node_id)
    table.ready(node_id, {3: (0, 13)})


@pytest.mark.parametrize(
    "state", [DISCONNECTED, CONNECTING, CHECKING_API_VERSIONS, AUTHENTICATING, READY, REAUTHENTICATING]
)
@pytest.mark.parametrize("event", [CONNECT, CONNECTED, VERSIONS_RECEIVED, AUTHENTICATE, AUTHENTICATED, DROP])
def test_every_pair_of_state_and_event_moves_or_is_refused(state: str, event: str) -> None:
    node = NodeState()
    node.state = state
    if (state, event) in EXPECTED:
        node.move(event)
        assert node.state == EXPECTED[state, event]
    else:
        with pytest.raises(ValueError, match=f"event '{event}' is not possible in state '{state}'"):
            node.move(event)
        assert node.state == state


def test_the_backoff_of_a_node_grows_with_each_failure() -> None:
    table, now_ms, waits = states(), 0.0, []
    for _ in range(6):
        assert table.can_connect(1, now_ms)
        table.connecting(1, "c", [A], now_ms)
        table.disconnected(1, "connection refused", now_ms)
        waits.append(table.delay_ms(1, now_ms))
        assert not table.can_connect(1, now_ms + waits[-1] - 1)
        now_ms += waits[-1]
    assert waits == [50, 100, 200, 400, 800, 1_000]


def test_the_failures_of_a_node_are_counted_from_its_last_ready_state() -> None:
    table = states()
    for now_ms in (0, 1_000, 2_000):
        table.connecting(1, "c", [A], now_ms)
        table.disconnected(1, "connection refused", now_ms)
    make_ready(table, 1, 3_000)
    assert table.failure(1) is None
    table.disconnected(1, "closed by 127.0.0.1:9092", 4_000)
    assert table.delay_ms(1, 4_000) == 50
    assert table.failure(1) == "closed by 127.0.0.1:9092"


def test_a_node_that_closes_before_it_is_ready_counts_as_failed() -> None:
    table = states()
    for now_ms in (0, 1_000):
        table.connecting(1, "c", [A], now_ms)
        table.connected(1)
        table.disconnected(1, "closed", now_ms)
    assert table.delay_ms(1, 1_000) == 100


def test_a_connection_closed_by_the_client_has_no_backoff() -> None:
    table = states()
    make_ready(table, 1)
    table.disconnected(1, "idle", 10, intended=True)
    assert table.can_connect(1, 10)
    assert table.failure(1) is None


def test_addresses_are_tried_in_turn_before_the_backoff() -> None:
    table = states()
    table.connecting(1, "first", [A, B], 0)
    assert table.has_next_address(1)
    assert table.connecting_next_address(1, "second", 3) == B
    assert not table.has_next_address(1)
    assert table.of(1).channel_id == "second"
    table.disconnected(1, "refused", 5)
    assert table.delay_ms(1, 5) == 50


def test_the_setup_timeout_grows_with_failures() -> None:
    table = states()
    table.connecting(1, "c", [A], 0)
    table.connected(1)
    assert table.next_deadline_ms() == 10_000
    assert table.overdue(9_999) == []
    assert table.overdue(10_000) == [1]
    table.disconnected(1, "no answer", 10_000)
    assert table.overdue(99_999) == []
    table.connecting(1, "c", [A], 20_000)
    assert table.next_deadline_ms() == 40_000
    table.connected(1)
    table.ready(1, {})
    assert table.next_deadline_ms() == float("inf")


def test_a_throttled_node_gets_no_requests_until_the_end_of_the_throttle() -> None:
    table = states()
    make_ready(table, 1)
    table.throttle(1, 500)
    assert table.is_throttled(1, 499)
    assert table.delay_ms(1, 100) == 400
    assert not table.is_throttled(1, 500)
    assert table.delay_ms(1, 500) == float("inf")


def test_a_ready_connection_can_be_adopted_by_a_node_without_one() -> None:
    table = states()
    table.connecting(-1, "boot", [A], 0)
    assert not table.adopt(-1, 1)
    table.connected(-1)
    table.ready(-1, {3: (0, 13)})
    assert table.adopt(-1, 1)
    assert table.is_ready(1)
    assert table.of(1).channel_id == "boot"
    assert not table.is_ready(-1)
    make_ready(table, -1)
    assert not table.adopt(-1, 1)


def make_authenticated(table: ConnectionStates, node_id: int, lifetime_ms: float = 0, now_ms: float = 0) -> None:
    table.connecting(node_id, "c", [A], now_ms)
    table.connected(node_id)
    table.authenticating(node_id, {3: (0, 13)})
    table.authenticated(node_id, lifetime_ms, 0.9, now_ms)


def test_a_node_is_ready_after_authentication_and_the_setup_timeout_covers_it() -> None:
    table = states()
    table.connecting(1, "c", [A], 0)
    table.connected(1)
    table.authenticating(1, {3: (0, 13)})
    assert table.is_preparing(1)
    assert not table.is_ready(1)
    assert table.overdue(10_000) == [1]
    table.authenticated(1, 0, 0.9, 10_000)
    assert table.is_ready(1)
    assert table.of(1).versions == {3: (0, 13)}
    assert table.next_deadline_ms() == float("inf")


def test_a_session_is_renewed_before_its_end_and_one_without_end_never() -> None:
    table = states()
    make_authenticated(table, 1, 1_000, now_ms=50)
    assert not table.session_ends(1, 949)
    assert table.session_ends(1, 950)
    table.authenticating(1)
    assert table.is_established(1)
    assert not table.is_ready(1)
    assert not table.session_ends(1, 2_000)
    table.authenticated(1, 0, 0.9, 1_000)
    assert table.is_ready(1)
    assert not table.session_ends(1, 10**9)


def test_a_refusal_lasts_until_the_next_attempt() -> None:
    table, refusal = states(), AuthenticationError("wrong password")
    table.connecting(1, "c", [A], 0)
    table.connected(1)
    table.authenticating(1, {})
    table.disconnected(1, "wrong password", 0, refusal=refusal)
    assert table.refusal(1) is refusal
    assert table.failure(1) == "wrong password"
    assert table.delay_ms(1, 0) == 50
    table.connecting(1, "c", [A], 50)
    assert table.refusal(1) is None


def test_a_refusal_concerns_all_nodes_while_none_is_connected_and_its_backoff_lasts() -> None:
    table, refusal = states(), AuthenticationError("wrong password")
    assert table.refusal_of_all(0) is None
    make_authenticated(table, 1)
    table.connecting(2, "c", [A], 0)
    table.disconnected(2, "wrong password", 0, refusal=refusal)
    assert table.refusal_of_all(0) is None
    table.disconnected(1, "closed", 0)
    assert table.refusal_of_all(49) is refusal
    assert table.refusal_of_all(50) is None


def test_early_closes_are_counted_until_an_answer() -> None:
    table = states()
    assert [table.closed_early(1), table.closed_early(1)] == [1, 2]
    table.answered(1)
    assert table.closed_early(1) == 1
