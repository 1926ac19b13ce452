"""AlterConfigs (33), v0-2, and IncrementalAlterConfigs (44), v0-1: change settings of topics, groups and brokers.

AlterConfigs replaces all overrides of a resource; it is superseded by the other one, which changes single ones
(KIP-339). Changes survive restarts. Of the broker's settings those can be changed that are defaults of topic settings,
and a few that have no effect here; the others are refused (42), as Apache Kafka refuses its static settings.
Deliberately missing: broker loggers, which have no settings here (40).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kcli.broker.cluster.client_metrics_configs import check_client_metrics_configs
from kcli.broker.cluster.decide import config_resources as resources
from kcli.broker.cluster.dynamic_config import SET, Change, apply_changes
from kcli.broker.cluster.group_configs import GROUP_OPTIONS, check_group_configs
from kcli.broker.cluster.topic_configs import TOPIC_OPTIONS, default_value
from kcli.broker.cluster.topic_rules import check_name
from kcli.broker.config import BROKER_OPTIONS
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages import alter_configs, incremental_alter_configs
from kcli.settings import format_value

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.draft_cluster import DraftCluster
    from kcli.broker.cluster.decide.parts import Parts

_Request: TypeAlias = "alter_configs.AlterConfigsRequest | incremental_alter_configs.IncrementalAlterConfigsRequest"
_Response: TypeAlias = "alter_configs.AlterConfigsResponse | incremental_alter_configs.IncrementalAlterConfigsResponse"

_NAMED = {resources.TOPIC: "a topic", resources.GROUP: "a group", resources.CLIENT_METRICS: "client metrics"}


def handle(parts: Parts, request: _Request, context: RequestContext) -> _Response:
    """Return a result per resource: all its changes or none; a duplicate resource is refused."""
    replaces = isinstance(request, alter_configs.AlterConfigsRequest)
    messages: Any = alter_configs if replaces else incremental_alter_configs
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    is_allowed = partial(parts.authorizer.allows, context, AclOperation.ALTER_CONFIGS)
    rows = []
    resource: Any
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        row = messages.AlterConfigsResourceResponse(error_message=None, resource_type=kind, resource_name=name)
        rows.append(row)
        changes = [
            Change(config.name, SET if replaces else config.config_operation, config.value)
            for config in resource.configs
        ]
        try:
            if counts[kind, name] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "The resource is in the request more than once")
            if kind == resources.BROKER:
                parts.cluster.check_broker(name)  # comes before the right in Apache Kafka
            resources.check_allowed(kind, name, is_allowed)
            _check_resource(parts.cluster, kind, name)
            current = {} if replaces else parts.cluster.image.configs.get((kind, name), {})
            _alter(parts.cluster, kind, name, partial(apply_changes, current, changes), request.validate_only)
        except BrokerError as error:
            row.error_code, row.error_message = error.code, error.detail
    response: _Response = type(request).RESPONSE(responses=rows)
    return response


def _check_resource(cluster: DraftCluster, kind: int, name: str) -> None:
    """Raise BrokerError, with the code that Apache Kafka returns, unless this resource can have settings."""
    if kind not in resources.ALL:
        raise resources.unknown_type(kind)
    if kind == resources.BROKER_LOGGER:
        raise BrokerError(ErrorCode.INVALID_CONFIG, "Loggers have no settings in this broker")
    if kind in _NAMED and not name:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"The resource name of {_NAMED[kind]} must not be empty")
    if kind == resources.TOPIC and name not in cluster.topics:
        check_name(name)
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist")


def _alter(
    cluster: DraftCluster, kind: int, name: str, changed: Callable[..., dict[str, str]], validate_only: bool
) -> None:
    """Change the overrides, or only validate.

    `changed(options, value_of)` returns the new overrides. `value_of` is the value of a list without an override.
    """
    settings = cluster.settings
    if kind == resources.TOPIC:
        overrides = changed(TOPIC_OPTIONS, lambda key: format_value(default_value(TOPIC_OPTIONS[key], settings)))
        cluster.set_topic_configs(name, overrides, validate_only=validate_only)
    elif kind == resources.BROKER:
        overrides = changed(BROKER_OPTIONS, lambda key: format_value(settings.value(key)))
        cluster.set_broker_configs(name, overrides, validate_only=validate_only)
    else:
        if kind == resources.GROUP:  # which need not exist
            overrides = changed(GROUP_OPTIONS, lambda key: format_value(default_value(GROUP_OPTIONS[key], settings)))
            check_group_configs(settings, overrides)
        else:  # Apache Kafka's controller does not know which of these are lists, so that none can be appended to
            overrides = changed({}, str)
            check_client_metrics_configs(overrides)
        if not validate_only:
            cluster.set_resource_configs(kind, name, overrides)
