"""Settings of topics, brokers and groups: values and sources (DescribeConfigs, KIP-133), and changes (KIP-339)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.topics import ask_controller
from kcli.client.requests import Results, ask_any
from kcli.errors import KcliError
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.describe_configs import DescribeConfigsResponse
    from kcli.protocol.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )

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
    """Return all settings, or these `keys`, of topics or groups."""
    names = list(names)
    results = read_configs(ask_any(client, configs_request(resource_type, names, keys), deadline_ms))
    results.fill_missing(names, "DescribeConfigs")
    return results


def read_configs(response: DescribeConfigsResponse) -> Results[str, list[Setting]]:
    """Return the settings in a response, by the name of the resource."""
    values: dict[str, list[Setting]] = {}
    errors: dict[str, KcliError] = {}
    for result in response.results:
        name = result.resource_name
        if result.error_code:
            errors[name] = response.broker_error(result.error_code, result.error_message, resource=name)
            continue
        values[name] = sorted(
            Setting(c.name, c.value, SOURCES.get(c.config_source, "unknown"), c.read_only, c.is_sensitive)
            for c in result.configs
        )
    return Results(values, errors)


class OwnSetting(NamedTuple):
    """A setting of a resource: its effective value, the value set on the resource itself, and the inherited one.

    None: there is no such value, or it is a secret.
    """

    value: str | None
    own: str | None
    inherited: str | None


def own_settings(
    client: ConsumerNetworkClient, resource_type: int, names: Iterable[str], deadline_ms: float
) -> Results[str, dict[str, OwnSetting]]:
    """Return all settings of these topics or groups by name, with the values that they have without their own."""
    names = list(names)
    results: Results[str, dict[str, OwnSetting]] = Results()
    if not names:
        return results
    own_source = SOURCES[1] if resource_type == TOPIC else SOURCES[8]
    response = ask_any(client, configs_request(resource_type, names, with_synonyms=True), deadline_ms)
    for result in response.results:
        name = result.resource_name
        if result.error_code:
            results.errors[name] = response.broker_error(result.error_code, result.error_message, resource=name)
            continue
        settings = {}
        for config in result.configs:
            is_own = SOURCES.get(config.config_source) == own_source
            others = [synonym for synonym in config.synonyms if SOURCES.get(synonym.source) != own_source]
            inherited = _inherited(config.name, others[0].name, others[0].value) if is_own and others else None
            inherited = inherited if is_own else config.value
            settings[config.name] = OwnSetting(config.value, config.value if is_own else None, inherited)
        results.put(name, settings)
    results.fill_missing(names, "DescribeConfigs")
    return results


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
    """Set these settings of topics or groups (None: delete); all of one resource or none. Kafka 2.3 and later.

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

    return ask_controller(client, changes, build, read, None if dry_run else confirm, deadline_ms)
