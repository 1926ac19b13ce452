"""Configs of one KIP-848 group, where the broker's are too short or too long for a test."""

from __future__ import annotations

from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.requests import ask_any
from kcli.protocol.messages import incremental_alter_configs as configs
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.real_kafka import Kafka, read_until_equal

GROUP_CONFIG = 32  # the type of a resource
PATIENCE_MS = 20_000
LONGEST_SESSION_S = 60.0  # that a broker allows by default


def configure_group(client: ConsumerNetworkClient, group: str, settings: dict[str, str]) -> None:
    altered = [configs.AlterableConfig(name=name, value=value) for name, value in settings.items()]
    resource = configs.AlterConfigsResource(resource_type=GROUP_CONFIG, resource_name=group, configs=altered)
    request = configs.IncrementalAlterConfigsRequest(resources=[resource])
    (answer,) = ask_any(client, request, client.clock.now_ms() + PATIENCE_MS).responses
    assert not answer.error_code, answer

    def described() -> dict[str, str | None]:
        asked = DescribeConfigsResource(
            resource_type=GROUP_CONFIG, resource_name=group, configuration_keys=list(settings)
        )
        request = DescribeConfigsRequest(resources=[asked])
        (found,) = ask_any(client, request, client.clock.now_ms() + PATIENCE_MS).results
        return {config.name: config.value for config in found.configs}

    # A member that joins before the broker has applied the change gets the settings of the broker.
    assert read_until_equal(settings, described) == settings


def session_of(seconds: float) -> dict[str, str]:
    return {"consumer.session.timeout.ms": str(int(seconds * 1000))}


def new_group(kafka: Kafka, session_s: float) -> str:
    """Create a group with this session timeout and return its name."""
    group = kafka.new_name("group")
    with connect(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers})) as client:
        configure_group(client, group, session_of(session_s))
    return group
