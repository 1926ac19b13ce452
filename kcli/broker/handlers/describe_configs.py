"""DescribeConfigs (32), v1-4: the settings of topics and of the broker, and where their values come from.

Documentation is not told: the field is null. Loggers, client metrics and groups have no settings here, so theirs are
empty lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.config_entries import ConfigEntry, broker_entries, entries_of_all_brokers, topic_entries
from kcli.broker.handlers import config_resources as resources
from kcli.broker.request_context import RequestContext
from kcli.broker.topic_rules import check_name
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
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
    from kcli.broker.cluster_state import ClusterState


def handle(broker: Broker, request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    """A result per resource; no keys, like null, asks for all of them."""
    return DescribeConfigsResponse(
        results=[_describe(broker.cluster, one, request.include_synonyms) for one in request.resources]
    )


def _describe(cluster: ClusterState, asked: DescribeConfigsResource, with_synonyms: bool) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="", resource_type=asked.resource_type, resource_name=asked.resource_name
    )
    try:
        entries = _entries(cluster, asked.resource_type, asked.resource_name)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.detail
        return result
    wanted = set(asked.configuration_keys or ())
    result.configs = [_told(entry, with_synonyms) for entry in entries if not wanted or entry.name in wanted]
    return result


def _entries(cluster: ClusterState, kind: int, name: str) -> list[ConfigEntry]:
    if kind == resources.TOPIC:
        check_name(name)
        if name not in cluster.topics:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic_entries(cluster.dynamic, cluster.topics[name].configs)
    if kind == resources.BROKER and not name:
        return entries_of_all_brokers(cluster.dynamic)
    if kind in (resources.BROKER, resources.BROKER_LOGGER):
        resources.check_this_broker(name, cluster.node_id)
        return broker_entries(cluster.dynamic) if kind == resources.BROKER else []
    if kind not in resources.ALL:
        raise resources.unknown_type(kind)
    if not name:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "The resource has no name")
    return []


def _told(entry: ConfigEntry, with_synonyms: bool) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if with_synonyms else []
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        synonyms=[DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source) for one in synonyms],
        config_type=entry.type_number,
        documentation=None,
    )
