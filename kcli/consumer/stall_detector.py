"""`StallDetector`: the decision when a range that does not advance is given up. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.consumer.retry_backoff import RetryState

# A broker may not know a new topic yet; after this time an unknown topic is a deleted one.
UNKNOWN_TOPIC_TIMEOUT_MS = 5_000.0
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def is_unknown_topic(retry: RetryState | None) -> bool:
    """True if the last error is that the broker does not know the topic."""
    return _unknown_topic_code(retry) is not None


def _unknown_topic_code(retry: RetryState | None) -> ErrorCode | None:
    code = retry.error.code if retry is not None and isinstance(retry.error, BrokerError) else None
    return code if code in _UNKNOWN else None


class StallDetector:
    """Detects ranges that do not reach their end by waiting: the topic is deleted, or the position does not advance.

    Time is the time spent polling: a caller that was busy for an hour has not waited for a broker.
    """

    def __init__(self, timeout_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._positions: dict[TopicPartition, tuple[int, float]] = {}
        self._unknown_since_ms: dict[TopicPartition, float] = {}
        self._moved_ms: dict[int, float] = {}

    def moved(self, nodes: Iterable[int], now_ms: float) -> None:
        """Record that these brokers sent new records.

        Other partitions of theirs may have to wait for the next response.
        """
        self._moved_ms.update(dict.fromkeys(nodes, now_ms))

    def restart(self, tp: TopicPartition) -> None:
        """Begin to wait anew: nothing is requested of this partition for now."""
        self._positions.pop(tp, None)

    def verdict(
        self,
        tp: TopicPartition,
        position: int,
        node_id: int | None,
        retry: RetryState | None,
        now_ms: float,
        *,
        has_more: bool,
    ) -> KcliError | None:
        """Return the error that ends a range at `position`, fetched from `node_id`; None: continue to wait.

        `has_more`: the log had records after the position when the range was resolved, so a record should arrive.
        """
        code = _unknown_topic_code(retry)
        if code is None:
            self._unknown_since_ms.pop(tp, None)
        elif now_ms - self._unknown_since_ms.setdefault(tp, now_ms) >= UNKNOWN_TOPIC_TIMEOUT_MS:
            return BrokerError(code, f"topic {tp.topic} was deleted")
        before, since_ms = self._positions.setdefault(tp, (position, now_ms))
        if before != position:
            self._positions[tp] = position, now_ms
            return None
        if node_id is not None:
            since_ms = max(since_ms, self._moved_ms.get(node_id, since_ms))
        silent_ms = now_ms - since_ms
        if not has_more or silent_ms < self._timeout_ms:
            return None
        cause = f": {retry.error}" if retry is not None else ""
        return TimeoutExpired(f"no record arrived for {silent_ms / 1000:.3g} s{cause}")
