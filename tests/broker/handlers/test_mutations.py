"""controller_mutation_rate (KIP-599): partitions that a client may create, add and delete in a second."""

from __future__ import annotations

import select
from typing import Any

import pytest

from kcli.broker.quotas import ClientQuotas, Windows
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kcli.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kcli.protocol.messages.metadata import MetadataRequest
from tests.broker.wire import Wire
from tests.real_kafka import Kafka

EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
ALICE = "User:alice"


def created(wire: Wire, name: str, partitions: int, version: int = 7, **how: Any) -> tuple[int, int]:
    """Return the error code and the throttle time."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    response = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000, **how), version)
    return response.topics[0].error_code, response.throttle_time_ms


def limit_mutations(wire: Wire, rate: float) -> None:
    entry = EntryData(
        entity=[EntityData(entity_type="client-id", entity_name="wire")],
        ops=[OpData(key="controller_mutation_rate", value=rate)],
    )
    (row,) = wire.ask(AlterClientQuotasRequest(entries=[entry]), 1).entries
    assert row.error_code == 0


def test_topics_over_the_quota_are_refused_and_older_versions_wait(
    any_kafka: Kafka, request: pytest.FixtureRequest
) -> None:
    """The burst of 11 windows of a second at 1 per second is 11, and one request may exceed it.

    A connection is muted after it, so each request has its own.
    """
    first, second, third = (any_kafka.new_name("m") for _ in range(3))

    def wire() -> Wire:
        connection = Wire(any_kafka.bootstrap_servers)
        request.addfinalizer(connection.sock.close)
        return connection

    limit_mutations(wire(), 1.0)
    request.addfinalizer(lambda: limit_mutations(Wire(any_kafka.bootstrap_servers), 1e9))
    assert created(wire(), first, 40)[0] == 0
    code, wait_ms = created(muted := wire(), second, 1)
    assert code == EXCEEDED
    assert wait_ms > 1000
    muted.request(MetadataRequest(topics=[]), 12)
    assert select.select([muted.sock], [], [], 0.3)[0] == []
    grow = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=first, count=41, assignments=None)], timeout_ms=10_000
    )
    assert wire().ask(grow, 3).results[0].error_code == EXCEEDED
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name=first)], timeout_ms=10_000)
    assert wire().ask(delete, 6).responses[0].error_code == EXCEEDED
    code, wait_ms = created(wire(), third, 1, version=5)
    assert code == 0
    assert wait_ms > 1000


def test_tokens_come_back_with_time_and_only_a_debt_refuses() -> None:
    quotas = ClientQuotas(Windows(11, 1000.0), {(("user", "alice"),): {"controller_mutation_rate": 2.0}})
    assert quotas.mutate(ALICE, None, 30, 0, refuses=True) == 0  # 22 tokens are enough to begin
    assert quotas.mutate(ALICE, None, 1, 0, refuses=True) == 4000
    assert quotas.mutate(ALICE, None, 1, 3000, refuses=True) == 1000
    assert quotas.mutate(ALICE, None, 1, 4000, refuses=True) == 0
    assert quotas.mutate(ALICE, None, 1, 4000, refuses=False) == 1000
    assert quotas.mutate("User:bob", None, 99, 0, refuses=True) == 0


def test_without_a_quota_nothing_is_counted() -> None:
    with EmbeddedBroker() as broker, Wire(broker.address) as wire:
        assert created(wire, "t", 100) == (0, 0)
