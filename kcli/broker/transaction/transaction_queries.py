"""The answers of DescribeTransactions and ListTransactions (KIP-664), as pure functions of the ids in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kcli.broker.transaction.transaction_state import PREPARED, TransactionMetadata, TransactionState
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.patterns import InvalidRegex, Regex, compile_regex
from kcli.protocol.messages.describe_transactions import TopicData
from kcli.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from kcli.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kcli.protocol.messages.list_transactions import TransactionState as ListedTransaction
from kcli.structs import TopicPartition, numbers_by_topic


def describe(
    transaction: TransactionMetadata, without_marker: Collection[TopicPartition] | None
) -> DescribedTransaction:
    """Return the state of an id with the partitions of its transaction.

    `without_marker` are the partitions that have not stored the marker yet; None if no marker is on its way. While a
    transaction ends, only these are in the answer.
    """
    left = without_marker if transaction.state in PREPARED else None
    partitions = numbers_by_topic(transaction.partitions if left is None else left)
    return DescribedTransaction(
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.shown,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=topic, partitions=numbers) for topic, numbers in partitions.items()],
    )


def list_transactions(
    request: ListTransactionsRequest, transactions: Iterable[TransactionMetadata], now_wall_ms: int
) -> ListTransactionsResponse:
    """Return the ids that match all filters, and the requested states that do not exist.

    BrokerError INVALID_REGULAR_EXPRESSION if the pattern is not valid.
    """
    pattern = _compiled(request.transactional_id_pattern)
    known = {state.shown for state in TransactionState}
    states, ids = set(request.state_filters), set(request.producer_id_filters)

    def is_wanted(transaction: TransactionMetadata) -> bool:
        if ids and transaction.producer_id not in ids:
            return False
        if states and transaction.state.shown not in states:
            return False
        if request.duration_filter >= 0 and now_wall_ms - transaction.start_ms <= request.duration_filter:
            return False
        return pattern is None or pattern.matches(transaction.transactional_id)

    return ListTransactionsResponse(
        unknown_state_filters=[name for name in dict.fromkeys(request.state_filters) if name not in known],
        transaction_states=[
            ListedTransaction(
                transactional_id=found.transactional_id,
                producer_id=found.producer_id,
                transaction_state=found.state.shown,
            )
            for found in transactions
            if is_wanted(found)
        ],
    )


def _compiled(pattern: str | None) -> Regex | None:
    """Compile the pattern of ListTransactions; null and "" match every id."""
    if not pattern:
        return None
    try:
        return compile_regex(pattern)
    except InvalidRegex as problem:
        raise BrokerError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"Transaction ID pattern `{pattern}` is not a valid regular expression: {problem}.",
        ) from None
