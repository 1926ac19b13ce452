"""`kcli transaction abort`: abort open transactions, by transactional id or, if they hang, by their place in a log."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.mutation import Execute, Mutation, PlanRow
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.transaction.rows import check_ids, hanging_item, hanging_row, table_row
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcli.admin.logs.hanging_transactions import PlannedMarker
    from kcli.admin.transactions import Transaction
    from kcli.cli.output.report import Item
    from kcli.errors import KcliError

ABORT = Mutation(
    "transaction.abort",
    ["transactional_id", "status", "state", "producer_id", "epoch", "age", "partitions"],
    done="aborted",
    table_row=table_row,
)
HANGING_ABORT = Mutation(
    "transaction.abort",
    ["topic", "partition", "status", "start_offset", "producer_id", "epoch", "last_write"],
    done="aborted",
    table_row=hanging_row,
)


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
    from kcli.admin.transactions import abort_transactions, describe_transactions

    with closing(common.connect()) as client:
        found = describe_transactions(client, names, common.deadline_ms())
        now_ms = env.clock.wall_ms()

        def row(name: str) -> PlanRow:
            transaction = found.values.get(name)
            return PlanRow(name, lambda status: _id_item(name, transaction, status, now_ms), found.errors.get(name))

        def apply(planned: list[str]) -> Mapping[str, KcliError]:
            wanted = [found.values[name] for name in planned if found.values[name].is_open]
            return abort_transactions(client, wanted, common.deadline_ms()).errors

        return ABORT.run(env, common, [row(name) for name in names], apply, execute=execute)


def _id_item(name: str, transaction: Transaction | None, status: str, now_ms: int) -> Item:
    from kcli.cli.transaction.rows import transaction_item

    if transaction is None:
        return {"transactional_id": name, "status": status}
    item = transaction_item(transaction, now_ms)
    return {**item, "status": status if transaction.is_open else "unchanged"}


def _abort_hanging(
    env: Environment, common: Common, topic: str, partition: int, start_offset: int, *, execute: bool
) -> int:
    from kcli.admin.logs.hanging_transactions import plan_marker, write_abort_marker
    from kcli.admin.topics import find_partitions
    from kcli.errors import KcliError

    with closing(common.connect()) as client:
        (tp,) = find_partitions(client, {topic: [partition]}, common.deadline_ms())
        planned = plan_marker(client, tp, start_offset, common.deadline_ms())
        now_ms = env.clock.wall_ms()

        def apply(names: list[str]) -> Mapping[str, KcliError]:
            try:
                write_abort_marker(client, planned, common.deadline_ms())
            except KcliError as error:
                return {names[0]: error}
            return {}

        row = PlanRow(str(tp), lambda status: _marker_item(planned, status, now_ms), planned.error)
        return HANGING_ABORT.run(env, common, [row], apply, execute=execute)


def _marker_item(planned: PlannedMarker, status: str, now_ms: int) -> Item:
    place = {"topic": planned.tp.topic, "partition": planned.tp.partition, "start_offset": planned.start_offset}
    if planned.transaction is None:
        return {**place, "status": status}
    return {**hanging_item(planned.transaction, now_ms), "status": status}
