"""What `explain` has to say: one finding each, with its evidence and what to do about it. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kcli.structs import TopicPartition
from kcli.text import format_partitions

PROBLEM, WARNING, NOTE = "problem", "warning", "note"
SEVERITIES = (PROBLEM, WARNING, NOTE)

_NAMED_AT_MOST = 8


class Finding(NamedTuple):
    """Something about a group that a person should know.

    `kind` is a fixed word for scripts ("committed-below-start"). `severity`: a "problem" loses or stops data now, a
    "warning" may come to that, a "note" explains what is seen. `subject` is the group, a member, a topic, or a
    partition. `evidence` are the facts that led to it, `advice` what to do; both are sentences.
    """

    kind: str
    severity: str
    subject: str
    evidence: str
    advice: str


def most_severe_first(findings: Iterable[Finding]) -> list[Finding]:
    """Problems, then warnings, then notes; among those of a kind in the order in which they were found."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def numbers(values: Iterable[int]) -> str:
    """Return partition numbers with runs joined: `0-3, 7 and 12 more`."""
    return format_partitions(values, ", ", at_most=_NAMED_AT_MOST)


def partitions_of(topic: str, partitions: Sequence[int]) -> str:
    """Partitions of one topic as the subject of a sentence: `orders-3`, `orders partitions 0-2`."""
    return f"{topic}-{partitions[0]}" if len(partitions) == 1 else f"{topic} partitions {numbers(partitions)}"


def named(partitions: Iterable[TopicPartition]) -> str:
    """Partitions of any topics: `orders-0, orders-3 and 5 more`."""
    return listed(map(str, sorted(partitions)))


def listed(names: Iterable[str]) -> str:
    """Names joined by commas, the first few of many."""
    names = list(names)
    left = len(names) - _NAMED_AT_MOST
    return ", ".join(names[:_NAMED_AT_MOST]) + (f" and {left} more" if left > 0 else "")


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 record`, `1,200 records`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def lasting(ms: float) -> str:
    """A length of time for a sentence: `450 ms`, `12 s`, `3 min 7 s`, `5 h`, `2 d 4 h`."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    left, parts = int(ms // 1000), []
    for unit, seconds in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, seconds)
        if amount:
            parts.append(f"{amount} {unit}")
    return " ".join(parts[:2])
