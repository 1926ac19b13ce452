"""`--reset-offsets` of Apache's group tool: offsets planned, shown or exported, and committed with --execute.

Like the tool, it clamps an offset outside the log, falls back to the end of the log, and reports both. Unlike the tool,
it commits nothing before the plan for all groups is complete, keeps a snapshot, and checks again that no offset has
changed. Values that the tool half understands are refused: it ignores the rest of a time after the part that it can
parse (so it takes +0530 for +05), it takes 0 for an offset that is missing in a file, and it uses the later one of two
offsets for a partition.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Container, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from kcli.admin.offsets import offset_plan
from kcli.admin.offsets.offset_plan import ABSENT, WHOLE_TOPIC, make_plan, plan_reset
from kcli.admin.offsets.reset import gather_facts
from kcli.cli import exit_status
from kcli.cli.compat.groups import check_type
from kcli.cli.compat.messages import Failed, InvalidUsage, cell, failure, message_of, table
from kcli.cli.compat.options import parse_partitions
from kcli.cli.run_plan import done_sentence, showing_outcome, undo_command
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, Refused
from kcli.log_place import LOG_END, LOG_START, Place, offset_of
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.admin.offsets.offset_plan import OffsetRow, PartitionFacts
    from kcli.admin.offsets.reset import GroupFacts
    from kcli.cli.compat.groups import Session

_SCENARIO_WANTED = (
    "Option '[reset-offsets]' requires one of the following scenarios: [[to-offset], [shift-by], [to-datetime], "
    "[by-duration], [to-earliest], [to-latest], [to-current], [from-file]]"
)


def reset(session: Session) -> int:
    """Plan, show, and with --execute commit the offsets."""
    scope, target = _scope(session), _target(session)
    names = session.groups()
    found = gather_facts(session.client, names, scope, target, session.deadline_ms)
    for name in sorted(found.errors):
        raise failure(found.errors[name], wrapped=True)
    status = exit_status.DONE
    rows: dict[str, list[OffsetRow]] = {}
    for name in sorted(found.values):
        facts = found.values[name]
        if _is_inactive(facts):
            rows[name] = _rows(session, name, facts, target)
            continue
        message = f"Assignments can only be reset if the group '{cell(name)}' is inactive, but the current state is "
        session.print_error(f"{message}{facts.state}.")
        rows[name] = []
        status = exit_status.REFUSED
    if isinstance(target, offset_plan.FromOffsets):
        for name in (name for name in rows if _is_inactive(found.values[name]) and not target.partitions(name)):
            session.print_error(f"No reset plan for group {cell(name)} found")
            status = status or exit_status.NOT_FOUND
    done = "nothing was committed"
    if "execute" in session.given:
        _execute(session, rows, {name: facts.state for name, facts in found.values.items()})
        done = done_sentence("committed", [f"{row.group} {row.tp}" for name in rows for row in rows[name]])
    with showing_outcome(session.env, done):
        session.print(_csv(session, rows) if "export" in session.given else _table(rows))
    return status


def _scope(session: Session) -> dict[str, list[int] | None] | None:
    given = session.given
    if "all-topics" in given or "from-file" in given:
        return None
    if "topic" not in given:
        raise InvalidUsage("One of the reset scopes should be defined: --all-topics, --topic.")
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


def _target(session: Session) -> offset_plan.Target:
    given = session.given
    simple: dict[str, offset_plan.Target] = {
        "to-earliest": LOG_START,
        "to-latest": LOG_END,
        "to-current": offset_plan.ToCurrent(),
    }
    for name in given.any_of(simple):
        return simple[name]
    if (offset := given.number("to-offset")) is not None:
        return Place("offset", offset)  # may be negative: it is clamped to the log
    if (by := given.number("shift-by")) is not None:
        return offset_plan.ShiftBy(by)
    if (moment := given.value("to-datetime")) is not None:
        return Place("time", parse_moment(moment))
    if (duration := given.value("by-duration")) is not None:
        return Place("time", int(session.client.clock.wall_ms()) - parse_duration(duration))
    if (path := given.value("from-file")) is not None:
        return _read_file(session, path)
    raise InvalidUsage(_SCENARIO_WANTED)


def _read_file(session: Session, path: str) -> offset_plan.FromOffsets:

    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"java.io.IOException: Unable to read file {path}", exit_status.USAGE) from error
    return offset_plan.FromOffsets(read_offsets(text, path, session.given.values("group")), path, exact=False)


def _is_inactive(facts: GroupFacts) -> bool:
    if facts.group is not None:
        check_type(facts.group, wrapped=True)
    return facts.state in (ABSENT, "Empty", "Dead")


def _rows(session: Session, name: str, facts: GroupFacts, target: offset_plan.Target) -> list[OffsetRow]:
    partitions = facts.partitions
    if "all-topics" in session.given:  # for the tool these are the partitions with a committed offset
        partitions = [fact for fact in partitions if fact.committed is not None]
    topics = session.client.metadata.cluster.topics
    missing = {fact.tp.topic for fact in partitions if (topic := topics.get(fact.tp.topic)) is None or topic.error}
    check_partitions(session.given.values("topic"), partitions, missing)
    if isinstance(target, offset_plan.ShiftBy):
        for fact in partitions:
            if fact.committed is None:
                why = "since there is no current committed offset"
                raise InvalidUsage(f"Cannot shift offset for partition {fact.tp} {why}")
    rows = plan_reset(name, partitions, target, if_no_record="end", if_out_of_range="clamp")
    for fact, row in zip(partitions, rows, strict=True):
        if row.action == "refuse" or row.new is None:
            raise failure(row.error or KcliError(f"{fact.tp}: {row.why}"), wrapped=True)
        _report_adjustment(session, name, fact, row, target)
    return rows


def _report_adjustment(
    session: Session, name: str, fact: PartitionFacts, row: OffsetRow, target: offset_plan.Target
) -> None:
    tp = fact.tp
    if isinstance(target, Place) and target.kind == "time" and fact.at_time is not None and fact.at_time.offset < 0:
        message = f"Partition {tp.partition} from topic {tp.topic} is empty. Falling back to latest known offset."
        session.print(f"\nWarn: {message}\n")
    wanted = requested_offset(name, fact, target)
    if wanted is None or row.new is None or wanted == row.new.offset:
        return
    what = "lower than earliest" if wanted < row.new.offset else "higher than latest"
    message = f"New offset ({wanted}) is {what} offset for topic partition {tp}. Value will be set to {row.new.offset}"
    session.env.report(f"WARN {message}")


def _execute(session: Session, rows: dict[str, list[OffsetRow]], states: dict[str, str]) -> None:
    from kcli.admin.offsets.apply import apply_plan
    from kcli.admin.snapshots import Snapshot, SnapshotError, SnapshotStore

    every = [row for of_group in rows.values() for row in of_group]
    if not every:
        return
    inactive = {name: states[name] for name in rows if rows[name]}
    cluster_id = session.client.metadata.cluster.cluster_id
    plan = make_plan("reset", every, int(session.client.clock.wall_ms()), inactive, cluster_id)
    made: list[Snapshot] = []
    store = SnapshotStore.default(session.env.environ, made.append)
    try:
        applied = apply_plan(session.client, plan, store, session.deadline_ms)
    except (Refused, SnapshotError) as refused:
        raise Failed(str(refused), exit_status.REFUSED) from refused
    except (KcliError, KeyboardInterrupt):
        if made:
            session.env.report(f"kcli: some offsets may have been committed; to undo: {undo_command(made[0].id)}")
        raise
    if applied.snapshot_id is not None:
        session.env.report(f"kcli: to restore the previous offsets: {undo_command(applied.snapshot_id)}")
    if applied.errors:
        for (group, tp), error in applied.errors.items():
            session.env.report(f"kcli: {group} {tp}: {error}")
        failed = ", ".join(str(tp) for _, tp in applied.errors)
        status = exit_status.status_of_all(applied.errors.values())
        raise Failed(f"Failed altering consumer group offsets for the following partitions: [{failed}]", status)


def _table(rows: dict[str, list[OffsetRow]]) -> str:
    cells = [
        (cell(row.group), cell(row.tp.topic), str(row.tp.partition), str(row.new.offset))
        for of_group in rows.values()
        for row in of_group
        if row.new is not None
    ]
    if not rows:
        return "\n"
    widest = max(15, *(len(cell(name)) for name in rows))  # groups without rows included
    return "\n" + table(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), cells, (widest, 15, 10, None), {1})


def _csv(session: Session, rows: dict[str, list[OffsetRow]]) -> str:

    alone = len(session.given.values("group")) == 1
    lines = [
        f"{'' if alone else quoted(row.group) + ','}{quoted(row.tp.topic)},{row.tp.partition},{row.new.offset}\n"
        for of_group in rows.values()
        for row in of_group
        if row.new is not None
    ]
    return "".join(lines) + "\n"


_MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def check_partitions(texts: Sequence[str], facts: Iterable[PartitionFacts], missing: Container[str]) -> None:
    """Raise the tool's failure for the first partition that cannot be reset, in its order.

    `texts` are the topics and partitions as given; `missing` are the topics that do not exist.
    """
    errors: dict[TopicPartition, KcliError] = {fact.tp: fact.error for fact in facts if fact.error is not None}
    whole = {tp.topic: error for tp, error in errors.items() if tp.partition == WHOLE_TOPIC}
    for text in texts:
        if text in whole:
            raise Failed(message_of(whole[text]), exit_status.status_of(whole[text]))
    for tp, error in errors.items():
        if tp.partition == WHOLE_TOPIC or tp.topic in missing:
            raise failure(error, wrapped=True)
    named = [tp for text in texts if ":" in text for tp in parse_partitions(text)]
    order = [tp for tp in dict.fromkeys(named) if tp in errors] + [tp for tp in errors if tp not in named]
    if absent := [tp for tp in order if _code(errors[tp]) in _MISSING]:
        raise Failed(f'The partitions "{_joined(absent)}" do not exist', exit_status.NOT_FOUND)
    if unled := [tp for tp in order if _code(errors[tp]) == ErrorCode.LEADER_NOT_AVAILABLE]:
        raise Failed(f'The partitions "{_joined(unled)}" have no leader', exit_status.FAILED)
    for tp in order:
        raise failure(errors[tp], wrapped=True)


def requested_offset(group: str, fact: PartitionFacts, target: offset_plan.Target) -> int | None:
    """Return the offset that was requested by number, before it is clamped to the log."""
    if isinstance(target, Place):
        return offset_of(target)
    if isinstance(target, offset_plan.ShiftBy) and fact.committed is not None:
        return fact.committed.offset + target.by
    if isinstance(target, offset_plan.FromOffsets):
        message = target.find(group, fact.tp)
        return message.offset if message is not None else None
    return None


def _code(error: KcliError) -> ErrorCode | None:
    return error.code if isinstance(error, BrokerError) else None


def _joined(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, partitions))


_MOMENT = re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)(?:(Z)|([+-])(\d\d)(?::(\d\d))?)", re.ASCII)
_WHOLE = r"(?:([-+]?[0-9]+){})?"
_SECONDS = r"(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?"
_DURATION = re.compile(
    f"([-+]?)P{_WHOLE.format('D')}(T{_WHOLE.format('H')}{_WHOLE.format('M')}{_SECONDS})?", re.IGNORECASE | re.ASCII
)
_MS = {"D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1_000}
_LIMIT_MS = 2**62


def parse_moment(text: str) -> int:
    """Return `2024-01-31T10:00:00.000+02:00` in ms since the epoch.

    All parts are required; without a zone it is UTC.
    """
    _, t, clock = text.partition("T")
    if not t or not clock:
        raise _parse_error("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    zoned = text if re.search("[-+Z]", clock.partition("T")[0]) else f"{text}Z"
    match = _MOMENT.fullmatch(zoned)
    if match is None:
        raise _parse_error(f'Unparseable date: "{zoned}"')
    *numbers, _, sign, hours, minutes = match.groups()
    year, month, day_of_month, hour, minute, second, ms = map(int, numbers)
    try:
        moment = datetime(year, month, day_of_month, hour, minute, second, tzinfo=timezone.utc)
        if ms > 999 or int(hours or 0) > 23 or int(minutes or 0) > 59:
            raise ValueError
    except (ValueError, OverflowError):
        raise _parse_error(f'Unparseable date: "{zoned}"') from None
    since = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(seconds=1) * 1000 + ms
    ahead = (int(hours or 0) * 60 + int(minutes or 0)) * 60_000
    return since + ahead if sign == "-" else since - ahead


def parse_duration(text: str) -> int:
    """Return `P1DT2H30M`, `PT0.5S`, `-PT1H` in ms, rounded so that the resulting time is earlier."""
    match = _DURATION.fullmatch(text)
    if match is None or text[-1] in "pPtT" or not any(match.groups()[1:2] + match.groups()[3:]):
        raise Failed("Text cannot be parsed to a Duration", exit_status.USAGE)
    sign, days, _, hours, minutes, seconds, fraction = match.groups()
    parts = zip("DHMS", (days, hours, minutes, seconds), strict=True)
    nanos = sum(int(number or 0) * _MS[unit] for unit, number in parts) * 1_000_000
    below = int((fraction or "").ljust(9, "0") or 0)
    nanos += -below if seconds and seconds.startswith("-") else below
    ms = -(nanos // 1_000_000) if sign == "-" else -(-nanos // 1_000_000)
    if abs(ms) > _LIMIT_MS:
        raise Failed("Text cannot be parsed to a Duration", exit_status.USAGE)
    return ms


def _parse_error(message: str) -> Failed:
    return Failed(f"java.text.ParseException: {message}", exit_status.USAGE)


_QUOTED_ABOVE = 24  # characters; the tool's CSV library quotes every longer text

_DIGITS = re.compile(r"[+-]?[0-9]{1,19}")
_LARGEST = {"partition": 2**31 - 1, "offset": 2**63 - 1}

Offsets = dict[tuple[str | None, TopicPartition], OffsetAndMetadata]


def quoted(text: str) -> str:
    """Return a text as the tool writes it in CSV."""
    if len(text) > _QUOTED_ABOVE or any(sign < "-" for sign in text):
        return '"' + text.replace('"', '""') + '"'
    return text


def read_offsets(text: str, source: str, groups: Iterable[str]) -> Offsets:
    """Return the offsets in the file by group and partition.

    Without a column for groups, the offsets are for the only group; with several groups, such a file has none.
    """
    only = list(groups)
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        raise Failed(f"{source} is empty", exit_status.USAGE)
    rows = [next(csv.reader([line.rstrip("\r")])) for line in lines]
    width = len(rows[0])
    offsets: Offsets = {}
    for number, row in enumerate(rows, 1):
        if len(row) != width or width not in (3, 4):
            expected = "topic,partition,offset or group,topic,partition,offset (the same in all lines)"
            raise Failed(f"line {number} of {source} is not {expected}", exit_status.USAGE)
        tp = TopicPartition(row[-3], _number(row[-2], "partition", number, source))
        offset = OffsetAndMetadata(_number(row[-1], "offset", number, source))
        if offset.offset < 0:
            raise InvalidUsage("Invalid negative offset")
        group = row[0] if width == 4 else only[0] if len(only) == 1 else None
        if group is None:
            continue
        if offsets.setdefault((group, tp), offset) != offset:
            raise Failed(f"line {number} of {source} has a second, different offset for {tp}", exit_status.USAGE)
    return offsets


def _number(text: str, what: str, line: int, source: str) -> int:
    """Return a number as Java parses it: ASCII digits without underscores, within the range."""
    text, largest = text.strip(), _LARGEST[what]
    if not _DIGITS.fullmatch(text) or not -largest <= int(text) <= largest:
        raise Failed(f"line {line} of {source}: '{text}' is not a valid {what}", exit_status.USAGE)
    return int(text)
