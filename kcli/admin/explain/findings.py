"""Findings about a group, and the phrases that their sentences share. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.structs import TopicPartition
from kcli.text import format_partitions

if TYPE_CHECKING:
    from kcli.admin.groups.group import GroupMember

PROBLEM, WARNING, NOTE = "problem", "warning", "note"
SEVERITIES = (PROBLEM, WARNING, NOTE)

_MOST_NAMES = 8


class Finding(NamedTuple):
    """One conclusion about a group, with its evidence and advice.

    `kind` is a fixed name for scripts ("committed-below-start"). `severity`: a "problem" loses or stops records now, a
    "warning" may become a problem, a "note" explains what is normal. `subject` is the group, a member, a topic, or a
    partition. `evidence` states the facts with their values, `advice` what to do; both are sentences.
    """

    kind: str
    severity: str
    subject: str
    evidence: str
    advice: str


def sort_by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Return problems, then warnings, then notes; the order within a severity does not change."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def exceeds(findings: Iterable[Finding], fail_on: Collection[str]) -> bool:
    """Return whether a finding has one of these kinds, or one of these severities or a higher one."""
    lowest = max((SEVERITIES.index(name) for name in fail_on if name in SEVERITIES), default=-1)
    return any(finding.kind in fail_on or SEVERITIES.index(finding.severity) <= lowest for finding in findings)


def format_topic_partitions(topic: str, partitions: Sequence[int]) -> str:
    """Return partitions of one topic: `orders-3`, `orders partitions 0-2`."""
    if len(partitions) == 1:
        return f"{topic}-{partitions[0]}"
    return f"{topic} partitions {format_partitions(partitions, ', ', at_most=_MOST_NAMES)}"


def join_partitions(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions of any topics, sorted: `orders-0, orders-3 and 5 more`."""
    return join_names(map(str, sorted(partitions)))


def join_names(names: Iterable[str], separator: str = ", ") -> str:
    """Return the first names joined, and the number of the others: `a, b and 5 more`."""
    names = list(names)
    rest = len(names) - _MOST_NAMES
    return separator.join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def name_brokers(nodes: Collection[int]) -> str:
    """Return `broker 3`, `brokers 1, 2` or `none`."""
    return f"broker{'' if len(nodes) == 1 else 's'} {join_names(map(str, nodes))}" if nodes else "none"


def one_of_brokers(nodes: Collection[int]) -> str:
    """Return `broker 3`, or `one of brokers 1, 2`."""
    return name_brokers(nodes) if len(nodes) == 1 else f"one of {name_brokers(nodes)}"


def quantity(number: int, noun: str) -> str:
    """Return a number with thousands separators and its noun: `1 record`, `1,200 records`."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def member_name(member: GroupMember) -> str:
    """Return the name by which a person finds a member: its instance id or client id, and its host."""
    if member.instance_id:
        name = f"{member.instance_id} (static)"
    else:  # brokers derive member ids of classic groups from the client id; those of KIP-848 members are random
        has_client_id = not member.client_id or member.id.startswith(member.client_id)
        name = member.id if has_client_id else f"{member.client_id} ({member.id})"
    return f"{name} on {member.host}" if member.host else name


def join_members(members: Iterable[GroupMember]) -> str:
    """Return the names of members: `billing-1 on 10.0.0.9, billing-2 on 10.0.0.7 and 5 more`."""
    return join_names(map(member_name, members))
