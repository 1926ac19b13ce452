"""`kcli group list`: the groups of the cluster. Never joins, never commits."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.group.selection import Match
from kcli.cli.options import Common
from kcli.cli.parser import Option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.cli.output.report import Item

COLUMNS = ["group", "type", "state", "coordinator", "members"]


def run(
    env: Environment,
    common: Common,
    state: Annotated[
        list[str] | None,
        Option("--state", metavar="STATE,...", help="Only groups in these states, such as Stable or Empty."),
    ] = None,
    group_type: Annotated[
        list[str] | None,
        Option("--type", metavar="TYPE,...", help="Only these types: classic, consumer, share, streams."),
    ] = None,
    topic: Annotated[
        str | None,
        Option("--topic", metavar="TOPIC", help="Only groups that subscribe to it, or have committed offsets in it."),
    ] = None,
    match: Match = None,
    names: Annotated[bool, Option("--names", help="Only the names, one per line, without a heading.")] = False,
) -> int:
    """The groups of the cluster, sorted: type, state, coordinator, number of members.

    Every broker is asked for the groups that it coordinates; a broker that does not answer is a row with its error.
    """
    from kcli.cli.group.listed import check_states, check_types, list_all
    from kcli.cli.group.selection import pattern

    found, states, types = pattern(match), check_states(state or ()), check_types(group_type or ())
    deadline_ms = common.deadline_ms()
    bare = names and common.output in (None, "table")
    with closing(common.connect()) as client:
        items = list_all(client, deadline_ms, states, types, found, topic, count_members=not names)
    if bare:
        return _bare_names(env, items)
    return _show(env, common, items)


def _bare_names(env: Environment, items: Iterable[Item]) -> int:
    from kcli.cli.output.escapes import visible
    from kcli.cli.output.report import cell

    status = exit_status.DONE
    for item in items:
        if "error" in item:
            env.say(f"kcli: {cell(item['error'])}")
            status = exit_status.FAILED
        if item["group"] is not None:
            env.stdout.write((visible(item["group"]) if env.stdout_is_terminal else item["group"]) + "\n")
    return status


def _show(env: Environment, common: Common, items: list[Item]) -> int:
    from kcli.cli.group.items import shown_node
    from kcli.cli.output.report import Report, show

    rows = [{**it, "coordinator": shown_node(it["coordinator"]), "members": it.get("member_count")} for it in items]
    report = Report("group.list", COLUMNS, items, rows)
    show(env, report, common.output)
    return exit_status.FAILED if report.failed else exit_status.DONE
