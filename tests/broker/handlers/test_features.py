"""Features in ApiVersions (KIP-584, KIP-1022): a single broker and a single node of Apache Kafka."""

from __future__ import annotations

from kcli.protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.wire import Wire

NOT_SERVED = {"share.version", "streams.version"}


def test_features_are_those_of_a_new_cluster_of_apache_kafka(wire: Wire) -> None:
    answer = wire.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    supported = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
    finalized = {one.name: one.max_version_level for one in answer.finalized_features}
    assert {name: range for name, range in supported.items() if name not in NOT_SERVED} == {
        "metadata.version": (7, 30),
        "kraft.version": (0, 1),
        "transaction.version": (0, 2),
        "group.version": (0, 1),
        "eligible.leader.replicas.version": (0, 1),
    }
    assert {name: level for name, level in finalized.items() if name not in NOT_SERVED} == {
        "metadata.version": 30,
        "kraft.version": 1,
        "transaction.version": 2,
        "group.version": 1,
        "eligible.leader.replicas.version": 1,
    }
    assert all(one.min_version_level == one.max_version_level for one in answer.finalized_features)
    assert answer.finalized_features_epoch >= 0


def test_feature_that_may_be_off_is_not_supported_before_v4(wire: Wire) -> None:
    answer = wire.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    assert [one.name for one in answer.supported_features] == ["metadata.version"]
    assert "transaction.version" in {one.name for one in answer.finalized_features}
