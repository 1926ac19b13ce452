"""Findings of `explain`: evidence and advice, and the formatters of their sentences. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.structs import TopicPartition
from kcli.text import format_partitions

if TYPE_CHECKING:
    from kcli.admin.groups.group import GroupMember

PROBLEM, WARNING, NOTE = "problem", "warning", "note"
SEVERITIES = (PROBLEM, WARNING, NOTE)

_MAX_NAMED = 8


class Finding(NamedTuple):
    """One result of a rule.

    `kind` is a fixed name for scripts ("committed-below-start"). `severity`: a "problem" loses or stops records now, a
    "warning" may become a problem, a "note" explains what is normal. `subject` is the group, a member, a topic, or a
    partition. `evidence` are the facts, `advice` is the action; both are sentences.
    """

    kind: str
    severity: str
    subject: str
    evidence: str
    advice: str


def most_severe_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity, problems first; findings of equal severity keep their order."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def numbers(values: Iterable[int]) -> str:
    """Return partition numbers with runs joined: `0-3, 7 and 12 more`."""
    return format_partitions(values, ", ", at_most=_MAX_NAMED)


def partitions_of(topic: str, partitions: Sequence[int]) -> str:
    """Return partitions of one topic as a subject: `orders-3`, `orders partitions 0-2`."""
    return f"{topic}-{partitions[0]}" if len(partitions) == 1 else f"{topic} partitions {numbers(partitions)}"


def named(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions of any topics: `orders-0, orders-3 and 5 more`."""
    return listed(map(str, sorted(partitions)))


def listed(names: Iterable[str]) -> str:
    """Return names joined by commas; of many, the first ones and the number of the others."""
    names = list(names)
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def count(number: int, noun: str, plural: str = "") -> str:
    """Return `1 record`, `1,200 records`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def member_name(member: GroupMember) -> str:
    """Return the name of a member: its instance id, else its client id with the member id; and its host."""
    if member.instance_id:
        name = f"{member.instance_id} (static)"
    else:  # a member id begins with the client id, except in KIP-848 groups, where it is random
        named_by_client = not member.client_id or member.id.startswith(member.client_id)
        name = member.id if named_by_client else f"{member.client_id} ({member.id})"
    return f"{name} on {member.host}" if member.host else name
