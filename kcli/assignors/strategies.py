"""The assignors by name, each with what its members tell their leader."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kcli.assignors import cooperative_sticky, range, roundrobin, sticky
from kcli.assignors import user_data as blobs
from kcli.assignors.model import Assignment, Member, Topics
from kcli.errors import ConfigError
from kcli.protocol.consumer_protocol import Subscription
from kcli.structs import TopicPartition


class Strategy(NamedTuple):
    """One way to share partitions. `cooperative`: its members may keep what they own while the group rebalances."""

    name: str
    java_class: str
    cooperative: bool
    assign: Callable[[Topics, Sequence[Member]], Assignment]
    write: Callable[[Sequence[TopicPartition], int], bytes | None]
    read: Callable[[Subscription], blobs.Claim]

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """What a member puts into the user data of its subscription: its last assignment, and of which generation.

        `generation` is that of the last assignment the member got (-1: none yet), `owned` that assignment, though
        the member may have revoked it since: that is what an eager member does before it joins.
        """
        return self.write(owned, generation)

    def member(self, member_id: str, subscription: Subscription, instance_id: str | None) -> Member:
        """A member as this strategy's leader sees it."""
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
            cooperative_sticky.assign,
            blobs.write_cooperative,
            blobs.read_cooperative,
        ),
    )
}


def find_strategy(name: str) -> Strategy:
    """The strategy of Kafka's name for it or of Java's class; ConfigError naming those there are."""
    for strategy in STRATEGIES.values():
        if name in (strategy.name, strategy.java_class):
            return strategy
    raise ConfigError(f"there is no assignor {name!r}; there are {', '.join(STRATEGIES)}")
