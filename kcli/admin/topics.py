"""Topics: list, describe, create, delete, add partitions. The failure of one topic is an error under its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.client.requests import Results
from kcli.client.routing import ask_controller
from kcli.errors import BrokerError, IncompleteResponse, KcliError, ProtocolError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import TopicInfo
    from kcli.errors import KcliError
    from kcli.protocol.messages.delete_topics import DeleteTopicsResponse


class NewTopic(NamedTuple):
    """A topic to create; -1 leaves partitions or replication to the broker (from 2.4 on, KIP-464)."""

    name: str
    partitions: int = -1
    replication: int = -1
    configs: Mapping[str, str] = {}


class CreatedTopic(NamedTuple):
    """A topic as the broker created it; -1 and None from brokers that do not return it (before 2.4 and 2.8)."""

    name: str
    topic_id: UUID | None
    partitions: int
    replication: int


class Bounds(NamedTuple):
    """First offset and end offset (one past the last record) of a partition."""

    start: int
    end: int


def list_topics(client: ConsumerNetworkClient, deadline_ms: float) -> list[TopicInfo]:
    """Return all topics that the client may see, sorted by name; internal ones too."""
    return sorted(client.topics_metadata(None, deadline_ms).topics.values())


def describe_topics(client: ConsumerNetworkClient, names: Iterable[str], deadline_ms: float) -> Results[str, TopicInfo]:
    """Return these topics with their partitions. A topic that does not exist is a BrokerError under its name."""
    unique = list(dict.fromkeys(names))
    found = client.topics_metadata(unique, deadline_ms).topics
    results: Results[str, TopicInfo] = Results({}, {})
    for name in unique:
        topic = found.get(name)
        if topic is not None and topic.error:
            results.errors[name] = BrokerError(topic.error, topic=name)
        elif topic is not None:
            results.values[name] = topic
    results.fill_missing(unique, "Metadata")
    return results


def partition_bounds(
    client: ConsumerNetworkClient, partitions: Sequence[TopicPartition], deadline_ms: float
) -> Results[TopicPartition, Bounds]:
    """Return start and end offsets from the leaders. A partition without a leader is an error under its name."""
    from kcli.client.offset_lookup import EARLIEST, LATEST, list_offsets

    starts = list_offsets(client, dict.fromkeys(partitions, EARLIEST), deadline_ms)
    ends = list_offsets(client, dict.fromkeys(starts.values, LATEST), deadline_ms)
    bounds = {tp: Bounds(starts.values[tp].offset, end.offset) for tp, end in ends.values.items()}
    return Results(bounds, {**starts.errors, **ends.errors})


def create_topics(
    client: ConsumerNetworkClient, topics: Sequence[NewTopic], deadline_ms: float, *, dry_run: bool = False
) -> Results[str, CreatedTopic]:
    """Create topics; with `dry_run` the controller only checks them. Errors are BrokerErrors by name."""
    from kcli.protocol.messages import create_topics as wire

    request = wire.CreateTopicsRequest(
        topics=[
            wire.CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication,
                configs=[wire.CreatableTopicConfig(name=k, value=v) for k, v in topic.configs.items()],
            )
            for topic in topics
        ],
        timeout_ms=broker_timeout_ms(client, deadline_ms),
        validate_only=dry_run,
    )
    response = ask_controller(client, request, deadline_ms)
    results: Results[str, CreatedTopic] = Results({}, {})
    for result in response.topics:
        if result.error_code:
            results.errors[result.name] = _error(result.error_code, result.error_message, result.name)
        else:
            topic_id = result.topic_id if result.topic_id.int else None
            created = CreatedTopic(result.name, topic_id, result.num_partitions, result.replication_factor)
            results.values[result.name] = created
    results.fill_missing((topic.name for topic in topics), "CreateTopics")
    return results


def delete_topics(
    client: ConsumerNetworkClient, topics: Mapping[str, UUID | None], deadline_ms: float
) -> Results[str, UUID | None]:
    """Delete topics, given by name with their ids.

    With an id and a broker of 2.8 or later the id is sent, so that a topic of the same name that was created meanwhile
    is not deleted.
    """
    response = _send_deletion(client, topics, deadline_ms)
    names = {topic_id: name for name, topic_id in topics.items()}
    results: Results[str, UUID | None] = Results({}, {})
    for result in response.responses:
        name = result.name or names.get(result.topic_id, "")
        if name not in topics:
            continue
        if result.error_code:
            results.errors[name] = _error(result.error_code, result.error_message, name)
        else:
            results.values[name] = topics[name]
    results.fill_missing(topics, "DeleteTopics")
    return results


def _send_deletion(
    client: ConsumerNetworkClient, topics: Mapping[str, UUID | None], deadline_ms: float
) -> DeleteTopicsResponse:
    from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    timeout_ms = broker_timeout_ms(client, deadline_ms)
    states = [
        DeleteTopicState(topic_id=topic_id) if topic_id is not None else DeleteTopicState(name=name)
        for name, topic_id in topics.items()
    ]
    try:
        return ask_controller(client, DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms), deadline_ms)
    except ProtocolError:  # a broker before 2.8: its version of the request has no ids
        request = DeleteTopicsRequest(topic_names=list(topics), timeout_ms=timeout_ms)
        return ask_controller(client, request, deadline_ms)


def create_partitions(
    client: ConsumerNetworkClient, counts: Mapping[str, int], deadline_ms: float, *, dry_run: bool = False
) -> Results[str, int]:
    """Increase topics to these numbers of partitions, which the controller places."""
    from kcli.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()],
        timeout_ms=broker_timeout_ms(client, deadline_ms),
        validate_only=dry_run,
    )
    response = ask_controller(client, request, deadline_ms)
    results: Results[str, int] = Results()
    for result in response.results:
        if result.error_code:
            results.errors[result.name] = _error(result.error_code, result.error_message, result.name)
        elif result.name in counts:
            results.values[result.name] = counts[result.name]
    results.fill_missing(counts, "CreatePartitions")
    return results


def _error(code: int, message: str | None, topic: str) -> BrokerError:
    return BrokerError(code, message, topic=topic)


def broker_timeout_ms(client: ConsumerNetworkClient, deadline_ms: float) -> int:
    """Return the `timeout_ms` of a request: 90% of the remaining time, so that the broker itself reports a time-out."""
    remaining_ms = min(deadline_ms - client.clock.now_ms(), client.config.request_timeout_ms)
    return max(1, int(remaining_ms * 0.9))


class PlannedTopic(NamedTuple):
    """A topic to delete, or the `error` that prevents it.

    `records` is the sum of end offsets minus start offsets, an upper bound; None if a partition did not answer.
    """

    topic: str
    topic_id: UUID | None = None
    partitions: int | None = None
    records: int | None = None
    error: KcliError | None = None


def plan_topic_deletion(client: ConsumerNetworkClient, names: Iterable[str], deadline_ms: float) -> list[PlannedTopic]:
    """Plan the deletion of these topics. A topic that does not exist is planned with its error. Changes nothing."""
    names = list(dict.fromkeys(names))
    described = describe_topics(client, names, deadline_ms)
    partitions = [TopicPartition(t.name, number) for t in described.values.values() for number in t.partitions]
    bounds = partition_bounds(client, partitions, deadline_ms)
    plan = []
    for name in names:
        if name in described.errors:
            plan.append(PlannedTopic(name, error=described.errors[name]))
            continue
        topic = described.values[name]
        counts = [bounds.values.get(TopicPartition(name, number)) for number in topic.partitions]
        records = sum(b.end - b.start for b in counts if b is not None) if None not in counts else None
        plan.append(PlannedTopic(name, topic.topic_id, len(topic.partitions), records))
    return plan


def apply_topic_deletion(
    client: ConsumerNetworkClient, plan: Sequence[PlannedTopic], deadline_ms: float
) -> dict[str, KcliError]:
    """Delete the topics of the plan that have no error, by id where possible; return the errors by name."""
    requested = {planned.topic: planned.topic_id for planned in plan if planned.error is None}
    return delete_topics(client, requested, deadline_ms).errors if requested else {}


def find_partitions(
    client: ConsumerNetworkClient, requested: Mapping[str, list[int] | None], deadline_ms: float
) -> list[TopicPartition]:
    """Return the chosen partitions of each topic, in order; None stands for all partitions of a topic.

    A topic or partition that does not exist is an error; nothing is created.
    """
    from kcli.client.metadata import check_partitions

    topics = client.topics_metadata(list(requested), deadline_ms).topics
    missing = [name for name in requested if name not in topics]
    if missing:
        raise IncompleteResponse(f"the response to Metadata does not contain {', '.join(missing)}", api="Metadata")
    bad = [topics[name] for name in requested if topics[name].error]
    if bad:
        raise _no_topics(client, bad, deadline_ms)
    found: list[TopicPartition] = []
    for name, numbers in requested.items():
        check_partitions(topics[name], numbers or ())
        found += [TopicPartition(name, number) for number in numbers or sorted(topics[name].partitions)]
    return found


def _no_topics(client: ConsumerNetworkClient, bad: Sequence[TopicInfo], deadline_ms: float) -> Exception:
    """Return one error for unusable topics: the first that is not merely unknown, else all unknown ones."""
    from kcli.error_codes import ErrorCode
    from kcli.errors import BrokerError, KcliError

    for topic in bad:
        if topic.error not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            return BrokerError(topic.error, topic=topic.name)
    try:
        names = client.topics_metadata(None, deadline_ms).topics
    except KcliError:
        names = {}
    existing = [name for name, topic in names.items() if not topic.error]
    messages = [
        f"'{topic.name}' is not a valid topic name; use letters, digits, '.', '_' and '-'"
        if topic.error == ErrorCode.INVALID_TOPIC_EXCEPTION
        else f"there is no topic {topic.name}{_nearest(topic.name, existing)}"
        for topic in bad
    ]
    return BrokerError(bad[0].error, "; ".join(messages))


def _nearest(name: str, names: Iterable[str]) -> str:
    """Return ` (did you mean a or b?)` for the existing names that resemble `name`."""
    from kcli.text import closest_names

    close = closest_names(name, (other for other in names if other != name))
    return f" (did you mean {' or '.join(close)}?)" if close else ""
