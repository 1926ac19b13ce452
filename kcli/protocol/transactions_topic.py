"""The records of __transaction_state: a key with a transactional id, and the state of its transaction as value.

Keys and values begin with an int16: the kind 0 in a key, the version of the layout in a value. Kafka writes values as
v0, and as v1 (flexible) from transaction version 1 on (KIP-915). Source: the messages of Kafka's transaction
coordinator.
"""

import struct as layout

from kcli.errors import ProtocolError
from kcli.protocol.codec import decode_struct, encode_struct
from kcli.protocol.primitives import Buffer
from kcli.protocol.wire import Array, Int8, Int16, Int32, Int64, NullableArray, String, since, struct

VALUE_VERSION = 1

_KEY_KIND = 0
_NEWEST_VALUE = 1
_VERSION = layout.Struct(">h")


@struct
class TransactionLogKey:
    """The transactional id."""

    transactional_id: String = ""


@struct
class PartitionsSchema:
    """Partitions of a topic."""

    topic: String = ""
    partition_ids: Array[Int32] = []


@struct
class TransactionLogValue:
    """The state of a transactional id. Times in ms since the epoch, -1 unknown.

    `transaction_status`: 0 Empty, 1 Ongoing, 2 PrepareCommit, 3 PrepareAbort, 4 CompleteCommit, 5 CompleteAbort,
    6 Dead, 7 PrepareEpochFence. `transaction_partitions` is null in Empty. `next_producer_id` and
    `next_producer_epoch` are those that the producer gets with the end of its transaction (KIP-890).
    """

    producer_id: Int64 = 0
    previous_producer_id: Int64 = since(1, default=-1, tag=0, ignorable=True)
    next_producer_id: Int64 = since(1, default=-1, tag=1, ignorable=True)
    producer_epoch: Int16 = 0
    next_producer_epoch: Int16 = since(1, default=-1, tag=3, ignorable=True)
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: NullableArray[PartitionsSchema] = []
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Int16 = since(1, default=0, tag=2, ignorable=True)


def encode_transaction_key(transactional_id: str) -> bytes:
    """Encode the key of a transactional id."""
    return encode_struct(TransactionLogKey(transactional_id=transactional_id), 0, prefix=_VERSION.pack(_KEY_KIND))


def decode_transaction_key(data: Buffer) -> str | None:
    """Decode a transactional id; None for another kind of record. ProtocolError for anything malformed."""
    if _version_of(data) != _KEY_KIND:
        return None
    return decode_struct(TransactionLogKey, data, 0, offset=_VERSION.size).transactional_id


def encode_transaction_value(value: TransactionLogValue, version: int = VALUE_VERSION) -> bytes:
    """Encode the state of a transactional id. v0 leaves out what is in the tagged fields."""
    return encode_struct(value, version, flexible=version >= 1, prefix=_VERSION.pack(version))


def decode_transaction_value(data: Buffer) -> TransactionLogValue:
    """Decode the state of a transactional id. ProtocolError for anything malformed or newer than v1."""
    version = _version_of(data)
    if not 0 <= version <= _NEWEST_VALUE:
        raise ProtocolError(f"transaction state version {version} is not supported; supported are 0 and 1")
    return decode_struct(TransactionLogValue, data, version, flexible=version >= 1, offset=_VERSION.size)


def _version_of(data: Buffer) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolError(f"{len(data)} bytes are too short for the version of a record")
    version: int = _VERSION.unpack_from(data)[0]
    return version
