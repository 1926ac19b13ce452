"""Decisions of the failOnDataLoss table: errors, reports, and cases that are not loss.

The first four rows are decided in planning (see test_batch_plan, test_stream_plan), the others in a task.
"""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.errors import TimeoutExpired
from kcli.spark.loss import (
    DataLoss,
    Decision,
    decide_end,
    decide_gone,
    decide_recreated,
    decide_skipped,
    decide_start,
    timeout_error,
)
from kcli.structs import Node, TopicPartition

TP = TopicPartition("orders", 3)


def evidence(caught: pytest.ExceptionInfo[DataLoss]) -> tuple[object, ...]:
    """Return wanted, available and lost; checks that the message names both remedies."""
    result = caught.value
    assert "failOnDataLoss=false" in result.message
    assert "start again with a new checkpoint or other startingOffsets" in result.message
    assert (result.evidence["topic"], result.evidence["partition"]) == TP
    assert str(TP) in result.message
    return result.evidence["wanted"], result.evidence["available"], result.evidence["lost"]


def test_a_start_before_the_log_start_is_loss() -> None:
    with pytest.raises(DataLoss) as caught:
        decide_start(TP, 10, 15, 100, fail=True)
    assert evidence(caught) == (10, 15, 5)
    decision = decide_start(TP, 10, 15, 100, fail=False)
    assert decision.offset == 15
    assert decision.report == "orders-3: offset 10 no longer exists, the log starts at 15; 5 offsets are lost"
    assert decide_start(TP, 10, 15, 100, fail=False, until=12).report.endswith("2 offsets are lost")  # type: ignore[union-attr]


def test_a_start_after_the_log_end_suggests_a_recreated_topic() -> None:
    with pytest.raises(DataLoss, match="was the topic recreated, or its log truncated") as caught:
        decide_start(TP, 120, 15, 100, fail=True)
    assert evidence(caught) == (120, 100, None)
    decision = decide_start(TP, 120, 15, 100, fail=False)
    assert decision.offset == 15
    assert "Reading again from 15" in (decision.report or "")


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("wanted", [15, 60, 100])
def test_a_start_in_the_log_or_at_its_end_is_not_loss(wanted: int, fail: bool) -> None:
    assert decide_start(TP, wanted, 15, 100, fail=fail) == Decision(wanted)


def test_an_empty_range_before_the_log_loses_nothing() -> None:
    assert decide_start(TP, 10, 15, 100, fail=True, until=10) == Decision(10)


def test_a_topic_with_another_id_is_read_from_its_start() -> None:
    with pytest.raises(DataLoss, match="recreated after it was read up to offset 60") as caught:
        decide_recreated(TP, 60, 0, fail=True)
    assert evidence(caught) == (60, 0, None)
    assert decide_recreated(TP, 60, 0, fail=False).offset == 0


def test_an_end_after_the_log_end_is_loss() -> None:
    with pytest.raises(DataLoss) as caught:
        decide_end(TP, 120, 100, fail=True)
    assert evidence(caught) == (120, 100, 20)
    assert decide_end(TP, 120, 100, fail=False).offset == 100
    assert decide_end(TP, 100, 100, fail=True) == Decision(100)


def test_a_deleted_topic_or_partition_is_loss() -> None:
    with pytest.raises(DataLoss, match="orders-3 does not exist any more") as caught:
        decide_gone(TP, 60, fail=True)
    assert evidence(caught) == (60, None, None)
    decision = decide_gone(TP, 60, fail=False)
    assert decision.offset is None
    assert "from offset 60 on" in (decision.report or "")


def test_a_task_never_leaves_its_range() -> None:
    # The log now starts after the range: the next task reads those records, so this one must not.
    decision = decide_skipped(TP, 10, 80, 80, 50, fail=False)
    assert decision.offset == 50
    assert "40 offsets are lost" in (decision.report or "")


@pytest.mark.parametrize("fail", [True, False])
def test_skipped_compacted_control_and_aborted_records_are_not_loss(fail: bool) -> None:
    # Pinot treated these as loss: apache/pinot#19161.
    assert decide_skipped(TP, 10, 25, 0, 50, fail=fail) == Decision(25)
    assert decide_skipped(TP, 10, 25, 10, 50, fail=fail) == Decision(25)
    assert decide_skipped(TP, 10, 70, 0, 50, fail=fail) == Decision(50)


def test_skipped_deleted_records_are_loss_up_to_the_log_start() -> None:
    with pytest.raises(DataLoss) as caught:
        decide_skipped(TP, 10, 25, 18, 50, fail=True)
    assert evidence(caught) == (10, 18, 8)
    assert decide_skipped(TP, 10, 25, 18, 50, fail=False).offset == 25


def test_a_timeout_is_an_error_with_either_failondataloss() -> None:
    error = timeout_error(TP, 40, 50, 120_000, Node(2, "kafka-2", 9092))
    assert isinstance(error, TimeoutExpired)
    assert error.message == (
        "orders-3: no data for 120000 ms (kafkaConsumer.pollTimeoutMs) at offset 40 of a range up to 50; "
        "leader kafka-2:9092 (node 2)"
    )
    assert "the leader is not known" in timeout_error(TP, 40, 50, 1, None).message


OFFSET = st.integers(0, 60)


@settings(deadline=None, max_examples=60)
@given(OFFSET, OFFSET, OFFSET, OFFSET)
def test_a_task_reads_nothing_twice_and_nothing_beyond_its_range(
    wanted: int, size: int, start: int, found: int
) -> None:
    decision = decide_skipped(TP, wanted, max(wanted, found), start, wanted + size, fail=False)
    assert decision.offset is not None
    assert wanted <= decision.offset <= wanted + size


@settings(deadline=None, max_examples=60)
@given(OFFSET, OFFSET, OFFSET, OFFSET)
def test_a_reported_loss_is_an_error_with_failondataloss(wanted: int, size: int, start: int, length: int) -> None:
    def both(fail: bool) -> list[Decision]:
        return [
            decide_start(TP, wanted, start, start + length, fail=fail),
            decide_skipped(TP, wanted, max(wanted, start), start, wanted + size, fail=fail),
        ]

    if all(decision.report is None for decision in both(False)):
        assert both(True) == both(False)
    else:
        with pytest.raises(DataLoss):
            both(True)


def test_dataloss_can_be_pickled() -> None:
    with pytest.raises(DataLoss) as caught:
        decide_gone(TP, 60, fail=True)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.evidence) == (str(caught.value), caught.value.evidence)
