"""`kcli transaction list`: list the transactional ids of the cluster."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common, parse_names
from kcli.cli.parser import Option

if TYPE_CHECKING:
    from kcli.admin.transactions import FoundTransactions
    from kcli.cli.output.report import Item


def run(
    env: Environment,
    common: Common,
    state: Annotated[
        list[str] | None,
        Option("--state", metavar="STATE,...", help="List only ids in these states, such as Ongoing."),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        Option(
            "--producer-id",
            metavar="N",
            min=0,
            max=(1 << 63) - 1,
            help="List only the id of this producer id; repeatable.",
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        Option("--older-than", metavar="DURATION", help="List only transactions that are open for longer."),
    ] = None,
    match: Annotated[
        str | None,
        Option("--match", metavar="REGEX", help="List only ids that contain a match; ^ and $ anchor it."),
    ] = None,
    names: Annotated[bool, Option("--names", help="Print only the ids, one per line, without a header.")] = False,
) -> int:
    """List the transactional ids of the cluster, sorted: state, producer, age of the open transaction, coordinator.

    Every broker is asked for the ids that it coordinates; a broker that does not answer is a row with its error. The
    states are Empty, Ongoing, PrepareCommit, PrepareAbort, PrepareEpochFence (being ended), CompleteCommit,
    CompleteAbort and Dead. An id is forgotten after transactional.id.expiration.ms (7 days) without a transaction.
    """
    from kcli.admin.transactions import STATES, find_transactions
    from kcli.cli.group.selection import pattern
    from kcli.cli.output.printer import print_names
    from kcli.denials import not_listed
    from kcli.text import parse_duration_option

    found_pattern = pattern(match)
    states = parse_names("--state", state or (), STATES)
    least_ms = None if older_than is None else parse_duration_option("--older-than", older_than)
    with closing(common.connect()) as client:
        found = find_transactions(
            client,
            common.deadline_ms(),
            states=states,
            producer_ids=producer_id or (),
            pattern=found_pattern,
            describe=not names or least_ms is not None,
        )
        note = not_listed("transactional ids", client.principal)
        if note is not None and (not found.listed or common.verbose):
            env.report(f"kcli: note: {note}")
    items = _items(found, env.clock.wall_ms())
    if least_ms is not None:
        items = [item for item in items if "error" in item or (item["age_ms"] or 0) > least_ms]
    if names and common.output in (None, "table"):
        return print_names(env, items, "transactional_id")
    return _show(env, common, items)


def _items(found: FoundTransactions, now_ms: int) -> list[Item]:
    from kcli.cli.group.rows import node_item
    from kcli.cli.output.report import error_field
    from kcli.cli.transaction.rows import transaction_item

    items: list[Item] = []
    for name, listed in found.listed.items():
        item: Item = {"transactional_id": name, "state": listed.state, "producer_id": listed.producer_id}
        if found.described is not None and name in found.described.values:
            item = transaction_item(found.described.values[name], now_ms)
        elif found.described is not None:
            item["error"] = error_field(found.described.errors[name])
        items.append({**item, "coordinator": node_item(listed.coordinator)})
    return items + [
        {"transactional_id": None, "coordinator": node_item(node), "error": error_field(error)}
        for node, error in found.failed_brokers.items()
    ]


def _show(env: Environment, common: Common, items: list[Item]) -> int:
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report
    from kcli.cli.transaction.rows import COLUMNS, table_row

    columns = [*COLUMNS, "coordinator"]
    report = Report("transaction.list", columns, items, [table_row(item) for item in items])
    print_report(env, report, common.output)
    return exit_status.FAILED if report.failed else exit_status.DONE
