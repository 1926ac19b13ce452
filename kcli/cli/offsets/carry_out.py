"""The end of every command that moves offsets: show the plan, and with --execute do it, refused whole or done.

| status | what was written |
|---|---|
| 0 | everything; in a dry run: it would be |
| 1 | what has no ERROR in its row |
| 3 | nothing: all that stands in the way is something that is not there |
| 4 | nothing: refused, by members that came meanwhile too; in a dry run: it would be |
| 5 | nothing was, or it is not known: the brokers did not answer in time |
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.cli import exit_status
from kcli.cli.offsets.plan_rows import WHOLE_GROUP, plan_report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.admin.offsets.apply import Applied
    from kcli.admin.offsets.plan import Plan
    from kcli.cli.environment import Environment
    from kcli.cli.options import Common
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.errors import KcliError


def carry_out(
    env: Environment, common: Common, client: ConsumerNetworkClient, plan: Plan, deadline_ms: float, *, execute: bool
) -> int:
    """Show the plan, or do it, and return the status for it. A dry run has the status that --execute would have.

    Of a table the plan is shown before anything is written: one that cannot be shown is not carried out.
    """
    from kcli.admin.offsets.preview import preview

    looked = preview(client, plan.rows, deadline_ms)
    plan = plan._replace(rows=tuple(looked.rows))
    if looked.errors:
        env.say(f"no estimates: {next(iter(looked.errors.values()))}")
    if execute and plan.changes and not plan.refused:
        return _execute(env, common, client, plan, deadline_ms)
    obstacles = _obstacles(client, plan, deadline_ms)
    return _leave(env, common, plan, obstacles, execute=execute)


def status_of_refusal(plan: Plan, obstacles: Iterable[KcliError]) -> int:
    """DONE if nothing is in the way; the one status of all that is, else REFUSED."""
    statuses = {exit_status.status_of(error) for error in obstacles}
    statuses |= {exit_status.status_of(row.error) if row.error else exit_status.REFUSED for row in plan.refused}
    statuses = {exit_status.REFUSED if status == exit_status.FAILED else status for status in statuses}
    if not statuses:
        return exit_status.DONE
    return statuses.pop() if len(statuses) == 1 else exit_status.REFUSED


def status_of_outcome(plan: Plan, errors: Iterable[KcliError]) -> int:
    """DONE, FAILED when a part failed; when nothing at all was done the status of why."""
    from kcli.admin.offsets.changes import is_members_only

    failed = list(errors)
    if len(failed) < len(plan.changes):
        return exit_status.FAILED if failed else exit_status.DONE
    if failed and all(map(is_members_only, failed)):  # they came after the last look: refused, like those seen before
        return exit_status.REFUSED
    return exit_status.status_of_all(failed)


def _obstacles(client: ConsumerNetworkClient, plan: Plan, deadline_ms: float) -> list[KcliError]:
    """What of the groups themselves is in the way: members, or a type that has tools of its own."""
    from kcli.admin.offsets.inspection import check_groups
    from kcli.errors import KcliError

    untold = {row.group for row in plan.rows if row.tp == WHOLE_GROUP}  # whose row says why
    try:
        check_groups(client, [group for group in plan.groups if group not in untold], deadline_ms)
    except KcliError as error:
        return [error]
    return []


def _leave(env: Environment, common: Common, plan: Plan, obstacles: list[KcliError], *, execute: bool) -> int:
    """Show the plan and why nothing was written. A reader that has gone does not change the status."""
    with suppress(BrokenPipeError):
        _show_plan(env, common, plan)
        _tell(env, plan, obstacles, execute=execute)
    return status_of_refusal(plan, obstacles)


def _execute(env: Environment, common: Common, client: ConsumerNetworkClient, plan: Plan, deadline_ms: float) -> int:
    from kcli.admin.offsets.apply import apply_plan
    from kcli.admin.offsets.snapshots import Snapshot, SnapshotError, SnapshotStore, default_folder
    from kcli.errors import KcliError, Refused

    made: list[Snapshot] = []
    store = SnapshotStore(default_folder(env.environ))
    as_table = common.output in (None, "table")
    if as_table and not _is_shown(env, common, plan):
        return exit_status.REFUSED
    try:
        applied = apply_plan(client, plan, store, deadline_ms, announce=made.append)
    except (Refused, SnapshotError) as error:
        with suppress(BrokenPipeError):
            if not as_table:
                _show_plan(env, common, plan)
            _tell(env, plan, [error], execute=True)
        return exit_status.REFUSED
    except (KcliError, KeyboardInterrupt):
        if made:
            env.say(f"kcli: perhaps a part was written; back with: {undo_command(made[0].id)}")
        else:
            env.say("nothing was written")
        raise
    with suppress(BrokenPipeError):
        _tell_outcome(env, plan, applied)  # first: the way back is told even where standard output fails
        _show_outcome(env, common, plan, applied)
        env.stdout.flush()
    return status_of_outcome(plan, applied.errors.values())


def _is_shown(env: Environment, common: Common, plan: Plan) -> bool:
    """Show the plan now; when that is not possible say so, which standard output's reader need not be there for."""
    try:
        _show_plan(env, common, plan)
        env.stdout.flush()
    except OSError as error:
        env.stderr.write(f"kcli: the plan cannot be shown: {error.strerror}; nothing was written\n")
        return False
    return True


def undo_command(snapshot_id: str) -> str:
    """What to type to have the offsets of before."""
    return f"kcli offsets undo {snapshot_id} --execute"


def _show_plan(env: Environment, common: Common, plan: Plan) -> None:
    """The table; json and csv are the plan file, which `offsets apply` takes."""
    from kcli.admin.offsets.plan_files import plan_as_csv, plan_as_json
    from kcli.cli.output.report import show

    if common.output == "json":
        env.stdout.write(_harmless(env, plan_as_json(plan)))
    elif common.output == "csv":
        env.stdout.write(_harmless(env, plan_as_csv(plan)))
    else:
        show(env, plan_report(plan, programs=common.output == "tsv"), common.output)


def _harmless(env: Environment, text: str) -> str:
    """On a terminal, text that cannot command it: what is read again by a program is not written there."""
    if not env.stdout_is_terminal:
        return text
    from kcli.cli.output.escapes import visible_json

    return visible_json(text)


def _tell(env: Environment, plan: Plan, obstacles: list[KcliError], *, execute: bool) -> None:
    from kcli.cli.offsets.plan_words import plan_words, refusal_words

    for line in plan_words(plan):
        env.say(line)
    refusals = list(refusal_words(plan, obstacles))
    for line in refusals:
        env.say(f"kcli: {line}")
    if refusals:
        env.say("nothing was written")
    elif not plan.changes:
        env.say("nothing was written: there is nothing to change")
    elif not execute:
        env.say("nothing was written: that takes --execute")


def _show_outcome(env: Environment, common: Common, plan: Plan, applied: Applied) -> None:
    """What became of each row. Of a table, which was shown before, only those that failed are shown again."""
    from kcli.cli.offsets.plan_rows import outcome_fields
    from kcli.cli.output.report import show

    if common.output == "json":
        from kcli.admin.offsets.plan_files import plan_as_json

        env.stdout.write(_harmless(env, plan_as_json(plan, outcome_fields(plan, applied.results, applied.snapshot_id))))
        return
    if common.output in (None, "table"):
        if not applied.errors:
            return
        env.stdout.write("\n")
        plan = plan._replace(rows=tuple(row for row in plan.rows if (row.group, row.tp) in applied.errors))
    programs = common.output in ("csv", "tsv")
    show(env, plan_report(plan, applied.results, applied.snapshot_id, programs=programs), common.output)


def _tell_outcome(env: Environment, plan: Plan, applied: Applied) -> None:
    from kcli.cli.offsets.plan_words import outcome_words, plan_words

    for line in plan_words(plan):
        env.say(line)
    env.say(f"{outcome_words(plan, applied.errors)}; back with: {undo_command(applied.snapshot_id or '--last')}")
