"""`kcli transaction hanging`: transactions that are open in a partition and that no coordinator knows."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument

if TYPE_CHECKING:
    from kcli.cli.output.report import Item

COLUMNS = ["topic", "partition", "start_offset", "producer_id", "epoch", "last_write"]


def run(
    env: Environment,
    common: Common,
    topic: Annotated[
        list[str] | None,
        Argument(metavar="[TOPIC[:P,P..]]...", help="Topics, with partitions or all. [all topics, also internal ones]"),
    ] = None,
) -> int:
    """Find hanging transactions: open in a partition, but known to no coordinator, so that no timeout ends them.

    Readers with read_committed stop at their start, and compaction too. LAST-WRITE is the time since the producer last
    wrote to the partition. End one with `kcli transaction abort --topic T --partition P --start-offset O`.

    Leaders name the open transactions of their partitions, and coordinators those that they know. A transaction that
    may have ended in between is not reported.

    Exit status: 0 none was found; 6 some were found; otherwise that of a request that failed.
    """
    from kcli.admin.logs.open_transactions import survey_transactions
    from kcli.admin.topics import find_partitions, list_topics
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report, error_field
    from kcli.cli.transaction.rows import hanging_item, hanging_row
    from kcli.denials import not_listed
    from kcli.text import parse_topics

    wanted = parse_topics(topic or ())
    with closing(common.connect()) as client:
        deadline_ms = common.deadline_ms()
        if not topic:
            wanted = {info.name: None for info in list_topics(client, deadline_ms) if not info.error}
        survey = survey_transactions(client, find_partitions(client, wanted, deadline_ms), deadline_ms)
        if (note := not_listed("transactional ids", client.principal)) is not None:
            env.report(f"kcli: note: {note}; their open transactions look like hanging ones")
    hanging = [transaction for transaction in survey.transactions if transaction.hanging]
    items = [hanging_item(transaction, env.clock.wall_ms()) for transaction in hanging]
    failures: list[Item] = [
        {"topic": where, "partition": None, "error": error_field(error)} for where, error in survey.errors.items()
    ]
    report = Report("transaction.hanging", COLUMNS, items + failures, [hanging_row(item) for item in items] + failures)
    print_report(env, report, common.output)
    if hanging:
        return exit_status.THRESHOLD
    return exit_status.status_of_all(survey.errors.values())
