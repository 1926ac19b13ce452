"""The contract of commands that change a cluster: show the plan; with --execute apply it, unless a row is refused.

| status | result |
|---|---|
| 0 | everything is done; without --execute: it would be |
| 1, 3, 4, 5 | without --execute, or if a row is refused: nothing is done, and this is the reason |
|   | with --execute: the rows with an ERROR failed, or may be done if their status is unknown; the others are done |

A `View` is the output of the plans of a command, `StatusRules` are the statuses in which commands differ. Without
--execute the status is the one that --execute would have. A closed pipe does not change it. Every command that prints
the outcome of a change does so in `showing_outcome`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.errors import KcliError, OutcomeUnknown, Refused

if TYPE_CHECKING:
    from kcli.admin.plan import Applied, Plan, Row
    from kcli.admin.snapshots import Snapshot
    from kcli.cli.output.report import Item

    Apply = Callable[[Callable[[Snapshot], object]], Applied]
    """Apply a plan, and call the given function with the snapshot before the first change."""

Execute = Annotated[bool, Option("--execute", help="Apply the plan. Without it, only show the plan.")]
EXECUTE_HINT = "use --execute to apply the plan"
_NAMED = 10


class OutputFailed(KcliError):
    """Standard output failed after a change was made. The message says what was done."""


def undo_command(snapshot_id: str, family: str = "offsets") -> str:
    """Return the command that restores a snapshot; without a family, the one for snapshots of all kinds."""
    return " ".join(["kcli", *filter(None, [family]), "undo", snapshot_id, "--execute"])


def done_sentence(done: str, names: Sequence[str]) -> str:
    """Return a sentence that names what was `done`, such as deleted."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{done}: {', '.join(names[:_NAMED])}{more}" if names else f"nothing was {done}"


@contextmanager
def showing_outcome(env: Environment, done: str) -> Iterator[None]:
    """Print in this block the outcome of a change, of which `done` is a sentence; "" if it is on stderr already.

    OutputFailed with that sentence if standard output fails: a full disk must not hide what was changed. A closed pipe
    is no error, and the status of the command is that of the change.
    """
    try:
        yield
        env.stdout.flush()
    except BrokenPipeError:
        env.discard_stdout()
    except OSError as error:
        env.discard_stdout()
        raise OutputFailed(f"standard output: {error.strerror}{'; ' if done else ''}{done}") from None


class StatusRules(NamedTuple):
    """Exit statuses in which the contracts of commands differ.

    `unlike` is the status of refusals that have different statuses, or FAILED. `in_part` is that of a change of which
    a part has failed for certain; None: the common status of the failures. `is_refusal` selects errors of applied rows
    that count as a refusal if all rows have one.
    """

    unlike: int = exit_status.FAILED
    in_part: int | None = None
    is_refusal: Callable[[KcliError], bool] = lambda _: False

    def of_refusals(self, errors: Iterable[KcliError]) -> int:
        """Return DONE without errors, else the status of a plan that is not applied because of them."""
        status = exit_status.status_of_all(errors)
        return self.unlike if status == exit_status.FAILED else status

    def of_outcome(self, applied: "Applied") -> int:
        """Return the status of a plan that was applied."""
        failed = list(applied.errors.values())
        status = exit_status.status_of_all(failed)
        if all(isinstance(error, OutcomeUnknown) for error in failed):
            return status
        if self.in_part is not None and len(failed) < len(applied.results):
            return self.in_part
        return exit_status.REFUSED if all(map(self.is_refusal, failed)) else status


class View:
    """Output of the plans of a command: a table with a status for each row, and lines on stderr.

    `kind` is that of the report, `done` the past participle of the verb, as `deleted`. `item` returns the JSON-ready
    fields of a row with a status; `table_row` its row in a table, if some cells differ. `undo` returns the line with
    the command that restores a snapshot.
    """

    rules = StatusRules()

    def __init__(
        self,
        kind: str,
        columns: Sequence[str],
        done: str,
        item: "Callable[[Any, str], Item]",
        *,
        table_row: "Callable[[Item], Item] | None" = None,
        undo: Callable[[str], str] = str,
    ) -> None:
        self.kind, self.columns, self.done, self.item = kind, columns, done, item
        self.table_row, self.undo = table_row, undo

    def shows_first(self, _common: Common) -> bool:
        """Return whether the plan is shown before it is applied; if that fails, it is not applied."""
        return False

    def show(self, env: Environment, common: Common, plan: "Plan[Any]", applied: "Applied | None" = None) -> None:
        """Print the plan, or its outcome."""
        from kcli.cli.output.printer import print_report
        from kcli.cli.output.report import Report

        status = self.done if applied else f"not-{self.done}" if plan.refusals else f"would-be-{self.done}"
        items = [self._row_item(row, status, applied.errors if applied else {}) for row in plan.rows]
        rows = None if self.table_row is None else [self.table_row(item) for item in items]
        print_report(env, Report(self.kind, self.columns, items, rows), common.output)

    def _row_item(self, row: "Row[Any]", status: str, errors: Mapping[Any, KcliError]) -> "Item":
        from kcli.cli.output.report import error_field, failure_status

        error = row.error or errors.get(row.key)
        if error is not None:
            return {**self.item(row, failure_status(error)), "error": error_field(error)}
        return self.item(row, {"keep": "unchanged", "skip": "missing"}.get(row.action, status))

    def plan_lines(self, plan: "Plan[Any]", *, execute: bool) -> Iterable[str]:
        """Return the lines about a plan that is not applied."""
        is_refused = bool(plan.refusals)
        if plan.permanent and plan.changes and not is_refused:
            yield plan.permanent
        yield f"nothing was {self.done}{'' if is_refused else f'; {EXECUTE_HINT}'}"

    def apply(self, env: Environment, _common: Common, _plan: "Plan[Any]", apply: "Apply") -> "Applied | None":
        """Apply the plan and report the command that undoes it. Return None if it is refused now, which is reported."""
        return apply_with_hint(env, apply, self.undo, self.done)

    def outcome_sentence(self, plan: "Plan[Any]", applied: "Applied | None") -> str:
        """Return a sentence that names what was done, for the error of standard output."""
        errors = {} if applied is None else applied.errors
        changed = [] if applied is None else [row.resource for row in plan.changes if row.key not in errors]
        return done_sentence(self.done, changed)


def apply_with_hint(env: Environment, apply: "Apply", undo: Callable[[str], str], done: str) -> "Applied":
    """Apply a plan, and report the line that `undo` returns for its snapshot, also after an error or an interruption.

    Refused if the snapshot cannot be saved: nothing was `done`.
    """
    from kcli.admin.snapshots import SnapshotError

    snapshots: list[Snapshot] = []
    try:
        applied = apply(snapshots.append)
    except SnapshotError as error:
        raise Refused(f"{error.message}; nothing was {done}") from error
    except BaseException:
        for snapshot in snapshots:
            env.report(undo(snapshot.id))
        raise
    if applied.snapshot_id is not None:
        env.report(undo(applied.snapshot_id))
    return applied


def skip_missing(plan: "Plan[Any]") -> "Plan[Any]":
    """Return the plan without the errors of resources that do not exist; their rows are skipped."""

    def skipped(row: "Row[Any]") -> "Row[Any]":
        is_missing = row.error is not None and exit_status.status_of(row.error) == exit_status.NOT_FOUND
        return replace(row, action="skip", error=None) if is_missing else row

    return replace(plan, rows=tuple(map(skipped, plan.rows)))


def run_plan(env: Environment, common: Common, plan: "Plan[Any]", view: View, apply: "Apply", *, execute: bool) -> int:
    """Show the plan, or apply it and show the outcome; return the exit status. One refusal prevents all of it."""
    refusals = plan.refusals
    if refusals or not execute:
        with showing_outcome(env, view.outcome_sentence(plan, None)):
            view.show(env, common, plan)
        with suppress(BrokenPipeError):
            env.report_lines(view.plan_lines(plan, execute=execute))
        return view.rules.of_refusals(refusals)
    if view.shows_first(common) and not _is_shown(env, common, plan, view):
        return exit_status.REFUSED
    applied = view.apply(env, common, plan, apply) if plan.changes else plan.outcome({})
    if applied is None:
        return exit_status.REFUSED
    with showing_outcome(env, view.outcome_sentence(plan, applied)):
        view.show(env, common, plan, applied)
    return view.rules.of_outcome(applied)


def _is_shown(env: Environment, common: Common, plan: "Plan[Any]", view: View) -> bool:
    """Show the plan; if that fails, report it on standard error and return False."""
    try:
        view.show(env, common, plan)
        env.stdout.flush()
    except OSError as error:
        env.discard_stdout()
        env.write_stderr(f"kcli: cannot show the plan: {error.strerror}; nothing was {view.done}\n")
        return False
    return True
