"""Uniform assignment among members that want different topics. Pure.

Members keep what they had of topics that they still want. What is free goes topic by topic, those with the most
partitions for each subscriber first, always to the subscriber with the fewest partitions. Then, in the same order,
again and again, a topic's partitions move from its richest subscribers to its poorest until these differ by at most
one, or have nothing of that topic to give.

It stops when a whole round has changed nothing or after sixteen rounds, so among subscriptions that overlap there may
be a chain of moves left that would be more even: Kafka's way to be done in time.
Source: Kafka's UniformHeterogeneousAssignmentBuilder of 4.3.
"""

from collections.abc import Sequence

from kcli.assignors.claims import Claims
from kcli.assignors.levels import Levels
from kcli.assignors.model import Assignment, Member, Topics, subscribers
from kcli.assignors.server_order import order_of_topics, walk_members
from kcli.structs import TopicPartition

MOST_ROUNDS = 16


def assign(topics: Topics, members: Sequence[Member], claims: Claims) -> Assignment:
    """The assignment of `topics`, each of which at least one member wants."""
    deal = _Deal(topics, walk_members(members), claims)
    deal.deal_free()
    deal.even_out()
    return deal.assignment()


class _Deal:
    """An assignment in the making. Members are numbered in the coordinator's order."""

    def __init__(self, topics: Topics, members: Sequence[Member], claims: Claims) -> None:
        self.members = members
        self.subscribers = subscribers(topics, members)
        self.owners: dict[str, list[int | None]] = {name: [None] * topic.partitions for name, topic in topics.items()}
        self.sizes = [0] * len(members)
        for number, member in enumerate(members):
            for topic, p in claims.held[member.id]:
                if topic in member.topics:
                    self.owners[topic][p] = number
                    self.sizes[number] += 1
        by_id = order_of_topics(topics)

        def fullest_first(name: str) -> tuple[object, ...]:
            count = len(self.subscribers[name])
            return -topics[name].partitions / count, count, by_id(name)

        self.topics = sorted(topics, key=fullest_first)

    def __repr__(self) -> str:
        return f"<_Deal {len(self.topics)} topics, {len(self.members)} members>"

    def deal_free(self) -> None:
        """Give what nobody has to the poorest."""
        for topic in self.topics:
            owners = self.owners[topic]
            if None not in owners:
                continue
            levels = Levels(self.subscribers[topic], self.sizes)
            for p, owner in enumerate(owners):
                if owner is None:
                    owners[p] = taker = levels.next_poorest()
                    self.sizes[taker] += 1

    def even_out(self) -> None:
        """Move partitions until a round has changed nothing since the last topic that changed."""
        shared = [topic for topic in self.topics if len(self.subscribers[topic]) > 1]
        last: str | None = None
        for _ in range(MOST_ROUNDS):
            for topic in shared:
                if topic == last:
                    return
                moved = self._even_out_topic(topic)
                if moved or last is None:
                    last = topic

    def _even_out_topic(self, topic: str) -> bool:
        sizes = [self.sizes[number] for number in self.subscribers[topic]]
        if max(sizes) - min(sizes) <= 1:
            return False
        owners = self.owners[topic]
        held: dict[int, list[int]] = {}
        for p, owner in enumerate(owners):
            assert owner is not None
            held.setdefault(owner, []).append(p)
        levels = Levels(self.subscribers[topic], self.sizes)
        moved = False
        while (giver := levels.next_richest(lambda number: bool(held.get(number)))) is not None:
            p = held[giver].pop()
            taker = levels.next_poorest()
            if levels.even():
                break
            owners[p] = taker
            self.sizes[giver] -= 1
            self.sizes[taker] += 1
            moved = True
        return moved

    def assignment(self) -> Assignment:
        """The outcome."""
        found: Assignment = {member.id: [] for member in self.members}
        for topic, owners in self.owners.items():
            for p, owner in enumerate(owners):
                assert owner is not None
                found[self.members[owner].id].append(TopicPartition(topic, p))
        return found
