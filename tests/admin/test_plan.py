"""Plans of any resources, from literals: refusals, changes, outcomes, and the snapshot of a change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcli.admin.plan import Plan, PlanRefused, Row, write_saved
from kcli.admin.snapshots import OFFSETS, Change, Snapshot, SnapshotStore
from kcli.errors import KcliError, NotFound, OutcomeUnknown, Refused
from kcli.structs import OffsetAndMetadata, TopicPartition

ROWS = (Row("a", 1, 2), Row("b", 1, 1, "keep"), Row("c", action="skip"), Row("d", 1, None, "delete"))
FAILED, UNKNOWN = KcliError("no"), OutcomeUnknown("lost")
SNAPSHOT = Snapshot(
    "s", 0, OFFSETS, "reset", None, "", (Change(("g", TopicPartition("t", 0)), OffsetAndMetadata(1), None),)
)


def test_kept_and_skipped_rows_are_no_changes() -> None:
    plan = Plan("test", ROWS)
    plan.check()
    assert [row.key for row in plan.changes] == ["a", "d"]
    assert plan.outcome({"d": FAILED}, "s") == ({"a": None, "d": FAILED}, "s")
    assert plan.outcome({"d": FAILED}).errors == {"d": FAILED}


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (Row("x", action="refuse", why="it is in use"), "x cannot be changed: it is in use"),
        (Row(("t", "size"), error=NotFound("no t")), "t size cannot be changed: no t"),
    ],
)
def test_one_refused_row_prevents_the_plan(row: Row[Any], text: str) -> None:
    plan = Plan("test", (*ROWS, row))
    assert plan.refused == [row]
    assert [type(error) for error in plan.refusals] == [Refused if row.error is None else NotFound]
    with pytest.raises(PlanRefused, match=text) as raised:
        plan.check()
    assert raised.value.rows == (row,)


def test_an_error_of_the_plan_as_a_whole_is_raised_first() -> None:
    plan = Plan("test", (Row("x", action="refuse"),), errors=(FAILED,))
    assert plan.refusals[0] is FAILED
    with pytest.raises(KcliError, match="no"):
        plan.check()


@pytest.mark.parametrize(
    ("errors", "kept"),
    [({}, True), ({"a": FAILED}, True), ({"a": FAILED, "b": UNKNOWN}, True), ({"a": FAILED, "b": FAILED}, False)],
)
def test_the_snapshot_stays_unless_certainly_nothing_was_written(
    tmp_path: Path, errors: dict[str, KcliError], kept: bool
) -> None:
    seen: list[Snapshot] = []
    store = SnapshotStore(tmp_path, on_write=seen.append)

    def write() -> dict[str, KcliError]:
        assert store.ids() == ["s"], "the snapshot is on disk before the change"
        return errors

    written = write_saved(store, SNAPSHOT, ["a", "b"], write)
    assert written == (errors, "s" if kept else None)
    assert (seen, store.ids()) == ([SNAPSHOT], ["s"] if kept else [])


def test_a_change_without_a_snapshot_has_no_undo(tmp_path: Path) -> None:
    assert write_saved(SnapshotStore(tmp_path), None, ["a"], dict) == ({}, None)
