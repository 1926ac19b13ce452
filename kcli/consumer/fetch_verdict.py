"""What one partition's part of a fetch response means. Pure: the verdict is data, acting on it is the fetcher's."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.consumer.fetch_session import Ask
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords, KcliError, LogTruncated, OffsetOutOfRange
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.protocol.messages.fetch import PartitionData

# Signs that we are asking the wrong broker, or too early.
_ASK_AGAIN = frozenset(
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
    """At most one is set. All None: the records, if any, are good to be read.

    `retry`: learn the leaders anew and ask again later. `failure`: only the caller can help. `epoch`: the leader knows
    what we have read up to our position, but under this older epoch.
    """

    retry: KcliError | None = None
    failure: KcliError | None = None
    epoch: int | None = None


def judge(tp: TopicPartition, asked: Ask, data: PartitionData, node_id: int) -> Verdict:
    """The verdict on the answer of broker `node_id` to `asked`."""
    if data.error_code:
        return _judge_error(tp, asked, data.error_code, node_id)
    diverging = data.diverging_epoch
    if diverging.end_offset < 0 and diverging.epoch < 0:
        return Verdict()
    return judge_end_of_epoch(tp, asked.offset, asked.last_epoch, diverging.epoch, diverging.end_offset)


def judge_end_of_epoch(tp: TopicPartition, offset: int, epoch: int, end_epoch: int, end_offset: int) -> Verdict:
    """What it means for a position that the leader's log of the largest epoch <= `epoch` ends there (KIP-320).

    An end behind the position contradicts nothing: `epoch` may have had no records on the leader that is now.
    """
    if end_offset >= offset and end_epoch >= 0:
        return Verdict(epoch=end_epoch)
    text = (
        f"the log of {tp} was truncated: it agrees with what was read only up to {end_offset}, the position is {offset}"
    )
    if end_offset < 0:
        text = f"the log of {tp} was truncated: it knows nothing of what was read before position {offset}"
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


def _judge_error(tp: TopicPartition, asked: Ask, error_code: int, node_id: int) -> Verdict:
    code = ErrorCode.of(error_code)
    topic, partition = tp
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        text = f"offset {asked.offset} of {tp} is out of range: before the log's start or beyond its end"
        return Verdict(failure=OffsetOutOfRange(text, topic=topic, partition=partition, offset=asked.offset))
    if code == ErrorCode.CORRUPT_MESSAGE:
        text = f"the broker found its own log of {tp} corrupt at offset {asked.offset}"
        found = CorruptRecords(text, topic=topic, partition=partition, offset=asked.offset, node=node_id)
        return Verdict(failure=found)
    error = BrokerError(error_code, api="Fetch", node=node_id, topic=topic, partition=partition)
    return Verdict(retry=error) if code in _ASK_AGAIN or code.retriable else Verdict(failure=error)
