"""The token of a client: retrieved in a thread, renewed ahead of its expiry, and its failures."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kcli.client.oauth.source import Retrieve, Token, TokenSource, TokenUnavailable, refresh_delay_ms
from kcli.clock import Clock, ManualClock, SystemClock
from kcli.errors import AuthenticationError, KcliError
from kcli.secret import Secret
from kcli.security.settings import SecuritySettings

LIMIT_S = 20  # only a failing test waits so long
SHORT = {
    "sasl.login.retry.backoff.ms": "1",
    "sasl.login.retry.backoff.max.ms": "30",
    "sasl.login.refresh.min.period.seconds": "0",
    "sasl.login.refresh.buffer.seconds": "0",
}


class Rig:
    """A source over `retrieve`; `wait_for` waits until the source has notified and the condition is true."""

    def __init__(self, retrieve: Retrieve, clock: Clock, **properties: str) -> None:
        self.calls = 0
        self._notified = threading.Condition()

        def counted() -> Token:
            self.calls += 1
            return retrieve()

        config = SecuritySettings.from_properties({**SHORT, **properties})
        self.source = TokenSource(counted, config, clock, lambda low, high: low)
        self.source.notify = self._notify

    def _notify(self) -> None:
        with self._notified:
            self._notified.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self._notified:
            assert self._notified.wait_for(condition, LIMIT_S)

    def settle(self) -> None:
        self.source.start()
        self.wait_for(self.source.is_settled)


@pytest.fixture
def rig():
    rigs: list[Rig] = []

    def make(retrieve: Retrieve, clock: Clock | None = None, **properties: str) -> Rig:
        rigs.append(Rig(retrieve, clock or ManualClock(), **properties))
        return rigs[-1]

    yield make
    for one in rigs:
        one.source.close()


def failing(*errors: KcliError | None, then: Token | None = None) -> Retrieve:
    """Return a retriever with these results, one after another; the last one repeats."""
    results = list(errors) + ([None] if then is not None else [])

    def retrieve() -> Token:
        error = results.pop(0) if len(results) > 1 else results[0]
        if error is not None:
            raise error
        assert then is not None
        return then

    return retrieve


def test_token_is_retrieved_once(rig):
    one = rig(lambda: Token(Secret("t"), None))
    one.settle()
    one.source.start()
    assert one.source.token() == Secret("t")
    assert one.calls == 1
    assert repr(one.source) == "<TokenSource token>"


def test_start_does_not_wait(rig):
    answer = threading.Event()

    def retrieve() -> Token:
        assert answer.wait(LIMIT_S)
        return Token(Secret("t"), None)

    one = rig(retrieve)
    one.source.start()
    one.source.start()
    assert not one.source.is_settled()
    with pytest.raises(TokenUnavailable, match="there is no OAuth token yet"):
        one.source.token()
    answer.set()
    one.wait_for(one.source.is_settled)
    assert one.calls == 1


def test_refusal_is_kept_until_the_next_start(rig):
    one = rig(failing(AuthenticationError("refused"), then=Token(Secret("t"), None)))
    one.settle()
    for _ in range(2):
        with pytest.raises(AuthenticationError, match=r"^refused$"):
            one.source.token()
    assert one.calls == 1
    one.settle()
    assert one.source.token() == Secret("t")


def test_unavailable_endpoint_is_asked_again(rig):
    one = rig(failing(TokenUnavailable("a"), TokenUnavailable("b"), then=Token(Secret("t"), None)))
    one.settle()
    assert one.source.token() == Secret("t")
    assert one.calls == 3


def test_endpoint_that_stays_unavailable_fails_the_first_token_for_good(rig):
    one = rig(failing(TokenUnavailable("no answer")), SystemClock())
    one.settle()
    with pytest.raises(AuthenticationError, match=r"^no answer$"):
        one.source.token()
    assert one.calls > 1


def test_later_failure_is_retriable(rig):
    clock = ManualClock()
    token = Token(Secret("t"), clock.wall_ms() + 3_600_000)
    one = rig(
        failing(None, TokenUnavailable("no answer"), then=token), clock, **{"sasl.login.retry.backoff.max.ms": "0"}
    )
    one.settle()
    clock.advance(3_600_000)
    assert not one.source.is_settled()
    one.settle()
    with pytest.raises(TokenUnavailable, match=r"^no answer$") as failed:
        one.source.token()
    assert failed.value.retriable


def test_token_that_expired_unnoticed_is_replaced(rig):
    clock = ManualClock()
    one = rig(lambda: Token(Secret(f"t{one.calls}"), clock.wall_ms() + 3_600_000), clock)
    one.settle()
    clock.advance(7_200_000)  # the machine slept
    one.settle()
    assert one.source.token() == Secret("t2")


def test_token_is_renewed_ahead_of_its_expiry(rig):
    clock = SystemClock()
    lifetimes = [60.0, 3_600_000.0]
    properties = {"sasl.login.refresh.window.factor": "0.5"}
    one = rig(lambda: Token(Secret(f"t{one.calls}"), clock.wall_ms() + lifetimes[one.calls - 1]), clock, **properties)
    one.settle()
    one.wait_for(lambda: one.source.is_settled() and one.source.token() == Secret("t2"))


def test_old_token_serves_while_its_renewal_fails(rig):
    clock = ManualClock()
    asked_again = threading.Event()

    def retrieve() -> Token:
        if one.calls == 1:
            return Token(Secret("t"), clock.wall_ms() + 20)
        asked_again.set()
        raise AuthenticationError("refused")

    one = rig(retrieve, clock)
    one.settle()
    assert asked_again.wait(LIMIT_S)
    assert one.source.is_settled()
    assert one.source.token() == Secret("t")


def test_token_that_has_expired_already(rig):
    clock = ManualClock()
    one = rig(lambda: Token(Secret("swordfish"), clock.wall_ms()), clock)
    one.settle()
    with pytest.raises(AuthenticationError, match=r"has expired already; check the clock of this machine$"):
        one.source.token()


def test_unexpected_error_is_reported_without_its_text(rig):
    def retrieve() -> Token:
        raise RuntimeError("swordfish")

    one = rig(retrieve)
    one.settle()
    with pytest.raises(AuthenticationError, match=r"^the OAuth token cannot be retrieved: RuntimeError$"):
        one.source.token()


def test_close_ends_the_thread(rig):
    clock = ManualClock()
    one = rig(lambda: Token(Secret("t"), clock.wall_ms() + 3_600_000), clock)
    one.settle()
    threads = [thread for thread in threading.enumerate() if thread.name == "kcli-oauth"]
    assert threads
    one.source.close()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not any(thread.is_alive() for thread in threads)
    one.source.start()
    assert one.calls == 1


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("lifetime_ms", "uniform", "delay_ms"),
    [
        (HOUR_MS, 0.0, 0.8 * HOUR_MS),
        (HOUR_MS, 1.0, 0.85 * HOUR_MS),
        (600_000, 1.0, 300_000),  # five minutes before the expiry
        (361_000, 0.0, 61_000),
        (360_000, 0.0, 60_000),  # the shortest period and the buffer
        (300_000, 0.0, 240_000),  # no room for both, so only the window counts
        (3_000, 0.0, 2_400),
    ],
)
def test_delay_of_the_renewal_follows_the_rules_of_java(lifetime_ms: float, uniform: float, delay_ms: float):
    assert refresh_delay_ms(lifetime_ms, SecuritySettings.from_properties({}), uniform) == pytest.approx(delay_ms)


def test_shortest_period_between_two_tokens():
    config = SecuritySettings.from_properties(
        {"sasl.login.refresh.window.factor": "0.5", "sasl.login.refresh.min.period.seconds": "900"}
    )
    assert refresh_delay_ms(1_500_000, config, 0.0) == 900_000
