"""What is lost when offsets are not there any more, and whether that ends the query (failOnDataLoss). Pure.

| what is found                                        | failOnDataLoss=true | false                                  |
|------------------------------------------------------|---------------------|----------------------------------------|
| planned start < log start                            | error in planning   | from the log's start                   |
| planned start > log end (recreated, truncated)       | error in planning   | again from the log's start             |
| planned end > log end                                | error in planning   | up to the log's end                    |
| topic or partition gone                              | error in planning   | left out                               |
| out of range in a task, or a jump over deleted ones  | error in the task   | on at the log's start, in the range    |
| a jump while the log starts at or before the wanted  | no loss: compaction, control records, aborted transactions   ||
| fetch position at the range's end                    | the end, whatever the last offsets were                      ||
| nothing comes for kafkaConsumer.pollTimeoutMs        | error in the task   | error in the task                      |

A decision never leads back before what was wanted within a task: that would read records twice (SPARK-25214).
"""

from __future__ import annotations

from typing import NamedTuple

from kcli.errors import KcliError, TimeoutExpired
from kcli.structs import Node, TopicPartition

_WAYS_OUT = (
    "two ways out: failOnDataLoss=false goes on with what is left, or begin anew, "
    "with a new checkpoint or with other startingOffsets"
)


class DataLoss(KcliError):
    """Records that were to be read are not there. Evidence: topic, partition, wanted, available, lost (None: unknown).

    Raised only under failOnDataLoss=true; the message names the two ways out.
    """


class Decision(NamedTuple):
    """Where to go on, None for nowhere, and what to tell of what was lost, None for nothing."""

    offset: int | None
    report: str | None = None


def decide_start(
    tp: TopicPartition, wanted: int, log_start: int, log_end: int, *, fail: bool, until: int | None = None
) -> Decision:
    """Where a range that is planned from `wanted`, up to `until` if that is known, starts in this log. An empty range
    loses nothing, wherever it lies before the log's end."""
    if wanted < log_start and (until is None or wanted < until):
        lost = (log_start if until is None else max(wanted, min(log_start, until))) - wanted
        told = f"{tp}: offsets from {wanted} on are gone, the log starts at {log_start}; {_records(lost)}"
        return _decide(tp, wanted, log_start, lost, told, log_start, fail)
    if wanted > log_end:
        told = (
            f"{tp}: offset {wanted} lies beyond the log's end {log_end}; was the topic recreated, or its log truncated?"
        )
        again = "" if fail else f" Reading it again from {log_start}"
        return _decide(tp, wanted, log_end, None, told + again, log_start, fail)
    return Decision(wanted)


def decide_recreated(tp: TopicPartition, wanted: int, log_start: int, *, fail: bool) -> Decision:
    """The topic has another id than when its last offsets were seen: nothing of it has been read."""
    told = f"{tp}: the topic was recreated while it was read up to {wanted}"
    again = "" if fail else f"; reading it from {log_start}"
    return _decide(tp, wanted, log_start, None, told + again, log_start, fail)


def decide_end(tp: TopicPartition, wanted: int, log_end: int, *, fail: bool) -> Decision:
    """Where a range that is planned up to `wanted` ends in this log; `log_end` is the high watermark."""
    if wanted <= log_end:
        return Decision(wanted)
    told = f"{tp}: offsets up to {wanted} were to be read, the log ends at {log_end}; was it truncated, or recreated?"
    return _decide(tp, wanted, log_end, wanted - log_end, told, log_end, fail)


def decide_gone(tp: TopicPartition, wanted: int | None, *, fail: bool) -> Decision:
    """The topic or partition, read up to `wanted`, is not there any more."""
    after = "" if wanted is None else f" What came after offset {wanted} is lost, nobody knows how much"
    told = f"{tp} is gone: the topic was deleted, or may not be seen any more.{after}"
    return _decide(tp, wanted, None, None, told, None, fail)


def decide_skipped(tp: TopicPartition, wanted: int, found: int, log_start: int, end: int, *, fail: bool) -> Decision:
    """In a task: `found` is the first offset there is at or after `wanted`, in a range up to `end`.

    What lies between is lost only as far as the log now starts behind it.
    """
    lost_until = min(log_start, found, end)
    go_on = max(wanted, min(found, end))
    if lost_until <= wanted:
        return Decision(go_on)
    lost = lost_until - wanted
    told = f"{tp}: offsets {wanted} to {lost_until - 1} were deleted before they were read; {_records(lost)}"
    return _decide(tp, wanted, log_start, lost, told, go_on, fail)


def timeout_error(tp: TopicPartition, position: int, end: int, waited_ms: int, leader: Node | None) -> TimeoutExpired:
    """The error for a task that waited for `kafkaConsumer.pollTimeoutMs` in vain; failOnDataLoss changes nothing."""
    where = f"leader {leader}" if leader is not None else "no leader is known"
    return TimeoutExpired(
        f"{tp}: nothing came for {waited_ms} ms (kafkaConsumer.pollTimeoutMs) at offset {position} of a range up to "
        f"{end}; {where}",
        topic=tp.topic,
        partition=tp.partition,
        offset=position,
    )


def _records(lost: int) -> str:
    return "1 offset is lost" if lost == 1 else f"{lost} offsets are lost"


def _decide(
    tp: TopicPartition,
    wanted: int | None,
    available: int | None,
    lost: int | None,
    told: str,
    go_on: int | None,
    fail: bool,
) -> Decision:
    if not fail:
        return Decision(go_on, told)
    raise DataLoss(
        f"{told.rstrip('.?')}{'?' if told.endswith('?') else '.'} {_WAYS_OUT[0].upper()}{_WAYS_OUT[1:]}",
        topic=tp.topic,
        partition=tp.partition,
        wanted=wanted,
        available=available,
        lost=lost,
    )
