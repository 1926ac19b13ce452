"""What plans do to readers: the first record at each new offset, and the bytes read again or skipped, as estimates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.bounds import LogBounds, learn_topics, log_bounds
from kcli.admin.groups.patience import half_of
from kcli.admin.groups.record_times import records_at
from kcli.admin.log_sizes import log_sizes
from kcli.admin.offsets.first_records import Sample, first_record
from kcli.admin.offsets.plan import Row
from kcli.errors import KcliError, TimeoutExpired
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient

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
    errors: dict[TopicPartition, KcliError] = {}
    learn_topics(client, {row.tp.topic for row in aimed}, half_of(client, deadline_ms))
    bounds = log_bounds(client, {row.tp for row in aimed}, half_of(client, deadline_ms))
    errors.update({tp: it for tp, it in [*bounds.ends.items(), *bounds.starts.items()] if isinstance(it, KcliError)})
    sizes = _sizes(client, {row.tp for row in aimed if row.reread or row.skipped}, half_of(client, deadline_ms))
    samples = _samples(client, aimed, bounds, deadline_ms, errors)
    return Preview([_previewed(row, bounds, sizes, samples) for row in all_rows], errors)


def _previewed(
    row: Row,
    bounds: LogBounds,
    sizes: Mapping[TopicPartition, int],
    samples: Mapping[tuple[TopicPartition, int], Sample],
) -> Row:
    if row.new is None or row.action not in ("move", "keep"):
        return row
    sample = samples.get((row.tp, row.new.offset))
    start, end = bounds.starts.get(row.tp), bounds.ends.get(row.tp)
    offsets = end - start if isinstance(start, int) and isinstance(end, int) else 0
    return row._replace(
        first=sample.record if sample is not None else None,
        bytes=estimate_bytes(row.reread or row.skipped, offsets, sizes.get(row.tp), sample),
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


def _samples(
    client: ConsumerNetworkClient,
    rows: Iterable[Row],
    bounds: LogBounds,
    deadline_ms: float,
    errors: dict[TopicPartition, KcliError],
) -> dict[tuple[TopicPartition, int], Sample]:
    """The records at the new offsets, by partition and offset; what cannot be had is put into `errors`."""
    samples: dict[tuple[TopicPartition, int], Sample] = {}
    for turn in _turns(rows, bounds):
        try:
            found = records_at(client, turn, deadline_ms, first_record, Sample(None), most_looks=_MOST_LOOKS)
        except TimeoutExpired as late:
            errors.update(dict.fromkeys(turn, late))
            break
        samples.update({(tp, turn[tp]): sample for tp, sample in found.values.items()})
        errors.update(found.errors)
    return samples


def _turns(rows: Iterable[Row], bounds: LogBounds) -> Iterator[dict[TopicPartition, int]]:
    """A request asks for one offset of a partition, so groups that go to different ones take turns."""
    left: dict[TopicPartition, set[int]] = {}
    for row in rows:
        end = bounds.ends.get(row.tp)
        if row.new is not None and isinstance(end, int) and row.new.offset < end:
            left.setdefault(row.tp, set()).add(row.new.offset)
    while left:
        yield {tp: offsets.pop() for tp, offsets in left.items()}
        left = {tp: offsets for tp, offsets in left.items() if offsets}
