"""Settings of topics, brokers, groups and client metrics: values and sources (DescribeConfigs, KIP-133), and changes
(KIP-339).

A broker is named by its id, and answers for itself only. The broker "" stands for the settings that all brokers share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kcli.admin.topics import ask_controller
from kcli.client.requests import Located, Results, ask_any, ask_each
from kcli.client.routing import locate_controller
from kcli.errors import KcliError, NotFound
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
    from kcli.protocol.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from kcli.structs import Node, ResourceKind

T = TypeVar("T")

TOPIC = 2
BROKER = 4
CLIENT_METRICS = 16
GROUP = 32
ALL_BROKERS = ""

NUMBERS: Mapping[ResourceKind, int] = {
    "topic": TOPIC,
    "broker": BROKER,
    "group": GROUP,
    "client-metrics": CLIENT_METRICS,
}
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
# The source of a value that is set on the resource itself.
_OWN_SOURCES = {TOPIC: 1, BROKER: 2, CLIENT_METRICS: 7, GROUP: 8}
_OWN_SOURCE_OF_ALL_BROKERS = 3


class Setting(NamedTuple):
    """One setting. `value` is None for a secret; `source` is one of SOURCES, or "unknown"."""

    name: str
    value: str | None
    source: str
    read_only: bool = False
    sensitive: bool = False


def configs_request(
    resource_type: int, names: Iterable[str], keys: Sequence[str] | None = None, *, with_synonyms: bool = False
) -> DescribeConfigsRequest:
    """Return the request for all settings, or these `keys`, of the resources; a broker answers for itself only."""
    wanted = None if keys is None else list(keys)
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=wanted)
            for name in names
        ],
        include_synonyms=with_synonyms,
    )


def describe_configs(
    client: ConsumerNetworkClient,
    resource_type: int,
    names: Iterable[str],
    deadline_ms: float,
    *,
    keys: Sequence[str] | None = None,
) -> Results[str, list[Setting]]:
    """Return all settings, or these `keys`, of resources of one type."""
    return _describe(
        client, resource_type, list(names), lambda _name, result: _settings(result), deadline_ms, keys=keys
    )


def read_configs(response: DescribeConfigsResponse) -> Results[str, list[Setting]]:
    """Return the settings in a response, by the name of the resource."""
    return _read(response, lambda _name, result: _settings(result))


def _settings(result: DescribeConfigsResult) -> list[Setting]:
    return sorted(
        Setting(
            config.name,
            None if config.is_sensitive else config.value,
            SOURCES.get(config.config_source, "unknown"),
            config.read_only,
            config.is_sensitive,
        )
        for config in result.configs
    )


def _read(response: DescribeConfigsResponse, read: Callable[[str, DescribeConfigsResult], T]) -> Results[str, T]:
    results: Results[str, T] = Results()
    for result in response.results:
        name = result.resource_name
        if result.error_code:
            results.errors[name] = response.broker_error(result.error_code, result.error_message, resource=name)
        else:
            results.values[name] = read(name, result)
    return results


def _describe(
    client: ConsumerNetworkClient,
    resource_type: int,
    names: list[str],
    read: Callable[[str, DescribeConfigsResult], T],
    deadline_ms: float,
    *,
    keys: Sequence[str] | None = None,
    with_synonyms: bool = False,
) -> Results[str, T]:
    """Return what `read` makes of each resource."""
    request = partial(configs_request, resource_type, keys=keys, with_synonyms=with_synonyms)
    results: Results[str, T] = Results()
    anywhere = [name for name in names if resource_type != BROKER or name == ALL_BROKERS]
    if anywhere:
        results = _read(ask_any(client, request(anywhere), deadline_ms), read)
    if brokers := [name for name in names if name not in anywhere]:
        nodes = {name: _node(client, name, deadline_ms) for name in brokers}
        responses = ask_each(
            client,
            [node for node in nodes.values() if not isinstance(node, NotFound)],
            lambda node: request([str(node.id)]),
            lambda _node, response: response,
            deadline_ms,
        )
        for name, node in nodes.items():
            if isinstance(node, NotFound):
                results.errors[name] = node
            elif node in responses.errors:
                results.errors[name] = responses.errors[node]
            else:
                found = _read(responses.values[node], read)
                results.values.update(found.values)
                results.errors.update(found.errors)
    results.fill_missing(names, "DescribeConfigs")
    return results


def _node(client: ConsumerNetworkClient, name: str, deadline_ms: float) -> Node | NotFound:
    """Return the broker with this id, or the error."""
    for look in range(2):
        nodes = {str(node.id): node for node in client.metadata.cluster.nodes.values() if node.id >= 0}
        if name in nodes:
            return nodes[name]
        if not look:
            client.ensure_fresh_metadata(deadline_ms)
    return NotFound(f"there is no broker {name!r}; the ids are {', '.join(sorted(nodes, key=int))}")


class OwnSetting(NamedTuple):
    """A setting of a resource: its effective value, the value set on the resource itself, and the inherited one.

    None: there is no such value, or it is a secret.
    """

    value: str | None
    own: str | None
    inherited: str | None
    sensitive: bool = False


def own_settings(
    client: ConsumerNetworkClient, resource_type: int, names: Iterable[str], deadline_ms: float
) -> Results[str, dict[str, OwnSetting]]:
    """Return all settings of these resources by name, with the values that they have without their own.

    Those of all brokers ("") are the ones that are set; their inherited values are not known.
    """

    def read(name: str, result: DescribeConfigsResult) -> dict[str, OwnSetting]:
        of_all = resource_type == BROKER and name == ALL_BROKERS
        own_source = _OWN_SOURCE_OF_ALL_BROKERS if of_all else _OWN_SOURCES[resource_type]
        settings = {}
        for config in result.configs:
            if config.is_sensitive:
                settings[config.name] = OwnSetting(None, None, None, True)
                continue
            # Kafka's broker returns a changed value of its own as a synonym before it takes effect.
            own = [synonym.value for synonym in config.synonyms if synonym.source == own_source]
            others = [synonym for synonym in config.synonyms if synonym.source != own_source]
            if config.config_source == own_source:
                inherited = _inherited(config.name, others[0].name, others[0].value) if others else None
                settings[config.name] = OwnSetting(config.value, own[0] if own else config.value, inherited)
            else:
                settings[config.name] = OwnSetting(config.value, None, config.value)
        return settings

    return _describe(client, resource_type, list(names), read, deadline_ms, with_synonyms=True)


_UNITS_MS = {".hours": 3_600_000, ".minutes": 60_000}
_SET, _DELETE = 0, 1


def _inherited(name: str, synonym: str, value: str | None) -> str | None:
    """Return the value of a broker's setting for the topic setting `name`: log.retention.hours counts hours."""
    for unit, factor in _UNITS_MS.items():
        if name.endswith(".ms") and synonym.endswith(unit):
            is_number = value is not None and value.isdecimal()
            return str(int(value or "") * factor) if is_number else value
    return value


def alter_configs(
    client: ConsumerNetworkClient,
    resource_type: int,
    changes: Mapping[str, Mapping[str, str | None]],
    deadline_ms: float,
    *,
    dry_run: bool = False,
) -> Results[str, None]:
    """Set these settings of resources of one type (None: delete); all of one or none. Kafka 2.3 and later.

    With `dry_run` the brokers only check them. Errors by name are BrokerErrors, and OutcomeUnknown for a lost response
    to a change that is not visible.
    """

    def build(names: list[str]) -> IncrementalAlterConfigsRequest:
        from kcli.protocol.messages.incremental_alter_configs import (
            AlterableConfig,
            AlterConfigsResource,
            IncrementalAlterConfigsRequest,
        )

        return IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=resource_type,
                    resource_name=name,
                    configs=[
                        AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
                        for key, value in changes[name].items()
                    ],
                )
                for name in names
            ],
            validate_only=dry_run,
        )

    def read(response: IncrementalAlterConfigsResponse) -> Iterator[tuple[str, KcliError | None]]:
        for result in response.responses:
            name, code = result.resource_name, result.error_code
            yield name, response.broker_error(code, result.error_message, resource=name) if code else None

    def confirm(names: Sequence[str], deadline_ms: float) -> Results[str, None]:
        found = own_settings(client, resource_type, names, deadline_ms)
        made = {
            name: None
            for name, settings in found.values.items()
            if all(key in settings and settings[key].own == value for key, value in changes[name].items())
        }
        return Results(made, found.errors)

    def locate(names: Sequence[str], failures: Mapping[str, KcliError], deadline_ms: float) -> Located[str]:
        if resource_type != BROKER:
            return locate_controller(client, names, failures, deadline_ms)
        located = locate_controller(client, [name for name in names if name == ALL_BROKERS], failures, deadline_ms)
        for name in names:
            if name != ALL_BROKERS:
                node = _node(client, name, deadline_ms)
                if isinstance(node, NotFound):
                    located.absent[name] = node
                else:
                    located.add(node, name)
        return located

    return ask_controller(client, changes, build, read, None if dry_run else confirm, deadline_ms, locate=locate)
