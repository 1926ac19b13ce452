"""DescribeConfigs (32), v1-4: settings of topics, groups, client metrics and the broker, with their values' sources.

Deliberately missing: documentation (null); loggers, which have no settings here (empty lists).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kcli.broker.cluster.config_entries import (
    ConfigEntry,
    broker_entries,
    client_metrics_entries,
    entries_of_all_brokers,
    group_entries,
    topic_entries,
)
from kcli.broker.cluster.decide import config_resources as resources
from kcli.broker.cluster.topic_rules import check_name
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster.decide.draft_cluster import DraftCluster
    from kcli.broker.cluster.decide.parts import Parts
    from kcli.broker.cluster.view import ClusterView


def handle(broker: Broker | Parts, request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    """Return a result per resource; an empty list of keys means all keys, like null."""
    return DescribeConfigsResponse(
        results=[_describe(broker, context, resource, request.include_synonyms) for resource in request.resources]
    )


def _describe(
    broker: Broker | Parts, context: RequestContext, resource: DescribeConfigsResource, with_synonyms: bool
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        is_allowed = partial(broker.authorizer.allows, context, AclOperation.DESCRIBE_CONFIGS)
        resources.check_allowed(resource.resource_type, resource.resource_name, is_allowed)
        entries = _entries(broker.cluster, resource.resource_type, resource.resource_name)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.detail
        return result
    keys = set(resource.configuration_keys or ())
    result.configs = [_row(entry, with_synonyms) for entry in entries if not keys or entry.name in keys]
    return result


def _entries(cluster: ClusterView | DraftCluster, kind: int, name: str) -> list[ConfigEntry]:
    if kind == resources.TOPIC:
        check_name(name)
        if name not in cluster.topics:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic_entries(cluster.dynamic, cluster.topic_configs(name))
    if kind == resources.BROKER and not name:
        return entries_of_all_brokers(cluster.dynamic)
    if kind in (resources.BROKER, resources.BROKER_LOGGER):
        resources.check_this_broker(name, cluster.node_id)
        return broker_entries(cluster.dynamic) if kind == resources.BROKER else []
    if kind not in resources.ALL:
        raise resources.unknown_type(kind)
    if not name:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "The resource name must not be empty")
    if kind == resources.GROUP:
        return group_entries(cluster.dynamic, cluster.image.resource_configs(kind).get(name, {}))
    return client_metrics_entries(cluster.dynamic, cluster.image.resource_configs(kind).get(name, {}))


def _row(entry: ConfigEntry, with_synonyms: bool) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if with_synonyms else []
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=row.name, value=row.value, source=row.source) for row in synonyms],
        config_type=entry.type_number,
        documentation=None,
    )
