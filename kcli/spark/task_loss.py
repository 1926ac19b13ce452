"""What a task makes of a range that it could not read whole: a report, or the error to end with. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.consumer.errors import LogTruncated, OffsetOutOfRange
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired
from kcli.spark import loss
from kcli.spark.splitting import TaskRange

if TYPE_CHECKING:
    from kcli.consumer.coverage import PartitionCoverage
    from kcli.structs import Node

_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def judge_lost(task: TaskRange, lost: tuple[tuple[int, int], ...], *, fail: bool) -> list[str]:
    """What to tell of the offsets that were deleted before they were read; DataLoss if that is to `fail`."""
    decisions = [loss.jumped(task.tp, first, behind, behind, task.end, fail=fail) for first, behind in lost]
    return [it.report for it in decisions if it.report is not None]


def judge_end(
    task: TaskRange, covered: PartitionCoverage, *, fail: bool, waited_ms: int, leader: Node | None
) -> list[str]:
    """What to tell of a range that ended before its end, beside `judge_lost`.

    DataLoss if that is to `fail`; what is no loss but an error ends the task either way.
    """
    error = covered.error
    if isinstance(error, TimeoutExpired):
        raise _in_time(task, covered, error, waited_ms, leader) from error
    if isinstance(error, BrokerError) and error.code in _GONE:
        decision = loss.gone(task.tp, max(covered.position, task.start), fail=fail)
    elif error is not None and not isinstance(error, (OffsetOutOfRange, LogTruncated)):
        raise error
    else:
        decision = loss.planned_end(task.tp, task.end, max(covered.position, task.start), fail=fail)
    return [] if decision.report is None else [f"{decision.report} ({covered.reason})"]


def _in_time(
    task: TaskRange, covered: PartitionCoverage, error: KcliError, waited_ms: int, leader: Node | None
) -> TimeoutExpired:
    told = loss.nothing_came(task.tp, max(covered.position, task.start), task.end, waited_ms, leader)
    return TimeoutExpired(f"{told.message}: {error.message}", **told.evidence)
