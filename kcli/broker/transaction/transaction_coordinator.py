"""TransactionCoordinator: one method per API of transactions, over the transactional ids by name.

A request is decided by the pure transitions of `transaction_state`. The next state of an id is appended to
__transaction_state and becomes the present one when the record is replicated; until then the id has a pending
transition. When the record of an outcome is replicated, the client gets its answer, and the markers are sent to the
leaders of all partitions. When all have stored them, the record of the completed transaction is written.

A broker coordinates the ids of the partitions of __transaction_state that it leads (`coordinator_partitions`). Loading
a partition sends the markers of the transactions whose outcome is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.cluster.features import TRANSACTION_VERSION
from kcli.broker.coordinator_partitions import CoordinatorPartitions
from kcli.broker.log.producer_checks import TransactionMarker
from kcli.broker.serving.pending import Pending, completed
from kcli.broker.transaction import transaction_queries as queries
from kcli.broker.transaction import transaction_state as rules
from kcli.broker.transaction.markers import MarkerSender
from kcli.broker.transaction.transaction_log import TransactionLog
from kcli.broker.transaction.transaction_state import (
    EPOCH_PER_TRANSACTION,
    NO_EPOCH,
    NO_ID,
    EndRequest,
    TransactionMetadata,
    TransactionState,
)
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from kcli.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kcli.structs import TRANSACTIONS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.config import BrokerConfig
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.broker.serving.timer import Timer
    from kcli.clock import Clock

_RETRY_MS = 100.0
_TOMBSTONES_PER_BATCH = 1000


class ProducerIdentity(NamedTuple):
    """The answer to InitProducerId or EndTxn: an error, or the producer id and epoch of the client from now on."""

    error: ErrorCode
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH


class TransactionCoordinator:
    """All transactional ids that this broker coordinates. Used from the loop thread only."""

    def __init__(
        self,
        config: BrokerConfig,
        cluster: ClusterView,
        replica_manager: ReplicaManager,
        markers: MarkerSender,
        new_producer_id: Callable[[], int],
        timer: Timer,
        clock: Clock,
    ) -> None:
        """`new_producer_id` may raise OSError or BrokerError."""
        self._config = config
        self._cluster = cluster
        self._replica_manager = replica_manager
        self._markers = markers
        self._next_producer_id = new_producer_id
        self._timer = timer
        self._clock = clock
        self._log = TransactionLog(config, replica_manager, cluster)
        self._transactions: dict[str, _Transaction] = {}
        self._next_scan_ms = clock.now_ms() + config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._next_expiry_ms = clock.now_ms() + config.transaction_remove_expired_transaction_cleanup_interval_ms
        self.reports: list[str] = []
        self.partitions = CoordinatorPartitions(
            TRANSACTIONS_TOPIC,
            self._load_partition,
            self._unload,
            cluster,
            replica_manager,
            timer,
            clock,
            timeout_ms=config.transaction_max_timeout_ms,
        )

    def __repr__(self) -> str:
        return f"<TransactionCoordinator {len(self._transactions)} ids, {self.partitions!r}>"

    # ---- loading ----

    def _load_partition(self, number: int) -> Iterator[None]:
        found: dict[str, TransactionMetadata] = {}
        yield from self._log.replay(number, found, self.reports.append)
        for transactional_id, metadata in found.items():
            transaction = self._transactions[transactional_id] = _Transaction(metadata)
            if metadata.state in rules.PREPARED:
                self._prepare_completion(transaction)
                self._send_markers(transaction)

    def _unload(self, belongs: Callable[[str], bool]) -> None:
        dropped = [self._transactions.pop(id) for id in list(self._transactions) if belongs(id)]
        producer_ids = {transaction.current.producer_id for transaction in dropped}
        self._markers.stop(lambda marker: marker.producer_id in producer_ids)

    # ---- requests of producers ----

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: tuple[int, int] | None = None
    ) -> Pending[ProducerIdentity]:
        """Return the producer id and epoch for a transactional id; a producer with an older epoch is fenced.

        `expected` are the producer id and epoch that the client already has. If a transaction is open, it is aborted
        and the answer is CONCURRENT_TRANSACTIONS, so that the client tries again.
        """
        if transactional_id == "":
            return completed(ProducerIdentity(ErrorCode.INVALID_REQUEST))
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            return completed(ProducerIdentity(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        error = self.partitions.error_of(transactional_id)
        if error:
            return completed(ProducerIdentity(error))
        transaction = self._transactions.get(transactional_id)
        try:
            if transaction is None:
                new = TransactionMetadata(transactional_id, self._new_producer_id(), timeout_ms, self._clock.wall_ms())
                transaction = self._transactions[transactional_id] = _Transaction(new)
            following = rules.init_producer(
                transaction.current,
                is_pending=transaction.is_pending,
                timeout_ms=timeout_ms,
                expected=expected,
                new_producer_id=self._new_producer_id,
                now_wall_ms=self._clock.wall_ms(),
            )
        except BrokerError as problem:
            return completed(ProducerIdentity(problem.code))
        if following is ErrorCode.NONE:
            # The client tries again when its transaction is aborted.
            return self._fence(transaction).then(
                lambda error: ProducerIdentity(error or ErrorCode.CONCURRENT_TRANSACTIONS)
            )
        if isinstance(following, ErrorCode):
            return completed(ProducerIdentity(following))
        identity = ProducerIdentity(ErrorCode.NONE, following.producer_id, following.producer_epoch)
        return self._write(transaction, following).then(lambda error: ProducerIdentity(error) if error else identity)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        client_version: int = 0,
    ) -> Pending[ErrorCode]:
        """Add partitions to the transaction of a producer; the first ones open it."""
        transaction, error = self._find(transactional_id)
        if transaction is None:
            return completed(error)
        following = rules.add_partitions(
            transaction.current,
            producer_id,
            producer_epoch,
            partitions,
            is_pending=transaction.is_pending,
            client_version=client_version,
            now_wall_ms=self._clock.wall_ms(),
        )
        return completed(following) if isinstance(following, ErrorCode) else self._write(transaction, following)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return for each partition whether it is in the open transaction of the producer."""
        transaction, error = self._find(transactional_id)
        if transaction is None:
            return dict.fromkeys(partitions, error)
        result = rules.verify(transaction.current, producer_id, producer_epoch, partitions)
        return dict.fromkeys(partitions, result) if isinstance(result, ErrorCode) else result

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool,
        client_version: int = EPOCH_PER_TRANSACTION,
    ) -> Pending[dict[TopicPartition, ErrorCode]]:
        """Add partitions, for their leader by default (KIP-890), or only verify that they are in the transaction."""
        if verify_only:
            return completed(self.verify_partitions(transactional_id, producer_id, producer_epoch, partitions))
        return self.add_partitions(
            transactional_id, producer_id, producer_epoch, partitions, client_version=client_version
        ).then(lambda error: dict.fromkeys(partitions, error))

    def end(self, transactional_id: str, request: EndRequest) -> Pending[ProducerIdentity]:
        """Commit or abort the transaction of a producer.

        The answer comes when the outcome is stored. For a client with an epoch per transaction it has the producer id
        and epoch of the next one.
        """
        transaction, error = self._find(transactional_id)
        if transaction is None:
            return completed(ProducerIdentity(error))
        is_v2 = request.client_version >= EPOCH_PER_TRANSACTION
        try:
            following = rules.end(
                transaction.current,
                request,
                is_pending=transaction.is_pending,
                new_producer_id=self._new_producer_id,
                now_wall_ms=self._clock.wall_ms(),
            )
        except BrokerError as problem:
            return completed(ProducerIdentity(problem.code))
        if isinstance(following, ErrorCode):
            current = transaction.current
            if following or not is_v2:
                return completed(ProducerIdentity(following))
            return completed(ProducerIdentity(ErrorCode.NONE, current.producer_id, current.producer_epoch))
        answer: Pending[ProducerIdentity] = Pending()

        def on_written(error: ErrorCode) -> None:
            if error:
                answer.complete(ProducerIdentity(error))
                return
            completion = self._prepare_completion(transaction)
            if is_v2:
                answer.complete(ProducerIdentity(ErrorCode.NONE, completion.producer_id, completion.producer_epoch))
            else:
                answer.complete(ProducerIdentity(ErrorCode.NONE))
            self._send_markers(transaction)

        self._write(transaction, following).on_done(on_written)
        return answer

    # ---- transitions ----

    def _find(self, transactional_id: str) -> tuple[_Transaction | None, ErrorCode]:
        """Return the state of an id, or the error for a client that has it as its transactional id."""
        if transactional_id == "":
            return None, ErrorCode.INVALID_REQUEST
        error = self.partitions.error_of(transactional_id)
        if error:
            return None, error
        return self._transactions.get(transactional_id), ErrorCode.INVALID_PRODUCER_ID_MAPPING

    def _new_producer_id(self) -> int:
        try:
            return self._next_producer_id()
        except OSError:  # the next block of ids could not be reserved on the disk
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from None

    def _write(self, transaction: _Transaction, following: TransactionMetadata) -> Pending[ErrorCode]:
        """Append the next state; it is the present one when the record is replicated."""
        transaction.pending = following.state

        def outcome(error: ErrorCode) -> ErrorCode:
            if self._transactions.get(following.transactional_id) is not transaction:
                return error or ErrorCode.NOT_COORDINATOR
            transaction.pending = None
            if not error:
                transaction.current = following
            return error

        return self._append(following).then(outcome)

    def _append(self, metadata: TransactionMetadata) -> Pending[ErrorCode]:
        """Append a record and wait until it is replicated."""
        error = self._log.append(metadata, self._clock.wall_ms())
        return self._when_replicated(metadata.transactional_id, error, metadata.timeout_ms)

    def _when_replicated(self, transactional_id: str, error: ErrorCode, timeout_ms: int) -> Pending[ErrorCode]:
        if error:
            return completed(error)
        waiting = self.partitions.when_replicated(transactional_id, error, lambda error: error, timeout_ms=timeout_ms)
        return waiting if isinstance(waiting, Pending) else completed(waiting)

    def _fence(self, transaction: _Transaction) -> Pending[ErrorCode]:
        """Abort an open transaction with an epoch that its producer does not have."""
        version = self._cluster.features.get(TRANSACTION_VERSION, 0)
        try:
            following = rules.fence(
                transaction.current,
                version,
                has_fenced=transaction.has_failed_fence,
                new_producer_id=self._new_producer_id,
                now_wall_ms=self._clock.wall_ms(),
            )
        except BrokerError as problem:
            return completed(problem.code)
        if version < EPOCH_PER_TRANSACTION:
            transaction.current = rules.fenced_in_memory(transaction.current, has_fenced=transaction.has_failed_fence)
        fenced: Pending[ErrorCode] = Pending()

        def on_written(error: ErrorCode) -> None:
            if not error:
                self._prepare_completion(transaction)
            elif version < EPOCH_PER_TRANSACTION:
                transaction.has_failed_fence = True
            fenced.complete(error)
            if not error:
                self._send_markers(transaction)

        self._write(transaction, following).on_done(on_written)
        return fenced

    def _prepare_completion(self, transaction: _Transaction) -> TransactionMetadata:
        """Start the transition that the last marker completes."""
        completion = transaction.completion = rules.complete(transaction.current, self._clock.wall_ms())
        transaction.pending = completion.state
        transaction.has_failed_fence = False
        return completion

    def _send_markers(self, transaction: _Transaction) -> None:
        current = transaction.current
        partition = self._replica_manager.partition(self.partitions.partition_of(current.transactional_id))
        marker = TransactionMarker(
            current.producer_id,
            current.producer_epoch,
            0 if partition is None else partition.leader_epoch,
            current.state is TransactionState.PREPARE_COMMIT,
            current.client_version,
        )
        if current.partitions:
            self._markers.send(marker, current.partitions, lambda: self._complete(transaction))
        else:
            self._complete(transaction)

    def _complete(self, transaction: _Transaction) -> None:
        """Write the record of the completed transaction after its last marker; try again until it is written."""
        completion = transaction.completion
        if completion is None or self._transactions.get(completion.transactional_id) is not transaction:
            return

        def on_done(error: ErrorCode) -> None:
            if self._transactions.get(completion.transactional_id) is not transaction:
                return
            if error:
                self._timer.call_at(self._clock.now_ms() + _RETRY_MS, lambda: self._complete(transaction))
            else:
                transaction.current, transaction.completion, transaction.pending = completion, None, None

        self._append(completion).on_done(on_done)

    # ---- time ----

    def tick(self, now_ms: float, now_wall_ms: int) -> float:
        """Abort overdue transactions and delete expired ids if a scan is due; return the time of the next one."""
        settings = self._config
        if now_ms >= self._next_scan_ms:
            self._next_scan_ms = now_ms + settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
            for transaction in list(self._transactions.values()):
                if not transaction.is_pending and transaction.current.is_overdue(now_wall_ms):
                    self._fence(transaction)
        if now_ms >= self._next_expiry_ms:
            self._next_expiry_ms = now_ms + settings.transaction_remove_expired_transaction_cleanup_interval_ms
            self._expire(now_wall_ms)
        return min(self._next_scan_ms, self._next_expiry_ms)

    def _expire(self, now_wall_ms: int) -> None:
        """Delete the ids that were not used for `transactional.id.expiration.ms`."""
        by_partition: dict[TopicPartition, list[_Transaction]] = {}
        for transactional_id, transaction in self._transactions.items():
            if not transaction.is_pending and transaction.current.is_expired(
                now_wall_ms, self._config.transactional_id_expiration_ms
            ):
                by_partition.setdefault(self.partitions.partition_of(transactional_id), []).append(transaction)
        for expired in by_partition.values():
            for start in range(0, len(expired), _TOMBSTONES_PER_BATCH):
                self._delete(expired[start : start + _TOMBSTONES_PER_BATCH], now_wall_ms)

    def _delete(self, expired: list[_Transaction], now_wall_ms: int) -> None:
        """Write the tombstones of ids of one partition; forget the ids when they are replicated."""
        ids = [transaction.current.transactional_id for transaction in expired]
        for transaction in expired:
            transaction.pending = TransactionState.DEAD
        error = self._log.append_tombstones(ids, now_wall_ms)

        def on_done(error: ErrorCode) -> None:
            for transactional_id, transaction in zip(ids, expired, strict=True):
                if self._transactions.get(transactional_id) is transaction:
                    transaction.pending = None
                    if not error:
                        del self._transactions[transactional_id]

        self._when_replicated(ids[0], error, self._config.request_timeout_ms).on_done(on_done)

    # ---- requests of administrators ----

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Return the state of an id with its open partitions, during the end those without a marker.

        TRANSACTIONAL_ID_NOT_FOUND for an unknown id.
        """
        transaction, error = self._find(transactional_id)
        if transaction is None:
            is_unknown = error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
            code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if is_unknown else error
            return DescribedTransaction(transactional_id=transactional_id, error_code=code)
        return queries.describe(transaction.current, self._markers.partitions_left(transaction.current.producer_id))

    def list(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        """Return the ids that match all filters, and the requested states that do not exist.

        BrokerError INVALID_REGULAR_EXPRESSION if the pattern is not valid.
        """
        if self.partitions.is_loading:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        present = (transaction.current for transaction in self._transactions.values())
        return queries.list_transactions(request, present, self._clock.wall_ms())


class _Transaction:
    """A transactional id in memory.

    `pending` is the state that it gets next: its record is being written, or its markers. `completion` is the state
    after the markers. `has_failed_fence`: the epoch was incremented in memory, but not in the log.
    """

    __slots__ = ("completion", "current", "has_failed_fence", "pending")

    def __init__(self, current: TransactionMetadata) -> None:
        self.current = current
        self.pending: TransactionState | None = None
        self.completion: TransactionMetadata | None = None
        self.has_failed_fence = False

    def __repr__(self) -> str:
        pending = "" if self.pending is None else f" -> {self.pending.shown}"
        return f"<_Transaction {self.current.transactional_id} {self.current.state.shown}{pending}>"

    @property
    def is_pending(self) -> bool:
        return self.pending is not None
