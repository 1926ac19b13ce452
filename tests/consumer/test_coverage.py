"""The coverage of a read: complete, missing, failed, cut where the caller stopped."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.consumer.coverage import PartitionCoverage, ReadCoverage, StopReason, is_bounded
from kcli.consumer.read_range import ReadRange
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.log_place import LOG_END, LOG_START, Place
from kcli.structs import TopicPartition

P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))
REFUSED = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
CUT: dict[str, Any] = {"complete": False, "reason": "reached its end; offsets 0 to 4 were deleted"}
STOPPED: dict[str, Any] = {"complete": False, "open": True, "reason": "stopped before its end"}
FAILED: dict[str, Any] = {"complete": False, "error": REFUSED, "reason": str(REFUSED)}
FOLLOWING: dict[str, Any] = {"end": None, "open": True, "reason": "following"}


def covered(tp: TopicPartition = P0, end: int | None = 9, position: int = 9, **fields: Any) -> PartitionCoverage:
    values = {"records": 4, "bytes": 40, "reason": "reached its end", "complete": True, "start": 5, **fields}
    return PartitionCoverage(tp, 5, end, position, **values)


def read(stop: StopReason, *partitions: PartitionCoverage) -> ReadCoverage:
    return ReadCoverage.of(partitions, stop, {})


def test_records_that_the_caller_dropped_are_not_covered() -> None:
    partitions = [covered(), covered(P1, **FAILED), covered(P2, **FOLLOWING)]
    coverage = ReadCoverage.of(partitions, StopReason.RECORD_LIMIT, {P0: 7, P1: 8, P2: 6})
    first, second, third = coverage.partitions
    assert first == covered(position=7, **STOPPED)
    assert second == covered(P1, position=8, **STOPPED)  # the error is after the dropped record
    assert third == covered(P2, **{**FOLLOWING, "position": 6, "reason": "stopped before its end"})


def test_a_partition_without_dropped_records_keeps_its_coverage() -> None:
    assert read(StopReason.END, covered()).partitions == (covered(),)


def test_missing_offsets_stay_in_the_reason_of_a_cut_partition() -> None:
    cut = covered(**{**CUT, "reason": "stopped before its end; offsets 0 to 4 were deleted"}).cut_at(7)
    assert cut.reason == "stopped before its end; offsets 0 to 4 were deleted"


@pytest.mark.parametrize(
    ("coverage", "failed"),
    [
        (covered(), False),
        (covered(**FAILED), True),
        (covered(**CUT), True),
        (covered(**STOPPED), False),
        (covered(**FOLLOWING), False),
        (covered(**{**FOLLOWING, "complete": False}), True),
    ],
)
def test_an_early_stop_is_not_a_failure_of_the_partition(coverage: PartitionCoverage, failed: bool) -> None:
    assert coverage.failed is failed


@pytest.mark.parametrize(
    ("coverage", "complete"),
    [
        (read(StopReason.END, covered(), covered(P1)), True),
        (read(StopReason.END, covered(), covered(P1, **CUT)), False),
        (read(StopReason.IDLE, covered(**STOPPED)), False),
        (read(StopReason.IDLE, covered(**FOLLOWING)), True),
        (read(StopReason.RECORD_LIMIT, covered(**STOPPED)), True),
        (read(StopReason.RECORD_LIMIT, covered(**CUT)), True),
        (read(StopReason.RECORD_LIMIT, covered(**FAILED)), False),
    ],
)
def test_a_read_is_complete_if_nothing_is_missing_before_its_record_limit(
    coverage: ReadCoverage, complete: bool
) -> None:
    assert coverage.complete is complete


def test_errors_and_missing_offsets_are_separate() -> None:
    coverage = read(StopReason.END, covered(**FAILED), covered(P1, **CUT), covered(P2))
    assert coverage.errors == [REFUSED]
    assert [one.tp for one in coverage.missing] == [P1]


def test_a_read_is_bounded_if_every_range_has_an_end() -> None:
    assert is_bounded({P0: ReadRange(LOG_START, LOG_END), P1: ReadRange(LOG_START, Place.offset(0))})
    assert not is_bounded({P0: ReadRange(LOG_START, LOG_END), P1: ReadRange(LOG_START)})
