"""Members as two levels: the poorest being filled up, the richest being taken from. Pure.

The members of a topic stand in a row, those with the fewest partitions first. From the left, those on the lowest level
get one each, then all have one more and whoever had so many already joins them; from the right, the same downwards.
Once the levels are at most one apart there is nothing to be gained.

The sizes are the caller's: it changes them after each answer, and the levels only look where they end.
"""

from collections.abc import Callable, Sequence


class Levels:
    """Subscribers of one topic, by number; `sizes` are how many partitions each member has, of all topics."""

    def __init__(self, numbers: Sequence[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._row = sorted(numbers, key=sizes.__getitem__)
        self._low, self._low_end, self._next_low = sizes[self._row[0]] - 1, 0, 0
        # The rich stand in the row from `_high_start` up to `_high_end`; behind it are those with nothing to give.
        self._high, self._high_start, self._high_end = sizes[self._row[-1]] + 1, len(self._row), len(self._row)
        self._next_high = self._high_start - 1

    def __repr__(self) -> str:
        return f"<Levels {len(self._row)} members, low={self._low} high={self._high}>"

    def even(self) -> bool:
        """Whether the levels, as they are after the last answers, are at most one apart."""
        return self._high - self._low <= 1

    def next_poorest(self) -> int:
        """Who gets the next partition."""
        if self._next_low >= self._low_end:
            self._low += 1
            while self._low_end < len(self._row) and self._sizes[self._row[self._low_end]] == self._low:
                self._low_end += 1
            self._next_low = 0
        self._next_low += 1
        return self._row[self._next_low - 1]

    def next_richest(self, can_give: Callable[[int], bool]) -> int | None:
        """Who gives the next partition; None if nobody can. Those that cannot are not asked again."""
        while (place := self._next_rich_place()) is not None:
            number = self._row[place]
            if can_give(number):
                return number
            self._high_end -= 1
            self._row[place], self._row[self._high_end] = self._row[self._high_end], number
        return None

    def _next_rich_place(self) -> int | None:
        if self._next_high < self._high_start:
            self._lower()
        if self._next_high < 0:
            return None
        self._next_high -= 1
        return self._next_high + 1

    def _lower(self) -> None:
        """All rich members have given one. Whoever has as many as they have now joins them."""
        if self._high_end <= self._high_start and self._high_start > 0:  # nobody of them could give: the next ones
            self._high = self._sizes[self._row[self._high_start - 1]]
        else:
            self._high -= 1
        while self._high_start > 0 and self._sizes[self._row[self._high_start - 1]] == self._high:
            self._high_start -= 1
        self._next_high = self._high_end - 1
