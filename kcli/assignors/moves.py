"""Which partitions have moved while an assignment is evened out, so that two of a topic do not change places. Pure."""

from collections.abc import Mapping

from kcli.structs import TopicPartition


class Moves:
    """Moves by partition, and partitions by topic and move; a move is (first giver, last taker).

    `homes` are the members that held partitions before: of several that could go back, one that goes home is chosen.
    """

    def __init__(self, homes: Mapping[TopicPartition, int]) -> None:
        self._homes = homes
        self._of: dict[TopicPartition, tuple[int, int]] = {}
        self._made: dict[tuple[str, int, int], set[TopicPartition]] = {}

    def instead(self, partition: TopicPartition, giver: int, taker: int) -> TopicPartition | None:
        """A partition of the same topic that has moved the other way: it can go back while this one stays."""
        first, _ = self._of.get(partition, (giver, taker))
        made = self._made.get((partition.topic, taker, first))
        return min(made, key=lambda each: (self._homes.get(each) != taker, each)) if made else None

    def note(self, partition: TopicPartition, giver: int, taker: int) -> None:
        """Note a move; of several moves of a partition the first giver and the last taker count."""
        first, last = self._of.pop(partition, (giver, None))
        if last is not None:
            self._made[partition.topic, first, last].discard(partition)
        if first != taker:
            self._of[partition] = first, taker
            self._made.setdefault((partition.topic, first, taker), set()).add(partition)
