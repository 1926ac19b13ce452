"""Preview of plans: the first record at each new offset, and estimates of the bytes that are read again or skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.logs.first_records import Sample, first_record
from kcli.admin.logs.log_bounds import learn_topics
from kcli.admin.logs.record_times import records_at
from kcli.admin.logs.sizes import log_sizes
from kcli.admin.offsets.offset_plan import OffsetRow
from kcli.client.requests import half_deadline
from kcli.errors import KcliError, TimeoutExpired
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.fetch import PartitionData

# Requests for the record at one offset of each partition. Batches of usual sizes need one or two.
_MAX_ATTEMPTS = 6


class Preview(NamedTuple):
    """Rows with `first` and `bytes` where they could be read, and the errors of the other partitions."""

    rows: list[OffsetRow]
    errors: Mapping[TopicPartition, KcliError]


def preview(client: ConsumerNetworkClient, rows: Iterable[OffsetRow], deadline_ms: float) -> Preview:
    """Read the logs of these rows: a Fetch and a DescribeLogDirs per leader, a few more for large batches.

    A failure does not prevent the plan. `first` is None also if the new offset is the end of the log.
    """
    all_rows = list(rows)
    moved = [row for row in all_rows if row.new is not None and row.action in ("move", "keep")]
    learn_topics(client, {row.tp.topic for row in moved}, half_deadline(client, deadline_ms))
    data = _read_logs(client, moved, half_deadline(client, deadline_ms))
    sizes = _sizes(client, {row.tp for row in moved if row.tp in data.offsets and _count(row)}, deadline_ms)
    return Preview([_previewed(row, data, sizes) for row in all_rows], data.errors)


class _LogData(NamedTuple):
    """Data from the leaders: records by partition and offset, and the number of offsets in each log."""

    samples: dict[tuple[TopicPartition, int], Sample]
    offsets: dict[TopicPartition, int]
    errors: dict[TopicPartition, KcliError]


def _count(row: OffsetRow) -> int:
    return row.reread or row.skipped


def _previewed(row: OffsetRow, data: _LogData, sizes: Mapping[TopicPartition, int]) -> OffsetRow:
    if row.new is None or row.action not in ("move", "keep"):
        return row
    sample = data.samples.get((row.tp, row.new.offset))
    return replace(
        row,
        first=sample.record if sample is not None else None,
        bytes=estimate_bytes(_count(row), data.offsets.get(row.tp, 0), sizes.get(row.tp), sample),
    )


def estimate_bytes(count: int, offsets: int, log_bytes: int | None, sample: Sample | None) -> int | None:
    """Estimate the size of `count` offsets on disk: their part of the log, otherwise by the size of the fetched batch.

    `offsets` is the number of offsets in the log, `log_bytes` its size. None if neither is known.
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
    """Return the sizes of the logs; none without permission to describe the cluster."""
    try:
        return log_sizes(client, partitions, deadline_ms).values
    except TimeoutExpired:
        return {}


def _read_logs(client: ConsumerNetworkClient, rows: Iterable[OffsetRow], deadline_ms: float) -> _LogData:
    """Fetch at the new offsets. Partitions without a leader are left out, so that a preview does not wait for one."""
    data = _LogData({}, {}, {})

    def on_response(tp: TopicPartition, partition: PartitionData) -> None:
        if not partition.error_code and partition.log_start_offset >= 0:
            data.offsets[tp] = partition.high_watermark - partition.log_start_offset

    with_leader = [row for row in rows if client.metadata.leader(row.tp).node is not None]
    for wanted in _rounds(with_leader):
        try:
            results = records_at(
                client,
                wanted,
                deadline_ms,
                first_record,
                Sample(None),
                on_response=on_response,
                max_attempts=_MAX_ATTEMPTS,
            )
        except TimeoutExpired as error:
            data.errors.update(dict.fromkeys(wanted, error))
            break
        data.samples.update({(tp, wanted[tp]): sample for tp, sample in results.values.items()})
        data.errors.update(results.errors)
    return data


def _rounds(rows: Iterable[OffsetRow]) -> Iterator[dict[TopicPartition, int]]:
    """Yield one offset per partition at a time: a request has one, and groups may have different ones."""
    pending: dict[TopicPartition, set[int]] = {}
    for row in rows:
        if row.new is not None:
            pending.setdefault(row.tp, set()).add(row.new.offset)
    while pending:
        yield {tp: offsets.pop() for tp, offsets in pending.items()}
        pending = {tp: offsets for tp, offsets in pending.items() if offsets}
