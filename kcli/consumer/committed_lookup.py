"""What a group has committed, asked of its coordinator until it answers or time is over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.client.retry import attempts
from kcli.consumer.committed import ask_committed, read_committed
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.coordinator_lookup import CoordinatorLookup
    from kcli.structs import Node, OffsetAndMetadata, TopicPartition

_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def find_coordinator(client: ConsumerNetworkClient, lookup: CoordinatorLookup, group: str, deadline_ms: float) -> Node:
    """The group's coordinator; TimeoutExpired tells why there is none."""
    while True:
        now_ms = client.clock.now_ms()
        node = lookup.find(now_ms)
        if node is not None:
            return node
        if now_ms >= deadline_ms:
            raise no_coordinator(lookup, group)
        client.poll(timeout_ms=max(0.0, min(deadline_ms, lookup.next_ms()) - now_ms))


def no_coordinator(lookup: CoordinatorLookup, group: str) -> TimeoutExpired:
    """The error for a coordinator that was not found in time."""
    trouble = f": {lookup.trouble}" if lookup.trouble else ""
    return TimeoutExpired(f"no coordinator of group {group} was found in time{trouble}")


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
    for _ in attempts(client, deadline_ms):
        node = find_coordinator(client, lookup, group, deadline_ms)
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
            if not isinstance(error, BrokerError) or error.code in _MOVED:
                lookup.lost(str(error), node)
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


_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
