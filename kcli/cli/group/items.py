"""Groups, their members and their partitions as items of a report. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.admin.groups.lag import total_lag, total_lag_by_topic
from kcli.cli.output.report import error_field
from kcli.structs import numbers_by_topic

if TYPE_CHECKING:
    from kcli.admin.groups.lag import LagTotals, PartitionLag
    from kcli.admin.groups.model import Group, GroupMember
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.output.report import Item
    from kcli.errors import KcliError
    from kcli.structs import Node


def group_item(group: Group) -> Item:
    """What a group is, without its members."""
    return {
        "group": group.group,
        "type": group.type,
        "state": group.state,
        "coordinator": node_item(group.coordinator),
        "protocol_type": group.protocol_type or None,
        "assignor": group.assignor or None,
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "member_count": len(group.members),
    }


def described_item(group: Group, *, members: bool) -> Item:
    """A group, on request with its members, sorted by client and id."""
    item = group_item(group)
    if members:
        item["members"] = [member_item(m) for m in sorted(group.members, key=lambda m: (m.client_id, m.id))]
    return item


def survey_item(survey: GroupSurvey, partitions: Sequence[PartitionLag]) -> Item:
    """A group with these of its partitions, and what all of them come to."""
    topics = total_lag_by_topic(survey.partitions)
    item = {
        **group_item(survey.group),
        "total": totals_item(total_lag(survey.partitions)),
        "topics": [{"topic": topic, **totals_item(totals)} for topic, totals in topics.items()],
        "partitions": [partition_item(lag) for lag in partitions],
    }
    if survey.error is not None:
        item["error"] = error_field(survey.error)
    return item


def node_item(node: Node) -> Item:
    return {"node": node.id, "host": node.host, "port": node.port}


def failed_group(group: str, error: KcliError) -> Item:
    return {"group": group, "error": error_field(error)}


def unheard_broker(node: Node, error: KcliError) -> Item:
    """A broker that did not tell its groups: which ones are missing nobody knows."""
    return {"group": None, "coordinator": node_item(node), "error": error_field(error)}


def member_item(member: GroupMember) -> Item:
    """A member, what it subscribes to, owns and shall own; `epoch` and `target` of KIP-848 members only."""
    item: Item = {
        "member": member.id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "rack": member.rack,
        "member_type": member.member_type,
        "epoch": member.epoch,
        "subscribed": list(member.topics),
        "pattern": member.pattern,
        "partition_count": len(member.owned),
        "assignment": numbers_by_topic(member.owned),
        "target": None if member.target is None else numbers_by_topic(member.target),
    }
    if member.error is not None:
        item["error"] = error_field(member.error)
    return item


def partition_item(lag: PartitionLag) -> Item:
    """A partition that a group has read or owns; `owners` are several only in a share group."""
    _, (topic, partition), committed, start, end, behind, time_lag_ms, note, members, error = lag
    offset, epoch, metadata = (None, -1, None) if committed is None else committed
    item: Item = {
        "topic": topic,
        "partition": partition,
        "committed": offset,
        "committed_epoch": None if epoch < 0 else epoch,
        "metadata": metadata,
        "start": start,
        "end": end,
        "lag": behind,
        "time_lag_ms": time_lag_ms,
        "time_lag_note": note,
        "owners": [_owner_item(member) for member in members] if members else [],
    }
    if error is not None:
        item["error"] = error_field(error)
    return item


def _owner_item(member: GroupMember) -> Item:
    return {
        "member": member.id,
        "instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "rack": member.rack,
    }


def shown_partitions(found: dict[str, list[int]] | None) -> str | None:
    """`orders:0,1;bills:2`, one word for a table, as Kafka's own tool writes it; None for none."""
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in (found or {}).items()) or None


def shown_node(item: Item | None) -> str | None:
    """A coordinator in one word: `host:port(id)`."""
    return None if item is None else f"{item['host']}:{item['port']}({item['node']})"


def totals_item(totals: LagTotals) -> Item:
    """Sums over partitions; `lag` counts those that are known, and is None when none is."""
    known = totals.unknown < totals.partitions or not totals.partitions
    return {
        "partition_count": totals.partitions,
        "lag": totals.lag if known else None,
        "max_lag": totals.max_lag if known else None,
        "max_time_lag_ms": totals.max_time_lag_ms,
        "unknown": totals.unknown,
    }


def failed_row(item: Item) -> Item:
    """A group's row that has only an error; a broker's, whose groups are unknown, names itself instead."""
    if item["group"] is None and "coordinator" in item:
        return {"group": None, "host": shown_node(item["coordinator"]), "error": item["error"]}
    return {"group": item["group"], "error": item["error"]}
