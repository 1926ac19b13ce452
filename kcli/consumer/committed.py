"""What a group has committed: the question to its coordinator, and the answer by partition. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kcli.errors import BrokerError
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

# The newest version that asks about one group in the old form.
NEWEST_VERSION = 7


def committed_request(group: str, partitions: Iterable[TopicPartition]) -> OffsetFetchRequest:
    """Ask a group's coordinator for its offsets, in the form that v7 and older have."""
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

    topics: dict[str, OffsetFetchRequestTopic] = {}
    for tp in partitions:
        topic = topics.setdefault(tp.topic, OffsetFetchRequestTopic(name=tp.topic, partition_indexes=[]))
        topic.partition_indexes.append(tp.partition)
    return OffsetFetchRequest(group_id=group, topics=list(topics.values()))


def read_committed(
    response: OffsetFetchResponse,
) -> Iterator[tuple[TopicPartition, OffsetAndMetadata | BrokerError | None]]:
    """The answer to `committed_request`; None: nothing is committed. A refusal of the whole request is raised."""
    if response.error_code:
        raise BrokerError(response.error_code, api="OffsetFetch")
    for topic in response.topics:
        for it in topic.partitions:
            tp = TopicPartition(topic.name, it.partition_index)
            if it.error_code:
                yield tp, BrokerError(it.error_code, api="OffsetFetch", topic=tp.topic, partition=tp.partition)
            elif it.committed_offset < 0:
                yield tp, None
            else:
                yield tp, OffsetAndMetadata(it.committed_offset, it.committed_leader_epoch, it.metadata or "")
