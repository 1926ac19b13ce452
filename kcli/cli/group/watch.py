"""`kcli group watch`: lag of groups and the rates of what moves it, again and again. Never joins, never commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.group.keys import Keys
    from kcli.cli.group.watch_lines import Lines
    from kcli.cli.group.watch_live import Live

INTERVAL_S = 2.0


def run(
    env: Environment,
    common: Common,
    group: Annotated[list[str], Argument(metavar="GROUP...", help="Groups to watch.")],
    interval: Annotated[
        float, Option("--interval", metavar="SECONDS", help="Time from one look to the next.")
    ] = INTERVAL_S,
    looks: Annotated[int | None, Option("--count", "-n", metavar="N", help="End after so many looks. [never]")] = None,
) -> int:
    """Lag and rates of groups, live: a row for each topic.

    CONSUMED-PER-S is how fast committed offsets move, PRODUCED-PER-S how fast the topic grows, over the last 15
    seconds or two looks; DRAIN when the lag is gone if both stay so. On a terminal it is one table that changes, with
    the lag so far as a line of bars, until q is pressed; else a line for each topic and look (jsonl, csv, tsv too).
    """
    from kcli.cli.environment import StopSignals
    from kcli.cli.group.keys import Keys
    from kcli.cli.group.selection import check_names
    from kcli.cli.group.watch_loop import watch
    from kcli.cli.options import check_interval

    check_names(group)
    check_interval(interval)
    if looks is not None and looks < 1:
        raise ConfigError(f"--count is at least 1, not {looks}")
    if common.output == "json":
        raise ConfigError("a watch is no one JSON document: take --output jsonl")
    with StopSignals(), Keys(env) as keys, _view(env, common, interval, keys) as view:
        return watch(env, common, list(dict.fromkeys(group)), view, keys, interval, looks)


def _view(env: Environment, common: Common, interval: float, keys: Keys) -> Lines | Live:
    live = env.stdout_is_terminal and env.environ.get("TERM") != "dumb" and common.output in (None, "table")
    if not live:
        from kcli.cli.group.watch_lines import Lines

        return Lines(env, common.output)
    from kcli.cli.group.watch_live import Live

    return Live(env, interval, keys=keys.come)
