"""The progress bar, on a terminal of buffers."""

from __future__ import annotations

from kcli.cli.output.progress import Progress
from kcli.clock import ManualClock
from tests.cli.fake import FakeEnvironment


def drawn(fractions: list[float], *, shown: bool = True, **environ: str) -> str:
    """Return the drawing of a read with these fractions, one per second."""
    clock = ManualClock()
    env = FakeEnvironment(terminal=True, clock=clock, environ={"TERM": "xterm-256color", **environ})
    now = {"fraction": 0.0}
    with Progress(
        env, fraction=lambda: now["fraction"], records=lambda: int(now["fraction"] * 4000), shown=shown
    ) as bar:
        for now["fraction"] in fractions:
            clock.advance(1000)
            bar.tick()
    return env.result(0).err


def test_the_bar_shows_share_and_rate() -> None:
    text = drawn([0.25, 0.5])
    assert " 25%" in text
    assert " 50%" in text
    assert "1,000 records/s" in text


def test_no_color_disables_colors() -> None:
    assert "\x1b[3" in drawn([0.5])
    assert "\x1b[3" not in drawn([0.5], NO_COLOR="1")


def test_a_hidden_or_immediate_bar_draws_nothing() -> None:
    assert drawn([0.5], shown=False) == ""
    assert drawn([]) == ""


def test_a_killed_read_leaves_the_cursor_visible() -> None:
    begun = drawn([0.5]).partition("50%")[0]
    assert begun.rfind("\x1b[?25h") > begun.rfind("\x1b[?25l")
