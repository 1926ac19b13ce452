"""Which resources have settings, by the numbers that three APIs share, and which broker is meant. No handler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from kcli.broker.config import BROKER_OPTIONS
from kcli.broker.config_defs import Option
from kcli.broker.dynamic_config import ALL_BROKERS
from kcli.broker.topic_configs import TOPIC_OPTIONS, default_value
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.settings import format_value

if TYPE_CHECKING:
    from kcli.broker.cluster_state import ClusterState

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
ALL = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def check_this_broker(name: str, node_id: int) -> None:
    """INVALID_REQUEST unless a resource's name is our id."""
    if name != str(node_id):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"This is broker {node_id}, not {name!r}")


def unknown_type(number: int) -> BrokerError:
    """For a type of resources that Kafka does not have."""
    return BrokerError(ErrorCode.INVALID_REQUEST, f"There is no type {number} of resources with settings")


# From what is set before, what may be set, and what holds where nothing is set: to what is set after.
Alter = Callable[[Mapping[str, str], Mapping[str, Option], Callable[[str], str]], dict[str, str]]


class Resource(Protocol):
    """What a request asks to be changed."""

    resource_type: int
    resource_name: str


class Row(Protocol):
    """What became of a resource."""

    error_code: int
    error_message: str | None


R = TypeVar("R", bound=Resource)
W = TypeVar("W", bound=Row)


def alter_all(
    cluster: ClusterState,
    asked: Sequence[R],
    alter_for: Callable[[R], Alter],
    make_row: Callable[..., W],
    *,
    validate_only: bool,
) -> list[W]:
    """A row per resource: all its changes or none; a resource that comes twice is refused."""
    times = Counter((one.resource_type, one.resource_name) for one in asked)
    rows = []
    for one in asked:
        row = make_row(error_message=None, resource_type=one.resource_type, resource_name=one.resource_name)
        try:
            if times[one.resource_type, one.resource_name] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "The resource is in the request more than once")
            _alter(cluster, one.resource_type, one.resource_name, alter_for(one), validate_only)
        except BrokerError as error:
            row.error_code, row.error_message = error.code, error.detail
        rows.append(row)
    return rows


def _alter(cluster: ClusterState, kind: int, name: str, alter: Alter, validate_only: bool) -> None:
    """Change what is set, or only see whether it can be. BrokerError with the code that Apache Kafka answers."""
    if kind == TOPIC:
        _alter_topic(cluster, name, alter, validate_only)
    elif kind == BROKER:
        _alter_broker(cluster, name, alter, validate_only)
    elif kind in ALL:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG, "This broker has no settings for loggers, client metrics and groups"
        )
    else:
        raise unknown_type(kind)


def _alter_topic(cluster: ClusterState, name: str, alter: Alter, validate_only: bool) -> None:
    if not name:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "There are no settings for all topics")
    topic = cluster.topics.get(name)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist")
    after = alter(
        topic.configs, TOPIC_OPTIONS, lambda key: format_value(default_value(TOPIC_OPTIONS[key], cluster.settings))
    )
    cluster.set_topic_configs(name, after, validate_only=validate_only)


def _alter_broker(cluster: ClusterState, name: str, alter: Alter, validate_only: bool) -> None:
    if name != ALL_BROKERS:
        check_this_broker(name, cluster.node_id)
    before = cluster.dynamic.changed.get(name, {})
    after = alter(before, BROKER_OPTIONS, lambda key: format_value(cluster.settings.value(key)))
    cluster.set_broker_configs(name, after, validate_only=validate_only)
