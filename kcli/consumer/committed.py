"""What a group has committed, asked of its coordinator: once, or until it has answered or time is over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, UnsupportedVersion
from kcli.structs import Node, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

# The newest version that asks about one group in the old form, and the first that waits for open transactions.
NEWEST_VERSION = 7
_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def fetch_committed(
    client: ConsumerNetworkClient,
    lookup: CoordinatorLookup,
    group: str,
    partitions: Iterable[TopicPartition],
    deadline_ms: float,
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """The committed offset of each partition, None where there is none.

    Raises BrokerError (GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED with all its topics) and TimeoutExpired.
    """
    wanted = list(partitions)
    last: KcliError | None = None
    if not wanted:
        return {}
    for _ in client.attempts(deadline_ms):
        node = lookup.await_node(deadline_ms)
        future = ask_committed(client, node, group, wanted)
        if not client.poll(until=future, timeout_ms=max(0.0, deadline_ms - client.clock.now_ms())):
            break
        try:
            found = dict(read_committed(future.value()))
            return {tp: it for tp, it in _checked(found, group).items() if tp in set(wanted)}
        except KcliError as error:
            if not error.retriable:
                raise
            last = error
            lookup.heard(error, node)
    raise client.timed_out(f"the committed offsets of group {group}", last=last)


def _checked(
    found: dict[TopicPartition, OffsetAndMetadata | BrokerError | None], group: str
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    errors = [it for it in found.values() if isinstance(it, BrokerError)]
    refused = {tp.topic for tp, it in found.items() if isinstance(it, BrokerError) and it.code == _REFUSED}
    if refused:
        raise BrokerError(_REFUSED, api="OffsetFetch", group=group, topics=", ".join(sorted(refused)))
    for error in errors:
        raise error
    return {tp: it for tp, it in found.items() if not isinstance(it, BrokerError)}


def ask_committed(
    client: ConsumerNetworkClient, node: Node, group: str, partitions: Iterable[TopicPartition]
) -> RequestFuture[OffsetFetchResponse]:
    """Ask a group's coordinator for its offsets.

    An offset that an open transaction is about to change is refused with UNSTABLE_OFFSET_COMMIT (KIP-447), which is to
    be tried again; brokers before 2.5 know nothing of that, and tell the one before.
    """
    wanted = list(partitions)

    def ask_older(error: KcliError) -> RequestFuture[OffsetFetchResponse]:
        if not isinstance(error, UnsupportedVersion):
            raise error
        return client.send(node, committed_request(group, wanted), max_version=NEWEST_VERSION - 1)

    request = committed_request(group, wanted, require_stable=True)
    return client.send(node, request, min_version=NEWEST_VERSION, max_version=NEWEST_VERSION).recover(ask_older)


def committed_request(
    group: str, partitions: Iterable[TopicPartition], *, require_stable: bool = False
) -> OffsetFetchRequest:
    """The question in the form that v7 and older have; `require_stable` needs v7."""
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

    topics: dict[str, OffsetFetchRequestTopic] = {}
    for tp in partitions:
        topic = topics.setdefault(tp.topic, OffsetFetchRequestTopic(name=tp.topic, partition_indexes=[]))
        topic.partition_indexes.append(tp.partition)
    return OffsetFetchRequest(group_id=group, topics=list(topics.values()), require_stable=require_stable)


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
