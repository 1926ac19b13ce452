"""`--reset-offsets`: positions planned as Apache's tool plans them, shown or exported, and committed with --execute.

It clamps what lies outside the log and falls back to the log's end, and says so. Unlike the tool it commits nothing
before the plan for all groups is whole, keeps a snapshot, and looks once more whether anything has moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.admin.offsets import targets
from kcli.admin.offsets.facts import gather_facts
from kcli.admin.offsets.plan import ABSENT, make_plan, plan_reset
from kcli.cli import exit_status
from kcli.cli.compat.describing import check_type
from kcli.cli.compat.problems import Failed, Misused, failure
from kcli.cli.compat.reset_checks import check_partitions, requested_offset
from kcli.cli.compat.scope import parse_partitions
from kcli.cli.compat.tables import shown, table
from kcli.errors import KcliError, Refused

if TYPE_CHECKING:
    from kcli.admin.offsets.facts import GroupFacts
    from kcli.admin.offsets.plan import PartitionFacts, Row
    from kcli.cli.compat.session import Session

_SCENARIO_WANTED = (
    "Option '[reset-offsets]' requires one of the following scenarios: [[to-offset], [shift-by], [to-datetime], "
    "[by-duration], [to-earliest], [to-latest], [to-current], [from-file]]"
)


def reset(session: Session) -> int:
    """Plan, show, and commit if it shall be."""
    scope, target = _scope(session), _target(session)
    names = session.groups()
    found = gather_facts(session.client, names, scope, target, session.deadline_ms)
    for name in sorted(found.errors):
        raise failure(found.errors[name], wrapped=True)
    status = exit_status.DONE
    rows: dict[str, list[Row]] = {}
    for name in sorted(found.values):
        facts = found.values[name]
        if _is_inactive(facts):
            rows[name] = _rows(session, name, facts, target)
            continue
        message = f"Assignments can only be reset if the group '{shown(name)}' is inactive, but the current state is "
        session.print_error(f"{message}{facts.state}.")
        rows[name] = []
        status = exit_status.REFUSED
    if isinstance(target, targets.FromOffsets):
        for name in (name for name in rows if _is_inactive(found.values[name]) and not target.partitions(name)):
            session.print_error(f"No reset plan for group {shown(name)} found")
            status = status or exit_status.NOT_FOUND
    if "execute" in session.given:
        _execute(session, rows, {name: facts.state for name, facts in found.values.items()})
    session.print(_csv(session, rows) if "export" in session.given else _table(rows))
    return status


def _scope(session: Session) -> dict[str, list[int] | None] | None:
    given = session.given
    if "all-topics" in given or "from-file" in given:
        return None
    if "topic" not in given:
        raise Misused("One of the reset scopes should be defined: --all-topics, --topic.")
    wanted: dict[str, list[int] | None] = {}
    for text in given.values("topic"):
        if ":" not in text:
            wanted[text] = None
            continue
        for tp in parse_partitions(text):
            numbers = wanted.setdefault(tp.topic, [])
            if numbers is not None and tp.partition not in numbers:
                numbers.append(tp.partition)
    return wanted


def _target(session: Session) -> targets.Target:
    given = session.given
    simple: dict[str, targets.Target] = {
        "to-earliest": targets.ToEarliest(),
        "to-latest": targets.ToLatest(),
        "to-current": targets.ToCurrent(),
    }
    for name in given.any_of(simple):
        return simple[name]
    if (offset := given.number("to-offset")) is not None:
        return targets.ToOffset(offset)
    if (by := given.number("shift-by")) is not None:
        return targets.ShiftBy(by)
    if (moment := given.value("to-datetime")) is not None:
        from kcli.cli.compat.times import parse_moment

        return targets.ToTime(parse_moment(moment))
    if (duration := given.value("by-duration")) is not None:
        from kcli.cli.compat.times import parse_duration

        return targets.ToTime(int(session.client.clock.wall_ms()) - parse_duration(duration))
    if (path := given.value("from-file")) is not None:
        return _read_file(session, path)
    raise Misused(_SCENARIO_WANTED)


def _read_file(session: Session, path: str) -> targets.FromOffsets:
    from kcli.cli.compat.offsets_csv import read_offsets

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"java.io.IOException: Unable to read file {path}", exit_status.USAGE) from error
    return targets.FromOffsets(read_offsets(text, path, session.given.values("group")), path, exact=False)


def _is_inactive(facts: GroupFacts) -> bool:
    if facts.group is not None:
        check_type(facts.group, wrapped=True)
    return facts.state in (ABSENT, "Empty", "Dead")


def _rows(session: Session, name: str, facts: GroupFacts, target: targets.Target) -> list[Row]:
    partitions = facts.partitions
    if "all-topics" in session.given:  # the tool means those that the group has committed
        partitions = [fact for fact in partitions if fact.committed is not None]
    topics = session.client.metadata.cluster.topics
    missing = {fact.tp.topic for fact in partitions if (topic := topics.get(fact.tp.topic)) is None or topic.error}
    check_partitions(session.given.values("topic"), partitions, missing)
    if isinstance(target, targets.ShiftBy):
        for fact in partitions:
            if fact.committed is None:
                why = "since there is no current committed offset"
                raise Misused(f"Cannot shift offset for partition {fact.tp} {why}")
    rows = plan_reset(name, partitions, target, if_no_record="end", if_out_of_range="clamp")
    for fact, row in zip(partitions, rows, strict=True):
        if row.action == "refuse" or row.new is None:
            raise failure(row.error or KcliError(f"{fact.tp}: {row.why}"), wrapped=True)
        _tell_what_was_bent(session, name, fact, row, target)
    return rows


def _tell_what_was_bent(session: Session, name: str, fact: PartitionFacts, row: Row, target: targets.Target) -> None:
    tp = fact.tp
    if isinstance(target, targets.ToTime) and fact.at_time is not None and fact.at_time.offset < 0:
        told = f"Partition {tp.partition} from topic {tp.topic} is empty. Falling back to latest known offset."
        session.print(f"\nWarn: {told}\n")
    wanted = requested_offset(name, fact, target)
    if wanted is None or row.new is None or wanted == row.new.offset:
        return
    what = "lower than earliest" if wanted < row.new.offset else "higher than latest"
    told = f"New offset ({wanted}) is {what} offset for topic partition {tp}. Value will be set to {row.new.offset}"
    session.env.say(f"WARN {told}")


def _execute(session: Session, rows: dict[str, list[Row]], states: dict[str, str]) -> None:
    from kcli.admin.offsets.apply import apply_plan
    from kcli.admin.offsets.snapshots import Snapshot, SnapshotError, SnapshotStore, default_folder

    every = [row for of_group in rows.values() for row in of_group]
    if not every:
        return
    inactive = {name: states[name] for name in rows if rows[name]}
    cluster_id = session.client.metadata.cluster.cluster_id
    plan = make_plan("reset", every, int(session.client.clock.wall_ms()), inactive, cluster_id)
    store = SnapshotStore(default_folder(session.env.environ))
    made: list[Snapshot] = []
    try:
        applied = apply_plan(session.client, plan, store, session.deadline_ms, announce=made.append)
    except (Refused, SnapshotError) as refused:
        raise Failed(str(refused), exit_status.REFUSED) from refused
    except (KcliError, KeyboardInterrupt):
        if made:
            session.env.say(f"kcli: perhaps a part was written; back with: kcli offsets undo {made[0].id} --execute")
        raise
    if applied.snapshot_id is not None:
        session.env.say(f"kcli: to bring back what was committed before: kcli offsets undo {applied.snapshot_id}")
    if applied.errors:
        for (group, tp), error in applied.errors.items():
            session.env.say(f"kcli: {group} {tp}: {error}")
        failed = ", ".join(str(tp) for _, tp in applied.errors)
        status = exit_status.status_of_all(applied.errors.values())
        raise Failed(f"Failed altering consumer group offsets for the following partitions: [{failed}]", status)


def _table(rows: dict[str, list[Row]]) -> str:
    cells = [
        (shown(row.group), shown(row.tp.topic), str(row.tp.partition), str(row.new.offset))
        for of_group in rows.values()
        for row in of_group
        if row.new is not None
    ]
    if not rows:
        return "\n"
    widest = max(15, *(len(shown(name)) for name in rows))  # of groups without rows too
    return "\n" + table(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), cells, (widest, 15, 10, None), {1})


def _csv(session: Session, rows: dict[str, list[Row]]) -> str:
    from kcli.cli.compat.offsets_csv import quoted

    alone = len(session.given.values("group")) == 1
    lines = [
        f"{'' if alone else quoted(row.group) + ','}{quoted(row.tp.topic)},{row.tp.partition},{row.new.offset}\n"
        for of_group in rows.values()
        for row in of_group
        if row.new is not None
    ]
    return "".join(lines) + "\n"
