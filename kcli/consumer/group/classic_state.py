"""States of a member of a classic group, and their transitions. Pure.

The member lives in the generations of its group. To enter one it joins (sends its subscription and its assignors),
waits until all other members have joined, and syncs (the leader sends the assignment of all members); then it sends
heartbeats. The states:

* **unjoined**: in no generation. The member may have an id, of an earlier generation or given for the next. It sends no
  heartbeats.
* **preparing**: JoinGroup is in flight, and has no response until all members have joined. The open request keeps the
  member alive, so no heartbeats are sent.
* **completing**: the response contained the generation and the leader. SyncGroup is in flight; the leader first reads
  the metadata of the topics. From here on heartbeats are due.
* **stable**: the assignment has arrived. A rebalance reported by the broker (error 27) does not end this state: the
  member stays in its generation, and may commit for it, until it has joined again.

A join or a sync that is refused is the event `failed`; the member joins again. `reset` may occur in any state: the
generation, perhaps the member id too, has ended, because the broker reports it, because the member left, or because the
application did not poll for too long. A pair that is not in the table is a bug and raises: responses of an ended
attempt to join are dropped before they get here.

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

# States with a session timeout at the broker, and with max.poll.interval.ms.
HEARTBEATING: tuple[State, ...] = ("completing", "stable")


def next_state(state: State, event: Event) -> State:
    """Return the state after the event. Raise ValueError for an event that is not possible in this state."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ValueError(f"event {event!r} is not possible in state {state!r}") from None
