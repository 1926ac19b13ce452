"""DescribeClientQuotas on a node: the conditions and errors of ClientQuotasImage in Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kcli.protocol.metadata_records import ClientQuotaRecord, EntityData
from tests.broker.handlers.test_metadata_of_a_cluster import NodeParts

EXACT, DEFAULT, ANY = 0, 1, 2
INVALID_REQUEST, UNSUPPORTED_VERSION = 42, 35


def quota(value: float, **entity: str | None) -> Any:
    parts = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()]
    return ClientQuotaRecord(entity=parts, key="producer_byte_rate", value=value)


@pytest.fixture
def node() -> NodeParts:
    return NodeParts(
        quota(1, user="alice"), quota(2, user=None), quota(3, user="alice", client_id="app"), quota(4, client_id="app")
    )


def found(node: NodeParts, *components: tuple[str, int, str | None], strict: bool = False) -> list[float]:
    """Return the values of the quotas that meet the conditions."""
    rows = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    response = node.ask(DescribeClientQuotasRequest(components=rows, strict=strict), 1)
    assert response.error_code == 0
    return sorted(entry.values[0].value for entry in response.entries)


def test_conditions(node: NodeParts) -> None:
    assert found(node) == [1, 2, 3, 4]
    assert found(node, ("user", EXACT, "alice")) == [1, 3]
    assert found(node, ("user", EXACT, "alice"), strict=True) == [1]
    assert found(node, ("user", DEFAULT, None)) == [2]
    assert found(node, ("user", ANY, None), strict=True) == [1, 2]
    assert found(node, ("user", ANY, None), ("client-id", EXACT, "app")) == [3]
    assert found(node, ("ip", ANY, None)) == []


def test_an_entity_has_its_parts_and_values(node: NodeParts) -> None:
    rows = [ComponentData(entity_type="user", match_type=DEFAULT, match=None)]
    (entry,) = node.ask(DescribeClientQuotasRequest(components=rows), 1).entries
    assert [(one.entity_type, one.entity_name) for one in entry.entity] == [("user", None)]
    assert [(one.key, one.value) for one in entry.values] == [("producer_byte_rate", 2.0)]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "a")], INVALID_REQUEST),
        ([("user", EXACT, "a"), ("user", EXACT, "b")], INVALID_REQUEST),
        ([("group", EXACT, "a")], UNSUPPORTED_VERSION),
        ([("user", EXACT, None)], INVALID_REQUEST),
        ([("user", DEFAULT, "a")], INVALID_REQUEST),
        ([("user", ANY, "a")], INVALID_REQUEST),
        ([("user", 3, None)], INVALID_REQUEST),
        ([("user", EXACT, "a"), ("ip", EXACT, "127.0.0.1")], INVALID_REQUEST),
    ],
)
def test_conditions_that_are_not_valid(
    node: NodeParts, components: list[tuple[str, int, str | None]], code: int
) -> None:
    rows = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    response = node.ask(DescribeClientQuotasRequest(components=rows), 1)
    assert (response.error_code, response.entries) == (code, None)
