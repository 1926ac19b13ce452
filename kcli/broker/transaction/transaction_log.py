"""__transaction_state as a log of transactional ids: appends, and the replay of a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kcli.broker.cluster.features import TRANSACTION_VERSION
from kcli.broker.coordinator_log import CoordinatorLog
from kcli.broker.transaction.transaction_state import TransactionMetadata, TransactionState
from kcli.errors import ProtocolError
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord
from kcli.protocol.transactions_topic import (
    PartitionsSchema,
    TransactionLogValue,
    decode_transaction_key,
    decode_transaction_value,
    encode_transaction_key,
    encode_transaction_value,
)
from kcli.structs import TRANSACTIONS_TOPIC, TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.config import BrokerConfig
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.error_codes import ErrorCode
    from kcli.protocol.records.batch import BatchInfo
    from kcli.protocol.records.scan import Pair

_STATES = {state.number: state for state in TransactionState}
_NEVER_STORED = (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
# The value has tagged fields from this transaction version on.
_FIRST_FLEXIBLE = 1


class TransactionLog(CoordinatorLog):
    """Appends to __transaction_state and reads of it."""

    def __init__(self, config: BrokerConfig, replica_manager: ReplicaManager, cluster: ClusterView) -> None:
        count = config.transaction_state_log_num_partitions
        super().__init__(TRANSACTIONS_TOPIC, replica_manager, cluster, default_count=count, content="transactional ids")

    def append(self, metadata: TransactionMetadata, now_wall_ms: int) -> ErrorCode:
        """Write the state of an id; NONE once it is in the log."""
        version = 1 if self._cluster.features.get(TRANSACTION_VERSION, 0) >= _FIRST_FLEXIBLE else 0
        key = encode_transaction_key(metadata.transactional_id)
        record = NewRecord(key, encode_transaction_value(to_value(metadata), version), now_wall_ms)
        return self.append_batch(metadata.transactional_id, build_batch([record]), now_wall_ms)

    def append_tombstones(self, transactional_ids: Iterable[str], now_wall_ms: int) -> ErrorCode:
        """Delete ids, which must be of the same partition."""
        ids = list(transactional_ids)
        records = [NewRecord(encode_transaction_key(id), None, now_wall_ms) for id in ids]
        return self.append_batch(ids[0], build_batch(records), now_wall_ms)

    def replay(
        self, number: int, found: dict[str, TransactionMetadata], report: Callable[[str], None]
    ) -> Iterator[None]:
        """Read one partition into `found`; yield after each section. Damaged records are reported and skipped."""

        def add_batch(_: int, batch: BatchInfo, pairs: Sequence[Pair]) -> None:
            if batch.is_control:
                return
            for delta, key, value in pairs:
                try:
                    _replay_record(found, key, value)
                except ProtocolError as problem:
                    offset = batch.base_offset + delta
                    report(f"{self.topic}-{number}: the record at offset {offset} was skipped: {problem}")

        yield from self.replay_partition(number, add_batch, report)


def _replay_record(found: dict[str, TransactionMetadata], key: bytes | None, value: bytes | None) -> None:
    transactional_id = None if key is None else decode_transaction_key(key)
    if transactional_id is None:
        raise ProtocolError("its key is not a transactional id")
    if value is None:
        found.pop(transactional_id, None)
    else:
        found[transactional_id] = from_value(transactional_id, decode_transaction_value(value))


def to_value(metadata: TransactionMetadata) -> TransactionLogValue:
    """Return the record's value. An id in the state Empty has null as partitions, as Kafka writes it."""
    partitions = [
        PartitionsSchema(topic=topic, partition_ids=numbers)
        for topic, numbers in numbers_by_topic(metadata.partitions).items()
    ]
    return TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.number,
        transaction_partitions=None if metadata.state is TransactionState.EMPTY else partitions,
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )


def from_value(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """Return the state of an id that a record holds. ProtocolError for a state that is never stored."""
    state = _STATES.get(value.transaction_status)
    if state is None or state in _NEVER_STORED:
        raise ProtocolError(f"transaction state {value.transaction_status} is not supported")
    return TransactionMetadata(
        transactional_id,
        value.producer_id,
        value.transaction_timeout_ms,
        value.transaction_last_update_timestamp_ms,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, number)
            for topic in value.transaction_partitions or ()
            for number in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        client_version=value.client_transaction_version,
    )
