"""The states of a classic member: every pair of state and event is listed, or refused."""

from __future__ import annotations

import itertools

import pytest

from kcli.consumer.group.classic_state import EVENTS, HEARTBEATING, STATES, TRANSITIONS, Event, State, next_state


@pytest.mark.parametrize(("state", "event"), list(itertools.product(STATES, EVENTS)))
def test_every_pair_leads_somewhere_or_is_refused(state: State, event: Event) -> None:
    if (state, event) in TRANSITIONS:
        assert next_state(state, event) in STATES
    else:
        with pytest.raises(ValueError, match=f"{state} cannot take the event: {event}"):
            next_state(state, event)


def test_the_way_in_and_the_way_out() -> None:
    state: State = "unjoined"
    passed = []
    events: list[Event] = ["join sent", "joined", "synced", "join sent", "failed", "reset"]
    for event in events:
        state = next_state(state, event)
        passed.append(state)
    assert passed == ["preparing", "completing", "stable", "preparing", "unjoined", "unjoined"]


def test_every_state_can_be_reached_and_reset() -> None:
    assert set(TRANSITIONS.values()) == set(STATES)
    assert {state for state, event in TRANSITIONS if event == "reset"} == set(STATES)


def test_rounds_begin_only_where_none_is_under_way() -> None:
    assert {state for state, event in TRANSITIONS if event == "join sent"} == {"unjoined", "stable"}
    assert set(HEARTBEATING) == {"completing", "stable"}
