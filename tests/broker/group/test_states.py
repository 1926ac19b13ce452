"""The state table of classic groups: every pair of state and event leads somewhere known or is refused."""

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

# As Kafka allows: the states before each state, read the other way round.
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
def test_pair_leads_somewhere_or_is_refused(state: GroupState, event: GroupEvent) -> None:
    expected = ALLOWED.get((state.value, event.value))
    if expected is None:
        with pytest.raises(ValueError, match=f"{event.value}' is not valid for a group in state {state.value}"):
            next_state(state, event)
    else:
        assert next_state(state, event).value == expected


def test_nothing_leads_out_of_dead() -> None:
    assert not any(state == "Dead" for state, _ in ALLOWED)


def test_every_state_has_its_answers() -> None:
    for answers in (COMMIT_ERRORS, HEARTBEAT_ERRORS, SYNC_ERRORS):
        assert set(answers) == set(GroupState)
