"""States of a member of a group whose broker assigns partitions (KIP-848), as a table. Pure.

A member is *out* until it subscribes. In *joining* it sends all its fields with epoch 0 until a broker returns an epoch
and an assignment. When the target assignment differs from the owned partitions it is *reconciling*: the application's
thread commits, revokes and adds partitions. Then it is *acknowledging* until the heartbeat with the owned partitions is
sent, and *stable* after it. A new target may arrive at any time and starts a new reconciliation.

A broker that no longer knows the member, or not with this epoch, has *fenced* it: its partitions belong to other
members, so they are lost, not revoked; after the callback the member joins again. The same happens to a member whose
application has stopped polling, except that it leaves by itself and is *stale* until the next poll. In both states
nothing is sent.

A member that leaves is *releasing* first: heartbeats continue while the application revokes its partitions; then
*leaving* until the last heartbeat is answered. A member that is fenced meanwhile sends no last heartbeat. *Failed* is
for fatal errors; only unsubscribing leaves it.

The actions of the application's thread and the responses to heartbeats occur in any order, hence the pairs without a
change of state: responses that arrive after the member left or was fenced. A pair that is not in the table is a bug.
"""

from __future__ import annotations

from typing import Literal, get_args

State = Literal[
    "out", "joining", "reconciling", "acknowledging", "stable", "fenced", "stale", "releasing", "leaving", "failed"
]
Event = Literal[
    "subscribe",  # the application polls with a subscription
    "target",  # the target differs from what is owned
    "settle",  # a response has arrived, and the target is owned
    "reconcile",  # the target is owned, except topics without a known name
    "acknowledge",  # the heartbeat with the owned partitions is in flight
    "fence",  # the broker does not know the member, or not with this epoch
    "overdue",  # the application has not polled for max.poll.interval.ms
    "lose",  # the callback for lost partitions has run
    "unsubscribe",  # the application unsubscribes
    "release",  # the application has revoked its partitions
    "left",  # the last heartbeat is answered, or cannot be sent
    "fail",  # a broker returned a fatal error
]

STATES: tuple[State, ...] = get_args(State)
EVENTS: tuple[Event, ...] = get_args(Event)
# States in which the broker has the member, as far as is known, and keeps partitions for it.
ACTIVE: tuple[State, ...] = ("joining", "reconciling", "acknowledging", "stable")


class WrongTransition(AssertionError):
    """A pair of state and event that is not in the table: a bug."""


def _table() -> dict[tuple[State, Event], State]:
    table: dict[tuple[State, Event], State] = {
        ("out", "subscribe"): "joining",
        ("joining", "settle"): "stable",
        ("reconciling", "reconcile"): "acknowledging",
        ("reconciling", "settle"): "stable",  # the topics without a known name were taken from the target
        ("acknowledging", "settle"): "acknowledging",
        ("acknowledging", "acknowledge"): "stable",
        ("stable", "settle"): "stable",
        ("fenced", "lose"): "joining",
        ("stale", "lose"): "joining",
        ("releasing", "release"): "leaving",
        ("releasing", "fence"): "out",
        ("releasing", "fail"): "out",
        ("out", "release"): "out",
        ("releasing", "unsubscribe"): "releasing",  # interrupted, and called again
        ("leaving", "unsubscribe"): "leaving",
        ("leaving", "release"): "leaving",
        ("leaving", "left"): "out",
    }
    for state in ACTIVE:
        table[state, "target"] = "reconciling"
        table[state, "fence"] = "fenced"
        table[state, "overdue"] = "stale"
        table[state, "unsubscribe"] = "releasing"
        table[state, "fail"] = "failed"
    for state in ("fenced", "stale", "failed"):
        table[state, "unsubscribe"] = "out"
    # Responses that arrive too late.
    late: tuple[State, ...] = ("out", "fenced", "stale", "releasing", "leaving", "failed")
    for state in late:
        for event in ("target", "settle", "fence", "fail"):
            table.setdefault((state, event), state)
    return table


TRANSITIONS = _table()


def next_state(state: State, event: Event) -> State:
    """Return the state after the event. Raise WrongTransition for a pair that is not in the table."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise WrongTransition(f"event {event!r} is not possible in state {state!r}") from None
