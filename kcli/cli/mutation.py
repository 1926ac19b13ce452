"""The contract of commands that alter or delete: show the plan; no change without --execute, or if a row is refused.

| status | result |
|---|---|
| 0 | everything is done; without --execute: it would be |
| 1, 3, 4, 5 | without --execute, or if a row is refused: nothing is done, and this is the reason |
|   | with --execute: the rows with an ERROR failed, or may be done if their status is unknown; the others are done |

The commands that move committed offsets follow the same contract in `kcli.cli.offsets.run_plan`. Every command that
prints the outcome of a change does so in `showing_outcome`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.admin.offsets.snapshots import Snapshot, SnapshotStore
    from kcli.cli.output.report import Item


class OutputFailed(KcliError):
    """Standard output failed after a change was made. The message says what was done."""


Execute = Annotated[bool, Option("--execute", help="Apply the plan. Without it, only show the plan.")]
EXECUTE_HINT = "use --execute to apply the plan"


def undo_command(snapshot_id: str) -> str:
    """Return the command that restores the committed offsets of a snapshot."""
    return f"kcli offsets undo {snapshot_id} --execute"


@contextmanager
def showing_outcome(env: Environment, done: str) -> Iterator[None]:
    """Print in this block the outcome of a change, of which `done` is a sentence.

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
        raise OutputFailed(f"standard output: {error.strerror}; {done}") from None


@contextmanager
def with_undo_hint(
    env: Environment, store: "SnapshotStore", prefix: str = ""
) -> "Iterator[Callable[[Snapshot], object]]":
    """Delete committed offsets in the block, which calls the given function with each snapshot before it deletes.

    The command that restores the offsets is reported afterwards, also after an error or an interruption, unless the
    snapshot was discarded because nothing was deleted. Refused if the snapshot cannot be saved.
    """
    from kcli.admin.state_files import SnapshotError
    from kcli.errors import Refused

    snapshots: list[Snapshot] = []
    try:
        yield snapshots.append
    except SnapshotError as error:
        raise Refused(f"{error.message}; nothing was deleted") from error
    finally:
        for snapshot in [snapshot for snapshot in snapshots if store.path(snapshot.id).exists()]:
            env.report(f"{prefix}to restore the deleted offsets: {undo_command(snapshot.id)}")


def done_sentence(done: str, names: Sequence[str]) -> str:
    """Return a sentence that names what was `done`, such as deleted."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{done}: {', '.join(names[:_NAMED])}{more}" if names else f"nothing was {done}"


_NAMED = 10


class PlanRow(NamedTuple):
    """One row of a plan: its name, the JSON-ready item for a status, and the error that prevents it."""

    name: str
    item: "Callable[[str], Item]"
    error: "KcliError | None" = None

    @property
    def is_missing(self) -> bool:
        """The topic or group does not exist."""
        return self.error is not None and exit_status.status_of(self.error) == exit_status.NOT_FOUND


class Mutation(NamedTuple):
    """A mutating command: the kind of its report, the columns, and the past participle of its verb, as `deleted`.

    `table_row` returns the row of an item in a table, if some cells differ from the values in JSON.
    """

    kind: str
    columns: Sequence[str]
    done: str
    table_row: "Callable[[Item], Item] | None" = None

    def run(
        self,
        env: Environment,
        common: Common,
        plan: "Sequence[PlanRow]",
        apply: "Callable[[list[str]], Mapping[str, KcliError]]",
        *,
        execute: bool,
        skip_missing: bool = False,
        other_errors: "Iterable[KcliError]" = (),
    ) -> int:
        """Show the plan, or apply it and show the outcome; return the exit status.

        `apply` gets the names of the rows without an error and returns the errors of those that fail. A row that
        cannot be done, or one of `other_errors`, prevents all of it. `skip_missing`: what does not exist is a row with
        the status `missing`, and no error.
        """
        skipped = {row.name for row in plan if skip_missing and row.is_missing}
        refusals = [row.error for row in plan if row.error and row.name not in skipped] + list(other_errors)
        if refusals or not execute:
            self._show(env, common, plan, f"not-{self.done}" if refusals else f"would-be-{self.done}", skipped, {})
            env.report(f"nothing was {self.done}" + ("" if refusals else f"; {EXECUTE_HINT}"))
            return exit_status.status_of_all(refusals)
        names = [row.name for row in plan if row.error is None]
        failed = apply(names) if names else {}
        self._show(env, common, plan, self.done, skipped, failed)
        return exit_status.status_of_all(failed.values())

    def _show(
        self,
        env: Environment,
        common: Common,
        plan: "Sequence[PlanRow]",
        status: str,
        skipped: set[str],
        failed: "Mapping[str, KcliError]",
    ) -> None:
        from kcli.cli.output.printer import print_report
        from kcli.cli.output.report import Report, error_field, failure_status

        items = []
        for row in plan:
            error = row.error or failed.get(row.name)
            if row.name in skipped:
                items.append(row.item("missing"))
            elif error is not None:
                items.append({**row.item(failure_status(error)), "error": error_field(error)})
            else:
                items.append(row.item(status))
        rows = None if self.table_row is None else [self.table_row(item) for item in items]
        changed = [row.name for row, item in zip(plan, items, strict=True) if item["status"] == self.done]
        with showing_outcome(env, done_sentence(self.done, changed)):
            print_report(env, Report(self.kind, self.columns, items, rows), common.output)
