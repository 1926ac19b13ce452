"""A Produce request in a transaction: its partitions are verified at the coordinator before anything is appended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.broker.delayed import ProduceOutcome
from kcli.broker.serving.pending import Pending
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.records.batch import HEADER_BYTES, MAGIC_AT, BatchInfo, read_batch_info
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.transaction.verification import Verdict
    from kcli.protocol.messages.produce import ProduceRequest
    from kcli.protocol.primitives import Buffer

_ABORTABLE_SINCE_VERSION, _ADDS_SINCE_VERSION = 11, 12
# The coordinator cannot say now. Clients retry this code without reading the metadata again.
_TRY_AGAIN = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Outcomes = dict[TopicPartition, ProduceOutcome]


def append_verified(
    broker: Broker, request: ProduceRequest, version: int, entries: Mapping[TopicPartition, Buffer]
) -> Pending[Outcomes]:
    """Append one batch to each partition, some or all of them of the request's transaction.

    BrokerError INVALID_PRODUCER_ID_MAPPING if they are of several producers.
    """
    batches = {tp: info for tp, records in entries.items() if (info := _transactional(records)) is not None}
    producers = {(info.producer_id, info.producer_epoch) for info in batches.values()}
    if len(producers) > 1:
        raise BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the request has batches of several producers")
    append = _VerifiedAppend(broker, request, version, entries, batches)
    if producers:
        append.verify()
    else:
        append.append({})
    return append.outcome


def _transactional(records: Buffer) -> BatchInfo | None:
    """Return the header of a batch of a transaction; None for any other batch, and for one without a whole header."""
    if len(records) < HEADER_BYTES or records[MAGIC_AT] != 2:
        return None
    info = read_batch_info(records)
    return info if info.is_transactional and info.has_producer else None


class _VerifiedAppend:
    """One request that waits for its verification.

    A client whose partitions the leader adds may be faster than the marker of its previous transaction. The coordinator
    then answers CONCURRENT_TRANSACTIONS, and is asked again for a short time, because a retry by the client takes
    longer.
    """

    def __init__(
        self,
        broker: Broker,
        request: ProduceRequest,
        version: int,
        entries: Mapping[TopicPartition, Buffer],
        batches: Mapping[TopicPartition, BatchInfo],
    ) -> None:
        self.outcome: Pending[Outcomes] = Pending()
        self._broker = broker
        self._request = request
        self._version = version
        self._entries = entries
        self._batches = batches
        self._adds = version >= _ADDS_SINCE_VERSION
        settings = broker.cluster.settings
        retry_ms = min(settings.add_partitions_to_txn_retry_backoff_max_ms, settings.request_timeout_ms)
        self._backoff_ms = settings.add_partitions_to_txn_retry_backoff_ms
        self._retry_until_ms = broker.clock.now_ms() + retry_ms

    def verify(self) -> None:
        first = next(iter(self._batches.values()))
        self._broker.verifier.verify(
            self._request.transactional_id or "",
            first.producer_id,
            first.producer_epoch,
            {tp: info.base_sequence for tp, info in self._batches.items()},
            add=self._adds,
            knows_abortable=self._version >= _ABORTABLE_SINCE_VERSION,
        ).on_done(self._on_verdicts)

    def _on_verdicts(self, verdicts: dict[TopicPartition, Verdict]) -> None:
        is_early = any(verdict.error is ErrorCode.CONCURRENT_TRANSACTIONS for verdict in verdicts.values())
        now_ms = self._broker.clock.now_ms()
        if is_early and self._adds and now_ms < self._retry_until_ms:
            self._broker.timer.call_at(now_ms + self._backoff_ms, self.verify)
        else:
            self.append(verdicts)

    def append(self, verdicts: Mapping[TopicPartition, Verdict]) -> None:
        refused = {tp: self._refusal(verdict.error) for tp, verdict in verdicts.items() if verdict.error}
        clock = self._broker.clock
        appended = self._broker.replica_manager.append(
            {tp: records for tp, records in self._entries.items() if tp not in refused},
            acks=self._request.acks,
            timeout_ms=self._request.timeout_ms,
            now_ms=clock.now_ms(),
            now_wall_ms=clock.wall_ms(),
            verifications={
                tp: verdict.verification for tp, verdict in verdicts.items() if verdict.verification is not None
            },
        )
        appended.on_done(lambda outcomes: self.outcome.complete(refused | outcomes))

    def _refusal(self, error: ErrorCode) -> ProduceOutcome:
        if error in _TRY_AGAIN or (error is ErrorCode.CONCURRENT_TRANSACTIONS and not self._adds):
            message = f"the partition could not be verified to be in the transaction: {error.name}"
            return ProduceOutcome(ErrorCode.NOT_ENOUGH_REPLICAS, message=message)
        if error is ErrorCode.INVALID_TXN_STATE:
            return ProduceOutcome(error, message="the partition was not added to the transaction")
        return ProduceOutcome(error)
