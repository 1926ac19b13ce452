"""Settings of topics and brokers, with their sources."""

from __future__ import annotations

from kcli.admin.configs import BROKER, TOPIC, Setting, describe_configs
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.admin.test_topics import asking, code
from tests.cli.loopback import loopback_broker


def test_settings_have_their_source() -> None:
    def answer(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        settings = [
            DescribeConfigsResourceResult(name="z", value=None, config_source=4, is_sensitive=True, read_only=True),
            DescribeConfigsResourceResult(name="a", value="1", config_source=1),
            DescribeConfigsResourceResult(name="b", value="1", config_source=77),
        ]
        denied = DescribeConfigsResult(resource_type=2, resource_name="t2", error_code=29, error_message=None)
        return DescribeConfigsResponse(
            results=[DescribeConfigsResult(resource_type=2, resource_name="t1", configs=settings), denied]
        )

    with loopback_broker({DescribeConfigsRequest: answer}) as broker, asking(broker) as (client, deadline):
        found = describe_configs(client, TOPIC, ["t1", "t2"], deadline)
        asked = broker.requests[-1].resources
        node = next(iter(client.topics_metadata([], deadline).nodes.values()))
        describe_configs(client, BROKER, ["1"], deadline, keys=["a"], node=node)
        of_broker = broker.requests[-1].resources
    assert found.values["t1"] == [
        Setting("a", "1", "topic"),
        Setting("b", "1", "unknown"),
        Setting("z", None, "static-broker", read_only=True, sensitive=True),
    ]
    assert code(found.errors["t2"]) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [(r.resource_type, r.resource_name, r.configuration_keys) for r in asked] == [
        (2, "t1", None),
        (2, "t2", None),
    ]
    assert [(r.resource_type, r.resource_name, r.configuration_keys) for r in of_broker] == [(4, "1", ["a"])]
