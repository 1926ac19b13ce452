"""Topics: listed, described, created, deleted, given more partitions. What fails for one topic is data, no abort."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.deadline import broker_timeout_ms
from kcli.client.requests import Results
from kcli.client.routing import ask_controller
from kcli.errors import BrokerError, KcliError, ProtocolError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import TopicInfo
    from kcli.protocol.messages.delete_topics import DeleteTopicsResponse


class NewTopic(NamedTuple):
    """A topic to create; -1 leaves partitions or replication to the broker (from 2.4 on, KIP-464)."""

    name: str
    partitions: int = -1
    replication: int = -1
    configs: Mapping[str, str] = {}


class CreatedTopic(NamedTuple):
    """What a broker says it created; -1 and None where it is too old to say (before 2.4 and 2.8)."""

    name: str
    topic_id: UUID | None
    partitions: int
    replication: int


class Bounds(NamedTuple):
    """First offset and end offset (one past the last record) of a partition."""

    start: int
    end: int


def list_topics(client: ConsumerNetworkClient, deadline_ms: float) -> list[TopicInfo]:
    """Every topic that we may see, sorted by name; internal ones too."""
    return sorted(client.topics_metadata(None, deadline_ms).topics.values())


def describe_topics(client: ConsumerNetworkClient, names: Iterable[str], deadline_ms: float) -> Results[str, TopicInfo]:
    """These topics with their partitions. A topic that is not there is a BrokerError under its name."""
    wanted = list(dict.fromkeys(names))
    found = client.topics_metadata(wanted, deadline_ms).topics
    gathered: Results[str, TopicInfo] = Results({}, {})
    for name in wanted:
        if found[name].error:
            gathered.errors[name] = BrokerError(found[name].error, topic=name)
        else:
            gathered.values[name] = found[name]
    return gathered


def partition_bounds(
    client: ConsumerNetworkClient, partitions: Sequence[TopicPartition], deadline_ms: float
) -> Results[TopicPartition, Bounds]:
    """First and end offsets, asked from the leaders. A partition without a leader is an error under its name."""
    from kcli.client.offset_lookup import EARLIEST, LATEST, list_offsets

    starts = list_offsets(client, dict.fromkeys(partitions, EARLIEST), deadline_ms)
    ends = list_offsets(client, dict.fromkeys(starts.values, LATEST), deadline_ms)
    bounds = {tp: Bounds(starts.values[tp].offset, end.offset) for tp, end in ends.values.items()}
    return Results(bounds, {**starts.errors, **ends.errors})


def create_topics(
    client: ConsumerNetworkClient, topics: Sequence[NewTopic], deadline_ms: float, *, dry_run: bool = False
) -> Results[str, CreatedTopic]:
    """Create topics, or with `dry_run` let the controller say what it would do. Errors are BrokerErrors by name."""
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
    gathered: Results[str, CreatedTopic] = Results({}, {})
    for result in response.topics:
        if result.error_code:
            gathered.errors[result.name] = _error(result.error_code, result.error_message, result.name)
        else:
            topic_id = result.topic_id if result.topic_id.int else None
            created = CreatedTopic(result.name, topic_id, result.num_partitions, result.replication_factor)
            gathered.values[result.name] = created
    return gathered


def delete_topics(
    client: ConsumerNetworkClient, topics: Mapping[str, UUID | None], deadline_ms: float
) -> Results[str, UUID | None]:
    """Delete topics, given by name with their ids.

    Where id and broker allow it (2.8 on) the id decides, so that a topic which was deleted and made again meanwhile is
    not taken for the one that was meant.
    """
    response = _send_deletion(client, topics, deadline_ms)
    names = {topic_id: name for name, topic_id in topics.items()}
    gathered: Results[str, UUID | None] = Results({}, {})
    for result in response.responses:
        name = result.name or names[result.topic_id]
        if result.error_code:
            gathered.errors[name] = _error(result.error_code, result.error_message, name)
        else:
            gathered.values[name] = topics[name]
    return gathered


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
    except ProtocolError:  # a broker that knows names only; the request could not be written in its version
        request = DeleteTopicsRequest(topic_names=list(topics), timeout_ms=timeout_ms)
        return ask_controller(client, request, deadline_ms)


def create_partitions(
    client: ConsumerNetworkClient, counts: Mapping[str, int], deadline_ms: float, *, dry_run: bool = False
) -> Results[str, int]:
    """Raise topics to these numbers of partitions, placed by the controller."""
    from kcli.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()],
        timeout_ms=broker_timeout_ms(client, deadline_ms),
        validate_only=dry_run,
    )
    response = ask_controller(client, request, deadline_ms)
    failed = [result for result in response.results if result.error_code]
    errors: dict[str, KcliError] = {r.name: _error(r.error_code, r.error_message, r.name) for r in failed}
    return Results({name: count for name, count in counts.items() if name not in errors}, errors)


def _error(code: int, message: str | None, topic: str) -> BrokerError:
    return BrokerError(code, message, topic=topic)


def find_partitions(
    client: ConsumerNetworkClient, wanted: Mapping[str, list[int] | None], deadline_ms: float
) -> list[TopicPartition]:
    """Return the chosen partitions of each topic, in order; None stands for all partitions of a topic.

    A topic or partition that does not exist is an error; nothing is created.
    """
    from kcli.client.metadata import check_partitions

    topics = client.topics_metadata(list(wanted), deadline_ms).topics
    bad = [topics[name] for name in wanted if topics[name].error]
    if bad:
        raise _no_topics(client, bad, deadline_ms)
    found: list[TopicPartition] = []
    for name, numbers in wanted.items():
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
    there = [name for name, topic in names.items() if not topic.error]
    return BrokerError(bad[0].error, ", ".join(f"there is no topic {t.name}{_nearest(t.name, there)}" for t in bad))


def _nearest(name: str, names: Iterable[str]) -> str:
    """Return ` (did you mean a or b?)` for the existing names that resemble `name`."""
    from kcli.text import closest_names

    close = closest_names(name, (other for other in names if other != name))
    return f" (did you mean {' or '.join(close)}?)" if close else ""
