"""`Heartbeat`: when a member must say that it lives, and when it must be believed dead. Pure: time is a number.

Three times run. The heartbeat's: the next one is due. The session's: the coordinator has not answered for so long that
it must have expelled us. The poll's: the application has not polled for so long that it cannot be at work any more
(KIP-62).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.backoff import Backoff

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig


class Heartbeat:
    """The three times of one member."""

    def __init__(self, config: ConsumerConfig, now_ms: float) -> None:
        self._interval_ms = config.heartbeat_interval_ms
        self._session_timeout_ms = config.session_timeout_ms
        self._max_poll_interval_ms = config.max_poll_interval_ms
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._failures = 0
        self.due_ms = now_ms
        self.session_ends_ms = now_ms
        self.poll_ends_ms = now_ms
        self._sent_ms = now_ms
        self._vouched_ms = now_ms
        self.begin(now_ms)

    def __repr__(self) -> str:
        return f"<Heartbeat due={self.due_ms:.0f} session={self.session_ends_ms:.0f} poll={self.poll_ends_ms:.0f}>"

    def begin(self, now_ms: float) -> None:
        """A generation begins: all times anew."""
        self._failures = 0
        self.due_ms = now_ms + self._interval_ms
        self.session_ends_ms = now_ms + self._session_timeout_ms
        self.polled(now_ms)

    def polled(self, now_ms: float) -> None:
        """The application is at work."""
        self.poll_ends_ms = now_ms + self._max_poll_interval_ms

    def sent(self, now_ms: float) -> None:
        """A heartbeat is on its way."""
        self.due_ms = now_ms + self._interval_ms
        self._sent_ms = now_ms

    def answered(self, now_ms: float) -> None:
        """The coordinator knows that we live."""
        self._failures = 0
        self.session_ends_ms = now_ms + self._session_timeout_ms
        self.vouched_for(self._sent_ms)

    def failed(self, now_ms: float) -> None:
        """It may not know; to be said again soon."""
        self._failures += 1
        self.due_ms = now_ms + self._backoff.after(self._failures)

    def found(self, now_ms: float) -> None:
        """There is a coordinator again, so the session is given its full time."""
        self.session_ends_ms = now_ms + self._session_timeout_ms

    def vouched_for(self, sent_ms: float) -> None:
        """The coordinator had us as a member when it answered what was sent then."""
        self._vouched_ms = sent_ms

    def still_waits(self, now_ms: float) -> None:
        """An open JoinGroup vouches for us as well, as long as we look after it: who was stopped may not."""
        if not self.is_doubtful(now_ms):
            self._vouched_ms = now_ms

    def is_doubtful(self, now_ms: float) -> bool:
        """Whether we may have been expelled without knowing: nothing said since a session ago was answered.

        Not when an answer came counts, but when its request left: a process that was stopped finds old answers.
        """
        return now_ms >= self._vouched_ms + self._session_timeout_ms

    def is_due(self, now_ms: float) -> bool:
        return now_ms >= self.due_ms

    def session_is_over(self, now_ms: float) -> bool:
        return now_ms >= self.session_ends_ms

    def poll_is_overdue(self, now_ms: float) -> bool:
        return now_ms >= self.poll_ends_ms

    def next_ms(self) -> float:
        """When the first of the three times is over."""
        return min(self.due_ms, self.session_ends_ms, self.poll_ends_ms)
