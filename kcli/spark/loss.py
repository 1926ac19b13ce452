"""What is lost when offsets are not there any more, and whether that ends the query (failOnDataLoss). Pure."""

from __future__ import annotations

from typing import NamedTuple

from kcli.errors import KcliError
from kcli.structs import TopicPartition


class DataLoss(KcliError):
    """Records that were to be read are not there. Evidence: topic, partition, wanted, available, lost (None: unknown).

    Raised only under failOnDataLoss=true; the message names the two ways out.
    """


class Decision(NamedTuple):
    """Where to go on, and what to tell: `report` None means nothing was lost. `offset` None: drop the partition."""

    offset: int | None
    report: str | None = None


def planned_start(tp: TopicPartition, wanted: int, start: int, end: int, *, fail: bool) -> Decision:
    """May a range start at `wanted` in a log of `start`..`end`? DataLoss if not and `fail`."""
    return Decision(wanted)


def gone(tp: TopicPartition, wanted: int | None, *, fail: bool) -> Decision:
    """The topic or partition is not there any more."""
    return Decision(None, f"{tp} is gone")


def fetched(tp: TopicPartition, wanted: int, got: int | None, log_start: int, end: int, *, fail: bool) -> Decision:
    """In a task: the fetch at `wanted` is out of range (`got` None), or its first record lies at `got` beyond `wanted`.

    The answer never lies before `wanted` and never behind `end` (exclusive): a range is never left, nor read twice.
    """
    return Decision(wanted)
