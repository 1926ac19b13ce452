"""Backoff: growth, maximum, jitter."""

from kcli.client.backoff import JITTER, Backoff, uniform


def test_the_backoff_doubles_with_each_failure_up_to_the_maximum() -> None:
    backoff = Backoff(50, 1_000, uniform=lambda low, high: (low + high) / 2)
    assert [backoff.after(failures) for failures in range(7)] == [0, 50, 100, 200, 400, 800, 1_000]


def test_jitter_varies_the_backoff_by_20_percent_up_to_the_maximum() -> None:
    shortest = Backoff(100, 1_000, uniform=lambda low, high: low)
    longest = Backoff(100, 1_000, uniform=lambda low, high: high)
    assert (shortest.after(2), longest.after(2)) == (200 * (1 - JITTER), 200 * (1 + JITTER))
    assert longest.after(50) == 1_000


def test_a_large_number_of_failures_does_not_overflow() -> None:
    assert Backoff(1, 10**18, uniform=lambda low, high: 1.0).after(1_000_000) == 10**18


def test_an_initial_backoff_of_zero_disables_the_backoff() -> None:
    assert Backoff(0, 1_000).after(10) == 0


def test_default_random_numbers_are_in_their_range_and_vary() -> None:
    numbers = {uniform(0.8, 1.2) for _ in range(50)}
    assert len(numbers) > 1
    assert all(0.8 <= number < 1.2 for number in numbers)
