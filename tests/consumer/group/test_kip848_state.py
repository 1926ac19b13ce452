"""The table of a KIP-848 member's states: every pair is listed or refused, and every state leads on."""

from __future__ import annotations

import itertools

import pytest

from kcli.consumer.group.kip848_state import ACTIVE, EVENTS, STATES, TRANSITIONS, State, WrongTransition, next_state


def test_every_pair_is_listed_or_refused() -> None:
    for state, event in itertools.product(STATES, EVENTS):
        if (state, event) in TRANSITIONS:
            assert next_state(state, event) in STATES
        else:
            with pytest.raises(WrongTransition, match=f"{state} cannot {event}"):
                next_state(state, event)
    assert set(TRANSITIONS) <= set(itertools.product(STATES, EVENTS))


@pytest.mark.parametrize("state", [state for state in STATES if state != "out"])
def test_every_state_can_be_left_for_good(state: State) -> None:
    reached = {state}
    while True:
        more = {to for (at, event), to in TRANSITIONS.items() if at in reached and event in LEAVING} | reached
        if more == reached:
            break
        reached = more
    assert "out" in reached


LEAVING = ("unsubscribe", "release", "farewell")


@pytest.mark.parametrize("state", ACTIVE)
def test_whoever_is_fenced_rejoins_only_after_the_application_was_told(state: State) -> None:
    assert next_state(state, "fence") == "fenced"
    assert [event for event in EVENTS if TRANSITIONS.get(("fenced", event)) == "joining"] == ["lose"]


def test_a_broker_has_no_say_once_we_are_leaving() -> None:
    for event in ("target", "settle", "fence", "fail"):
        assert next_state("leaving", event) == "leaving"
        assert next_state("out", event) == "out"


def test_only_the_subscribed_ever_join() -> None:
    leads_in = {event for (state, event), to in TRANSITIONS.items() if to == "joining" and state != to}
    assert leads_in == {"subscribe", "lose"}
