"""What became of records that were written: counts and words for a person. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.errors import BrokerError, KcliError

if TYPE_CHECKING:
    from kcli.producer.batches import Outcome
    from kcli.structs import TopicPartition


class WriteTally:
    """Counts of records read, stored and failed; failures by kind, with the words of the first of each."""

    def __init__(self) -> None:
        self.bytes_read = 0
        self.read = 0
        self.stored_by_partition: dict[TopicPartition, int] = {}
        self._failures: dict[str, tuple[int, str]] = {}

    def take(self, outcome: Outcome) -> None:
        """Count what the producer tells."""
        if outcome.error is not None:
            self.fail(_kind(outcome.error), outcome.error.message, outcome.record_count)
        else:
            self.stored_by_partition[outcome.tp] = self.stored_by_partition.get(outcome.tp, 0) + outcome.record_count

    def fail(self, kind: str, words: str, records: int = 1) -> None:
        """Count records that failed; `words` say why, and are kept if this is the first of its kind."""
        count, first_words = self._failures.get(kind, (0, words))
        self._failures[kind] = (count + records, first_words)

    @property
    def stored(self) -> int:
        return sum(self.stored_by_partition.values())

    @property
    def failed(self) -> int:
        return sum(count for count, _ in self._failures.values())

    def failure_lines(self) -> list[str]:
        """One line for each kind of failure, and one for records of which nothing is known yet."""
        lines = [f"{_records(count)} not stored: {words}" for count, words in self._failures.values()]
        unknown = self.read - self.stored - self.failed
        return [*lines, f"{_records(unknown)} not acknowledged"] if unknown else lines

    def summary(self, seconds: float) -> str:
        """Records, bytes and rates, and how the records spread over the partitions."""
        seconds = max(seconds, 1e-3)
        megabytes = self.bytes_read / 1e6
        spread = ", ".join(f"{tp} {count:,}" for tp, count in sorted(self.stored_by_partition.items()))
        return (
            f"{_records(self.stored)} stored, {megabytes:,.1f} MB read in {seconds:.2f} s "
            f"({self.stored / seconds:,.0f} records/s, {megabytes / seconds:,.1f} MB/s)"
            + (f": {spread}" if spread else "")
        )


def _kind(error: KcliError) -> str:
    return error.code.name if isinstance(error, BrokerError) else type(error).__name__


def _records(count: int) -> str:
    return f"{count:,} record" if count == 1 else f"{count:,} records"
