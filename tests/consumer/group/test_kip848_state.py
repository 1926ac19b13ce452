"""The states of a KIP-848 member against a copy of the table."""

from __future__ import annotations

import itertools

import pytest

from kcli.consumer.group.kip848_state import (
    ACTIVE,
    EVENTS,
    STATES,
    TRANSITIONS,
    Event,
    State,
    WrongTransition,
    next_state,
)

#: state: {event: next state}; an absent event is a bug. Late responses leave a member without a session as it is.
TABLE: dict[State, dict[Event, State]] = {
    "out": {
        "subscribe": "joining",
        "release": "out",
        "target": "out",
        "settle": "out",
        "fence": "out",
        "fail": "out",
    },
    "joining": {
        "target": "reconciling",
        "settle": "stable",
        "fence": "fenced",
        "overdue": "stale",
        "unsubscribe": "releasing",
        "fail": "failed",
    },
    "reconciling": {
        "target": "reconciling",
        "settle": "stable",
        "reconcile": "acknowledging",
        "fence": "fenced",
        "overdue": "stale",
        "unsubscribe": "releasing",
        "fail": "failed",
    },
    "acknowledging": {
        "target": "reconciling",
        "settle": "acknowledging",
        "acknowledge": "stable",
        "fence": "fenced",
        "overdue": "stale",
        "unsubscribe": "releasing",
        "fail": "failed",
    },
    "stable": {
        "target": "reconciling",
        "settle": "stable",
        "fence": "fenced",
        "overdue": "stale",
        "unsubscribe": "releasing",
        "fail": "failed",
    },
    "fenced": {
        "lose": "joining",
        "unsubscribe": "out",
        "target": "fenced",
        "settle": "fenced",
        "fence": "fenced",
        "fail": "fenced",
    },
    "stale": {
        "lose": "joining",
        "unsubscribe": "out",
        "target": "stale",
        "settle": "stale",
        "fence": "stale",
        "fail": "stale",
    },
    "releasing": {
        "release": "leaving",
        "unsubscribe": "releasing",
        "target": "releasing",
        "settle": "releasing",
        "fence": "out",
        "fail": "out",
    },
    "leaving": {
        "left": "out",
        "release": "leaving",
        "unsubscribe": "leaving",
        "target": "leaving",
        "settle": "leaving",
        "fence": "leaving",
        "fail": "leaving",
    },
    "failed": {
        "unsubscribe": "out",
        "target": "failed",
        "settle": "failed",
        "fence": "failed",
        "fail": "failed",
    },
}


LEAVING: tuple[Event, ...] = ("unsubscribe", "release", "left")


def test_the_table_contains_all_states() -> None:
    assert set(TABLE) == set(STATES)
    assert sum(map(len, TABLE.values())) == len(TRANSITIONS)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(STATES, EVENTS)))
def test_each_event_leads_to_its_next_state_or_raises(state: State, event: Event) -> None:
    if event in TABLE[state]:
        assert next_state(state, event) == TABLE[state][event]
    else:
        with pytest.raises(WrongTransition, match=f"event '{event}' is not possible in state '{state}'"):
            next_state(state, event)


@pytest.mark.parametrize("state", [state for state in STATES if state != "out"])
def test_a_member_can_leave_from_every_state(state: State) -> None:
    reached = {state}
    while True:
        more = {
            TABLE[at][event] for at in reached for event in ("unsubscribe", "release", "left") if event in TABLE[at]
        }
        if more <= reached:
            break
        reached |= more
    assert "out" in reached


def test_a_fenced_member_rejoins_only_after_the_application_has_lost_its_partitions() -> None:
    assert {next_state(state, "fence") for state in ACTIVE} == {"fenced"}
    assert [event for event, to in TABLE["fenced"].items() if to == "joining"] == ["lose"]
