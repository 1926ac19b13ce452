"""Data loss: decisions about offsets that no longer exist, according to failOnDataLoss. Pure.

| found                                                | failOnDataLoss=true | false                                  |
|------------------------------------------------------|---------------------|----------------------------------------|
| planned start < log start                            | error in planning   | start at the log start                 |
| planned start > log end (recreated, truncated)       | error in planning   | batch: no rows of this partition;      |
|                                                      |                     | stream: start again at the log start   |
| planned end > log end                                | error in planning   | end at the log end                     |
| topic or partition missing                           | error in planning   | skip it                                |
| out of range in a task, or deleted records skipped   | error in the task   | continue at the log start, in range    |
| skipped offsets, but log start <= wanted offset      | no loss: compaction, control records, aborted transactions   ||
| fetch position at the end of the range               | the task is complete, whatever the last offsets were         ||
| no data for kafkaConsumer.pollTimeoutMs              | error in the task   | error in the task                      |

A batch never leaves the range that was asked for. Within a task a decision never goes back before the wanted offset:
records would be read twice (SPARK-25214).
"""

from __future__ import annotations

from typing import NamedTuple

from kcli.errors import KcliError, TimeoutExpired
from kcli.structs import Node, TopicPartition

_REMEDIES = (
    "Set failOnDataLoss=false to continue with the remaining records, "
    "or start again with a new checkpoint or other startingOffsets"
)


class DataLoss(KcliError):
    """Records of the requested range no longer exist. Evidence: topic, partition, wanted, available, lost (None:
    unknown).

    Raised only with failOnDataLoss=true; the message names the two remedies.
    """


class Decision(NamedTuple):
    """Offset to continue at (None: do not read), and the report of the loss (None: no loss)."""

    offset: int | None
    report: str | None = None


def decide_start(
    tp: TopicPartition,
    requested: int,
    log_start: int,
    log_end: int,
    *,
    fail: bool,
    until: int | None = None,
    starts_again: bool = True,
) -> Decision:
    """Decide the start of a range planned from `requested` to `until` (None: not known yet).

    An empty range loses nothing. After the log end, a stream `starts_again` at the log start, also if it has nothing
    to read now; a batch has nothing to read.
    """
    if requested < log_start and (until is None or requested < until):
        lost = (log_start if until is None else max(requested, min(log_start, until))) - requested
        text = f"{tp}: offset {requested} no longer exists, the log starts at {log_start}; {_lost_offsets(lost)}"
        return _decide(tp, requested, log_start, lost, text, log_start, fail)
    if requested > log_end and (starts_again or until is None or requested < until):
        text = (
            f"{tp}: offset {requested} is after the log end {log_end}; was the topic recreated, or its log truncated?"
        )
        if fail:
            return _decide(tp, requested, log_end, None, text, None, fail)
        if starts_again:
            return Decision(log_start, f"{text} Reading again from {log_start}")
        return Decision(requested, f"{text} There is nothing to read")
    return Decision(requested)


def decide_recreated(tp: TopicPartition, requested: int, log_start: int, *, fail: bool) -> Decision:
    """Decide the start in a topic whose id has changed since the last batch: none of its records were read."""
    text = f"{tp}: the topic was recreated after it was read up to offset {requested}"
    again = "" if fail else f"; reading from {log_start}"
    return _decide(tp, requested, log_start, None, text + again, log_start, fail)


def decide_end(tp: TopicPartition, requested: int, log_end: int, *, fail: bool) -> Decision:
    """Decide the end of a range planned up to `requested`; `log_end` is the high watermark."""
    if requested <= log_end:
        return Decision(requested)
    text = f"{tp}: the read ends at offset {requested}, but the log ends at {log_end}; was it truncated or recreated?"
    return _decide(tp, requested, log_end, requested - log_end, text, log_end, fail)


def decide_gone(tp: TopicPartition, requested: int | None, *, fail: bool, is_selected: bool = True) -> Decision:
    """Decide about a topic or partition that was read up to `requested` and no longer exists, or is not selected."""
    after = "" if requested is None else f" An unknown number of records from offset {requested} on is lost"
    cause = "does not exist any more: the topic was deleted, or access to it was revoked"
    if not is_selected:
        cause = "is not among the topics to read: the checkpoint is of a query of other topics"
    text = f"{tp} {cause}.{after}"
    return _decide(tp, requested, None, None, text, None, fail)


def decide_skipped(
    tp: TopicPartition, requested: int, existing: int, log_start: int, end: int, *, fail: bool
) -> Decision:
    """Decide in a task: `existing` is the first existing offset at or after `requested`, in a range up to `end`.

    Offsets between them are lost only up to the present log start.
    """
    lost_until = min(log_start, existing, end)
    next_offset = max(requested, min(existing, end))
    if lost_until <= requested:
        return Decision(next_offset)
    lost = lost_until - requested
    text = f"{tp}: offsets {requested} to {lost_until - 1} were deleted before they were read; {_lost_offsets(lost)}"
    return _decide(tp, requested, log_start, lost, text, next_offset, fail)


def timeout_error(tp: TopicPartition, position: int, end: int, waited_ms: int, leader: Node | None) -> TimeoutExpired:
    """Return the error for a task that received nothing for `kafkaConsumer.pollTimeoutMs`."""
    where = f"leader {leader}" if leader is not None else "the leader is not known"
    return TimeoutExpired(
        f"{tp}: no data for {waited_ms} ms (kafkaConsumer.pollTimeoutMs) at offset {position} of a range up to {end}; "
        f"{where}",
        topic=tp.topic,
        partition=tp.partition,
        offset=position,
    )


def _lost_offsets(lost: int) -> str:
    return "1 offset is lost" if lost == 1 else f"{lost} offsets are lost"


def _decide(
    tp: TopicPartition,
    requested: int | None,
    available: int | None,
    lost: int | None,
    text: str,
    next_offset: int | None,
    fail: bool,
) -> Decision:
    if not fail:
        return Decision(next_offset, text)
    raise DataLoss(
        f"{text.rstrip('.?')}{'?' if text.endswith('?') else '.'} {_REMEDIES}",
        topic=tp.topic,
        partition=tp.partition,
        wanted=requested,
        available=available,
        lost=lost,
    )
