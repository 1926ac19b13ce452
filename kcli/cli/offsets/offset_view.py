"""Output of plans that change committed offsets, and the step of a command that previews, shows and applies one.

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

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kcli.admin.offsets.commits import is_members_only
from kcli.admin.offsets.offset_plan import ABSENT, WHOLE_GROUP
from kcli.admin.offsets.plan_files import plan_as_csv, plan_as_json
from kcli.cli import exit_status
from kcli.cli.offsets.plan_output import outcome_fields, outcome_lines, plan_lines, plan_report, refusal_lines
from kcli.cli.run_plan import EXECUTE_HINT, StatusRules, View, run_plan, showing_outcome, undo_command
from kcli.errors import KcliError, Refused, TimeoutExpired
from kcli.visible import visible_json

if TYPE_CHECKING:
    from kcli.admin.offsets.offset_plan import OffsetPlan
    from kcli.admin.plan import Applied
    from kcli.admin.snapshots import Snapshot
    from kcli.cli.environment import Environment
    from kcli.cli.options import Common
    from kcli.cli.run_plan import Apply
    from kcli.client.consumer_network_client import ConsumerNetworkClient


def run_offset_plan(
    env: Environment,
    common: Common,
    client: ConsumerNetworkClient,
    plan: OffsetPlan,
    deadline_ms: float,
    *,
    execute: bool,
) -> int:
    """Preview the plan, then show or apply it; return the exit status."""
    from kcli.admin.offsets.apply import apply_plan
    from kcli.admin.offsets.preview import preview
    from kcli.admin.snapshots import SnapshotStore

    previewed = preview(client, plan.rows, deadline_ms)
    plan = replace(plan, rows=tuple(previewed.rows))
    if previewed.errors:
        env.report(f"no estimates: {next(iter(previewed.errors.values()))}")
    execute = execute and bool(plan.changes)
    similar: Mapping[str, str] = {}
    if plan.refused or not execute:  # apply_plan checks the groups itself
        plan = replace(plan, errors=_group_errors(client, plan, deadline_ms))
        similar = _similar_groups(client, plan, deadline_ms)

    return run_plan(
        env,
        common,
        plan,
        OffsetView(plan, similar),
        lambda seen: apply_plan(client, plan, SnapshotStore.default(env.environ, seen), deadline_ms),
        execute=execute,
    )


def _group_errors(client: ConsumerNetworkClient, plan: OffsetPlan, deadline_ms: float) -> tuple[KcliError, ...]:
    """Return the errors of groups as a whole: members, or a type that has its own tools."""
    from kcli.admin.offsets.checks import check_groups

    refused = {row.group for row in plan.rows if row.tp == WHOLE_GROUP}  # their rows have the reason
    try:
        check_groups(client, [group for group in plan.groups if group not in refused], deadline_ms)
    except KcliError as error:
        is_late = isinstance(error, TimeoutExpired) and bool(plan.refused)  # the time went into what the rows say
        return () if is_late else (error,)
    return ()


def _similar_groups(client: ConsumerNetworkClient, plan: OffsetPlan, deadline_ms: float) -> dict[str, str]:
    """Return suggestions for groups that a reset would create: their names may be misspelled."""
    from kcli.admin.groups.listing import similar_groups

    absent = [group for group, state in plan.states.items() if state == ABSENT and plan.kind == "reset"]
    return similar_groups(client, absent, deadline_ms)


class OffsetView(View):
    """Offsets before and after, with sums on stderr; json and csv are the plan file, which `offsets apply` reads.

    A table is shown before anything is written; after that it has the failed rows only. `similar` are suggestions for
    the names of groups that do not exist.
    """

    rules = StatusRules(unlike=exit_status.REFUSED, in_part=exit_status.FAILED, is_refusal=is_members_only)

    def __init__(self, plan: OffsetPlan, similar: Mapping[str, str]) -> None:
        super().__init__(f"offsets.{plan.kind}", (), "written", lambda _row, _status: {})
        self.similar = similar

    def shows_first(self, common: Common) -> bool:
        return common.output in (None, "table")

    def show(self, env: Environment, common: Common, plan: Any, applied: Applied | None = None) -> None:
        from kcli.cli.output.printer import print_report

        results, snapshot_id = applied or (None, None)
        if common.output == "json":
            fields = None if results is None else outcome_fields(plan, results, snapshot_id)
            return _write(env, plan_as_json(plan, fields))
        if common.output == "csv" and applied is None:
            return _write(env, plan_as_csv(plan))
        if applied is not None and self.shows_first(common):
            if not applied.errors:
                return None
            env.stdout.write("\n")
            plan = replace(plan, rows=tuple(row for row in plan.rows if row.key in applied.errors))
        programs = common.output in ("csv", "tsv")
        return print_report(env, plan_report(plan, results, snapshot_id, programs=programs), common.output)

    def plan_lines(self, plan: Any, *, execute: bool) -> Iterator[str]:
        yield from plan_lines(plan, self.similar)
        refusals = list(refusal_lines(plan))
        yield from (f"kcli: {line}" for line in refusals)
        if refusals:
            yield "nothing was written"
        elif not plan.changes:
            yield "nothing was written: the plan has no changes"
        elif not execute:
            yield f"nothing was written; {EXECUTE_HINT}"

    def apply(self, env: Environment, common: Common, plan: Any, apply: Apply) -> Applied | None:
        from kcli.admin.snapshots import SnapshotError

        snapshots: list[Snapshot] = []
        try:
            applied = apply(snapshots.append)
        except (Refused, SnapshotError) as error:
            if not self.shows_first(common):
                with showing_outcome(env, ""):
                    self.show(env, common, plan)
            env.report_lines(self.plan_lines(replace(plan, errors=(error,)), execute=True))
            return None
        except BaseException:
            if snapshots:
                env.report(f"kcli: some offsets may have been written; to undo: {undo_command(snapshots[0].id)}")
            else:
                env.report("nothing was written")
            raise
        undo = None if applied.snapshot_id is None else undo_command(applied.snapshot_id)
        env.report_lines([*plan_lines(plan), *outcome_lines(plan, applied.errors, undo)])
        return applied

    def outcome_sentence(self, _plan: Any, _applied: Applied | None) -> str:
        return ""  # the lines on stderr say it first


def _write(env: Environment, text: str) -> None:
    """Write a plan file. Control characters are escaped on a terminal; a file keeps them, a program reads it again."""
    env.stdout.write(visible_json(text) if env.stdout_is_terminal else text)
