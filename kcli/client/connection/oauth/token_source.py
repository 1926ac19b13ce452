"""The token of one client: retrieved in a thread beside the connections, kept, and replaced before it expires."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from kcli.client.backoff import Backoff, uniform
from kcli.clock import Clock, SystemClock
from kcli.errors import AuthenticationError, KcliError
from kcli.secret import Secret
from kcli.security.security_settings import SecuritySettings

#: The pause after a failed renewal, while the token is still valid: that of Java's ExpiringCredentialRefreshingLogin.
RENEWAL_PAUSE_MS = 10_000

_MIN_PAUSE_MS = 10.0  # between attempts, also with sasl.login.retry.backoff.ms=0


class Token(NamedTuple):
    """A token and its expiry by this machine's wall clock; None if it does not expire."""

    text: Secret
    expires_at_ms: float | None


class TokenUnavailable(KcliError):
    """The token could not be retrieved, but a later attempt may succeed: the endpoint does not answer, for example."""

    retriable = True


#: Retrieve a token, in the source's thread. Errors: TokenUnavailable, and AuthenticationError or ConfigError, which a
#: repetition cannot cure.
Retrieve = Callable[[], Token]


class TokenSource:
    """The token for all connections of a client. Any thread may call its methods; none of them waits.

    `start` begins to retrieve the token, if there is none that is valid. `is_settled` becomes true when there is one,
    or when it could not be retrieved, and then `notify` is called, by another thread. `close` ends the thread.
    """

    def __init__(
        self,
        retrieve: Retrieve,
        config: SecuritySettings,
        clock: Clock | None = None,
        uniform: Callable[[float, float], float] = uniform,
    ) -> None:
        self._retrieve = retrieve
        self._config = config
        self._clock = clock or SystemClock()
        self._uniform = uniform
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_closed = False
        self._has_worked = False
        self._thread: threading.Thread | None = None
        self._token: Token | None = None
        self._failure: KcliError | None = None
        self.notify: Callable[[], None] = lambda: None

    def __repr__(self) -> str:
        state = "token" if self._is_valid() else "failed" if self._failure else "no token"
        return f"<TokenSource {state}>"

    def start(self) -> None:
        """Begin to retrieve a token, unless there is a valid one or this has begun."""
        with self._lock:
            if self._is_closed or self._is_valid():
                return
            if self._thread is None:
                self._failure = None
                self._thread = threading.Thread(target=self._run, name="kcli-oauth", daemon=True)
                self._thread.start()
            elif self._token is not None:  # it expired before its renewal, for example while the machine slept
                self._token = None
                self._wake.set()

    def is_settled(self) -> bool:
        """Return whether `token` returns a token or raises the error of the last attempt."""
        return self._is_valid() or self._thread is None

    def token(self) -> Secret:
        """Return the token. Raise the error of the last attempt if there is none that is valid."""
        token, failure = self._token, self._failure
        if token is not None and self._is_valid():
            return token.text
        raise failure or TokenUnavailable("there is no OAuth token yet")

    def close(self) -> None:
        """End the thread, without waiting for a request in progress."""
        self._is_closed = True
        self._wake.set()

    def _is_valid(self) -> bool:
        token = self._token
        return token is not None and (token.expires_at_ms is None or token.expires_at_ms > self._clock.wall_ms())

    # In the thread

    def _run(self) -> None:
        try:
            self._keep_valid()
        except Exception as error:  # a bug; its text can have parts of the token
            problem = f"the OAuth token cannot be retrieved: {type(error).__name__}"
            self._settle(None, AuthenticationError(problem))

    def _keep_valid(self) -> None:
        """Retrieve the token, and renew it until a renewal fails after its expiry."""
        while not self._is_closed:
            try:
                token = self._retrieve_with_retries()
            except KcliError as error:
                if not self._is_valid():
                    self._settle(None, error)
                    return
                pause_ms: float = RENEWAL_PAUSE_MS
            else:
                if token.expires_at_ms is None:
                    self._has_worked = True
                    self._settle(token, None)
                    return
                pause_ms = refresh_delay_ms(
                    token.expires_at_ms - self._clock.wall_ms(), self._config, self._uniform(0, 1)
                )
                self._token, self._has_worked = token, True
                self.notify()
            self._wake.wait(pause_ms / 1000)
            self._wake.clear()

    def _settle(self, token: Token | None, failure: KcliError | None) -> None:
        """Keep the result, and end the thread: a later `start` begins again."""
        with self._lock:
            self._token, self._failure, self._thread = token, failure, None
        self.notify()

    def _retrieve_with_retries(self) -> Token:
        """Repeat a failed attempt until sasl.login.retry.backoff.max.ms have passed, as Java's client does."""
        config = self._config
        backoff = Backoff(config.sasl_login_retry_backoff_ms, config.sasl_login_retry_backoff_max_ms)
        deadline_ms = self._clock.now_ms() + config.sasl_login_retry_backoff_max_ms
        failures = 0
        while True:
            try:
                token = self._retrieve()
            except TokenUnavailable as error:
                failures += 1
                pause_ms = max(backoff.after(failures), _MIN_PAUSE_MS)
                if self._clock.now_ms() + pause_ms >= deadline_ms or self._is_closed:
                    if not self._has_worked:  # a wrong URL, more likely than an endpoint that comes back
                        raise AuthenticationError(error.message) from None
                    raise
                self._wake.wait(pause_ms / 1000)
                self._wake.clear()
            else:
                if token.expires_at_ms is not None and token.expires_at_ms <= self._clock.wall_ms():
                    raise AuthenticationError("the OAuth token has expired already; check the clock of this machine")
                return token


def refresh_delay_ms(lifetime_ms: float, config: SecuritySettings, uniform: float) -> float:
    """Return the time until a new token is renewed; `uniform` is a random number from 0 to 1.

    The rules are those of Java's ExpiringCredentialRefreshingLogin: a part of the lifetime, but not sooner than the
    shortest period, and not later than the buffer before the expiry. A short lifetime has room for neither.
    """
    window = config.sasl_login_refresh_window_factor + config.sasl_login_refresh_window_jitter * uniform
    delay_ms = lifetime_ms * window
    earliest_ms = config.sasl_login_refresh_min_period_seconds * 1000.0
    latest_ms = lifetime_ms - config.sasl_login_refresh_buffer_seconds * 1000.0
    return delay_ms if earliest_ms > latest_ms else min(max(delay_ms, earliest_ms), latest_ms)
