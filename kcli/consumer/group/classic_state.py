"""The states of a member of a classic group and what moves it from one to the next. Pure.

A member lives in the rounds of its group, the generations. To come into one it joins (says what it wants, with which
assignors), waits until all others have, syncs (the member that was made leader hands in who reads what), and from then
on only says now and then that it lives. So, with what each state promises:

* **unjoined**: in no generation. It may still have an id, from an earlier round or handed out for the next. It sends no
  heartbeats. What it reads belongs to it only as long as nobody has said otherwise.
* **preparing**: JoinGroup is on its way, and stays unanswered until all members have joined. Meanwhile the open request
  is what shows the broker that we live, so there are no heartbeats.
* **completing**: the answer named our generation and made us leader or not. SyncGroup is on its way, after the leader's
  questions about topics. From here on heartbeats are due.
* **stable**: the assignment is there. A broker that tells a rebalance (error 27) does not end this state: the member is
  one of this generation, and may commit for it, until it has joined again.

A round ends early (FAILED) when its join or sync is refused, and is tried again. RESET is worse and may come at any
moment: the generation, perhaps the member id too, is gone, because the broker said so, because we left, or because the
application did not poll for too long. A pair that is not in the table is a bug and refused loudly: answers of a round
that is over are dropped before they get here.

Source: KIP-62, KIP-345, KIP-394, and the behaviour of Apache Kafka's Java client.
"""

from __future__ import annotations

from typing import Literal

State = Literal["unjoined", "preparing", "completing", "stable"]
Event = Literal["join sent", "joined", "synced", "failed", "reset"]

STATES: tuple[State, ...] = ("unjoined", "preparing", "completing", "stable")
EVENTS: tuple[Event, ...] = ("join sent", "joined", "synced", "failed", "reset")

TRANSITIONS: dict[tuple[State, Event], State] = {
    ("unjoined", "join sent"): "preparing",
    ("stable", "join sent"): "preparing",
    ("preparing", "joined"): "completing",
    ("completing", "synced"): "stable",
    ("preparing", "failed"): "unjoined",
    ("completing", "failed"): "unjoined",
    ("unjoined", "reset"): "unjoined",
    ("preparing", "reset"): "unjoined",
    ("completing", "reset"): "unjoined",
    ("stable", "reset"): "unjoined",
}

# Where the broker counts the time since our last heartbeat, and we the time since the application's last poll.
HEARTBEATING: tuple[State, ...] = ("completing", "stable")


def next_state(state: State, event: Event) -> State:
    """The state after the event; ValueError for an event that cannot happen in this state."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ValueError(f"a member that is {state} cannot take the event: {event}") from None
