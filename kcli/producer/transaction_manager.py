"""`Transactions`: the requests of a transactional producer to its coordinators (KIP-98, KIP-447, KIP-890).

The finalized feature `transaction.version` decides at the start of each transaction. Below 2 the producer adds each
partition and each group to the transaction itself, and goes on with the same epoch after the end. From 2 on (KIP-890)
the brokers add them with the first batch (Produce v12) or offset (TxnOffsetCommit v5), and each end (EndTxn v5) returns
a new epoch, so that a late request of an older transaction is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.client.offset_commit import partition_codes, transactional_commit_request
from kcli.client.routing import COORDINATOR_ERRORS, TRANSACTION, Coordinators
from kcli.error_codes import ErrorCode
from kcli.errors import (
    BrokerError,
    DisconnectedError,
    KcliError,
    OutcomeUnknown,
    TimeoutExpired,
    TransactionFailed,
    WakeupError,
)
from kcli.producer import producer_states as states
from kcli.producer.producer_states import FENCED, is_fatal_code, is_fatal_in_produce, next_state
from kcli.structs import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from kcli.client.config import ProducerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.producer.batches import ProducerBatch
    from kcli.producer.sequences import Sequences
    from kcli.protocol.wire import Request
    from kcli.structs import GroupMetadata, Node, OffsetAndMetadata

R = TypeVar("R")
#: Lowest and highest version of a request; None: no limit.
_Range = tuple["int | None", "int | None"]

_FEATURE, _IMPLICIT = "transaction.version", 2
# The last versions before transaction version 2, in which the producer adds partitions and groups itself.
_LAST_EXPLICIT = {"Produce": 11, "EndTxn": 4, "TxnOffsetCommit": 4}
_FIRST_WITH_BUMP = 3  # of InitProducerId: the current epoch, of which the coordinator makes the next one
_LAST_ADD_OF_CLIENTS = 3  # of AddPartitionsToTxn: later versions are for brokers


class Transactions:
    """The transactions of one producer, one after another. Its methods wait, at most until their deadline."""

    def __init__(self, config: ProducerConfig, client: ConsumerNetworkClient, sequences: Sequences) -> None:
        assert config.transactional_id is not None
        #: The transactional id.
        self.id = config.transactional_id
        self._config = config
        self._client = client
        self._sequences = sequences
        self._state = states.UNINITIALIZED
        self._cause: KcliError | None = None  # of FAILED and FATAL
        self._coordinators = Coordinators(client, TRANSACTION)
        self._group_coordinators = Coordinators(client)
        self._is_implicit = False
        self._needs_epoch = False  # the next transaction needs a new epoch, which the producer must request
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._opened_ms = 0.0  # the first partition or group was added
        self._lost_end: KcliError | None = None  # an EndTxn was sent, and has no response

    def __repr__(self) -> str:
        return f"<Transactions {self.id} {self._state}, {len(self._partitions)} partitions>"

    @property
    def is_open(self) -> bool:
        """A transaction was begun, and its end is not confirmed."""
        return self._state in (states.OPEN, states.FAILED, states.COMMITTING, states.ABORTING)

    @property
    def is_committing(self) -> bool:
        """A commit was requested, and its outcome is not known."""
        return self._state == states.COMMITTING and self._lost_end is not None

    @property
    def awaits_end(self) -> bool:
        """Records or offsets were sent, and no coordinator has confirmed the end of their transaction.

        A producer that was fenced awaits none: the transaction has been aborted in favour of the other one.
        """
        was_fenced = self._state == states.FATAL and self._cause is not None and _is_fenced(self._cause)
        return bool(self._partitions or self._groups) and not was_fenced

    def produce_versions(self, lowest: int | None, highest: int | None) -> _Range:
        """Narrow a range of versions of Produce to those in which the broker adds the partition, or does not."""
        last = _LAST_EXPLICIT["Produce"]
        if self._is_implicit:
            return last + 1, highest
        return lowest, last if highest is None else min(last, highest)

    def error(self) -> KcliError | None:
        """Return the error for the batches and the calls of a transaction that cannot be committed; None: it can."""
        if self._state == states.FATAL:
            assert self._cause is not None
            return copy(self._cause)
        if self._state in (states.FAILED, states.ABORTING):
            return self._failed()
        return None

    def raise_error(self) -> None:
        """Raise the error of a transaction that cannot be committed."""
        if (error := self.error()) is not None:
            raise error

    def _failed(self) -> TransactionFailed:
        reason = self._cause.message if self._cause is not None else "it is being aborted"
        error = TransactionFailed(f"the transaction cannot be committed: {reason}", transactional_id=self.id)
        error.__cause__ = self._cause
        return error

    # Begin

    def initialize(self, deadline_ms: float) -> None:
        """Request a producer id: fence older producers with this transactional id, and end their open transaction."""
        if self._state == states.UNINITIALIZED:
            self._request_id(deadline_ms)
            self._move(states.INITIALIZE)
        self.raise_error()

    def begin(self, deadline_ms: float) -> None:
        """Begin a transaction. Nothing is sent before its first record, unless the producer needs a new epoch."""
        self.raise_error()
        if self._state != states.READY:
            raise KcliError(f"the transaction before with transactional.id={self.id} has not ended; commit or abort it")
        if self._needs_epoch:
            self._bump_epoch(deadline_ms)
        self._move(states.BEGIN)
        self._cause = self._lost_end = None
        self._partitions.clear()
        self._groups.clear()

    def require_open(self) -> None:
        """Raise the error for a record outside a transaction, or of a transaction that cannot be committed."""
        self.raise_error()
        self._require_begun()
        if self._state == states.COMMITTING:
            raise KcliError(
                f"the transaction with transactional.id={self.id} is being committed; commit it again first"
            )

    def _require_begun(self) -> None:
        if not self.is_open:
            raise KcliError(f"no transaction is open with transactional.id={self.id}; begin one before")

    def _request_id(self, deadline_ms: float) -> None:
        """Request a producer id, or the next epoch of the current one."""
        from kcli.protocol.messages.init_producer_id import InitProducerIdRequest

        current = self._sequences.producer
        request = InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
            producer_id=current[0] if current else -1,
            producer_epoch=current[1] if current else -1,
        )
        response = self._ask(request, deadline_ms, versions=(_FIRST_WITH_BUMP if current else None, None))
        if response.error_code:
            raise self._error(response.error_code, "InitProducerId")
        self._sequences.begin(response.producer_id, response.producer_epoch)
        self._is_implicit = self._client.finalized_feature(_FEATURE) >= _IMPLICIT

    # Records

    def add(self, partitions: Iterable[TopicPartition], deadline_ms: float) -> None:
        """Add the partitions of batches that are about to be sent. An error is kept, see `error`.

        Before transaction version 2 this waits for the coordinator, once for each partition of a transaction.
        """
        new = [tp for tp in partitions if tp not in self._partitions]
        if not new:
            return
        if not self._is_implicit:
            try:
                self._add_partitions(new, deadline_ms)
            except WakeupError:
                raise
            except KcliError as error:
                self._fail(error)
                return
        self._has_begun()
        self._partitions.update(new)

    def _has_begun(self) -> None:
        if not self._partitions and not self._groups:
            self._opened_ms = self._client.clock.now_ms()

    def _add_partitions(self, partitions: list[TopicPartition], deadline_ms: float) -> None:
        from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic

        producer_id, epoch = self._identity()
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in numbers_by_topic(partitions).items()
            ],
        )
        response = self._ask(request, deadline_ms, versions=(None, _LAST_ADD_OF_CLIENTS), codes=_partition_codes)
        errors = {
            TopicPartition(topic.name, row.partition_index): row.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for row in topic.results_by_partition
            if row.partition_error_code
        }
        for tp, code in sorted(errors.items(), key=lambda row: row[1] == ErrorCode.OPERATION_NOT_ATTEMPTED):
            raise self._error(code, "AddPartitionsToTxn", topic=tp.topic, partition=tp.partition)

    def batch_failed(self, batch: ProducerBatch, error: KcliError) -> None:
        """A record of the transaction is not stored, so it must be aborted.

        If a broker may have the batch, its sequence numbers can be neither reused nor skipped in this epoch.
        """
        if batch.may_be_stored and not self._is_implicit:
            self._needs_epoch = True
        self.record_failed(error)

    def record_failed(self, error: KcliError) -> None:
        """A record of the transaction was not accepted or is not stored, so it must be aborted."""
        if self._state in (states.OPEN, states.FAILED, states.COMMITTING):
            is_fatal = isinstance(error, BrokerError) and is_fatal_in_produce(error.code)
            self._fail(self._fenced("Produce") if is_fatal and _is_fenced(error) else error, fatal=is_fatal)

    # Offsets

    def add_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, deadline_ms: float
    ) -> None:
        """Store offsets of a group, which become its committed offsets with the commit of the transaction."""
        self.require_open()
        try:
            if not self._is_implicit and group.group not in self._groups:
                self._add_group(group.group, deadline_ms)
            self._has_begun()
            self._groups.add(group.group)
            self._commit_offsets(offsets, group, deadline_ms)
        except WakeupError:
            raise
        except KcliError as error:
            self._fail(error)
            raise

    def _add_group(self, group: str, deadline_ms: float) -> None:
        from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest

        producer_id, epoch = self._identity()
        request = AddOffsetsToTxnRequest(
            transactional_id=self.id, producer_id=producer_id, producer_epoch=epoch, group_id=group
        )
        response = self._ask(request, deadline_ms)
        if response.error_code:
            raise self._error(response.error_code, "AddOffsetsToTxn", group=group)

    def _commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, deadline_ms: float
    ) -> None:
        producer_id, epoch = self._identity()
        request = transactional_commit_request(self.id, producer_id, epoch, offsets, group)
        response = self._ask(
            request,
            deadline_ms,
            group=group.group,
            codes=lambda response: partition_codes(response).values(),
            versions=self._versions("TxnOffsetCommit"),
        )
        for tp, code in partition_codes(response).items():
            if code:
                evidence = {"group": group.group, "topic": tp.topic, "partition": tp.partition}
                raise self._error(code, "TxnOffsetCommit", **evidence)

    # End

    def start_commit(self) -> None:
        """Take no more records. Raise the error of a transaction that cannot be committed."""
        self.raise_error()
        self._require_begun()
        self._move(states.COMMIT)

    def start_abort(self) -> None:
        """Give up the records that are not sent. Raise OutcomeUnknown if a commit was sent, and has no response."""
        if self._state == states.FATAL:
            self.raise_error()
        if self.is_committing:
            raise self._unknown()
        self._require_begun()
        self._move(states.ABORT)

    def end(self, deadline_ms: float) -> None:
        """Send the end to the coordinator, when no batch is in flight. Repeat until the coordinator has confirmed it.

        Raise TimeoutExpired if the end was not sent, and OutcomeUnknown if its response to a commit was lost; the next
        call goes on. Raise TransactionFailed if it demands an abort, and BrokerError if the producer is fenced.
        """
        is_commit = self._state == states.COMMITTING
        if self._partitions or self._groups:
            self._end_at_coordinator(is_commit, deadline_ms)
        self._move(states.END)
        if self._needs_epoch and not is_commit:
            # The brokers then refuse what may still arrive of the aborted transaction.
            with suppress(TimeoutExpired):  # `begin` tries it again
                self._bump_epoch(deadline_ms)

    def _end_at_coordinator(self, is_commit: bool, deadline_ms: float) -> None:
        from kcli.protocol.messages.end_txn import EndTxnRequest

        producer_id, epoch = self._identity()
        request = EndTxnRequest(
            transactional_id=self.id, producer_id=producer_id, producer_epoch=epoch, committed=is_commit
        )
        try:
            response = self._ask(request, deadline_ms, versions=self._versions("EndTxn"), on_lost=self._end_was_lost)
        except WakeupError:
            raise
        except KcliError as error:
            if is_commit and self._lost_end is not None:
                raise self._unknown() from error
            raise
        if response.error_code:
            self._end_refused(ErrorCode.of(response.error_code), is_commit)
        self._partitions.clear()
        self._groups.clear()
        self._lost_end = None
        was_implicit = self._is_implicit
        self._is_implicit = self._client.finalized_feature(_FEATURE) >= _IMPLICIT
        if was_implicit and response.producer_id >= 0:
            self._sequences.begin(response.producer_id, response.producer_epoch)
            self._needs_epoch = False
        elif self._is_implicit:
            self._needs_epoch = True  # the cluster has taken up transaction version 2

    def _end_was_lost(self, error: KcliError) -> None:
        self._lost_end = error

    def _end_refused(self, code: ErrorCode, is_commit: bool) -> None:
        error = self._error(code, "EndTxn")
        if is_commit and not is_fatal_code(code):
            self._fail(error)
            raise self._failed()
        lost = self._lost_end
        self._fail(error, fatal=True)
        if is_commit and lost is not None:  # an earlier request may have committed it before the producer was fenced
            raise OutcomeUnknown(
                f"unknown whether the transaction was committed: {lost.message}; then: {error.message}",
                **error.evidence,
            )
        raise error

    def _unknown(self) -> OutcomeUnknown:
        assert self._lost_end is not None
        return OutcomeUnknown(
            f"unknown whether the transaction was committed: {self._lost_end.message}", transactional_id=self.id
        )

    def _bump_epoch(self, deadline_ms: float) -> None:
        """Request the next epoch of the producer id."""
        try:
            self._request_id(deadline_ms)
        except BrokerError as error:
            if not error.retriable:
                self._fail(error, fatal=True)
            raise
        self._needs_epoch = False

    # Requests

    def _identity(self) -> tuple[int, int]:
        assert self._sequences.producer is not None
        return self._sequences.producer

    def _versions(self, api: str) -> _Range:
        """The range of versions of a request that means something else in transaction version 2."""
        last = _LAST_EXPLICIT[api]
        return (last + 1, None) if self._is_implicit else (None, last)

    def _ask(
        self,
        request: Request[R],
        deadline_ms: float,
        *,
        group: str | None = None,
        codes: Callable[[Any], Iterable[int]] | None = None,
        versions: _Range = (None, None),
        on_lost: Callable[[KcliError], object] = lambda _error: None,
    ) -> R:
        """Return the coordinator's response without a retriable error; ask again until the deadline.

        `group`: ask the coordinator of this group. `on_lost` is called for each request that was sent and has no
        response, with the reason.
        """
        client, api = self._client, type(request).__name__.removesuffix("Request")
        coordinators, key = (self._coordinators, self.id) if group is None else (self._group_coordinators, group)
        node: Node | None = None
        last: KcliError | None = None
        for _ in client.attempts(deadline_ms):
            try:
                located = coordinators.locate([key], (), deadline_ms)
                if key in located.errors:
                    raise located.errors[key]
                node = located.values[key]
                response = self._send(node, request, deadline_ms, versions, on_lost)
            except WakeupError:
                raise
            except KcliError as error:
                if not error.retriable:
                    raise
                last = error if last is None or not isinstance(error, TimeoutExpired) else last
                coordinators.forget(key)
                continue
            code = next((c for c in map(ErrorCode.of, (codes or _one_code)(response)) if c.retriable), None)
            if code is None:
                return response
            last = BrokerError(code, api=api, principal=client.principal)
            if code in COORDINATOR_ERRORS and code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                coordinators.forget(key)
        raise client.timed_out(api, node, last)

    def _send(
        self,
        node: Node,
        request: Request[R],
        deadline_ms: float,
        versions: _Range,
        on_lost: Callable[[KcliError], object],
    ) -> R:
        client = self._client
        future = client.send(node, request, min_version=versions[0], max_version=versions[1])
        try:
            return client.wait(future, deadline_ms, node=node)
        except DisconnectedError as error:
            if error.was_sent:
                on_lost(error)
            raise
        except BaseException as error:
            if not future.done and client.give_up(future, node):
                on_lost(error if isinstance(error, KcliError) else KcliError("interrupted before the response"))
            raise

    # Errors

    def _move(self, event: str) -> None:
        self._state = next_state(self._state, event)

    def _fail(self, error: KcliError, *, fatal: bool | None = None) -> None:
        """Keep the first error: the transaction must be aborted or, after a fatal one, the producer be closed."""
        if fatal is None:
            fatal = isinstance(error, BrokerError) and not error.retriable and is_fatal_code(error.code)
        if self._cause is None or (fatal and self._state != states.FATAL):
            self._cause = error
        self._move(states.DIE if fatal else states.FAIL)

    def _error(self, code: int, api: str, **evidence: Any) -> BrokerError:
        if code in FENCED:
            return self._fenced(api)
        return BrokerError(code, principal=self._client.principal, api=api, transactional_id=self.id, **evidence)

    def _fenced(self, api: str) -> BrokerError:
        message = "another producer with the same transactional id has taken over"
        open_ms = self._client.clock.now_ms() - self._opened_ms
        timeout_ms = self._config.transaction_timeout_ms
        if (self._partitions or self._groups) and open_ms >= timeout_ms:
            message = (
                f"the transaction was open for {open_ms / 1000:.0f} s, longer than transaction.timeout.ms="
                f"{timeout_ms}, so the coordinator has aborted it"
            )
        return BrokerError(ErrorCode.PRODUCER_FENCED, message, api=api, transactional_id=self.id)


def _is_fenced(error: KcliError) -> bool:
    return isinstance(error, BrokerError) and error.code in FENCED


def _one_code(response: Any) -> Iterator[int]:
    yield response.error_code


def _partition_codes(response: Any) -> Iterator[int]:
    for topic in response.results_by_topic_v3_and_below:
        for row in topic.results_by_partition:
            yield row.partition_error_code
