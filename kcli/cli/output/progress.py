"""Progress bar on stderr, if that is a terminal: for bounded reads whose records go elsewhere, and files written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcli.cli.environment import Environment

_APPEARS_AFTER_MS = 500.0
"""Most reads have ended by then and do not need to import rich."""
_EVERY_MS = 100.0


class Progress:
    """A progress bar while entered; the owner calls `tick` as often as it likes.

    `fraction` returns the completed part, `records` the number of records printed or stored. If not `shown`, or
    if stderr is not a terminal, it does nothing.
    """

    def __init__(
        self,
        env: Environment,
        *,
        fraction: Callable[[], float],
        records: Callable[[], int],
        shown: bool,
        activity: str = "reading",
    ) -> None:
        self._env = env
        self._fraction = fraction
        self._records = records
        self._activity = activity
        self._started_ms = env.clock.now_ms()
        self._next_ms = self._started_ms + _APPEARS_AFTER_MS if shown and env.can_redraw else float("inf")
        self._bar: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._draw(self._env.clock.now_ms())
            self._bar.stop()

    def tick(self) -> None:
        """Draw the bar if it is due."""
        now_ms = self._env.clock.now_ms()
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + _EVERY_MS
            self._draw(now_ms)

    def _draw(self, now_ms: float) -> None:
        if self._bar is None:
            self._bar = start_bar(self._env, self._activity, 1.0, with_share=True)
        rate = self._records() / max(now_ms - self._started_ms, 1.0) * 1000
        self._bar.update(self._bar.task_ids[0], completed=self._fraction(), count=f"{rate:,.0f} records/s")
        self._bar.refresh()


def start_bar(env: Environment, description: str, total: float | None, *, with_share: bool) -> Any:
    """Start a bar of rich on stderr with one task. Its owner refreshes and stops it, and sets the task's `count`.

    It shows the share of the task that is done, in percent, or the time that has passed.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(file=env.stderr, no_color=bool(env.environ.get("NO_COLOR")), markup=False, highlight=False)
    count = TextColumn("{task.fields[count]}", markup=False)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *((TaskProgressColumn(), count) if with_share else (count, TimeElapsedColumn())),
        TimeRemainingColumn(),
        console=console,
        auto_refresh=False,
        transient=True,
    )
    bar.add_task(description, total=total, count="")
    bar.start()
    console.show_cursor()  # a killed process could not show a hidden cursor again
    return bar
