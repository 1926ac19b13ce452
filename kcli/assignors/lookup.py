"""Assignors by name: the strategies of classic members, and the assignors of the server (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kcli.assignors import range, roundrobin, sticky, uniform
from kcli.assignors import user_data as blobs
from kcli.assignors.model import Assignment, Member, Topics
from kcli.assignors.server_order import in_coordinator_order
from kcli.errors import ConfigError
from kcli.protocol.consumer_protocol import Subscription
from kcli.structs import TopicPartition

Assign = Callable[[Topics, Sequence[Member]], Assignment]


class Strategy(NamedTuple):
    """An assignor of classic groups, which runs in the group leader.

    `cooperative`: members keep their partitions while the group rebalances (KIP-429). `user_data(owned, generation)`
    returns the user data of a member's subscription: its last assignment, even if the member has revoked it since, as
    an eager member does before it joins, and the generation of that assignment (-1: none yet).
    """

    name: str
    java_class: str
    cooperative: bool
    assign: Assign
    user_data: Callable[[Sequence[TopicPartition], int], bytes | None]
    read: Callable[[Subscription], blobs.Claim]

    def member(self, member_id: str, subscription: Subscription, instance_id: str | None) -> Member:
        """Return a member as the group leader of this strategy sees it."""
        owned, generation = self.read(subscription)
        topics = frozenset(subscription.topics)
        return Member(member_id, topics, owned, generation, subscription.rack_id, instance_id)


_JAVA = "org.apache.kafka.clients.consumer."
STRATEGIES: dict[str, Strategy] = {
    each.name: each
    for each in (
        Strategy("range", f"{_JAVA}RangeAssignor", False, range.assign, blobs.write_nothing, blobs.read_subscription),
        Strategy(
            "roundrobin",
            f"{_JAVA}RoundRobinAssignor",
            False,
            roundrobin.assign,
            blobs.write_nothing,
            blobs.read_subscription,
        ),
        Strategy("sticky", f"{_JAVA}StickyAssignor", False, sticky.assign, blobs.write_sticky, blobs.read_sticky),
        Strategy(
            "cooperative-sticky",
            f"{_JAVA}CooperativeStickyAssignor",
            True,
            sticky.assign_cooperatively,
            blobs.write_cooperative,
            blobs.read_cooperative,
        ),
    )
}


# The server calls its assignors "uniform" and "range". The classic strategy "range" is a different one, so the server's
# has a name of its own here.
SERVER_ASSIGNORS: dict[str, Assign] = {"uniform": uniform.assign, "server-range": range.assign_on_server}
NAMES = (*STRATEGIES, *SERVER_ASSIGNORS)

_NAMES_ON_SERVER = {"range": "server-range"}


def assignor_name(name: str, *, option: str = "", among: Sequence[str] = NAMES) -> str:
    """Return the name, of those in `among`, for a name or a Java class.

    `ConfigError` for an unknown name, with the nearest known one. `option` is the option or property that the name
    comes from.
    """
    matching = next((each.name for each in STRATEGIES.values() if name == each.java_class), name)
    if matching in among:
        return matching
    from kcli.text import closest_name

    close = closest_name(name, among)
    hint = f"did you mean {close}?" if close else f"use one of {', '.join(among)}"
    raise ConfigError(f"{option}{': ' if option else ''}'{name}' is not a known assignor; {hint}")


def name_on_server(name: str) -> str:
    """Return the name in `NAMES` for a name in a group whose coordinator assigns (KIP-848): `range` is the server's."""
    return _NAMES_ON_SERVER.get(name, name)


def find_strategy(name: str, *, option: str = "") -> Strategy:
    """Return the classic strategy of a name or a Java class. `ConfigError` for an unknown one."""
    return STRATEGIES[assignor_name(name, option=option, among=tuple(STRATEGIES))]


def assign_by(name: str, topics: Topics, members: Sequence[Member]) -> Assignment:
    """Return the assignment by a classic strategy (name or Java class) or an assignor of the server.

    `ConfigError` for an unknown name. For an assignor of the server, `owned` of a member is its previous target
    assignment, and the topic ids should be known, because Kafka's order depends on them. The order of `members` does
    not matter. Therefore, if members share buckets in the server's hash tables, partitions may go to other members than
    in Kafka, but each member gets as many as there; see `uniform.assign`.
    """
    canonical = assignor_name(name)
    if canonical in SERVER_ASSIGNORS:
        return SERVER_ASSIGNORS[canonical](topics, in_coordinator_order(members))
    return STRATEGIES[canonical].assign(topics, members)
