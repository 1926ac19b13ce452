"""Which partitions a classic member gives up, and when: the eager and the cooperative protocol (KIP-429). Pure.

An eager member gives up everything before it joins. A cooperative one keeps what it reads while the group rebalances;
what the new assignment takes from it is given up after that, and the group rebalances once more so that others get it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from kcli.structs import TopicPartition


class Change(NamedTuple):
    """What a new assignment brings: given up first, then added. Both sorted."""

    revoked: list[TopicPartition]
    added: list[TopicPartition]


def given_up_before_join(
    owned: Iterable[TopicPartition], topics: Collection[str], *, cooperative: bool
) -> list[TopicPartition]:
    """What a member that now wants `topics` gives up before it joins again, sorted."""
    return sorted(tp for tp in owned if not cooperative or tp.topic not in topics)


def change_of(owned: Collection[TopicPartition], assigned: Collection[TopicPartition]) -> Change:
    """From what is owned to what is assigned."""
    before, after = set(owned), set(assigned)
    return Change(sorted(before - after), sorted(after - before))
