"""Meaning of one partition's part of a fetch response: records, a retry, or a failure. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.consumer.fetch_session import PartitionFetch
from kcli.error_codes import ErrorCode
from kcli.errors import CorruptRecords, KcliError, LogTruncated, OffsetOutOfRange
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.protocol.messages.fetch import FetchResponse, PartitionData

# Errors of a request to the wrong broker, or before the broker is ready.
_RETRIED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class Verdict(NamedTuple):
    """The outcome for one partition. At most one field is set; with none set, the records can be read.

    `retry`: refresh the metadata and fetch again later. `failure`: an error for the caller. `epoch`: the leader has the
    records before the position, under this older epoch.
    """

    retry: KcliError | None = None
    failure: KcliError | None = None
    epoch: int | None = None


def judge_partition(
    tp: TopicPartition, requested: PartitionFetch, response: FetchResponse, data: PartitionData, node_id: int
) -> Verdict:
    """Return the verdict on `data` in the response of broker `node_id` to `requested`."""
    if data.error_code:
        return _judge_error(tp, requested, response, data.error_code, node_id)
    diverging = data.diverging_epoch
    if diverging.end_offset < 0 and diverging.epoch < 0:
        return Verdict()
    return judge_epoch_end(tp, requested.offset, requested.last_epoch, diverging.epoch, diverging.end_offset)


def judge_epoch_end(tp: TopicPartition, offset: int, epoch: int, end_epoch: int, end_offset: int) -> Verdict:
    """Compare a position with the end offset, on the leader, of the largest epoch <= `epoch` (KIP-320).

    An end offset at or after the position is no contradiction: `epoch` may have no records on the current leader.
    """
    if end_offset >= offset and end_epoch >= 0:
        return Verdict(epoch=end_epoch)
    text = (
        f"the log of {tp} was truncated: it diverges from the records read at offset {end_offset}; "
        f"the position is {offset}"
    )
    if end_offset < 0:
        text = f"the log of {tp} was truncated: it contains none of the records read before position {offset}"
    error = LogTruncated(
        text,
        topic=tp.topic,
        partition=tp.partition,
        offset=offset,
        epoch=epoch,
        end_offset=end_offset,
        end_epoch=end_epoch,
    )
    return Verdict(failure=error)


def _judge_error(
    tp: TopicPartition, requested: PartitionFetch, response: FetchResponse, error_code: int, node_id: int
) -> Verdict:
    code = ErrorCode.of(error_code)
    topic, partition = tp
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        text = f"offset {requested.offset} of {tp} is out of range: before the log start or after the log end"
        return Verdict(failure=OffsetOutOfRange(text, topic=topic, partition=partition, offset=requested.offset))
    if code == ErrorCode.CORRUPT_MESSAGE:
        text = f"the broker reports a corrupt log of {tp} at offset {requested.offset}"
        corrupt = CorruptRecords(text, topic=topic, partition=partition, offset=requested.offset, node=node_id)
        return Verdict(failure=corrupt)
    error = response.broker_error(error_code, api="Fetch", node=node_id, topic=topic, partition=partition)
    return Verdict(retry=error) if code in _RETRIED or code.retriable else Verdict(failure=error)
