"""The detection of ranges without progress. Pure."""

from kcli.consumer.retry_backoff import RetryState
from kcli.consumer.stall_detector import StallDetector
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, DisconnectedError, KcliError, TimeoutExpired
from kcli.structs import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def problem(error: KcliError) -> RetryState:
    return RetryState(since_ms=0, failures=1, until_ms=0, error=error)


def test_an_advancing_range_is_not_ended() -> None:
    stall = StallDetector(1_000)
    for step in range(10):
        assert stall.verdict(T0, step, 1, None, 900.0 * step, has_more=True) is None


def test_a_range_without_progress_is_ended_at_the_timeout() -> None:
    stall = StallDetector(1_000)
    assert stall.verdict(T0, 5, 1, None, 0, has_more=True) is None
    assert stall.verdict(T0, 5, 1, None, 999, has_more=True) is None
    error = stall.verdict(T0, 5, 1, None, 1_500, has_more=True)
    assert isinstance(error, TimeoutExpired)
    assert str(error) == "no record arrived for 1.5 s"


def test_the_reason_contains_the_last_error() -> None:
    stall = StallDetector(1_000)
    lost = problem(DisconnectedError("connection refused", node=1))
    stall.verdict(T0, 5, 1, lost, 0, has_more=True)
    error = stall.verdict(T0, 5, 1, lost, 60_000, has_more=True)
    assert str(error) == "no record arrived for 60 s: connection refused (node 1)"


def test_a_range_that_waits_for_new_records_is_not_ended() -> None:
    stall = StallDetector(1_000)
    stall.verdict(T0, 5, 1, None, 0, has_more=False)
    assert stall.verdict(T0, 5, 1, None, 1e9, has_more=False) is None


def test_progress_of_other_partitions_of_the_broker_extends_the_wait() -> None:
    stall = StallDetector(1_000)
    stall.verdict(T0, 5, 1, None, 0, has_more=True)
    stall.moved([1], 900)
    assert stall.verdict(T0, 5, 1, None, 1_800, has_more=True) is None
    stall.moved([2], 1_900)
    assert stall.verdict(T0, 5, 1, None, 1_950, has_more=True) is not None


def test_an_unknown_topic_counts_as_deleted_after_5_s() -> None:
    stall = StallDetector(60_000)
    unknown = problem(BrokerError(ErrorCode.UNKNOWN_TOPIC_ID))
    assert stall.verdict(T0, 5, None, unknown, 0, has_more=True) is None
    assert stall.verdict(T0, 5, None, unknown, 4_999, has_more=True) is None
    error = stall.verdict(T0, 5, None, unknown, 5_000, has_more=False)
    assert isinstance(error, BrokerError)
    assert "topic t was deleted" in str(error)


def test_a_briefly_unknown_topic_is_not_deleted() -> None:
    stall = StallDetector(60_000)
    unknown = problem(BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    stall.verdict(T0, 5, None, unknown, 0, has_more=True)
    stall.verdict(T0, 5, 1, None, 3_000, has_more=True)
    assert stall.verdict(T0, 5, None, unknown, 6_000, has_more=True) is None
