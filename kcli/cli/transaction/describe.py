"""`kcli transaction describe`: the state of transactional ids, with the partitions of an open transaction."""

from __future__ import annotations

from contextlib import closing

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.transaction.rows import COLUMNS, TransactionalIds, check_ids, table_row, transaction_item
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError


def run(env: Environment, common: Common, transactional_id: TransactionalIds) -> int:
    """Show transactional ids as their coordinators know them: state, producer, age, partitions of an open transaction.

    The state after the end of a transaction is CompleteCommit or CompleteAbort: so it can be found out whether a
    commit, whose response was lost, was carried out. During the end, the partitions are those without a marker so far.
    An id that does not exist is an error (status 3); it may have expired.
    """
    from kcli.admin.transactions import describe_transactions, similar_ids
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Item, Report, error_field

    check_ids(transactional_id)
    names = list(dict.fromkeys(transactional_id))
    with closing(common.connect()) as client:
        deadline_ms = common.deadline_ms()
        found = describe_transactions(client, names, deadline_ms)
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        absent = [n for n, error in found.errors.items() if isinstance(error, BrokerError) and error.code == code]
        for name, hint in similar_ids(client, absent, deadline_ms).items():
            found.errors[name] = BrokerError(code, f"there is no transactional id {name}{hint}")
    now_ms = env.clock.wall_ms()
    items: list[Item] = [
        transaction_item(found.values[name], now_ms)
        if name in found.values
        else {"transactional_id": name, "error": error_field(found.errors[name])}
        for name in names
    ]
    report = Report("transaction.describe", COLUMNS, items, [table_row(item) for item in items])
    print_report(env, report, common.output)
    return exit_status.FAILED if found.errors and found.values else exit_status.status_of_all(found.errors.values())
