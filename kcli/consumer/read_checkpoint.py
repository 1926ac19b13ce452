"""Checkpoint of a read without a group: the positions that its output has reached. Pure.

A `Checkpoint` is written after the records before its positions. It also has the length of the output at that time,
so that a restart after a kill can cut off what was written later and read it again: nothing is lost, nothing doubled.
`closed` is set at the orderly end of a read: the output then ends exactly at the positions.

    {"kcli": 1, "kind": "consume.checkpoint", "cluster_id": "...", "topics": [{"topic": "orders", "topic_id": "...",
     "chosen": null, "partitions": [{"partition": 0, "offset": 12, "leader_epoch": 3}]}], "pattern": null,
     "control": false, "output": {"device": 1, "inode": 2, "length": 3, "digest": "...", "path": "..."},
     "closed": false}

`chosen` is the list of the partitions that are read; null: all, with those that are added later. `control` is true if
transaction markers are read instead of records. `output` is null unless it is a regular file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from kcli.consumer.read_range import ReadRange
from kcli.consumer.subscription import FetchPosition
from kcli.errors import ConfigError, Refused
from kcli.log_place import LOG_START, Place
from kcli.structs import TopicPartition, numbers_by_topic
from kcli.text import format_partitions

if TYPE_CHECKING:
    from kcli.consumer.read_range import ResolvedRange

KIND = "consume.checkpoint"
VERSION = 1


class OutputMark(NamedTuple):
    """The output file and its length. `digest` is that of its last bytes; "" if they cannot be read."""

    device: int
    inode: int
    length: int
    digest: str = ""
    path: str = ""

    def is_of(self, other: OutputMark) -> bool:
        """Return whether both are marks of one file. A device number may change when a machine is started again."""
        return self.inode == other.inode and (bool(self.digest) or self.device == other.device)


class Selection(NamedTuple):
    """The topics that are read, each with its partitions (None: all), and the pattern that chose them.

    `control`: their transaction markers are read, and not their records.
    """

    topics: Mapping[str, tuple[int, ...] | None]
    pattern: str | None = None
    control: bool = False

    def __str__(self) -> str:
        texts = ["--control"] if self.control else []
        if self.pattern is not None:
            return " ".join([*texts, f"--topics {self.pattern}"])
        texts += [
            name if numbers is None else f"{name}:{format_partitions(numbers)}" for name, numbers in self.topics.items()
        ]
        return " ".join(texts)

    def is_like(self, other: Selection) -> bool:
        """Return whether both choose the same; with one pattern, the topics that match may differ."""
        if self.control != other.control:
            return False
        if self.pattern is not None or other.pattern is not None:
            return self.pattern == other.pattern
        return dict(self.topics) == dict(other.topics)


class Checkpoint(NamedTuple):
    """Positions of a read, see the module. An id that the brokers do not return is None."""

    cluster_id: str | None
    selection: Selection
    topic_ids: Mapping[str, UUID | None]
    positions: Mapping[TopicPartition, FetchPosition]
    output: OutputMark | None = None
    closed: bool = False


# --- the file's text


def format_checkpoint(checkpoint: Checkpoint) -> str:
    """Return the text of a checkpoint."""
    chosen = checkpoint.selection.topics
    document = {
        "kcli": VERSION,
        "kind": KIND,
        "cluster_id": checkpoint.cluster_id,
        "pattern": checkpoint.selection.pattern,
        "control": checkpoint.selection.control,
        "topics": [
            {
                "topic": topic,
                "topic_id": None if (topic_id := checkpoint.topic_ids.get(topic)) is None else str(topic_id),
                "chosen": None if (numbers := chosen.get(topic)) is None else list(numbers),
                "partitions": [
                    {"partition": number, "offset": position.offset, "leader_epoch": position.epoch}
                    for number in sorted(partitions)
                    for position in [checkpoint.positions[TopicPartition(topic, number)]]
                ],
            }
            for topic, partitions in sorted(numbers_by_topic(checkpoint.positions).items())
        ],
        "output": None if checkpoint.output is None else checkpoint.output._asdict(),
        "closed": checkpoint.closed,
    }
    # With `indent`, Python's own encoder runs: each call leaves a cycle of closures, which a process that allocates
    # little keeps for half an hour. The C encoder leaves nothing.
    return json.dumps(document) + "\n"


def parse_checkpoint(text: str, name: str) -> Checkpoint:
    """Return the checkpoint of a text, read from the file `name`. ConfigError for a text that is not a checkpoint."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict) or document.get("kind") != KIND:
            raise ConfigError(f"{name} is not a checkpoint of kcli consume; use another file")
        if document["kcli"] != VERSION:
            raise ConfigError(
                f"{name} is a checkpoint of version {document['kcli']}; this kcli reads version {VERSION}"
            )
        return _checkpoint(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{name} is not a valid checkpoint: {error}") from None


def _checkpoint(document: dict[str, Any]) -> Checkpoint:
    positions, chosen, topic_ids = {}, {}, {}
    for item in document["topics"]:
        topic = str(item["topic"])
        topic_ids[topic] = None if item["topic_id"] is None else UUID(item["topic_id"])
        chosen[topic] = None if item["chosen"] is None else tuple(map(int, item["chosen"]))
        for row in item["partitions"]:
            offset = int(row["offset"])
            if offset < 0:
                raise ValueError(f"offset {offset} of {topic}")
            positions[TopicPartition(topic, int(row["partition"]))] = FetchPosition(offset, int(row["leader_epoch"]))
    output = document["output"]
    mark = None if output is None else OutputMark(**{field: output[field] for field in OutputMark._fields})
    selection = Selection(chosen, document["pattern"], bool(document.get("control")))
    return Checkpoint(document["cluster_id"], selection, topic_ids, positions, mark, bool(document["closed"]))


# --- a restart


def resume_ranges(
    checkpoint: Checkpoint,
    name: str,
    cluster_id: str | None,
    selection: Selection,
    topic_ids: Mapping[str, UUID | None],
    ranges: Mapping[TopicPartition, ReadRange],
) -> dict[TopicPartition, ReadRange]:
    """Return the ranges with the starts of the checkpoint in the file `name`.

    A partition that the checkpoint does not have was added since, and is read from its start. Raise Refused if the
    positions are not those of these topics.
    """
    if None not in (checkpoint.cluster_id, cluster_id) and checkpoint.cluster_id != cluster_id:
        raise Refused(
            f"{name} is a checkpoint of cluster {checkpoint.cluster_id}, and this is cluster {cluster_id}; "
            "use another file"
        )
    if not checkpoint.selection.is_like(selection):
        raise Refused(f"{name} is a checkpoint of {checkpoint.selection}, not of {selection}; use another file")
    for topic, before in checkpoint.topic_ids.items():
        now = topic_ids.get(topic)
        if None not in (before, now) and before != now:
            raise Refused(
                f"{name}: topic {topic} was deleted and created again after the checkpoint; "
                "remove the file to read the new topic"
            )
    gone = [tp for tp in checkpoint.positions if tp not in ranges and (tp.topic in topic_ids or not selection.pattern)]
    if gone:
        raise Refused(f"{name}: {_first(gone)} of the checkpoint does not exist; remove the file to start anew")
    starts = {tp: Place.offset(position.offset) for tp, position in checkpoint.positions.items()}
    return {tp: asked._replace(start=starts.get(tp, LOG_START)) for tp, asked in ranges.items()}


def check_resolved(checkpoint: Checkpoint, name: str, resolved: Mapping[TopicPartition, ResolvedRange]) -> None:
    """Raise Refused if a log ends before the position of the checkpoint: its records there are not the same."""
    for tp, position in checkpoint.positions.items():
        if tp in resolved and resolved[tp].log_end < position.offset:
            raise Refused(
                f"{name}: the checkpoint of {tp.topic} {tp.partition} is at offset {position.offset}, after the log "
                f"end {resolved[tp].log_end}: the log was truncated; remove the file to start anew"
            )


def check_output(checkpoint: Checkpoint, name: str, output: OutputMark | None) -> int | None:
    """Return the length to which the output must be cut before records are written again; None: not at all.

    `output` is the present output, with the digest of its bytes before the length in the checkpoint; None if it is not
    a regular file. Raise Refused if records after the checkpoint may be in another place.
    """
    before = checkpoint.output
    if checkpoint.closed or before is None:
        return None
    where = before.path or f"the file with inode {before.inode}"
    if output is None or not before.is_of(output):
        raise Refused(f"{name}: the read was killed while it wrote to {where}; append to that file (>>)")
    if output.length < before.length:
        raise Refused(
            f"{name}: the output has {output.length} bytes and had {before.length} at the checkpoint; "
            "append to it (>>) instead of replacing it (>)"
        )
    if before.digest and output.digest and output.digest != before.digest:
        raise Refused(f"{name}: the output {where} was changed after the checkpoint; use another file for both")
    return before.length


def _first(partitions: Iterable[TopicPartition]) -> str:
    tp = min(partitions)
    return f"partition {tp.partition} of topic {tp.topic}"
