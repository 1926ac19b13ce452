"""The contract of commands that change committed offsets: show the plan; with --execute apply it, whole or not at all.

| status | result |
|---|---|
| 0 | everything is written; without --execute: it would be |
| 1 | everything is written except the rows with an ERROR, at least one of which failed for certain |
| 3 | nothing is written: every reason is something that does not exist |
| 4 | nothing is written: refused, also because of members that joined meanwhile; without --execute: it would be |
| 5 | nothing is written, because the brokers did not answer in time; or everything is written except the rows with |
|   | the status unknown, which may be written: their responses were lost |
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.cli import exit_status
from kcli.cli.mutation import EXECUTE_HINT, undo_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.admin.offsets.apply import Applied
    from kcli.admin.offsets.offset_plan import Plan
    from kcli.cli.environment import Environment
    from kcli.cli.options import Common
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.errors import KcliError


def run_plan(
    env: Environment, common: Common, client: ConsumerNetworkClient, plan: Plan, deadline_ms: float, *, execute: bool
) -> int:
    """Show the plan or apply it; return the exit status. Without --execute it is the one that --execute would have.

    A table of the plan is shown before anything is written; if that fails, nothing is written.
    """
    from kcli.admin.offsets.preview import preview

    previewed = preview(client, plan.rows, deadline_ms)
    plan = plan._replace(rows=tuple(previewed.rows))
    if previewed.errors:
        env.report(f"no estimates: {next(iter(previewed.errors.values()))}")
    if execute and plan.changes and not plan.refused:
        return _execute(env, common, client, plan, deadline_ms)
    errors = _group_errors(client, plan, deadline_ms)
    similar = _similar_groups(client, plan, deadline_ms)
    with suppress(BrokenPipeError):  # a reader that has gone does not change the status
        _show_plan(env, common, plan)
        _report_plan(env, plan, errors, execute=execute, similar=similar)
    return status_of_refusal(plan, errors)


def status_of_refusal(plan: Plan, errors: Iterable[KcliError]) -> int:
    """Return DONE without refusals, the common status of all of them, else REFUSED."""
    statuses = {exit_status.status_of(error) for error in errors}
    statuses |= {exit_status.status_of(row.error) if row.error else exit_status.REFUSED for row in plan.refused}
    statuses = {exit_status.REFUSED if status == exit_status.FAILED else status for status in statuses}
    if not statuses:
        return exit_status.DONE
    return statuses.pop() if len(statuses) == 1 else exit_status.REFUSED


def status_of_outcome(plan: Plan, errors: Iterable[KcliError]) -> int:
    """Return DONE, FAILED if a part failed, or the status of the reason if everything failed.

    INCOMPLETE if nothing failed for certain, but the outcome of some rows is unknown.
    """
    from kcli.admin.offsets.commits import is_members_only
    from kcli.errors import OutcomeUnknown

    failed = list(errors)
    if failed and all(isinstance(error, OutcomeUnknown) for error in failed):
        return exit_status.INCOMPLETE
    if len(failed) < len(plan.changes):
        return exit_status.FAILED if failed else exit_status.DONE
    if failed and all(map(is_members_only, failed)):  # members that joined after the check: refused as well
        return exit_status.REFUSED
    return exit_status.status_of_all(failed)


def _group_errors(client: ConsumerNetworkClient, plan: Plan, deadline_ms: float) -> list[KcliError]:
    """Return the errors of groups as a whole: members, or a type that has its own tools."""
    from kcli.admin.offsets.checks import check_groups
    from kcli.admin.offsets.offset_plan import WHOLE_GROUP
    from kcli.errors import KcliError, TimeoutExpired

    refused = {row.group for row in plan.rows if row.tp == WHOLE_GROUP}  # their rows have the reason
    try:
        check_groups(client, [group for group in plan.groups if group not in refused], deadline_ms)
    except KcliError as error:
        is_late = isinstance(error, TimeoutExpired) and bool(plan.refused)  # the time went into what the rows say
        return [] if is_late else [error]
    return []


def _similar_groups(client: ConsumerNetworkClient, plan: Plan, deadline_ms: float) -> dict[str, str]:
    """Return suggestions for groups that a reset would create: their names may be misspelled."""
    from kcli.admin.groups.listing import similar_groups
    from kcli.admin.offsets.offset_plan import ABSENT

    absent = [group for group, state in plan.states.items() if state == ABSENT and plan.kind == "reset"]
    return similar_groups(client, absent, deadline_ms)


def _execute(env: Environment, common: Common, client: ConsumerNetworkClient, plan: Plan, deadline_ms: float) -> int:
    from kcli.admin.offsets.apply import apply_plan
    from kcli.admin.offsets.snapshots import Snapshot, SnapshotStore
    from kcli.admin.state_files import SnapshotError, default_folder
    from kcli.errors import KcliError, Refused

    snapshots: list[Snapshot] = []
    store = SnapshotStore(default_folder(env.environ))
    as_table = common.output in (None, "table")
    if as_table and not _can_show(env, common, plan):
        return exit_status.REFUSED
    try:
        applied = apply_plan(client, plan, store, deadline_ms, on_snapshot=snapshots.append)
    except (Refused, SnapshotError) as error:
        with suppress(BrokenPipeError):
            if not as_table:
                _show_plan(env, common, plan)
            _report_plan(env, plan, [error], execute=True)
        return exit_status.REFUSED
    except (KcliError, KeyboardInterrupt):
        if snapshots:
            env.report(f"kcli: some offsets may have been written; to undo: {undo_command(snapshots[0].id)}")
        else:
            env.report("nothing was written")
        raise
    with suppress(BrokenPipeError):
        _report_outcome(env, plan, applied)  # first, so that the undo command appears even if standard output fails
        _show_outcome(env, common, plan, applied)
        env.stdout.flush()
    return status_of_outcome(plan, applied.errors.values())


def _can_show(env: Environment, common: Common, plan: Plan) -> bool:
    """Show the plan; if that fails, report it on standard error and return False."""
    try:
        _show_plan(env, common, plan)
        env.stdout.flush()
    except OSError as error:
        env.discard_stdout()
        env.stderr.write(f"kcli: cannot show the plan: {error.strerror}; nothing was written\n")
        return False
    return True


def _show_plan(env: Environment, common: Common, plan: Plan) -> None:
    """Print the table; json and csv are the plan file, which `offsets apply` reads."""
    from kcli.admin.offsets.plan_files import plan_as_csv, plan_as_json
    from kcli.cli.offsets.plan_output import plan_report
    from kcli.cli.output.printer import print_report

    if common.output == "json":
        env.stdout.write(_escaped(env, plan_as_json(plan)))
    elif common.output == "csv":
        env.stdout.write(_escaped(env, plan_as_csv(plan)))
    else:
        print_report(env, plan_report(plan, programs=common.output == "tsv"), common.output)


def _escaped(env: Environment, text: str) -> str:
    """Escape control characters on a terminal; a file keeps them, because a program reads it again."""
    if not env.stdout_is_terminal:
        return text
    from kcli.visible import visible_json

    return visible_json(text)


def _report_plan(
    env: Environment,
    plan: Plan,
    errors: list[KcliError],
    *,
    execute: bool,
    similar: Mapping[str, str] | None = None,
) -> None:
    from kcli.cli.offsets.plan_output import plan_lines, refusal_lines

    for line in plan_lines(plan, similar):
        env.report(line)
    refusals = list(refusal_lines(plan, errors))
    for line in refusals:
        env.report(f"kcli: {line}")
    if refusals:
        env.report("nothing was written")
    elif not plan.changes:
        env.report("nothing was written: the plan has no changes")
    elif not execute:
        env.report(f"nothing was written; {EXECUTE_HINT}")


def _show_outcome(env: Environment, common: Common, plan: Plan, applied: Applied) -> None:
    """Print the outcome of each row. The table was printed before; here it has the failed rows only."""
    from kcli.cli.offsets.plan_output import outcome_fields, plan_report
    from kcli.cli.output.printer import print_report

    if common.output == "json":
        from kcli.admin.offsets.plan_files import plan_as_json

        fields = outcome_fields(plan, applied.results, applied.snapshot_id)
        env.stdout.write(_escaped(env, plan_as_json(plan, fields)))
        return
    if common.output in (None, "table"):
        if not applied.errors:
            return
        env.stdout.write("\n")
        plan = plan._replace(rows=tuple(row for row in plan.rows if (row.group, row.tp) in applied.errors))
    programs = common.output in ("csv", "tsv")
    print_report(env, plan_report(plan, applied.results, applied.snapshot_id, programs=programs), common.output)


def _report_outcome(env: Environment, plan: Plan, applied: Applied) -> None:
    from kcli.cli.offsets.plan_output import outcome_lines, plan_lines

    undo = None if applied.snapshot_id is None else undo_command(applied.snapshot_id)
    for line in [*plan_lines(plan), *outcome_lines(plan, applied.errors, undo)]:
        env.report(line)
