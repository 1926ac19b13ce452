"""When waiting is given up: literals in, a verdict out."""

from kcli.consumer.range_reader import StallDetector
from kcli.consumer.retry_backoff import RetryState
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, DisconnectedError, KcliError, TimeoutExpired
from kcli.structs import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def problem(error: KcliError) -> RetryState:
    return RetryState(since_ms=0, failures=1, until_ms=0, error=error)


def test_a_range_that_moves_is_left_alone_however_long_it_takes() -> None:
    watch = StallDetector(1_000)
    for step in range(10):
        assert watch.verdict(T0, step, 1, None, 900.0 * step, has_more=True) is None


def test_a_range_that_stands_still_is_ended_when_patience_is() -> None:
    watch = StallDetector(1_000)
    assert watch.verdict(T0, 5, 1, None, 0, has_more=True) is None
    assert watch.verdict(T0, 5, 1, None, 999, has_more=True) is None
    error = watch.verdict(T0, 5, 1, None, 1_500, has_more=True)
    assert isinstance(error, TimeoutExpired)
    assert str(error) == "no record arrived for 1.5 s"


def test_the_reason_names_the_trouble() -> None:
    watch = StallDetector(1_000)
    lost = problem(DisconnectedError("connection refused", node=1))
    watch.verdict(T0, 5, 1, lost, 0, has_more=True)
    error = watch.verdict(T0, 5, 1, lost, 60_000, has_more=True)
    assert str(error) == "no record arrived for 60 s: connection refused (node=1)"


def test_who_waits_for_records_to_come_may_wait_for_ever() -> None:
    watch = StallDetector(1_000)
    watch.verdict(T0, 5, 1, None, 0, has_more=False)
    assert watch.verdict(T0, 5, 1, None, 1e9, has_more=False) is None


def test_a_partition_may_have_to_wait_while_its_broker_serves_others() -> None:
    watch = StallDetector(1_000)
    watch.verdict(T0, 5, 1, None, 0, has_more=True)
    watch.moved([1], 900)
    assert watch.verdict(T0, 5, 1, None, 1_800, has_more=True) is None
    watch.moved([2], 1_900)
    assert watch.verdict(T0, 5, 1, None, 1_950, has_more=True) is not None


def test_an_unknown_topic_is_gone_after_a_while() -> None:
    watch = StallDetector(60_000)
    unknown = problem(BrokerError(ErrorCode.UNKNOWN_TOPIC_ID))
    assert watch.verdict(T0, 5, None, unknown, 0, has_more=True) is None
    assert watch.verdict(T0, 5, None, unknown, 4_999, has_more=True) is None
    error = watch.verdict(T0, 5, None, unknown, 5_000, has_more=False)
    assert isinstance(error, BrokerError)
    assert "topic t was deleted" in str(error)


def test_a_topic_that_was_unknown_for_a_moment_only_is_not_gone() -> None:
    watch = StallDetector(60_000)
    unknown = problem(BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    watch.verdict(T0, 5, None, unknown, 0, has_more=True)
    watch.verdict(T0, 5, 1, None, 3_000, has_more=True)
    assert watch.verdict(T0, 5, None, unknown, 6_000, has_more=True) is None
