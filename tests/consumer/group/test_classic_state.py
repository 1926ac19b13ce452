"""The states of a classic member against a copy of the table."""

from __future__ import annotations

import itertools

import pytest

from kcli.consumer.group.classic_state import EVENTS, HEARTBEATING, STATES, TRANSITIONS, Event, State, next_state

#: state: {event: next state}; an absent event is a bug.
TABLE: dict[State, dict[Event, State]] = {
    "unjoined": {"join sent": "preparing", "reset": "unjoined"},
    "preparing": {"joined": "completing", "failed": "unjoined", "reset": "unjoined"},
    "completing": {"synced": "stable", "failed": "unjoined", "reset": "unjoined"},
    "stable": {"join sent": "preparing", "reset": "unjoined"},
}


def test_the_table_contains_all_states() -> None:
    assert set(TABLE) == set(STATES)
    assert sum(map(len, TABLE.values())) == len(TRANSITIONS)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(STATES, EVENTS)))
def test_each_event_leads_to_its_next_state_or_raises(state: State, event: Event) -> None:
    if event in TABLE[state]:
        assert next_state(state, event) == TABLE[state][event]
    else:
        with pytest.raises(ValueError, match=f"event '{event}' is not possible in state '{state}'"):
            next_state(state, event)


def test_heartbeats_are_due_after_the_join_response() -> None:
    assert set(HEARTBEATING) == {"completing", "stable"}
