"""Settings of topics, brokers and groups, with the source of each value (DescribeConfigs, KIP-133)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.client.requests import Results, ask_any, ask_node
from kcli.errors import BrokerError, KcliError

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.describe_configs import DescribeConfigsResponse
    from kcli.structs import Node

TOPIC = 2
BROKER = 4
GROUP = 32

SOURCES = {
    1: "topic",
    2: "dynamic-broker",
    3: "dynamic-default-broker",
    4: "static-broker",
    5: "default",
    6: "dynamic-broker-logger",
    7: "client-metrics",
    8: "group",
}


class Setting(NamedTuple):
    """One setting. `value` is None for a secret; `source` is one of SOURCES, or "unknown"."""

    name: str
    value: str | None
    source: str
    read_only: bool = False
    sensitive: bool = False


def describe_configs(
    client: ConsumerNetworkClient,
    resource_type: int,
    names: Iterable[str],
    deadline_ms: float,
    *,
    keys: Sequence[str] | None = None,
    node: Node | None = None,
) -> Results[str, list[Setting]]:
    """Return all settings, or these `keys`, of the resources. For a broker, give its `node`."""
    from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    names, wanted = list(names), None if keys is None else list(keys)
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=wanted)
            for name in names
        ]
    )
    if node is not None:
        results = _read(ask_node(client, node, request, deadline_ms))
    else:
        results = _read(ask_any(client, request, deadline_ms))
    results.fill_missing(names, "DescribeConfigs")
    return results


def _read(response: DescribeConfigsResponse) -> Results[str, list[Setting]]:
    values: dict[str, list[Setting]] = {}
    errors: dict[str, KcliError] = {}
    for result in response.results:
        name = result.resource_name
        if result.error_code:
            errors[name] = BrokerError(
                result.error_code, result.error_message, request="DescribeConfigs", resource=name
            )
            continue
        values[name] = sorted(
            Setting(c.name, c.value, SOURCES.get(c.config_source, "unknown"), c.read_only, c.is_sensitive)
            for c in result.configs
        )
    return Results(values, errors)
