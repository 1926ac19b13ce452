"""Topics: list, describe, create, delete, add partitions. The failure of one topic is an error under its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kcli.admin.plan import Plan, Row
from kcli.client.metadata import check_partitions
from kcli.client.requests import Confirm, Locate, Results, fan_out, fan_out_changes, half_deadline
from kcli.client.routing import locate_controller
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, IncompleteResponse, KcliError, Refused, UnsupportedVersion, WakeupError
from kcli.protocol.wire import Message
from kcli.structs import TopicPartition
from kcli.text import did_you_mean

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import TopicInfo
    from kcli.protocol.messages import create_topics as creation
    from kcli.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from kcli.protocol.wire import Request

T = TypeVar("T")
R = TypeVar("R", bound=Message)

_FIRST_DELETION_WITH_IDS = 6
_INTERNAL = (
    "this is an internal topic; its deletion loses the committed offsets of all groups, or the state of all "
    "transactions; use --internal to delete it"
)


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
    cluster = client.topics_metadata(unique, deadline_ms)
    results: Results[str, TopicInfo] = Results({}, {})
    for name in unique:
        if name in cluster.topics:
            results.put(name, cluster.topic_error(name) or cluster.topics[name])
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
    """Create topics; with `dry_run` the controller only checks them.

    Errors by name are BrokerErrors, and OutcomeUnknown for a lost response to the creation of a topic that is not
    visible, or that existed before.
    """
    wanted = {topic.name: topic for topic in topics}
    missing_before = set() if dry_run else _missing_topics(client, wanted, deadline_ms)

    def build(names: list[str]) -> creation.CreateTopicsRequest:
        from kcli.protocol.messages import create_topics as wire

        return wire.CreateTopicsRequest(
            topics=[
                wire.CreatableTopic(
                    name=name,
                    num_partitions=wanted[name].partitions,
                    replication_factor=wanted[name].replication,
                    configs=[wire.CreatableTopicConfig(name=k, value=v) for k, v in wanted[name].configs.items()],
                )
                for name in names
            ],
            timeout_ms=broker_timeout_ms(client, deadline_ms),
            validate_only=dry_run,
        )

    def read(response: creation.CreateTopicsResponse) -> Iterator[tuple[str, CreatedTopic | KcliError]]:
        for result in response.topics:
            if result.error_code:
                yield result.name, _error(response, result)
            else:
                topic_id = result.topic_id if result.topic_id.int else None
                created = CreatedTopic(result.name, topic_id, result.num_partitions, result.replication_factor)
                yield result.name, created

    def confirm(names: Sequence[str], deadline_ms: float) -> Results[str, CreatedTopic]:
        found = describe_topics(client, names, deadline_ms).values
        return Results({name: _as_created(topic) for name, topic in found.items() if name in missing_before})

    return ask_controller(client, wanted, build, read, None if dry_run else confirm, deadline_ms)


def _missing_topics(client: ConsumerNetworkClient, names: Iterable[str], deadline_ms: float) -> set[str]:
    """Return the topics that do not exist, with one request."""
    client.metadata.add_topics(names)
    found = client.ensure_fresh_metadata(deadline_ms).topics
    client.metadata.drop_topics(names)
    return {name for name in names if name in found and found[name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def _as_created(topic: TopicInfo) -> CreatedTopic:
    replication = min((len(partition.replicas) for partition in topic.partitions.values()), default=-1)
    return CreatedTopic(topic.name, topic.topic_id, len(topic.partitions), replication)


def ask_controller(
    client: ConsumerNetworkClient,
    names: Iterable[str],
    build: Callable[[list[str]], Request[R]],
    read: Callable[[R], Iterable[tuple[str, T | KcliError]]],
    confirm: Confirm[str, T] | None,
    deadline_ms: float,
    *,
    locate: Locate[str] | None = None,
    min_version: int | None = None,
    max_version: int | None = None,
) -> Results[str, T]:
    """Send one request for these topics or resources to the controller. Without `confirm` it changes nothing.

    `locate` returns other nodes, for settings that only one broker can change.
    """
    send = fan_out if confirm is None else partial(fan_out_changes, confirm=confirm)
    return send(
        client,
        names,
        locate or partial(locate_controller, client),
        lambda _node, node_names: build(node_names),
        lambda response, _names: read(response),
        deadline_ms=deadline_ms,
        retry=_is_of_controller,
        min_version=min_version,
        max_version=max_version,
    )


def _is_of_controller(error: KcliError) -> bool:
    """True for a lost connection and for a moved controller; other error codes are the outcome of a topic."""
    return error.code == ErrorCode.NOT_CONTROLLER if isinstance(error, BrokerError) else error.retriable


def delete_topics(
    client: ConsumerNetworkClient, topics: Mapping[str, UUID | None], deadline_ms: float
) -> Results[str, UUID | None]:
    """Delete topics, given by name with their ids.

    With an id and a broker of 2.8 or later the id is sent, so that a topic of the same name that was created meanwhile
    is not deleted.
    """
    by_id = {topic_id: name for name, topic_id in topics.items()}

    def build(names: list[str], *, with_ids: bool) -> DeleteTopicsRequest:
        from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

        timeout_ms = broker_timeout_ms(client, deadline_ms)
        if not with_ids:
            return DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)
        ids = [(name, topics[name]) for name in names]
        states = [DeleteTopicState(topic_id=i) if i is not None else DeleteTopicState(name=name) for name, i in ids]
        return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)

    def read(response: DeleteTopicsResponse) -> Iterator[tuple[str, UUID | KcliError | None]]:
        for result in response.responses:
            name = result.name or by_id.get(result.topic_id, "")
            error = response.broker_error(result.error_code, result.error_message, topic=name)
            yield name, error if result.error_code else topics.get(name)

    def confirm(names: Sequence[str], deadline_ms: float) -> Results[str, UUID | None]:
        found = client.topics_metadata(names, deadline_ms).topics
        return Results(
            {name: topics[name] for name in names if name in found and _is_deleted(found[name], topics[name])}
        )

    first = _FIRST_DELETION_WITH_IDS
    by_ids, by_names = partial(build, with_ids=True), partial(build, with_ids=False)
    results = ask_controller(client, topics, by_ids, read, confirm, deadline_ms, min_version=first)
    if any(isinstance(error, UnsupportedVersion) for error in results.errors.values()):
        return ask_controller(client, topics, by_names, read, confirm, deadline_ms, max_version=first - 1)
    return results


def _is_deleted(topic: TopicInfo, topic_id: UUID | None) -> bool:
    if topic.error:
        return topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return topic_id is not None and topic.topic_id not in (None, topic_id)


def create_partitions(
    client: ConsumerNetworkClient, counts: Mapping[str, int], deadline_ms: float, *, dry_run: bool = False
) -> Results[str, int]:
    """Increase topics to these numbers of partitions, which the controller places."""

    def build(names: list[str]) -> CreatePartitionsRequest:
        from kcli.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

        return CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=counts[name], assignments=None) for name in names],
            timeout_ms=broker_timeout_ms(client, deadline_ms),
            validate_only=dry_run,
        )

    def read(response: CreatePartitionsResponse) -> Iterator[tuple[str, int | KcliError]]:
        for result in response.results:
            error = _error(response, result) if result.error_code else None
            yield result.name, error or counts.get(result.name, 0)

    def confirm(names: Sequence[str], deadline_ms: float) -> Results[str, int]:
        found = describe_topics(client, names, deadline_ms).values
        return Results({name: counts[name] for name, topic in found.items() if len(topic.partitions) == counts[name]})

    return ask_controller(client, counts, build, read, None if dry_run else confirm, deadline_ms)


def _error(response: Message, result: Any) -> BrokerError:
    return response.broker_error(result.error_code, result.error_message, topic=result.name)


def broker_timeout_ms(client: ConsumerNetworkClient, deadline_ms: float) -> int:
    """Return the `timeout_ms` of a change: 90% of the time that `fan_out_changes` waits for the response.

    The broker itself then reports a time-out.
    """
    remaining_ms = min(half_deadline(client, deadline_ms) - client.clock.now_ms(), client.config.request_timeout_ms)
    return max(1, int(remaining_ms * 0.9))


class TopicSize(NamedTuple):
    """A topic to delete. `records` is the sum of end offsets minus start offsets, an upper bound; None: not known."""

    topic_id: UUID | None
    partitions: int | None
    records: int | None


def plan_topic_deletion(
    client: ConsumerNetworkClient, names: Iterable[str], deadline_ms: float, *, internal: bool = False
) -> Plan[Row[TopicSize]]:
    """Plan the deletion of these topics. Changes nothing.

    A topic that does not exist is a row with its error. An internal topic (of groups or transactions) is
    Refused unless `internal`: brokers delete it with the state of all groups or transactions.
    """
    names = list(dict.fromkeys(names))
    described = describe_topics(client, names, deadline_ms)
    described.errors = with_similar_topics(client, described.errors, deadline_ms)
    partitions = [TopicPartition(t.name, number) for t in described.values.values() for number in t.partitions]
    bounds = partition_bounds(client, partitions, deadline_ms)
    rows: list[Row[TopicSize]] = []
    for name in names:
        if name in described.errors:
            rows.append(Row(name, error=described.errors[name]))
            continue
        topic = described.values[name]
        counts = [bounds.values.get(TopicPartition(name, number)) for number in topic.partitions]
        records = sum(b.end - b.start for b in counts if b is not None) if None not in counts else None
        error = Refused(_INTERNAL) if topic.internal and not internal else None
        size = TopicSize(topic.topic_id, len(topic.partitions), records)
        rows.append(Row(name, size, action="delete", error=error))
    return Plan("topic-delete", tuple(rows), permanent="deleted topics and their records cannot be restored")


def apply_topic_deletion(
    client: ConsumerNetworkClient, plan: Plan[Row[TopicSize]], deadline_ms: float
) -> dict[str, KcliError]:
    """Delete the topics of the plan that have no error, by id where possible; return the errors by name."""
    requested = {row.key: row.old.topic_id if row.old else None for row in plan.changes}
    return delete_topics(client, requested, deadline_ms).errors if requested else {}


def find_partitions(
    client: ConsumerNetworkClient, requested: Mapping[str, list[int] | None], deadline_ms: float
) -> list[TopicPartition]:
    """Return the chosen partitions of each topic, in order; None stands for all partitions of a topic.

    A topic or partition that does not exist is an error; nothing is created.
    """
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
    for topic in bad:
        if topic.error not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            return BrokerError(topic.error, request="Metadata", topic=topic.name, principal=client.principal)
    existing = _existing_topics(client, deadline_ms)
    messages = [
        f"'{topic.name}' is not a valid topic name; use letters, digits, '.', '_' and '-'"
        if topic.error == ErrorCode.INVALID_TOPIC_EXCEPTION
        else f"there is no topic {topic.name}{did_you_mean(topic.name, existing)}"
        for topic in bad
    ]
    return BrokerError(bad[0].error, "; ".join(messages), request="Metadata", principal=client.principal)


def with_similar_topics(
    client: ConsumerNetworkClient, errors: Mapping[str, KcliError], deadline_ms: float
) -> dict[str, KcliError]:
    """Return the errors of topics; that of a topic that does not exist names existing topics with similar names."""
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    absent = [name for name, error in errors.items() if isinstance(error, BrokerError) and error.code == code]
    existing = _existing_topics(client, deadline_ms) if absent else []
    hints = {name: hint for name in absent if (hint := did_you_mean(name, existing))}
    return {
        **errors,
        **{
            name: BrokerError(code, f"there is no topic {name}{hint}", request="Metadata", principal=client.principal)
            for name, hint in hints.items()
        },
    }


def _existing_topics(client: ConsumerNetworkClient, deadline_ms: float) -> list[str]:
    """Return the names of all topics; none if they cannot be listed."""
    try:
        topics = client.topics_metadata(None, deadline_ms).topics
    except WakeupError:
        raise
    except KcliError:
        return []
    return [name for name, topic in topics.items() if not topic.error]
