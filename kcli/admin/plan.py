"""Plans: changes of any resources as data, which are shown, checked again, saved for an undo, and applied.

A `Plan` has one `Row` for each resource. The function that makes a plan reads the facts, the function that applies it
checks them again, saves a snapshot of the old values if they can be restored, and returns `Applied`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kcli.errors import KcliError, OutcomeUnknown, Refused

if TYPE_CHECKING:
    from kcli.admin.snapshots import Snapshot, SnapshotStore

T = TypeVar("T")
_KEPT = ("keep", "skip")


@dataclass(frozen=True)
class Row(Generic[T]):
    """Change of one resource: `old` is its value now, `new` the one after the plan; None: no value, or not known.

    `key` is unique in the plan: a name, a partition, or a tuple of them. `action` names the change; "keep" is already
    as requested, "skip" is left unchanged by an option, and "refuse" cannot be done. `why` is the reason, as a part of
    a sentence. A row that is refused, or that has an `error`, prevents the whole plan.
    """

    key: Any
    old: T | None = None
    new: T | None = None
    action: str = "change"
    why: str = ""
    error: KcliError | None = None

    @property
    def resource(self) -> str:
        """The key as text."""
        return " ".join(map(str, self.key)) if type(self.key) is tuple else str(self.key)

    @property
    def is_refused(self) -> bool:
        """The row prevents the plan."""
        return self.action == "refuse" or self.error is not None

    @property
    def is_change(self) -> bool:
        """The row is written when the plan is applied."""
        return not self.is_refused and self.action not in _KEPT


R = TypeVar("R", bound=Row[Any])


@dataclass(frozen=True)
class Plan(Generic[R]):
    """Rows in the order in which they are shown; made at `made_ms` (since the epoch), 0 if that does not matter.

    `states` are facts at that time by resource: the state of a group, the id of a topic. `cluster_id` is the cluster
    for which the plan was made, None if unknown; it cannot be applied to another one. `errors` prevent the plan as a
    whole; `unknown` are the errors of facts that could not be read and do not prevent it. `permanent` is a sentence
    about what cannot be undone, "" if an undo restores everything.
    """

    kind: str
    rows: tuple[R, ...]
    made_ms: int = 0
    states: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str | None = None
    errors: tuple[KcliError, ...] = ()
    unknown: tuple[KcliError, ...] = ()
    permanent: str = ""

    @property
    def refused(self) -> list[R]:
        """Rows that prevent the plan from being applied."""
        return [row for row in self.rows if row.is_refused]

    @property
    def refusals(self) -> list[KcliError]:
        """All reasons that prevent the plan; Refused for a row without an error."""
        return [*self.errors, *(row.error or Refused(row.why) for row in self.refused)]

    @property
    def changes(self) -> list[R]:
        """Rows that are written."""
        return [row for row in self.rows if row.is_change]

    def check(self) -> None:
        """Raise the first error of the plan as a whole, or PlanRefused for a refused row."""
        for error in self.errors:
            raise error
        if refused := self.refused:
            raise PlanRefused(refused)

    def outcome(self, errors: Mapping[Any, KcliError], snapshot_id: str | None = None) -> Applied:
        """Return the outcome of all changes from the errors of the failed ones by key."""
        return Applied({row.key: errors.get(row.key) for row in self.changes}, snapshot_id)


class PlanRefused(Refused):
    """The plan has refused rows, so nothing is written. `rows` are the refused ones."""

    def __init__(self, rows: Iterable[Row[Any]]) -> None:
        self.rows = tuple(rows)
        first = self.rows[0]
        more = f" and {len(self.rows) - 1} more" if len(self.rows) > 1 else ""
        super().__init__(f"{first.resource}{more} cannot be changed: {first.error or first.why}")


class Applied(NamedTuple):
    """Outcome of each row to write, by key: None if it is written, else its error; OutcomeUnknown if it may be written.

    `snapshot_id` is the id for an undo, None if nothing was written, or if it cannot be undone.
    """

    results: dict[Any, KcliError | None]
    snapshot_id: str | None = None

    @property
    def errors(self) -> dict[Any, KcliError]:
        """Errors of the rows that failed, by key."""
        return {key: error for key, error in self.results.items() if error is not None}


def write_saved(
    store: SnapshotStore,
    snapshot: Snapshot | None,
    saved_keys: Iterable[Any],
    write: Callable[[], Mapping[Any, KcliError]],
) -> tuple[Mapping[Any, KcliError], str | None]:
    """Save a snapshot, then write. Return the errors of `write`, and the id for an undo.

    SnapshotError if it cannot be saved: nothing is written. The snapshot is removed again, and the id is None, if
    certainly none of `saved_keys` was written: an undo would have nothing to restore.
    """
    if snapshot is None:
        return write(), None
    store.write(snapshot)
    errors = write()
    failed = [errors.get(key) for key in saved_keys]
    if all(error is not None and not isinstance(error, OutcomeUnknown) for error in failed):
        store.discard(snapshot.id)
        return errors, None
    return errors, snapshot.id
