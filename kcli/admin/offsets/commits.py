"""Commits and deletions of offsets from outside the groups (OffsetCommit, OffsetDelete of KIP-496).

Requests are small enough for a broker to store and are sent to all coordinators side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kcli.admin.groups.committed_offsets import committed_offsets
from kcli.client.offset_commit import LAST_VERSION_WITH_NAMES, commit_request, partition_codes
from kcli.client.requests import Located, Results, fan_out_changes, half_deadline
from kcli.client.routing import COORDINATOR_ERRORS, Coordinators, ask_coordinator
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, WakeupError
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.offset_commit import OffsetCommitRequest
    from kcli.protocol.wire import Request

    # New offset by partition; None deletes the offset.
    Changes: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata | None]
    Key: TypeAlias = tuple[str, TopicPartition]
    Outcomes: TypeAlias = dict[Key, KcliError | None]
    from kcli.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

# A coordinator writes all of a request as one batch, which may be as large as max.message.bytes of __consumer_offsets,
# by default 1 MiB; half of that leaves room because the size is only estimated here.
_LARGEST_BYTES = 512 * 1024
# Bytes of a record of __consumer_offsets without names and metadata: fields of record, key and value, a topic id.
_RECORD_BYTES = 80

# Error codes of a broker with a smaller limit. Kafka 4.3 answers UNKNOWN_SERVER_ERROR, which has other causes too, so
# after that code a request is only halved if it is larger than any broker's limit.
_TOO_LARGE = {
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}
_SURELY_FITS_BYTES = 32 * 1024
# Error codes for a request from outside a group that has members.
_MEMBERS_ONLY = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}
_HAS_MEMBERS = "the group has members now, and only members may change its offsets"
_RETRIABLE = {*COORDINATOR_ERRORS, ErrorCode.REQUEST_TIMED_OUT}


class _RequestTooLarge(BrokerError):
    """The broker stored nothing of a request because of its size. `partitions`: their number in the request."""

    partitions = 0


def send_changes(
    client: ConsumerNetworkClient,
    changes: Mapping[str, Changes],
    build: Callable[[str, Changes], Request[Any]],
    read: Callable[[Any], Mapping[TopicPartition, int] | int],
    deadline_ms: float,
    *,
    max_version: int | None = None,
) -> Outcomes:
    """Change the offsets of these groups. None for a change that is done, else its error.

    `build` makes the request for some changes of a group; `read` returns the error code of each partition in a
    response, or one for all. A request is repeated until the deadline while the coordinator has moved, is loading or
    is not connected, and halved if it is too large. After a lost response the committed offsets are read, and only
    offsets that are not as requested are sent again; OutcomeUnknown if they are still different at the deadline.
    """
    by_key = {(group, tp): new for group, offsets in changes.items() for tp, new in offsets.items()}
    coordinators = Coordinators(client)
    largest_count: dict[Key, int] = {}

    def locate(keys: Sequence[Key], failures: Mapping[Key, KcliError], deadline_ms: float) -> Located[Key]:
        for key, error in failures.items():
            if isinstance(error, _RequestTooLarge):
                largest_count[key] = (error.partitions + 1) // 2
        located: Located[Key] = Located()
        by_group: dict[str, list[Key]] = {}
        for key in keys:
            by_group.setdefault(key[0], []).append(key)
        try:
            nodes = coordinators.locate(by_group, {group for group, _ in failures}, half_deadline(client, deadline_ms))
        except WakeupError:
            raise
        except KcliError as error:  # groups that are done keep their outcomes
            nodes = Results(errors=dict.fromkeys(by_group, error))
        for group, pending in by_group.items():
            if group in nodes.errors:
                located.absent.update(dict.fromkeys(pending, nodes.errors[group]))
                continue
            located.requests += [(nodes.values[group], batch) for batch in batches(pending, by_key, largest_count)]
        return located

    def read_outcomes(response: Any, keys: Sequence[Key]) -> Iterator[tuple[Key, KcliError | None]]:
        answer = read(response)
        if isinstance(answer, int):
            codes = dict.fromkeys(keys, answer)
        else:
            codes = {key: answer[key[1]] for key in keys if key[1] in answer}
        divisible = _is_divisible(codes, by_key)
        for key, code in codes.items():
            group, tp = key
            if not code:
                yield key, None
            elif divisible:
                too_large = _RequestTooLarge(code, group=group, topic=tp.topic, partition=tp.partition)
                too_large.partitions = len(keys)
                yield key, too_large
            else:
                message = _HAS_MEMBERS if code in _MEMBERS_ONLY else None
                yield key, response.broker_error(code, message, group=group, topic=tp.topic, partition=tp.partition)

    def confirm(keys: Sequence[Key], deadline_ms: float) -> Results[Key, None]:
        groups = dict.fromkeys(group for group, _ in keys)
        committed = committed_offsets(client, groups, deadline_ms, coordinators=coordinators)
        found: Results[Key, None] = Results()
        for key in keys:
            group, tp = key
            if group in committed.errors:
                found.errors[key] = committed.errors[group]
            elif _is_done(by_key[key], committed.values[group].get(tp)):
                found.values[key] = None
        return found

    results = fan_out_changes(
        client,
        by_key,
        locate,
        lambda _node, keys: build(keys[0][0], {key[1]: by_key[key] for key in keys}),
        read_outcomes,
        confirm,
        deadline_ms,
        retry=_is_retriable,
        max_version=max_version,
    )
    return {key: results.errors.get(key) for key in by_key}


def _is_done(wanted: OffsetAndMetadata | None, committed: OffsetAndMetadata | KcliError | None) -> bool:
    """True if a group has committed what was requested; None: no offset. Old brokers store no leader epoch."""
    if wanted is None or not isinstance(committed, OffsetAndMetadata):
        return wanted is committed
    return committed in (wanted, wanted._replace(leader_epoch=-1))


def batches(
    keys: Iterable[Key], changes: Mapping[Key, OffsetAndMetadata | None], largest_count: Mapping[Key, int] | None = None
) -> Iterator[list[Key]]:
    """Divide the changes of a group into as few requests as a coordinator with Kafka's default settings can store.

    `largest_count` limits the number of partitions in the requests of some keys.
    """
    limits = largest_count or {}
    batch: list[Key] = []
    size = 0
    for key in keys:
        stored_bytes = _stored_bytes(key, changes[key])
        if batch and (size + stored_bytes > _LARGEST_BYTES or len(batch) >= limits.get(batch[0], len(batch) + 1)):
            yield batch
            batch, size = [], 0
        batch.append(key)
        size += stored_bytes
    if batch:
        yield batch


def is_members_only(error: KcliError) -> bool:
    """True if a change was refused because the group has members now."""
    return isinstance(error, BrokerError) and error.code in _MEMBERS_ONLY


def _stored_bytes(key: Key, new: OffsetAndMetadata | None) -> int:
    """Estimate the size of one change in a batch, which is not compressed by default."""
    group, tp = key
    metadata = new.metadata if new is not None else ""
    return _RECORD_BYTES + sum(len(text.encode("utf-8", "replace")) for text in (group, tp.topic, metadata))


def _is_divisible(codes: Mapping[Key, int], changes: Mapping[Key, OffsetAndMetadata | None]) -> bool:
    """True if nothing of a request was stored because of its size, so that its halves may succeed."""
    distinct = set(codes.values())
    if len(codes) == 1 or len(distinct) > 1 or not distinct <= _TOO_LARGE:
        return False
    if ErrorCode.UNKNOWN_SERVER_ERROR in distinct:
        return sum(_stored_bytes(key, changes[key]) for key in codes) > _SURELY_FITS_BYTES
    return True


def _is_retriable(error: KcliError) -> bool:
    if isinstance(error, BrokerError):
        return isinstance(error, _RequestTooLarge) or error.code in _RETRIABLE
    return error.retriable


def commit_offsets(
    client: ConsumerNetworkClient, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: float
) -> dict[TopicPartition, ErrorCode]:
    """Commit offsets for a group without members; return the error code of each partition (0: stored).

    The codes have the order of `offsets`. In a group with members only these may commit: UNKNOWN_MEMBER_ID.
    """
    response = ask_coordinator(
        client,
        group,
        commit_request(group, offsets),
        deadline_ms,
        codes=lambda response: partition_codes(response).values(),
        max_version=LAST_VERSION_WITH_NAMES,
    )
    found = partition_codes(response)
    return {tp: ErrorCode.of(found.get(tp, ErrorCode.UNKNOWN_SERVER_ERROR)) for tp in offsets}


def commit_many(
    client: ConsumerNetworkClient,
    offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]],
    deadline_ms: float,
) -> Outcomes:
    """Commit offsets for many groups side by side, in as few requests as brokers can store.

    The outcome is None for an offset that is stored, else its error. After OutcomeUnknown the offset may be stored;
    after every other error it is not.
    """
    return send_changes(
        client, offsets, _commit_request, partition_codes, deadline_ms, max_version=LAST_VERSION_WITH_NAMES
    )


def _commit_request(group: str, offsets: Changes) -> OffsetCommitRequest:
    return commit_request(group, {tp: at for tp, at in offsets.items() if at is not None})


def delete_offsets(
    client: ConsumerNetworkClient, group: str, partitions: Iterable[TopicPartition], deadline_ms: float
) -> Results[TopicPartition, None]:
    """Delete the committed offsets of a group in these partitions; a partition without one succeeds.

    Errors of one partition: GROUP_SUBSCRIBED_TO_TOPIC (a member reads it), UNKNOWN_TOPIC_OR_PARTITION. Errors of all:
    GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (the members are not consumers), GROUP_AUTHORIZATION_FAILED.
    """
    outcomes = delete_many(client, {group: dict.fromkeys(partitions)}, deadline_ms)
    results: Results[TopicPartition, None] = Results()
    for (_, tp), error in outcomes.items():
        results.put(tp, error)
    return results


def delete_many(
    client: ConsumerNetworkClient, partitions: Mapping[str, dict[TopicPartition, None]], deadline_ms: float
) -> Outcomes:
    """Delete the committed offsets of many groups side by side; the outcomes are those of `commit_many`."""
    return send_changes(client, partitions, _delete_request, _deleted_codes, deadline_ms)


def _delete_request(group: str, offsets: Changes) -> OffsetDeleteRequest:
    from kcli.protocol.messages.offset_delete import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
        OffsetDeleteRequestTopic,
    )

    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for tp in offsets:
        topic = topics.setdefault(tp.topic, OffsetDeleteRequestTopic(name=tp.topic, partitions=[]))
        topic.partitions.append(OffsetDeleteRequestPartition(partition_index=tp.partition))
    return OffsetDeleteRequest(group_id=group, topics=list(topics.values()))


def _deleted_codes(response: OffsetDeleteResponse) -> Mapping[TopicPartition, int] | int:
    if response.error_code:
        return response.error_code
    return {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }
