"""The states of a member whose broker assigns (KIP-848), as a table. Pure.

A member is *out* until it subscribes. *Joining*, it says everything about itself with epoch 0 until a broker gives it
an epoch and an assignment. What it is to own then differs from what it owns: *reconciling*, it commits, gives back,
takes on, all in the application's thread; when that is done it is *acknowledging* until the heartbeat that tells the
broker is on its way, and *stable* after it. A newer target may come at any time, and the round begins anew.

A broker that no longer knows the member, or not at this epoch, has *fenced* it: its partitions belong to others, so
they are lost, not revoked, and once the application has been told, the member joins again. The same happens to a member
whose application stopped polling, except that it leaves by itself and is *stale* until the next poll. In both states
nothing is sent.

Whoever leaves is *releasing* first: heartbeats go on while the application gives back what it has; then *leaving* until
the farewell is sent. A member that is fenced while it does so has nobody to say farewell to. *Failed* is for what
trying again cannot mend; only unsubscribing leads out of it.

What the application's thread does and what the heartbeats bring happens in any order, hence the rows that change
nothing: an answer that was on its way when the member left or was fenced. A pair that is not in the table is a bug.
"""

from __future__ import annotations

from typing import Literal, get_args

State = Literal[
    "out", "joining", "reconciling", "acknowledging", "stable", "fenced", "stale", "releasing", "leaving", "failed"
]
Event = Literal[
    "subscribe",  # the application polls with a subscription
    "target",  # the target differs from what is owned
    "settle",  # a broker has answered, and the target is what is owned
    "reconcile",  # what is owned is the target now, or as much of it as can be named
    "acknowledge",  # the heartbeat that tells what is owned is on its way
    "fence",  # a broker knows us no longer, or not at this epoch
    "overdue",  # the application has not polled for max.poll.interval.ms
    "lose",  # the application knows that its partitions are lost
    "unsubscribe",  # the application wants to leave
    "release",  # the application has given back what it had
    "farewell",  # the last heartbeat is over, or cannot be sent
    "fail",  # a broker refuses us for good
]

STATES: tuple[State, ...] = get_args(State)
EVENTS: tuple[Event, ...] = get_args(Event)
# Those in which a broker, as far as we know, has us as a member and keeps partitions for us.
ACTIVE: tuple[State, ...] = ("joining", "reconciling", "acknowledging", "stable")


class WrongTransition(AssertionError):
    """A pair of state and event that cannot be: a bug of ours."""


def _table() -> dict[tuple[State, Event], State]:
    table: dict[tuple[State, Event], State] = {
        ("out", "subscribe"): "joining",
        ("joining", "settle"): "stable",
        ("reconciling", "reconcile"): "acknowledging",
        ("reconciling", "settle"): "stable",  # what could not be named was taken back
        ("acknowledging", "settle"): "acknowledging",
        ("acknowledging", "acknowledge"): "stable",
        ("stable", "settle"): "stable",
        ("fenced", "lose"): "joining",
        ("stale", "lose"): "joining",
        ("releasing", "release"): "leaving",
        ("releasing", "fence"): "out",
        ("releasing", "fail"): "out",
        ("out", "release"): "out",
        ("releasing", "unsubscribe"): "releasing",  # interrupted, and asked to leave again
        ("leaving", "unsubscribe"): "leaving",
        ("leaving", "release"): "leaving",
        ("leaving", "farewell"): "out",
    }
    for state in ACTIVE:
        table[state, "target"] = "reconciling"
        table[state, "fence"] = "fenced"
        table[state, "overdue"] = "stale"
        table[state, "unsubscribe"] = "releasing"
        table[state, "fail"] = "failed"
    for state in ("fenced", "stale", "failed"):
        table[state, "unsubscribe"] = "out"
    # Answers that come too late to matter.
    late: tuple[State, ...] = ("out", "fenced", "stale", "releasing", "leaving", "failed")
    for state in late:
        for event in ("target", "settle", "fence", "fail"):
            table.setdefault((state, event), state)
    return table


TRANSITIONS = _table()


def next_state(state: State, event: Event) -> State:
    """The state that follows; WrongTransition for a pair that cannot be."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise WrongTransition(f"a member that is {state} cannot {event}") from None
