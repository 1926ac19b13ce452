"""Records of __transaction_state, compared with bytes of Kafka's own classes."""

from __future__ import annotations

import pytest

from kcli.errors import ProtocolError
from kcli.protocol.transactions_topic import (
    VALUE_VERSION,
    TransactionLogValue,
    decode_transaction_key,
    decode_transaction_value,
    encode_transaction_key,
    encode_transaction_value,
)
from tests.protocol.golden import RecordLine, record_lines, struct_as_json

every_key = pytest.mark.parametrize("line", record_lines("TransactionLogKey"), ids=str)
every_value = pytest.mark.parametrize("line", record_lines("TransactionLogValue"), ids=str)


@every_key
def test_a_key_is_decoded_and_encoded_as_kafka_writes_it(line: RecordLine) -> None:
    transactional_id = decode_transaction_key(line.data)

    assert transactional_id == line.json["transactionalId"]
    assert encode_transaction_key(transactional_id) == line.data


@every_value
def test_a_value_is_decoded_and_encoded_as_kafka_writes_it(line: RecordLine) -> None:
    value = decode_transaction_value(line.data)

    assert struct_as_json(value, line.version, flexible=line.version >= 1) == line.json
    assert encode_transaction_value(value, line.version) == line.data


@every_key
def test_a_truncated_key_is_a_protocol_error(line: RecordLine) -> None:
    for length in range(len(line.data)):
        with pytest.raises(ProtocolError):
            decode_transaction_key(line.data[:length])


@every_value
def test_a_truncated_value_is_a_protocol_error(line: RecordLine) -> None:
    for length in range(len(line.data)):
        with pytest.raises(ProtocolError):
            decode_transaction_value(line.data[:length])


def test_a_key_of_another_kind_is_ignored() -> None:
    assert decode_transaction_key(b"\0\1\0\1t") is None


def test_a_newer_value_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="version 2"):
        decode_transaction_value(b"\0\2" + bytes(60))


def test_v0_leaves_out_the_fields_of_kip_890() -> None:
    value = TransactionLogValue(producer_id=7, next_producer_id=8, next_producer_epoch=3, client_transaction_version=2)

    assert VALUE_VERSION == 1
    assert decode_transaction_value(encode_transaction_value(value)) == value
    assert decode_transaction_value(encode_transaction_value(value, 0)) == TransactionLogValue(producer_id=7)
