"""Who has the fewest partitions, among members whose sizes change. Pure."""

import heapq
from collections.abc import Callable, Sequence
from operator import itemgetter


class Sizes:
    """How many partitions members have, by number; each as one integer that sorts by size and then by number."""

    def __init__(self, members: int) -> None:
        self._members = members
        self.keys = list(range(members))

    def __getitem__(self, number: int) -> int:
        return self.keys[number] // self._members

    def add(self, number: int, partitions: int) -> None:
        """The member has so many partitions more."""
        self.keys[number] += partitions * self._members

    def number(self, key: int) -> int:
        """Whose key it is."""
        return key % self._members


class Some:
    """Some of the members; at least one."""

    def __init__(self, numbers: Sequence[int], sizes: Sizes) -> None:
        self.sizes = sizes
        first, *others = numbers
        # One call of C for all keys: there may be millions of them to read.
        self._keys: Callable[[list[int]], tuple[int, ...]] | None = itemgetter(first, *others) if others else None
        self._only = first

    def keys(self) -> tuple[int, ...]:
        """Their keys as of now."""
        return self._keys(self.sizes.keys) if self._keys else (self.sizes.keys[self._only],)

    def fewest(self) -> int:
        """The size of the poorest."""
        return self.sizes[self.sizes.number(min(self.keys()))]


class Poorest:
    """The poorest of some members; those that grow are noticed, those that shrink must be told of by `changed`."""

    def __init__(self, members: Some) -> None:
        self._sizes = members.sizes
        self._heap = list(members.keys())
        heapq.heapify(self._heap)

    def first(self) -> int:
        """The member with the fewest partitions, of several the first by number."""
        while True:
            number = self._sizes.number(self._heap[0])
            now = self._sizes.keys[number]
            if self._heap[0] == now:
                return number
            heapq.heapreplace(self._heap, now)

    def changed(self, number: int) -> None:
        """The size of this member has changed."""
        heapq.heappush(self._heap, self._sizes.keys[number])
