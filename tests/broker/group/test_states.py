"""The state table of classic groups, against a copy of its own: every pair of state and event."""

from __future__ import annotations

import itertools

import pytest

from kcli.broker.group.states import (
    COMMIT_ERRORS,
    HEARTBEAT_ERRORS,
    SYNC_ERRORS,
    GroupEvent,
    GroupState,
    next_state,
)

# Kafka's table of valid previous states, inverted.
ALLOWED = {
    ("Empty", "rebalance wanted"): "PreparingRebalance",
    ("CompletingRebalance", "rebalance wanted"): "PreparingRebalance",
    ("Stable", "rebalance wanted"): "PreparingRebalance",
    ("PreparingRebalance", "all members joined"): "CompletingRebalance",
    ("PreparingRebalance", "all members left"): "Empty",
    ("CompletingRebalance", "assignment stored"): "Stable",
    ("Empty", "group deleted"): "Dead",
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(GroupState, GroupEvent)), ids=lambda x: x.value)
def test_each_pair_of_state_and_event_follows_the_table_or_raises(state: GroupState, event: GroupEvent) -> None:
    expected = ALLOWED.get((state.value, event.value))
    if expected is None:
        with pytest.raises(ValueError, match=f"{event.value}' is not valid for a group in state {state.value}"):
            next_state(state, event)
    else:
        assert next_state(state, event).value == expected


def test_no_event_leaves_the_dead_state() -> None:
    assert not any(state == "Dead" for state, _ in ALLOWED)


# Error codes of heartbeats, syncs and commits of a member of the generation (Apache Kafka 4.3.1).
ERRORS = {
    "Empty": (25, 25, 0),
    "PreparingRebalance": (27, 27, 0),
    "CompletingRebalance": (0, 0, 27),
    "Stable": (0, 0, 0),
    "Dead": (15, 15, 15),
}


@pytest.mark.parametrize("state", GroupState, ids=lambda state: state.value)
def test_every_state_has_error_codes_for_each_request(state: GroupState) -> None:
    assert (HEARTBEAT_ERRORS[state], SYNC_ERRORS[state], COMMIT_ERRORS[state]) == ERRORS[state.value]
