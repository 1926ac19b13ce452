"""Which partitions are read: assign, subscribe or subscribePattern, and what of it must exist. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kcli.errors import NotFound
from kcli.structs import TopicPartition


class Assign(NamedTuple):
    """Exactly these partitions."""

    partitions: frozenset[TopicPartition]


class Subscribe(NamedTuple):
    """All partitions of these topics."""

    topics: tuple[str, ...]


class Pattern(NamedTuple):
    """All partitions of the topics whose whole name matches; see `kcli.spark.patterns` for what may be written."""

    regex: str


Selection = Assign | Subscribe | Pattern


def missing_names(selection: Selection | None, found: Collection[TopicPartition]) -> list[str]:
    """What was named and is not among the partitions that exist; a pattern names nothing."""
    if isinstance(selection, Assign):
        return [str(tp) for tp in sorted(selection.partitions - set(found))]
    if isinstance(selection, Subscribe):
        topics = {tp.topic for tp in found}
        return [topic for topic in selection.topics if topic not in topics]
    return []


def check_exists(selection: Selection | None, found: Collection[TopicPartition]) -> None:
    """NotFound for topics or partitions that were named and are not there."""
    missing = missing_names(selection, found)
    if missing:
        what = "partition" if isinstance(selection, Assign) else "topic"
        plural, verb = ("s", "do") if len(missing) > 1 else ("", "does")
        raise NotFound(f"{what}{plural} {', '.join(missing)} {verb} not exist")
