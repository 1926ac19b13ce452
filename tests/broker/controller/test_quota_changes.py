"""Quotas of clients: the checks of Kafka's controller, and the records."""

from __future__ import annotations

import pytest

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from tests.broker.controller.quorum import Quorum

Entity = list[tuple[str, str | None]]


def alter(quorum: Quorum, entity: Entity, *ops: OpData, validate_only: bool = False) -> int:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    entries = [EntryData(entity=parts, ops=list(ops))]
    return quorum.send(AlterClientQuotasRequest(entries=entries, validate_only=validate_only)).entries[0].error_code


def test_quota_is_set_changed_and_removed() -> None:
    quorum = Quorum()
    entity: Entity = [("user", "alice"), ("client-id", None)]
    key = (("client-id", None), ("user", "alice"))
    assert alter(quorum, entity, OpData(key="producer_byte_rate", value=1024.0), validate_only=True) == 0
    assert quorum.records == []
    assert alter(quorum, entity, OpData(key="producer_byte_rate", value=1024.0)) == 0
    assert quorum.controller.image.quotas == {key: {"producer_byte_rate": 1024.0}}
    assert alter(quorum, entity, OpData(key="producer_byte_rate", value=1024.0)) == 0
    assert quorum.records == []
    assert alter(quorum, entity, OpData(key="producer_byte_rate", remove=True)) == 0
    assert quorum.controller.image.quotas == {}
    assert alter(quorum, entity, OpData(key="producer_byte_rate", remove=True)) == 0
    assert quorum.records == []


@pytest.mark.parametrize(
    ("entity", "op"),
    [
        ([], OpData(key="producer_byte_rate", value=1)),
        ([("group", "g")], OpData(key="producer_byte_rate", value=1)),
        ([("user", "")], OpData(key="producer_byte_rate", value=1)),
        ([("user", "a"), ("user", "b")], OpData(key="producer_byte_rate", value=1)),
        ([("user", "a"), ("ip", "10.0.0.1")], OpData(key="producer_byte_rate", value=1)),
        ([("user", "a")], OpData(key="connection_creation_rate", value=1)),
        ([("ip", None)], OpData(key="producer_byte_rate", value=1)),
        ([("user", "a")], OpData(key="producer_byte_rate", value=0)),
        ([("user", "a")], OpData(key="producer_byte_rate", value=1.5)),
        ([("user", "a")], OpData(key="producer_byte_rate", value=float("nan"))),
        ([("ip", None)], OpData(key="connection_creation_rate", value=3e9)),
    ],
)
def test_invalid_quota_is_refused(entity: Entity, op: OpData) -> None:
    quorum = Quorum()
    assert alter(quorum, entity, op) == ErrorCode.INVALID_REQUEST
    assert quorum.records == []


def test_percentages_and_rates_of_changes_may_be_fractions() -> None:
    quorum = Quorum()
    ops = OpData(key="request_percentage", value=12.5), OpData(key="controller_mutation_rate", value=0.5)
    assert alter(quorum, [("user", None)], *ops) == 0
    assert alter(quorum, [("user", None)], ops[0], ops[0]) == ErrorCode.INVALID_REQUEST
