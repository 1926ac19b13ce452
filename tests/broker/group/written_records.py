"""The records that a broker wrote for a consumer group (KIP-848), in a form that does not depend on the broker.

Kafka writes several changes at a time as one batch, and the records of a target assignment, and tombstones, in the
order of a hash table; so batches do not count, and such neighbours are sorted. The version of resolved expressions is
that of Kafka's metadata log; a broker alone has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from kcli.broker.coordinator_log import key_hash
from kcli.errors import ProtocolError
from kcli.protocol.consumer_group_records import (
    ConsumerGroupTargetAssignmentMemberKey,
    CurrentPartitions,
    TargetPartitions,
    decode_group_record,
)
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.offsets_topic import GroupMetadataKey, decode_group_value, decode_key
from kcli.protocol.records import batch as layout
from kcli.protocol.records.scan import read_pairs
from kcli.structs import OFFSETS_TOPIC
from tests.broker.group.harness import Connection, ask

_FETCH_BY_NAME = 12


def batches_of(client: Connection, group: str, partitions: int) -> Iterator[memoryview]:
    """Read the batches of a group's partition of __consumer_offsets from a broker."""
    offset, number = 0, key_hash(group) % partitions
    while True:
        wanted = FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 22)
        request = FetchRequest(max_bytes=1 << 22, topics=[FetchTopic(topic=OFFSETS_TOPIC, partitions=[wanted])])
        (topic,) = ask(client, request, _FETCH_BY_NAME).responses
        (partition,) = topic.partitions
        assert partition.error_code == 0, partition
        data = memoryview(bytes(partition.records or b""))
        walk = layout.walk_batches(data, 0, len(data))
        if not walk.starts:
            return
        yield from (data[start:end] for start, end in zip(walk.starts, walk.ends, strict=True))
        offset = layout.read_batch_info(data, walk.starts[-1]).last_offset + 1


def records_of(group: str, batches: Iterable[memoryview], normalized: Callable[[Any], Any]) -> list[Any]:
    """Return the records of a group, each as the name of its key's class, its key and its value."""
    records = [record for batch in batches for record in _decoded(batch, group) if _group_of(record[0]) == group]
    hashes: dict[int, str] = {0: "none"}
    rows = []
    for kind, run in groupby(records, lambda record: None if record[1] is None else type(record[0])):
        part = [(type(key).__name__, normalized(key), _comparable(value, normalized, hashes)) for key, value in run]
        rows += sorted(part, key=repr) if kind in (None, ConsumerGroupTargetAssignmentMemberKey) else part
    return rows


def _decoded(batch: memoryview, group: str) -> Iterator[tuple[Any, Any]]:
    for _, key, value in read_pairs(batch):
        assert key is not None
        try:
            record = decode_group_record(key, value)
            old = decode_key(key) if record is None else None
            if isinstance(old, GroupMetadataKey):
                record = old, None if value is None else decode_group_value(value)
        except ProtocolError:  # another test wrote it into the shared partition
            assert group.encode() not in bytes(key), "a record of the group is malformed"
            continue
        if record is not None:
            yield record


def _group_of(key: Any) -> str:
    return str(key.group if isinstance(key, GroupMetadataKey) else key.group_id)


def _comparable(value: Any, normalized: Callable[[Any], Any], hashes: dict[int, str]) -> Any:
    """Return the fields of a value: hashes numbered, times as whether there is one, partitions with their epochs."""
    if value is None:
        return None
    fields = {}
    for name in value.__annotations__:
        field = getattr(value, name)
        if name == "metadata_hash":
            field = hashes.setdefault(field, f"hash {len(hashes)}")
        elif name == "version":
            continue
        elif name in ("assignment_timestamp", "timestamp", "current_state_timestamp"):
            field = field > 0
        elif isinstance(field, list) and field and isinstance(field[0], TargetPartitions | CurrentPartitions):
            field = [_with_epochs(topic, normalized) for topic in field]
        fields[name] = normalized(field)
    return fields


def _with_epochs(topic: TargetPartitions | CurrentPartitions, normalized: Callable[[Any], Any]) -> Any:
    epochs = topic.assignment_epochs if isinstance(topic, CurrentPartitions) else None
    return repr((normalized(topic.topic_id), sorted(zip(topic.partitions, epochs or topic.partitions, strict=True))))
