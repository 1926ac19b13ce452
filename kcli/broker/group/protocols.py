"""Which assignor a group uses, and which topics its members then read. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from kcli.broker.group.members import Member, Protocols
from kcli.errors import ProtocolError

CONSUMER = "consumer"  # the protocol type of consumers; Connect and the schema registry have others


def common_protocols(members: Collection[Member]) -> list[str]:
    """The names that all members support."""
    counts = Counter(name for member in members for name in {name for name, _ in member.protocols})
    return [name for name, count in counts.items() if count == len(members)]


def choose_protocol(members: Collection[Member]) -> str:
    """Each member votes for the one it likes best among those that all support; most votes win, the first one in a tie.

    There is one as long as every member was let in by `can_join`.
    """
    candidates = set(common_protocols(members))
    votes = Counter(member.vote(candidates) for member in members)
    return max(votes, key=votes.__getitem__)


def can_join(members: Collection[Member], protocols: Protocols) -> bool:
    """Whether somebody with these protocols would leave the group with one that all support."""
    if not members:
        return bool(protocols)
    return not set(common_protocols(members)).isdisjoint(name for name, _ in protocols)


def subscribed_topics(
    protocol_type: str | None, protocol: str | None, members: Iterable[Member]
) -> frozenset[str] | None:
    """All topics that the members of a consumer group subscribe to; None when the group does not tell."""
    from kcli.protocol.consumer_protocol import decode_subscribed_topics

    members = list(members)
    if protocol_type != CONSUMER:
        return None
    if not members:
        return frozenset()
    if protocol is None:
        return None
    try:
        return frozenset(topic for m in members for topic in decode_subscribed_topics(m.metadata(protocol)))
    except ProtocolError:
        return None
