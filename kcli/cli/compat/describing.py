"""`--describe`: how far groups have read, their members, or their state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.admin.groups.describe import describe_groups
from kcli.admin.groups.model import CLASSIC, CONSUMER
from kcli.cli import exit_status
from kcli.cli.compat.problems import WRAPPED, Failed, failure, java
from kcli.cli.compat.session import raise_first
from kcli.cli.compat.tables import MISSING, shown, table
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.protocol.consumer_protocol import PROTOCOL_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kcli.admin.groups.lag import PartitionLag
    from kcli.admin.groups.model import Group, GroupMember
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.compat.session import Session
    from kcli.structs import TopicPartition

_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def describe(session: Session) -> int:
    """Print what is asked for, group by group. One group that is not there, and nothing is printed of the others."""
    names = session.groups()
    if "members" in session.given:
        return _members(session, described(session, names))
    if "state" in session.given:
        return _states(session, described(session, names))
    return _offsets(session, names)


def described(session: Session, names: Sequence[str]) -> list[Group]:
    """The groups by name; the tool's failure for one that is not there or no group of consumers."""
    found = describe_groups(session.client, dict.fromkeys(names), session.deadline_ms)
    check(found.values.values(), found.errors)
    return [found.values[name] for name in sorted(found.values)]


def check(groups: Iterable[Group], errors: dict[str, KcliError]) -> None:
    """The tool describes all groups or none."""
    for name in sorted(errors):
        raise failure_of(name, errors[name])
    for group in groups:
        check_type(group)


def failure_of(name: str, error: KcliError) -> Failed:
    """Why a group cannot be described."""
    if isinstance(error, BrokerError) and error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        return failure(error, f"Group {name} not found.")
    return failure(error)


def check_type(group: Group, *, wrapped: bool = False) -> None:
    """The tool is for groups of consumers. `wrapped`: as where it asks from within another call."""
    if group.type not in (CLASSIC, CONSUMER):
        missing = BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, group=group.group)
        text = java(missing, f"Group {shown(group.group)} is not a consumer group.")
        raise Failed(text, exit_status.REFUSED)
    if group.protocol_type not in ("", PROTOCOL_TYPE):
        text = f"GroupId {shown(group.group)} is not a consumer group ({group.protocol_type})."
        raise Failed(f"{WRAPPED if wrapped else ''}java.lang.IllegalArgumentException: {text}", exit_status.REFUSED)


def _say_state(session: Session, group: Group) -> None:
    if group.state == "Empty":
        session.env.say(f"\nConsumer group '{group.group}' has no active members.")
    elif group.state in _REBALANCING:
        session.env.say(f"\nWarning: Consumer group '{group.group}' is rebalancing.")


# ---- offsets ----


def _offsets(session: Session, names: Sequence[str]) -> int:
    from kcli.admin.groups.survey import survey_groups

    found = survey_groups(session.client, names, session.deadline_ms)
    check((survey.group for survey in found.values.values()), found.errors)
    raise_first((survey.error for survey in found.values.values() if survey.error), wrapped=True)
    unknown: list[PartitionLag] = []
    for name in sorted(found.values):
        survey = found.values[name]
        _say_state(session, survey.group)
        rows = _in_order(survey)
        unknown += [row for row in rows if row.error is not None]
        if rows:
            session.print("\n" + _offsets_table(rows, verbose="verbose" in session.given))
    for row in unknown:
        session.env.say(f"{row.tp}: {java(row.error)}" if row.error else "")
    return exit_status.status_of_all([row.error for row in unknown])


def _in_order(survey: GroupSurvey) -> list[PartitionLag]:
    """The member with the most partitions first, what nobody owns last; by topic and partition within."""
    share = {member.id: len(member.owned) for member in survey.group.members}

    def place(row: PartitionLag) -> tuple[bool, int, str, TopicPartition]:
        owner = row.member
        return owner is None, -share[owner.id] if owner else 0, owner.id if owner else "", row.tp

    return sorted(survey.partitions, key=place)


def _offsets_table(rows: Iterable[PartitionLag], *, verbose: bool) -> str:
    heading = [*("GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")]
    heading += ["CONSUMER-ID", "HOST", "CLIENT-ID"]
    cells = [_offset_cells(row) for row in rows]
    widths: list[int | None] = [15, 15, 10, 15, 15, 15, 15, 15, 15, None]
    growing = {0, 1, 7, 8}
    if not verbose:
        for line in (heading, widths, *cells):
            del line[3]  # type: ignore[attr-defined]
        growing = {0, 1, 6, 7}
    return table(heading, cells, widths, growing)


def _offset_cells(row: PartitionLag) -> list[str]:
    committed, member = row.committed, row.member
    known = committed is not None and row.end is not None
    told = [
        *(row.group, row.tp.topic, row.tp.partition),
        committed.leader_epoch if committed is not None and committed.leader_epoch >= 0 else None,
        committed.offset if committed is not None else None,
        row.end,
        # Not the lag of the library, which is never below 0.
        row.end - committed.offset if known and committed is not None and row.end is not None else None,
        *((member.id, _host(member), member.client_id) if member is not None else (None, None, None)),
    ]
    return [shown(it) for it in told]


def _host(member: GroupMember) -> str:
    return f"/{member.host}" if member.host else ""


# ---- members ----


def _members(session: Session, groups: Iterable[Group]) -> int:
    for group in groups:
        _say_state(session, group)
        session.print("\n" + _members_table(group, verbose="verbose" in session.given))
    return exit_status.DONE


def _members_table(group: Group, *, verbose: bool) -> str:
    kinds = {member.member_type for member in group.members}
    columns: list[tuple[str, list[str], int | None, bool]] = [
        ("GROUP", [shown(group.group) for _ in group.members], 15, True),
        ("CONSUMER-ID", [shown(member.id) for member in group.members], 15, True),
    ]
    if any(member.instance_id for member in group.members):
        instances = [shown(member.instance_id or "") for member in group.members]
        columns.append(("GROUP-INSTANCE-ID", instances, 17, True))
    columns += [
        ("HOST", [shown(_host(member)) for member in group.members], 15, True),
        ("CLIENT-ID", [shown(member.client_id) for member in group.members], 15, True),
        ("#PARTITIONS", [str(len(member.owned)) for member in group.members], 15, False),
    ]
    if verbose:
        columns += [
            ("CURRENT-EPOCH", [shown(member.epoch) for member in group.members], 15, False),
            ("CURRENT-ASSIGNMENT", [_assignment(member.owned) for member in group.members], 20, True),
            ("TARGET-EPOCH", [shown(group.target_epoch) for _ in group.members], 15, False),
            ("TARGET-ASSIGNMENT", [_assignment(member.target or ()) for member in group.members], 20, True),
        ]
        if {CLASSIC, CONSUMER} <= kinds:
            upgraded = {CLASSIC: "false", CONSUMER: "true"}
            columns.append(
                ("UPGRADED", [upgraded.get(m.member_type or "", MISSING) for m in group.members], None, False)
            )
    else:
        columns.append(("", [""] * len(group.members), None, False))  # the lines end with a blank
    rows = list(zip(*(cells for _, cells, _, _ in columns), strict=True))
    growing = {at for at, column in enumerate(columns) if column[3]}
    return table([name for name, *_ in columns], rows, [width for *_, width, _ in columns], growing)


def _assignment(partitions: Iterable[TopicPartition]) -> str:
    """`orders:0,1;payments:2`"""
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return ";".join(f"{shown(topic)}:{','.join(map(str, numbers))}" for topic, numbers in topics.items()) or MISSING


# ---- state ----


def _states(session: Session, groups: Iterable[Group]) -> int:
    for group in groups:
        _say_state(session, group)
        session.print("\n" + _state_table(group, verbose="verbose" in session.given))
    return exit_status.DONE


def _state_table(group: Group, *, verbose: bool) -> str:
    node = group.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.id})"
    cells = [shown(group.group), coordinator, shown(group.assignor or None), group.state]
    heading = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    widths: list[int | None] = [15, 25, 20, 20]
    if verbose:
        heading += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        cells += [shown(group.epoch), shown(group.target_epoch)]
        widths += [15, 25]
    return table([*heading, "#MEMBERS"], [[*cells, str(len(group.members))]], [*widths, None], {0, 1})
