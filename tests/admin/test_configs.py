"""Settings of topics and brokers, with their sources."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from kcli import Admin, Wanted
from kcli.admin.configs import (
    TOPIC,
    OwnSetting,
    Setting,
    alter_configs,
    describe_configs,
    own_settings,
    read_configs,
)
from kcli.broker.testing.embedded_cluster import EmbeddedCluster
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kcli.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kcli.protocol.registry import ApiKey
from kcli.protocol.wire import Message
from tests.admin.test_topics import asking, code
from tests.cli.loopback import loopback_broker
from tests.client.fake_cluster import FakeCluster
from tests.network.memory import MemoryPeer


def test_settings_have_their_source() -> None:
    def answer(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        settings = [
            DescribeConfigsResourceResult(name="z", value=None, config_source=4, is_sensitive=True, read_only=True),
            DescribeConfigsResourceResult(name="a", value="1", config_source=1),
            DescribeConfigsResourceResult(name="b", value="1", config_source=77),
        ]
        denied = DescribeConfigsResult(
            resource_type=2, resource_name="t2", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=None
        )
        return DescribeConfigsResponse(
            results=[DescribeConfigsResult(resource_type=2, resource_name="t1", configs=settings), denied]
        )

    with loopback_broker({DescribeConfigsRequest: answer}) as broker, asking(broker) as (client, deadline):
        found = describe_configs(client, TOPIC, ["t1", "t2"], deadline)
        asked = broker.requests[-1].resources
        describe_configs(client, TOPIC, ["t1"], deadline, keys=["a"])
        with_keys = broker.requests[-1].resources
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
    assert [(r.resource_type, r.resource_name, r.configuration_keys) for r in with_keys] == [(2, "t1", ["a"])]


def described(*settings: DescribeConfigsResourceResult) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[DescribeConfigsResult(resource_type=2, resource_name="t", configs=list(settings))]
    )


@pytest.mark.parametrize(
    ("name", "synonym", "value", "inherited"),
    [
        ("retention.ms", "log.retention.ms", "5", "5"),
        ("retention.ms", "log.retention.minutes", "5", "300000"),
        ("retention.ms", "log.retention.hours", "168", "604800000"),
        ("retention.ms", "log.retention.hours", "-1", "-1"),
        ("segment.ms", "log.roll.hours", None, None),
        ("cleanup.policy", "log.cleanup.policy", "delete", "delete"),
    ],
)
def test_the_value_that_a_setting_would_inherit_is_in_the_unit_of_the_topic(
    name: str, synonym: str, value: str | None, inherited: str | None
) -> None:
    """Source: ServerTopicConfigSynonyms of Kafka; DescribeConfigs returns the broker's settings in their own units."""
    synonyms = [
        DescribeConfigsSynonym(name=name, value="own", source=1),
        DescribeConfigsSynonym(name=synonym, value=value, source=5),
    ]
    response = described(
        DescribeConfigsResourceResult(name=name, value="own", config_source=1, synonyms=synonyms),
        DescribeConfigsResourceResult(name="other", value="7", config_source=4),
        DescribeConfigsResourceResult(name="alone", value="7", config_source=1),
    )
    with (
        loopback_broker({DescribeConfigsRequest: lambda _request: response}) as broker,
        asking(broker) as (client, deadline),
    ):
        found = own_settings(client, TOPIC, ["t"], deadline).values["t"]
        assert own_settings(client, TOPIC, [], deadline).values == {}
    assert found[name] == OwnSetting("own", "own", inherited)
    assert found["other"] == OwnSetting("7", None, "7")
    assert found["alone"] == OwnSetting("7", "7", None)


class Topic(FakeCluster):
    """A broker that changes the settings of topic t, and whose first response is lost."""

    def __init__(self, *, makes_changes: bool = True) -> None:
        super().__init__("a:9092")
        self.settings = {"old": "1"}
        self.makes_changes = makes_changes
        self.answers |= {ApiKey.INCREMENTAL_ALTER_CONFIGS: self._alter, ApiKey.DESCRIBE_CONFIGS: self._describe}

    def _alter(self, peer: MemoryPeer, request: IncrementalAlterConfigsRequest, _version: int) -> Message | None:
        for change in request.resources[0].configs if self.makes_changes and not request.validate_only else ():
            if change.config_operation == 0:
                self.settings[change.name] = change.value or ""
            else:
                self.settings.pop(change.name, None)
        if len(self.requests(ApiKey.INCREMENTAL_ALTER_CONFIGS)) == 1:
            peer.reset()
            return None
        return IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(resource_name="t")])

    def _describe(self, _peer: MemoryPeer, _request: Any, _version: int) -> Message:
        own = [DescribeConfigsResourceResult(name=n, value=v, config_source=1) for n, v in self.settings.items()]
        inherited = [DescribeConfigsResourceResult(name=n, value="9", config_source=5) for n in {"old", "new"}]
        return described(*own, *(it for it in inherited if it.name not in self.settings))


def test_a_change_whose_response_is_lost_is_made_once() -> None:
    cluster = Topic()
    with cluster.connect("a:9092") as client:
        done = alter_configs(client, TOPIC, {"t": {"new": "2", "old": None}}, 10_000)
    assert (done.values, done.errors) == ({"t": None}, {})
    assert cluster.settings == {"new": "2"}
    assert len(cluster.requests(ApiKey.INCREMENTAL_ALTER_CONFIGS)) == 1


def test_a_change_that_was_lost_on_its_way_is_sent_again() -> None:
    cluster = Topic(makes_changes=False)
    with cluster.connect("a:9092") as client:
        done = alter_configs(client, TOPIC, {"t": {"new": "2"}}, 10_000)
    assert (done.values, done.errors) == ({"t": None}, {})
    assert len(cluster.requests(ApiKey.INCREMENTAL_ALTER_CONFIGS)) == 2


def test_a_check_changes_nothing() -> None:
    cluster = Topic()
    with cluster.connect("a:9092") as client:
        done = alter_configs(client, TOPIC, {"t": {"new": "2"}}, 10_000, dry_run=True)
    assert (done.errors, cluster.settings) == ({}, {"old": "1"})
    assert all(asked.request.validate_only for asked in cluster.requests(ApiKey.INCREMENTAL_ALTER_CONFIGS))


def test_each_broker_is_asked_for_its_own_settings_and_changes_them() -> None:
    with EmbeddedCluster(nodes=2) as cluster, Admin(cluster.bootstrap_servers, timeout_ms=10_000) as admin:
        ids = [str(node) for node in cluster.nodes]
        found = admin.describe_configs(*ids, kind="broker", keys=["node.id"])
        assert {name: settings["node.id"].value for name, settings in found.values.items()} == {id: id for id in ids}
        wanted = {id: Wanted(settings={"message.max.bytes": f"9{id}"}) for id in ids}
        with TemporaryDirectory() as folder:
            done = admin.alter(admin.plan_alterations(wanted, kind="broker"), folder=Path(folder))
        assert done.values == {(id, "message.max.bytes"): f"9{id}" for id in ids}
        plan = admin.plan_alterations(wanted, kind="broker")
        assert [(row.owner, row.action, row.own) for row in plan.rows] == [(id, "keep", f"9{id}") for id in ids]


def test_a_secret_has_no_value_even_if_a_broker_returns_it() -> None:
    secret = DescribeConfigsResourceResult(name="ssl.key.password", value="x", config_source=2, is_sensitive=True)
    (setting,) = read_configs(described(secret)).values["t"]
    assert setting == Setting("ssl.key.password", None, "dynamic-broker", sensitive=True)
