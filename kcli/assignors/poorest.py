"""Who has the fewest partitions, among members whose sizes change. Pure."""

import heapq
from collections.abc import Iterable


class Poorest:
    """Members by number; those that grow are noticed, those that shrink must be told of by `changed`."""

    def __init__(self, numbers: Iterable[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._count = len(sizes)
        self._heap = [sizes[number] * self._count + number for number in numbers]
        heapq.heapify(self._heap)

    def first(self) -> int:
        """The member with the fewest partitions, of several the first by number."""
        while True:
            size, number = divmod(self._heap[0], self._count)
            now = self._sizes[number]
            if size == now:
                return number
            heapq.heapreplace(self._heap, now * self._count + number)

    def changed(self, number: int) -> None:
        """The size of this member has changed."""
        heapq.heappush(self._heap, self._sizes[number] * self._count + number)
