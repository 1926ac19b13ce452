"""Retry backoff per key, with numbers as time."""

from kcli.consumer.retry_backoff import RetryBackoffs
from kcli.errors import DisconnectedError

LOST = DisconnectedError("lost")


def test_backoffs_grow_with_failures_and_end_together() -> None:
    troubles: RetryBackoffs[str] = RetryBackoffs(100, 1_000)
    first, second = troubles.add("a", LOST, 0), troubles.add("b", LOST, 0)
    assert 80 <= first.until_ms == second.until_ms <= 120
    again = troubles.add("a", LOST, 500)
    assert again.until_ms - 500 > 1.9 * first.until_ms
    assert (again.since_ms, again.failures) == (0, 2)


def test_a_backoff_ends_but_the_failures_stay_until_cleared() -> None:
    troubles: RetryBackoffs[str] = RetryBackoffs(100, 1_000)
    troubles.add("a", LOST, 0)
    assert troubles.is_waiting("a")
    assert troubles.take_expired(50) == []
    assert troubles.take_expired(120) == ["a"]
    assert not troubles.is_waiting("a")
    assert troubles.get("a") is not None
    troubles.clear("a")
    assert troubles.get("a") is None


def test_the_next_time_is_the_first_end_of_a_backoff() -> None:
    troubles: RetryBackoffs[str] = RetryBackoffs(100, 1_000)
    assert troubles.next_ms() == float("inf")
    first = troubles.add("a", LOST, 0)
    troubles.add("b", LOST, 70)
    assert troubles.next_ms() == first.until_ms
    troubles.take_expired(1_000)
    assert troubles.next_ms() == float("inf")


def test_end_all_ends_all_backoffs() -> None:
    troubles: RetryBackoffs[str] = RetryBackoffs(100, 1_000)
    troubles.add("a", LOST, 0)
    assert troubles.end_all() == ["a"]
    assert not troubles.is_waiting("a")
    assert len(troubles) == 1


def test_a_backoff_of_0_does_not_wait() -> None:
    troubles: RetryBackoffs[str] = RetryBackoffs(0, 0)
    assert troubles.add("a", LOST, 5).until_ms == 5
