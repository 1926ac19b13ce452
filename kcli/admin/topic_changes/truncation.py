"""Plans that delete the oldest records of partitions (DeleteRecords, KIP-107), and their application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.configs import TOPIC, describe_configs
from kcli.admin.groups.committed_offsets import ShareOffset, committed_offsets, share_offsets
from kcli.admin.groups.group import SHARE
from kcli.admin.groups.listing import list_groups
from kcli.admin.plan import Plan, Row
from kcli.admin.topics import Bounds, broker_timeout_ms, describe_topics, find_partitions, partition_bounds
from kcli.client.offset_lookup import EARLIEST, list_offsets
from kcli.client.requests import Results, fan_out_changes, half_deadline
from kcli.client.routing import Coordinators, locate_leaders
from kcli.errors import KcliError, Refused, WakeupError
from kcli.log_place import Place, resolve
from kcli.structs import TopicPartition, numbers_by_topic
from kcli.text import format_time, format_time_lookup

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
    from kcli.structs import Node, OffsetAndMetadata

_POLICY, _DELETE = "cleanup.policy", "delete"


@dataclass(frozen=True)
class Truncation(Row[int]):
    """The new first offset of a partition, its key; `old` is the present one, `end` the end of the log.

    `unread` has the groups that have not read all of the deleted records, with the number of offsets that they lose;
    None: not known. `why` says where a time is in the log; "" for other cuts.
    """

    end: int | None = None
    unread: Mapping[str, int] | None = None

    @property
    def tp(self) -> TopicPartition:
        tp: TopicPartition = self.key
        return tp

    @property
    def records(self) -> int | None:
        """The number of offsets to delete: an upper bound of the records."""
        if self.new is None or self.old is None or self.error is not None:
            return None
        return max(0, self.new - self.old)


class GroupPositions(NamedTuple):
    """Committed offsets by group, and the errors of groups and brokers whose offsets could not be read."""

    offsets: Mapping[str, Mapping[TopicPartition, int]]
    errors: tuple[KcliError, ...] = ()


def plan_truncation(
    client: ConsumerNetworkClient,
    topics: Mapping[str, list[int] | None],
    cut: Place,
    deadline_ms: float,
    *,
    allow_future: bool = False,
) -> Plan[Truncation]:
    """Plan to delete the records before `cut`, in these partitions (None: all of a topic). Changes nothing.

    A time keeps the records from the first one with this timestamp or a later one; without such a record, none.

    Refused for a time after now without `allow_future`. A topic or partition that does not exist is raised. Rows with
    errors: a partition without a leader, an offset after the log end, an internal topic, and a topic without the
    cleanup policy `delete`, all of which brokers refuse.
    """
    if cut.kind == "time" and not allow_future:
        check_not_after(cut.n, client.clock.wall_ms())
    partitions = find_partitions(client, topics, half_deadline(client, deadline_ms))
    described = describe_topics(client, topics, half_deadline(client, deadline_ms)).values
    refused = _refusals(client, [t.name for t in described.values() if t.internal], topics, deadline_ms)
    bounds = partition_bounds(client, partitions, half_deadline(client, deadline_ms))
    at_time: Results[TopicPartition, int] = Results()
    if cut.kind == "time":
        found = list_offsets(client, dict.fromkeys(bounds.values, cut.n), half_deadline(client, deadline_ms))
        at_time = Results({tp: place.offset for tp, place in found.values.items()}, found.errors)
    groups = _group_positions(client, set(partitions), half_deadline(client, deadline_ms))
    errors = {**bounds.errors, **at_time.errors, **{tp: refused[tp.topic] for tp in partitions if tp.topic in refused}}
    rows = []
    for tp in partitions:
        known = bounds.values.get(tp)
        if tp in errors or known is None:
            start, end = known or (None, None)
            rows.append(Truncation(tp, start, end=end, error=errors.get(tp)))
        else:
            rows.append(plan_row(tp, known, cut, at_time.values.get(tp), groups))
    return Plan(
        "truncate",
        tuple(rows),
        states={name: str(topic.topic_id) for name, topic in described.items()},
        unknown=groups.errors,
        permanent="deleted records cannot be restored",
    )


def check_not_after(ms: int, now_ms: int) -> None:
    """Raise Refused for a time after now. A wrong unit or a misread date is such a time, and would delete all."""
    if ms > now_ms:
        raise Refused(
            f"{format_time(ms)} is after now, {format_time(now_ms)}: all records before that time would be deleted; "
            "use --before end to delete all present records, or --allow-future if some have a time after now"
        )


def _refusals(
    client: ConsumerNetworkClient, internal: Sequence[str], topics: Mapping[str, object], deadline_ms: float
) -> dict[str, KcliError]:
    """Return the topics of which brokers delete no records. Without the right to read settings, the brokers decide."""
    refused: dict[str, KcliError] = {}
    try:
        settings = describe_configs(client, TOPIC, topics, half_deadline(client, deadline_ms), keys=[_POLICY]).values
    except WakeupError:
        raise
    except KcliError:
        settings = {}
    for name, found in settings.items():
        policies = [setting.value or "" for setting in found if setting.name == _POLICY]
        if policies and _DELETE not in policies[0].split(","):
            text = f"topic {name} has {_POLICY}={policies[0]}; brokers delete records only with the policy {_DELETE}"
            refused[name] = Refused(text)
    return {**refused, **{name: Refused(f"{name} is an internal topic; its records are state") for name in internal}}


def plan_row(tp: TopicPartition, bounds: Bounds, cut: Place, at_time: int | None, groups: GroupPositions) -> Truncation:
    """Return the row of one partition; `at_time`: the offset of the time of `cut`, -1: no such record. Pure."""
    start, end = bounds
    before = resolve(cut, start, end, at_time)
    if cut.kind != "offset":
        before = min(before, end)
    why = "" if cut.kind != "time" else format_time_lookup(cut.n, -1 if at_time is None else at_time, start)
    why += "; log end" if before == end and why else ""
    row = Truncation(tp, start, before, "truncate" if before > start else "keep", why, end=end)
    if before > end:
        return replace(row, error=Refused(f"{tp} ends at offset {end}, before {before}; give an offset up to {end}"))
    unread = {
        group: before - max(start, offsets[tp])
        for group, offsets in sorted(groups.offsets.items())
        if tp in offsets and offsets[tp] < before > start
    }
    return replace(row, unread=None if groups.errors and not unread else unread)


def _group_positions(
    client: ConsumerNetworkClient, partitions: set[TopicPartition], deadline_ms: float
) -> GroupPositions:
    """Return the offsets of all groups in these partitions."""
    try:
        listed = list_groups(client, deadline_ms)
        groups = {group.group: group.type for found in listed.values.values() for group in found}
        coordinators = Coordinators(client)
        classic = [name for name, kind in groups.items() if kind != SHARE]
        share = [name for name, kind in groups.items() if kind == SHARE]
        committed = committed_offsets(client, classic, deadline_ms, coordinators=coordinators)
        starts = share_offsets(client, share, deadline_ms, coordinators=coordinators)
    except WakeupError:
        raise
    except KcliError as error:
        return GroupPositions({}, (error,))
    errors = [*listed.errors.values(), *committed.errors.values(), *starts.errors.values()]
    offsets: dict[str, dict[TopicPartition, int]] = {}
    found: list[tuple[str, Mapping[TopicPartition, OffsetAndMetadata | ShareOffset | KcliError]]] = [
        *committed.values.items(),
        *starts.values.items(),
    ]
    for group, by_partition in found:
        for tp, at in by_partition.items():
            if tp in partitions and isinstance(at, KcliError):
                errors.append(at)
            elif tp in partitions and not isinstance(at, KcliError):
                offsets.setdefault(group, {})[tp] = at.offset
    return GroupPositions(offsets, tuple(errors))


def apply_truncation(
    client: ConsumerNetworkClient, plan: Plan[Truncation], deadline_ms: float
) -> Results[TopicPartition, int]:
    """Delete the records of a plan; return the new first offset of each partition, or its error.

    PlanRefused for a plan with an error, and Refused for a topic that was recreated since: then nothing is deleted.
    OutcomeUnknown: the response was lost, and the records may be deleted.
    """
    plan.check()
    changes = {row.tp: row.new or 0 for row in plan.changes}
    described = describe_topics(client, {tp.topic for tp in changes}, half_deadline(client, deadline_ms))
    for error in described.errors.values():
        raise error
    for name, topic in described.values.items():
        if str(topic.topic_id) != plan.states.get(name):
            raise Refused(f"topic {name} was deleted and recreated since the plan; make a new plan")
    return delete_records(client, changes, deadline_ms)


def delete_records(
    client: ConsumerNetworkClient, before: Mapping[TopicPartition, int], deadline_ms: float
) -> Results[TopicPartition, int]:
    """Delete the records below these offsets, and return the new first offsets."""

    def build(_node: Node, partitions: list[TopicPartition]) -> DeleteRecordsRequest:
        from kcli.protocol.messages.delete_records import (
            DeleteRecordsPartition,
            DeleteRecordsRequest,
            DeleteRecordsTopic,
        )

        topics = [
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(partition_index=n, offset=before[TopicPartition(topic, n)]) for n in numbers
                ],
            )
            for topic, numbers in numbers_by_topic(partitions).items()
        ]
        return DeleteRecordsRequest(topics=topics, timeout_ms=broker_timeout_ms(client, deadline_ms))

    def read(
        response: DeleteRecordsResponse, _partitions: Sequence[TopicPartition]
    ) -> Iterator[tuple[TopicPartition, int | KcliError]]:
        for topic in response.topics:
            for row in topic.partitions:
                tp = TopicPartition(topic.name, row.partition_index)
                error = response.broker_error(row.error_code, partition=tp) if row.error_code else None
                yield tp, error or row.low_watermark

    def confirm(partitions: Sequence[TopicPartition], deadline_ms: float) -> Results[TopicPartition, int]:
        starts = list_offsets(client, dict.fromkeys(partitions, EARLIEST), deadline_ms)
        deleted = {tp: start.offset for tp, start in starts.values.items() if start.offset >= before[tp]}
        return Results(deleted, starts.errors)

    return fan_out_changes(
        client,
        before,
        lambda keys, failures, until_ms: locate_leaders(client, keys, failures, until_ms),
        build,
        read,
        confirm,
        deadline_ms,
    )
