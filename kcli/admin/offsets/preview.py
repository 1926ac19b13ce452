"""What plans do to readers: the first record at each new offset, and the bytes read again or skipped, as estimates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.logs.first_records import Sample, first_record
from kcli.admin.logs.log_bounds import learn_topics
from kcli.admin.logs.record_times import records_at
from kcli.admin.logs.sizes import log_sizes
from kcli.admin.offsets.offset_plan import Row
from kcli.client.requests import half_deadline
from kcli.errors import KcliError, TimeoutExpired
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.fetch import PartitionData

# Rounds of requests for the records at one offset of each partition. Batches of usual sizes take one or two.
_MOST_LOOKS = 6


class Preview(NamedTuple):
    """The rows with `first` and `bytes` where they could be had, and why they could not in some partitions."""

    rows: list[Row]
    errors: Mapping[TopicPartition, KcliError]


def preview(client: ConsumerNetworkClient, rows: Iterable[Row], deadline_ms: float) -> Preview:
    """Look at the logs behind these rows: a Fetch and a DescribeLogDirs per leader, a few more for large batches.

    Nothing here keeps a plan from being applied. `first` is None also where the new offset is the end of the log.
    """
    all_rows = list(rows)
    aimed = [row for row in all_rows if row.new is not None and row.action in ("move", "keep")]
    learn_topics(client, {row.tp.topic for row in aimed}, half_deadline(client, deadline_ms))
    looks = _look(client, aimed, half_deadline(client, deadline_ms))
    sizes = _sizes(client, {row.tp for row in aimed if row.tp in looks.offsets and _count(row)}, deadline_ms)
    return Preview([_previewed(row, looks, sizes) for row in all_rows], looks.errors)


class _Looks(NamedTuple):
    """What the leaders showed: records by partition and offset, and how many offsets each log has."""

    samples: dict[tuple[TopicPartition, int], Sample]
    offsets: dict[TopicPartition, int]
    errors: dict[TopicPartition, KcliError]


def _count(row: Row) -> int:
    return row.reread or row.skipped


def _previewed(row: Row, looks: _Looks, sizes: Mapping[TopicPartition, int]) -> Row:
    if row.new is None or row.action not in ("move", "keep"):
        return row
    sample = looks.samples.get((row.tp, row.new.offset))
    return row._replace(
        first=sample.record if sample is not None else None,
        bytes=estimate_bytes(_count(row), looks.offsets.get(row.tp, 0), sizes.get(row.tp), sample),
    )


def estimate_bytes(count: int, offsets: int, log_bytes: int | None, sample: Sample | None) -> int | None:
    """What `count` offsets may take on disk: their part of the log, else as many as in the batch that was seen.

    `offsets` is how many the log has, on `log_bytes`; None if nothing is known to make an estimate of.
    """
    if not count:
        return 0
    if log_bytes is not None and offsets > 0:
        return round(log_bytes * min(count / offsets, 1))
    if sample is not None and sample.batch_offsets > 0:
        return round(sample.batch_bytes * count / sample.batch_offsets)
    return None


def _sizes(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], deadline_ms: float
) -> Mapping[TopicPartition, int]:
    """Bytes of the logs whose leaders tell them: who may not describe the cluster is not told."""
    try:
        return log_sizes(client, partitions, deadline_ms).values
    except TimeoutExpired:
        return {}


def _look(client: ConsumerNetworkClient, rows: Iterable[Row], deadline_ms: float) -> _Looks:
    """Fetch at the new offsets. Partitions without a leader are left out: a preview is not worth waiting for one."""
    looks = _Looks({}, {}, {})

    def see(tp: TopicPartition, told: PartitionData) -> None:
        if not told.error_code and told.log_start_offset >= 0:
            looks.offsets[tp] = told.high_watermark - told.log_start_offset

    led = [row for row in rows if client.metadata.leader(row.tp).node is not None]
    for turn in _turns(led):
        try:
            found = records_at(client, turn, deadline_ms, first_record, Sample(None), see=see, most_looks=_MOST_LOOKS)
        except TimeoutExpired as late:
            looks.errors.update(dict.fromkeys(turn, late))
            break
        looks.samples.update({(tp, turn[tp]): sample for tp, sample in found.values.items()})
        looks.errors.update(found.errors)
    return looks


def _turns(rows: Iterable[Row]) -> Iterator[dict[TopicPartition, int]]:
    """A request asks for one offset of a partition, so groups that go to different ones take turns."""
    left: dict[TopicPartition, set[int]] = {}
    for row in rows:
        if row.new is not None:
            left.setdefault(row.tp, set()).add(row.new.offset)
    while left:
        yield {tp: offsets.pop() for tp, offsets in left.items()}
        left = {tp: offsets for tp, offsets in left.items() if offsets}
