"""`kcli group watch`: show lag and rates of groups, updated live. Never joins, never commits."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from kcli.cli import exit_status
from kcli.cli.environment import Environment, StopSignals
from kcli.cli.options import Common, check_interval
from kcli.cli.parser import Argument, Option
from kcli.errors import AuthenticationError, ConfigError, KcliError

if TYPE_CHECKING:
    from kcli.admin.groups.rates import GroupsSample, TopicRow
    from kcli.cli.group.watch_views import LineView, LiveView
    from kcli.client.consumer_network_client import ConsumerNetworkClient

INTERVAL_S = 2.0
# A resized terminal is drawn again after at most this time.
_REFRESH_MS = 200.0
# Limit after the first sample: a broker that does not answer must not block the screen or the q key.
_SAMPLE_TIMEOUT_MS = 5_000.0


def run(
    env: Environment,
    common: Common,
    group: Annotated[list[str], Argument(metavar="GROUP...", help="Groups to watch.")],
    interval: Annotated[
        float, Option("--interval", metavar="SECONDS", help="Take a sample every N seconds.")
    ] = INTERVAL_S,
    samples: Annotated[int | None, Option("--count", "-n", metavar="N", help="Stop after N samples. [never]")] = None,
) -> int:
    """Show lag and rates of groups, updated live: a row for each topic.

    CONSUMED-PER-S is the rate of the committed offsets, PRODUCED-PER-S that of the end offsets, over the last 15
    seconds or two samples; DRAIN is the time until the lag is 0 at these rates. On a terminal the command shows one
    table, with the lag so far as a bar chart, until q is pressed; it names the columns for which the terminal is too
    narrow. Otherwise it prints a line for each topic and sample (also as jsonl, csv, tsv).
    """

    check_interval(interval)
    if samples is not None and samples < 1:
        raise ConfigError(f"--count: {samples} is not valid; use a number of at least 1")
    if common.output == "json":
        raise ConfigError("--output json is not available here; use --output jsonl")
    with StopSignals(), Keyboard(env) as keyboard, _view(env, common, interval, keyboard) as view:
        return _watch(env, common, list(dict.fromkeys(group)), view, keyboard, interval, samples)


class View(Protocol):
    """A display of successive samples."""

    def show(self, rows: Sequence[TopicRow], wall_ms: int) -> None: ...

    def refresh(self) -> None:
        """Draw the last sample again if the terminal was resized."""


def _view(env: Environment, common: Common, interval: float, keyboard: Keyboard) -> LineView | LiveView:
    from kcli.cli.group.watch_views import LineView, LiveView

    live = env.stdout_is_terminal and env.environ.get("TERM") != "dumb" and common.output in (None, "table")
    return LiveView(env, interval, keys=keyboard.available) if live else LineView(env, common.output)


def _watch(
    env: Environment,
    common: Common,
    names: Sequence[str],
    view: View,
    keyboard: Keyboard,
    interval_s: float,
    samples: int | None,
) -> int:
    """Show `samples` samples, or until `q` is pressed; return the status of the last one.

    If no group exists in the first sample, its error is raised; otherwise missing groups are waited for. A failed
    authentication ends the watch.
    """
    from kcli.admin.groups.listing import with_suggestions
    from kcli.admin.groups.rates import RateHistory

    types: dict[str, str | None] = dict.fromkeys(names)
    history = RateHistory()
    failed: Mapping[str, KcliError] = {}
    with closing(common.connect()) as client:
        for number in count(1):
            began_ms = env.clock.now_ms()
            timeout_ms = common.timeout_ms if number == 1 else min(common.timeout_ms, _SAMPLE_TIMEOUT_MS)
            sample = _sample(client, types, timeout_ms)
            if number == 1 and not sample.surveys:
                raise next(iter(with_suggestions(client, sample.errors, began_ms + timeout_ms).values()))
            failed = sample.errors
            refused = next((error for error in failed.values() if isinstance(error, AuthenticationError)), None)
            if refused is not None and not sample.surveys:
                raise refused
            view.show(history.add(sample), env.clock.wall_ms())
            if number == samples or _quits(client, keyboard, view, began_ms + interval_s * 1000 - env.clock.now_ms()):
                break
    return exit_status.status_of_all(failed.values())


def _sample(client: ConsumerNetworkClient, types: dict[str, str | None], timeout_ms: float) -> GroupsSample:
    from kcli.admin.groups.rates import GroupsSample
    from kcli.admin.groups.survey import survey_groups

    try:
        surveys = survey_groups(client, types, client.clock.now_ms() + timeout_ms)
    except KcliError as error:  # no broker answered
        return GroupsSample({}, dict.fromkeys(types, error))
    types.update({name: survey.group.type for name, survey in surveys.values.items()})
    return GroupsSample(surveys.values, surveys.errors)


def _quits(client: ConsumerNetworkClient, keyboard: Keyboard, view: View, wait_ms: float) -> bool:
    """Wait for the next sample; return True as soon as `q` is pressed."""
    now: Callable[[], float] = client.clock.now_ms
    until_ms = now() + wait_ms
    while True:
        step_ms = max(0.0, min(until_ms - now(), _REFRESH_MS))
        if not keyboard.available:
            client.sleep(step_ms)
        elif "q" in keyboard.wait(step_ms / 1000).lower():
            return True
        if now() >= until_ms:
            return False
        view.refresh()


class Keyboard:
    """Single keys from the terminal, without echo, while entered. Leaving restores the terminal; Ctrl-C still works."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._fd = -1
        self._before: Any = None

    def __repr__(self) -> str:
        return f"<Keyboard {'of the terminal' if self.available else 'none'}>"

    def __enter__(self) -> Keyboard:
        if self._env.stdin_is_terminal:
            try:
                import termios
                import tty

                self._fd = self._env.stdin.fileno()
                self._before = termios.tcgetattr(self._fd)
                tty.setcbreak(self._fd)
            except (ImportError, OSError, ValueError):  # Windows, or a file that only claims to be a terminal
                self._before = None
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._before is not None:
            import termios

            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
            self._before = None

    @property
    def available(self) -> bool:
        """Standard input is a terminal."""
        return self._before is not None

    def wait(self, timeout_s: float) -> str:
        """Wait for keys at most this long; return them, "" if none was pressed."""
        ready, _, _ = select.select([self._fd], [], [], max(0.0, timeout_s))
        return os.read(self._fd, 64).decode(errors="replace") if ready else ""
