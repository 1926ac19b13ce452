"""`kcli group list`: list the groups of the cluster. Never joins, never commits."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.group.selection import Match, pattern
from kcli.cli.options import Common, parse_names
from kcli.cli.parser import Option

if TYPE_CHECKING:
    from kcli.admin.groups.listing import FoundGroups, ListedGroup
    from kcli.cli.output.report import Item

COLUMNS = ["group", "type", "state", "coordinator", "members"]


def run(
    env: Environment,
    common: Common,
    state: Annotated[
        list[str] | None,
        Option("--state", metavar="STATE,...", help="List only groups in these states, such as Stable or Empty."),
    ] = None,
    group_type: Annotated[
        list[str] | None,
        Option("--type", metavar="TYPE,...", help="List only these types: classic, consumer, share, streams."),
    ] = None,
    topic: Annotated[
        str | None,
        Option(
            "--topic", "-t", metavar="TOPIC", help="List only groups with a subscription or an offset in this topic."
        ),
    ] = None,
    match: Match = None,
    names: Annotated[bool, Option("--names", help="Print only the names, one per line, without a header.")] = False,
) -> int:
    """List the groups of the cluster, sorted: type, state, coordinator, number of members.

    Every broker is asked for the groups that it coordinates; a broker that does not answer is a row with its error.
    """
    from kcli.admin.groups.listing import STATES, TYPES, find_groups
    from kcli.cli.output.printer import print_names
    from kcli.denials import not_listed

    found = pattern(match)
    states, types = parse_names("--state", state or (), STATES), parse_names("--type", group_type or (), TYPES)
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        groups = find_groups(
            client, deadline_ms, states=states, types=types, pattern=found, topic=topic, describe=not names
        )
        if (not groups.listed or common.verbose) and (note := not_listed("groups", client.principal)) is not None:
            env.report(f"kcli: note: {note}")
    items = _items(groups)
    if names and common.output in (None, "table"):
        return print_names(env, items, "group")
    return _show(env, common, items)


def _items(groups: FoundGroups) -> list[Item]:
    from kcli.cli.group.rows import failed_broker

    items = [_item(group, groups) for group in groups.listed.values()]
    return items + [failed_broker(node, error) for node, error in groups.failed_brokers.items()]


def _item(listed: ListedGroup, groups: FoundGroups) -> Item:
    from kcli.cli.group.rows import node_item
    from kcli.cli.output.report import error_field

    item: Item = {
        "group": listed.group,
        "type": listed.type,
        "state": listed.state or None,
        "protocol_type": listed.protocol_type or None,
        "coordinator": node_item(listed.coordinator),
    }
    described = groups.described
    if described is not None and listed.group in described.values:
        group = described.values[listed.group]
        item.update(state=group.state, member_count=len(group.members))
    elif described is not None and listed.group in described.errors:
        item["error"] = error_field(described.errors[listed.group])
    return item


def _show(env: Environment, common: Common, items: list[Item]) -> int:
    from kcli.cli.group.rows import format_node
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    rows = [
        {**item, "coordinator": format_node(item["coordinator"]), "members": item.get("member_count")} for item in items
    ]
    report = Report("group.list", COLUMNS, items, rows)
    print_report(env, report, common.output)
    return exit_status.FAILED if report.failed else exit_status.DONE
