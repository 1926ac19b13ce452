"""Resource types that have settings, and their changes for AlterConfigs and IncrementalAlterConfigs. Not a handler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from kcli.broker.cluster.client_metrics_configs import check_client_metrics_configs
from kcli.broker.cluster.group_configs import GROUP_OPTIONS, check_group_configs, group_values
from kcli.broker.cluster.topic_configs import TOPIC_OPTIONS, default_value
from kcli.broker.cluster.topic_rules import check_name
from kcli.broker.config import BROKER_OPTIONS
from kcli.broker.config_defs import Option
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import CLUSTER_NAME, ResourceType
from kcli.settings import format_value

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.draft_cluster import DraftCluster

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
ALL = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def check_this_broker(name: str, node_id: int) -> None:
    """Raise INVALID_REQUEST unless the name of a broker resource is this broker's id."""
    if name != str(node_id):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"This is broker {node_id}, not {name!r}")


def unknown_type(number: int) -> BrokerError:
    """Return the error for a resource type that Kafka does not define."""
    return BrokerError(ErrorCode.INVALID_REQUEST, f"{number} is not a valid resource type")


def check_allowed(kind: int, name: str, is_allowed: Callable[[ResourceType, str], bool]) -> None:
    """Raise the error of a client that lacks the right to the settings of a resource; an unknown type passes."""
    if kind == TOPIC:
        allowed, code = is_allowed(ResourceType.TOPIC, name), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif kind == GROUP:
        allowed, code = is_allowed(ResourceType.GROUP, name), ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif kind in ALL:
        allowed, code = is_allowed(ResourceType.CLUSTER, CLUSTER_NAME), ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    else:
        return
    if not allowed:
        raise BrokerError(code)


# (previous overrides, allowed options, value of a setting without an override) -> new overrides
Alter = Callable[[Mapping[str, str], Mapping[str, Option], Callable[[str], str]], dict[str, str]]


class Resource(Protocol):
    """The target of a change in a request."""

    resource_type: int
    resource_name: str


class Row(Protocol):
    """The result for a resource in the response."""

    error_code: int
    error_message: str | None


R = TypeVar("R", bound=Resource)
W = TypeVar("W", bound=Row)


def alter_resources(
    cluster: DraftCluster,
    requested: Sequence[R],
    alter_for: Callable[[R], Alter],
    make_row: Callable[..., W],
    is_allowed: Callable[[ResourceType, str], bool],
    *,
    validate_only: bool,
) -> list[W]:
    """Apply the changes and return a row per resource: all its changes or none; duplicates are refused.

    `is_allowed` decides by type and name of the resource of an ACL whether the client may do it.
    """
    counts = Counter((resource.resource_type, resource.resource_name) for resource in requested)
    rows = []
    for resource in requested:
        row = make_row(error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            if counts[resource.resource_type, resource.resource_name] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "The resource is in the request more than once")
            if resource.resource_type == BROKER:
                cluster.check_broker(resource.resource_name)  # comes before the right in Apache Kafka
            check_allowed(resource.resource_type, resource.resource_name, is_allowed)
            _alter(cluster, resource.resource_type, resource.resource_name, alter_for(resource), validate_only)
        except BrokerError as error:
            row.error_code, row.error_message = error.code, error.detail
        rows.append(row)
    return rows


def _alter(cluster: DraftCluster, kind: int, name: str, alter: Alter, validate_only: bool) -> None:
    """Change the overrides, or only validate. BrokerError with the code that Apache Kafka returns."""
    if kind == TOPIC:
        _alter_topic(cluster, name, alter, validate_only)
    elif kind == BROKER:
        _alter_broker(cluster, name, alter, validate_only)
    elif kind == GROUP:
        _alter_group(cluster, name, alter, validate_only)
    elif kind == CLIENT_METRICS:
        _alter_client_metrics(cluster, name, alter, validate_only)
    elif kind in ALL:
        raise BrokerError(ErrorCode.INVALID_CONFIG, "Loggers have no settings in this broker")
    else:
        raise unknown_type(kind)


def _alter_topic(cluster: DraftCluster, name: str, alter: Alter, validate_only: bool) -> None:
    if not name:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "The resource name of a topic must not be empty")
    if name not in cluster.topics:
        check_name(name)
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist")
    overrides = alter(
        cluster.topic_configs(name),
        TOPIC_OPTIONS,
        lambda key: format_value(default_value(TOPIC_OPTIONS[key], cluster.settings)),
    )
    cluster.set_topic_configs(name, overrides, validate_only=validate_only)


def _alter_broker(cluster: DraftCluster, name: str, alter: Alter, validate_only: bool) -> None:
    current = cluster.broker_configs(name)
    overrides = alter(current, BROKER_OPTIONS, lambda key: format_value(cluster.settings.value(key)))
    cluster.set_broker_configs(name, overrides, validate_only=validate_only)


def _alter_group(cluster: DraftCluster, name: str, alter: Alter, validate_only: bool) -> None:
    """Change the settings of a group, which need not exist."""
    if not name:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "The resource name of a group must not be empty")
    defaults = group_values(cluster.settings, {})
    overrides = alter(
        cluster.image.resource_configs(GROUP).get(name, {}), GROUP_OPTIONS, lambda key: format_value(defaults[key])
    )
    check_group_configs(cluster.settings, overrides)
    if not validate_only:
        cluster.set_resource_configs(GROUP, name, overrides)


def _alter_client_metrics(cluster: DraftCluster, name: str, alter: Alter, validate_only: bool) -> None:
    """Change the settings of client metrics, which exist as long as they have any.

    Apache Kafka's controller does not know which of them are lists, so that none can be appended to.
    """
    if not name:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "The resource name of client metrics must not be empty")
    current = cluster.image.resource_configs(CLIENT_METRICS).get(name, {})
    overrides = alter(current, {}, str)
    check_client_metrics_configs(overrides)
    if not validate_only:
        cluster.set_resource_configs(CLIENT_METRICS, name, overrides)
