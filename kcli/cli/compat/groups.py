"""`--list`, `--describe`, `--delete` and `--delete-offsets` of Apache's group tool, and the session they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.describe import describe_groups
from kcli.admin.groups.group import CLASSIC, CONSUMER, is_absent
from kcli.admin.groups.listing import STATES, list_groups
from kcli.cli import exit_status
from kcli.cli.compat.messages import (
    MISSING,
    WRAPPED,
    Failed,
    InvalidUsage,
    cell,
    failure,
    java_error,
    message_of,
    table,
)
from kcli.cli.compat.options import parse_partitions
from kcli.client.metadata import Cluster
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.protocol.consumer_protocol import PROTOCOL_TYPE
from kcli.structs import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kcli.admin.groups.group import Group, GroupMember
    from kcli.admin.groups.lag import PartitionLag
    from kcli.admin.groups.listing import ListedGroup
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.admin.plan import Applied
    from kcli.admin.snapshots import SnapshotStore
    from kcli.cli.compat.options import Given
    from kcli.cli.environment import Environment
    from kcli.client.consumer_network_client import ConsumerNetworkClient


class Session(NamedTuple):
    """One run of the tool against a cluster."""

    env: Environment
    given: Given
    client: ConsumerNetworkClient
    deadline_ms: float

    def print(self, text: str) -> None:
        """Print text on standard output."""
        self.env.stdout.write(text)

    def print_error(self, message: str) -> None:
        """Print an error as the tool does: on standard output, after an empty line."""
        self.print(f"\nError: {message}\n")

    def groups(self) -> list[str]:
        """Return the groups of --group, or of --all-groups, without duplicates."""
        if "all-groups" in self.given:
            return [group.group for group in consumer_groups(self)]
        return list(dict.fromkeys(self.given.values("group")))


def raise_first(errors: Iterable[KcliError], *, wrapped: bool = False) -> None:
    """Raise the tool's failure for the first error."""
    for error in errors:
        raise failure(error, wrapped=wrapped)


TYPES = {"consumer": "Consumer", "classic": "Classic"}
_STATES = tuple(state for state in STATES if state != "NotReady")  # a state of streams groups only


def list_groups_of(session: Session) -> int:
    """Print the groups of consumers, by name or with their types and states."""
    given = session.given
    with_type, with_state = "type" in given, "state" in given
    types = _chosen(given.value("type"), TYPES.values(), "types", "types")
    states = _chosen(given.value("state"), _STATES, "state", "states")
    found = consumer_groups(session, states, types)
    if not (with_type or with_state):
        session.print("".join(f"{cell(group.group)}\n" for group in found))
        return exit_status.DONE
    columns = [("GROUP", [cell(group.group) for group in found])]
    if with_type:
        columns.append(("TYPE", [TYPES[group.type] for group in found]))
    if with_state:
        columns.append(("STATE", [group.state or "Unknown" for group in found]))
    width = max(15, *(len(name) for name in columns[0][1]), 0) + 10
    rows = zip(*(cells for _, cells in columns), strict=True)
    session.print(table([name for name, _ in columns], list(rows), [width] + [20] * (len(columns) - 1)))
    return exit_status.DONE


def consumer_groups(session: Session, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
    """Return the groups of consumers, sorted: classic ones, KIP-848 ones, and groups with committed offsets only."""
    found = list_groups(session.client, session.deadline_ms, states, types or (CLASSIC, CONSUMER))
    raise_first(found.errors.values(), wrapped=True)
    groups = (group for listed in found.values.values() for group in listed)
    return sorted(group for group in groups if group.type in TYPES and group.protocol_type in ("", PROTOCOL_TYPE))


def _chosen(text: str | None, known: Collection[str], what: str, several: str) -> list[str]:
    """Return the known names in a list such as `stable, Empty`; [] without a list."""
    if not text:
        return []
    spelled = {name.lower(): name for name in known}
    words = [word.strip().lower() for word in text.split(",")]
    if not set(words) <= set(spelled):
        raise InvalidUsage(f"Invalid {what} list '{text}'. Valid {several} are: {', '.join(known)}")
    return [spelled[word] for word in words]


_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def describe(session: Session) -> int:
    """Print offsets and lag, members, or state, group by group. If one group does not exist, print none."""
    names = session.groups()
    if "members" in session.given:
        return _members(session, described(session, names))
    if "state" in session.given:
        return _states(session, described(session, names))
    return _offsets(session, names)


def described(session: Session, names: Sequence[str]) -> list[Group]:
    """Return the groups by name; raise the tool's failure for an unknown group or one that is not of consumers."""
    found = describe_groups(session.client, dict.fromkeys(names), session.deadline_ms)
    check_all(found.values.values(), found.errors)
    return [found.values[name] for name in sorted(found.values)]


def check_all(groups: Iterable[Group], errors: dict[str, KcliError]) -> None:
    """Raise the tool's failure unless all groups can be described."""
    for name in sorted(errors):
        raise failure_of(name, errors[name])
    for group in groups:
        check_type(group)


def failure_of(name: str, error: KcliError) -> Failed:
    """Return the tool's failure for a group that cannot be described."""
    if is_absent(error):
        return failure(error, f"Group {name} not found.")
    return failure(error)


def check_type(group: Group, *, wrapped: bool = False) -> None:
    """Raise the tool's failure unless this is a group of consumers. `wrapped`: as an error of a nested call."""
    if group.type not in (CLASSIC, CONSUMER):
        missing = BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, group=group.group)
        text = java_error(missing, f"Group {cell(group.group)} is not a consumer group.")
        raise Failed(text, exit_status.REFUSED)
    if group.protocol_type not in ("", PROTOCOL_TYPE):
        text = f"GroupId {cell(group.group)} is not a consumer group ({group.protocol_type})."
        raise Failed(f"{WRAPPED if wrapped else ''}java.lang.IllegalArgumentException: {text}", exit_status.REFUSED)


def _report_state(session: Session, group: Group) -> None:
    if group.state == "Empty":
        session.env.report_lines(["", f"Consumer group '{group.group}' has no active members."])
    elif group.state in _REBALANCING:
        session.env.report_lines(["", f"Warning: Consumer group '{group.group}' is rebalancing."])


# ---- --describe --offsets ----


def _offsets(session: Session, names: Sequence[str]) -> int:
    from kcli.admin.groups.survey import survey_groups

    found = survey_groups(session.client, names, session.deadline_ms)
    check_all((survey.group for survey in found.values.values()), found.errors)
    raise_first((survey.error for survey in found.values.values() if survey.error), wrapped=True)
    unknown: list[PartitionLag] = []
    for name in sorted(found.values):
        survey = found.values[name]
        _report_state(session, survey.group)
        rows = _in_order(survey)
        unknown += [row for row in rows if row.error is not None]
        if rows:
            session.print("\n" + _offsets_table(rows, verbose="verbose" in session.given))
    for row in unknown:
        session.env.report(f"{row.tp}: {java_error(row.error)}" if row.error else "")
    return exit_status.status_of_all([row.error for row in unknown])


def _in_order(survey: GroupSurvey) -> list[PartitionLag]:
    """Return the rows in the tool's order: members with the most partitions first, partitions without an owner last."""
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
    values = [
        *(row.group, row.tp.topic, row.tp.partition),
        committed.leader_epoch if committed is not None and committed.leader_epoch >= 0 else None,
        committed.offset if committed is not None else None,
        row.end,
        # Apache's lag may be negative; the library's never is.
        row.end - committed.offset if known and committed is not None and row.end is not None else None,
        *((member.id, _host(member), member.client_id) if member is not None else (None, None, None)),
    ]
    return [cell(value) for value in values]


def _host(member: GroupMember) -> str:
    return f"/{member.host}" if member.host else ""


# ---- --describe --members ----


def _members(session: Session, groups: Iterable[Group]) -> int:
    for group in groups:
        _report_state(session, group)
        session.print("\n" + _members_table(group, verbose="verbose" in session.given))
    return exit_status.DONE


def _members_table(group: Group, *, verbose: bool) -> str:
    kinds = {member.member_type for member in group.members}
    columns: list[tuple[str, list[str], int | None, bool]] = [
        ("GROUP", [cell(group.group) for _ in group.members], 15, True),
        ("CONSUMER-ID", [cell(member.id) for member in group.members], 15, True),
    ]
    if any(member.instance_id for member in group.members):
        instances = [cell(member.instance_id or "") for member in group.members]
        columns.append(("GROUP-INSTANCE-ID", instances, 17, True))
    columns += [
        ("HOST", [cell(_host(member)) for member in group.members], 15, True),
        ("CLIENT-ID", [cell(member.client_id) for member in group.members], 15, True),
        ("#PARTITIONS", [str(len(member.owned)) for member in group.members], 15, False),
    ]
    if verbose:
        columns += [
            ("CURRENT-EPOCH", [cell(member.epoch) for member in group.members], 15, False),
            ("CURRENT-ASSIGNMENT", [_assignment(member.owned) for member in group.members], 20, True),
            ("TARGET-EPOCH", [cell(group.target_epoch) for _ in group.members], 15, False),
            ("TARGET-ASSIGNMENT", [_assignment(member.target or ()) for member in group.members], 20, True),
        ]
        if {CLASSIC, CONSUMER} <= kinds:
            upgraded = {CLASSIC: "false", CONSUMER: "true"}
            columns.append(
                ("UPGRADED", [upgraded.get(m.member_type or "", MISSING) for m in group.members], None, False)
            )
    else:
        columns.append(("", [""] * len(group.members), None, False))  # Apache's lines end with a blank
    rows = list(zip(*(cells for _, cells, _, _ in columns), strict=True))
    growing = {at for at, column in enumerate(columns) if column[3]}
    return table([name for name, *_ in columns], rows, [width for *_, width, _ in columns], growing)


def _assignment(partitions: Iterable[TopicPartition]) -> str:
    from kcli.cli.group.rows import format_assignment

    return cell(format_assignment(numbers_by_topic(partitions)))


# ---- --describe --state ----


def _states(session: Session, groups: Iterable[Group]) -> int:
    for group in groups:
        _report_state(session, group)
        session.print("\n" + _state_table(group, verbose="verbose" in session.given))
    return exit_status.DONE


def _state_table(group: Group, *, verbose: bool) -> str:
    node = group.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.id})"
    cells = [cell(group.group), coordinator, cell(group.assignor or None), group.state]
    heading = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    widths: list[int | None] = [15, 25, 20, 20]
    if verbose:
        heading += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        cells += [cell(group.epoch), cell(group.target_epoch)]
        widths += [15, 25]
    return table([*heading, "#MEMBERS"], [[*cells, str(len(group.members))]], [*widths, None], {0, 1})


_OF_THE_GROUP = {
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
}
_OF_PARTITIONS = {
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
_WHOLE_TOPIC = -1


def delete_groups_of(session: Session) -> int:
    """Delete groups, after their committed offsets are saved. Groups with members are not deleted; the others are."""
    from kcli.admin.offsets.apply import apply_group_deletion
    from kcli.cli.run_plan import done_sentence, showing_outcome

    groups = session.groups()
    found = _delete(session, lambda store: apply_group_deletion(session.client, groups, store, session.deadline_ms))
    deleted = sorted(name for name, error in found.results.items() if error is None)
    with showing_outcome(session.env, done_sentence("deleted", deleted)):
        _print_deletion(session, found, deleted)
    return exit_status.status_of_all(found.errors.values())


def _delete(session: Session, delete: Callable[[SnapshotStore], Applied]) -> Applied:
    from kcli.admin.snapshots import SnapshotStore
    from kcli.cli.group.delete import restore_line
    from kcli.cli.run_plan import apply_with_hint

    return apply_with_hint(
        session.env,
        lambda seen: delete(SnapshotStore.default(session.env.environ, seen)),
        lambda id: f"kcli: {restore_line(id)}",
        "deleted",
    )


def _print_deletion(session: Session, found: Applied, deleted: Sequence[str]) -> None:
    gone = ", ".join(f"'{cell(name)}'" for name in deleted)
    if not found.errors:
        session.print(f"Deletion of requested consumer groups ({gone}) was successful.\n")
        return
    session.print_error("Deletion of some consumer groups failed:")
    for name in sorted(found.errors):
        session.print(f"* Group '{cell(name)}' could not be deleted due to: {java_error(found.errors[name])}\n")
    if deleted:
        session.print(f"\nThese consumer groups were deleted successfully: {gone}\n")


def delete_offsets_of(session: Session) -> int:
    """Delete the committed offsets of one group for some topics. The broker refuses topics that the group reads."""
    from kcli.admin.offsets.apply import apply_offset_deletion
    from kcli.cli.run_plan import done_sentence, showing_outcome

    group = session.given.value("group") or ""
    texts = list(dict.fromkeys(session.given.values("topic")))
    wanted = {tp for text in texts if ":" in text for tp in parse_partitions(text)}
    outcomes: dict[TopicPartition, KcliError | None] = {}
    whole = [text for text in texts if ":" not in text]
    cluster = session.client.topics_metadata(whole, session.deadline_ms) if whole else Cluster()
    for name in whole:
        if (error := cluster.topic_error(name)) is not None:
            outcomes[TopicPartition(name, _WHOLE_TOPIC)] = error
        wanted.update(TopicPartition(name, number) for number in cluster.topics[name].partitions)
    found = _delete(
        session, lambda store: apply_offset_deletion(session.client, group, wanted, store, session.deadline_ms)
    )
    outcomes |= {tp: found.errors.get(tp) for tp in wanted}
    rows = [
        (
            cell(tp.topic),
            MISSING if tp.partition == _WHOLE_TOPIC else str(tp.partition),
            f"Error: {java_error(error)}" if error is not None else "Successful",
        )
        for tp, error in sorted(outcomes.items(), key=lambda item: f"{item[0].topic}{item[0].partition}")
    ]
    deleted = [str(tp) for tp in sorted(wanted) if tp not in found.errors]
    with showing_outcome(session.env, done_sentence("deleted", deleted)):
        _report_outcome(session, group, list(found.errors.values()))
        session.print("\n" + table(("TOPIC", "PARTITION", "STATUS"), rows, (15, 10, 15), {0}))
    return exit_status.status_of_all(outcomes.values())


def _report_outcome(session: Session, group: str, errors: list[KcliError]) -> None:
    """Print the broker's answer to the request as a whole. Topics that are unknown were not part of it."""
    first = errors[0] if errors else None
    code = first.code if isinstance(first, BrokerError) else None
    if first is None:
        session.print(f"Request succeeded for deleting offsets from group {cell(group)}.\n")
    elif code in _OF_THE_GROUP:
        session.print_error(message_of(first))
    elif code in _OF_PARTITIONS:
        session.print_error("Encountered some partition-level error, see the follow-up details.")
    else:
        session.print_error(f"Encountered some unknown error: {java_error(first)}")
