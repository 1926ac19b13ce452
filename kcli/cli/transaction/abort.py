"""`kcli transaction abort`: abort open transactions, by transactional id or, if they hang, by their place in a log."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.run_plan import Execute, View, run_plan
from kcli.cli.transaction.rows import check_ids, hanging_item, hanging_row, table_row, transaction_item
from kcli.errors import ConfigError, KcliError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.admin.logs.hanging_transactions import HangingAbort
    from kcli.admin.plan import Applied, Row
    from kcli.admin.transactions import Transaction
    from kcli.cli.output.report import Item

COLUMNS = ["transactional_id", "status", "state", "producer_id", "epoch", "age", "partitions"]
HANGING_COLUMNS = ["topic", "partition", "status", "start_offset", "producer_id", "epoch", "last_write"]


def run(
    env: Environment,
    common: Common,
    transactional_id: Annotated[
        list[str] | None, Argument(metavar="[ID...]", help="Transactional ids whose open transaction to abort.")
    ] = None,
    topic: Annotated[
        str | None, Option("--topic", "-t", metavar="TOPIC", help="Topic of a hanging transaction.")
    ] = None,
    partition: Annotated[
        int | None, Option("--partition", "-p", metavar="N", min=0, help="Partition of a hanging transaction.")
    ] = None,
    start_offset: Annotated[
        int | None,
        Option("--start-offset", metavar="N", min=0, help="First offset of a hanging transaction in the partition."),
    ] = None,
    execute: Execute = False,
) -> int:
    """Abort open transactions. None of their records becomes visible to readers with read_committed.

    Without --execute the command only shows the plan. An id without an open transaction stays unchanged. --execute has
    the coordinator abort the transaction in all its partitions, and fences its producer: that can only be restarted.

    --topic, --partition and --start-offset name a hanging transaction, as `kcli transaction hanging` shows it. The
    leader of the partition ends it there. A transaction that a coordinator knows is refused (status 4), and so is one
    if a coordinator did not answer.
    """
    place = (topic, partition, start_offset)
    if bool(transactional_id) == any(part is not None for part in place):
        raise ConfigError("give either transactional ids, or --topic, --partition and --start-offset")
    if transactional_id:
        check_ids(transactional_id)
        return _abort_ids(env, common, list(dict.fromkeys(transactional_id)), execute=execute)
    if topic is None or partition is None or start_offset is None:
        raise ConfigError("a hanging transaction needs --topic, --partition and --start-offset")
    return _abort_hanging(env, common, topic, partition, start_offset, execute=execute)


def _abort_ids(env: Environment, common: Common, names: Sequence[str], *, execute: bool) -> int:
    from kcli.admin.transactions import abort_transactions, describe_transactions, plan_abort

    with closing(common.connect()) as client:
        plan = plan_abort(describe_transactions(client, names, common.deadline_ms()), names)
        now_ms = env.clock.wall_ms()

        def apply(_: object) -> Applied:
            wanted = [row.old for row in plan.changes if row.old is not None]
            return plan.outcome(abort_transactions(client, wanted, common.deadline_ms()).errors)

        def item(row: Row[Transaction], status: str) -> Item:
            known = {"transactional_id": row.key} if row.old is None else transaction_item(row.old, now_ms)
            return {**known, "status": status}

        view = View("transaction.abort", COLUMNS, "aborted", item, table_row=table_row)
        return run_plan(env, common, plan, view, apply, execute=execute)


def _abort_hanging(
    env: Environment, common: Common, topic: str, partition: int, start_offset: int, *, execute: bool
) -> int:
    from kcli.admin.logs.hanging_transactions import plan_marker, write_abort_marker
    from kcli.admin.topics import find_partitions

    with closing(common.connect()) as client:
        (tp,) = find_partitions(client, {topic: [partition]}, common.deadline_ms())
        plan = plan_marker(client, tp, start_offset, common.deadline_ms())
        now_ms = env.clock.wall_ms()

        def apply(_: object) -> Applied:
            try:
                write_abort_marker(client, plan.rows[0], common.deadline_ms())
            except KcliError as error:
                return plan.outcome({tp: error})
            return plan.outcome({})

        def item(row: HangingAbort, status: str) -> Item:
            place = {"topic": tp.topic, "partition": tp.partition, "start_offset": row.start_offset}
            return {**(place if row.old is None else hanging_item(row.old, now_ms)), "status": status}

        view = View("transaction.abort", HANGING_COLUMNS, "aborted", item, table_row=hanging_row)
        return run_plan(env, common, plan, view, apply, execute=execute)
