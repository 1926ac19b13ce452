"""Which ranges will not come to their end by waiting: the topic is gone, or nothing moves. Pure: time is a number.

Time here is time spent polling. A caller that was away for an hour, behind a full pipe, has not been kept waiting.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcli.consumer.trouble import Trouble
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired
from kcli.structs import TopicPartition

# A topic that a broker does not know may just have been created; after so long it has been deleted.
UNKNOWN_TOPIC_MS = 5_000.0
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class Watch:
    """Remembers since when each range stands still, and since when its topic is unknown."""

    def __init__(self, patience_ms: float) -> None:
        self._patience_ms = patience_ms
        self._stands: dict[TopicPartition, tuple[int, float]] = {}
        self._unknown_since_ms: dict[TopicPartition, float] = {}
        self._moved_ms: dict[int, float] = {}

    def moved(self, nodes: Iterable[int], now_ms: float) -> None:
        """These brokers have given records that are news. Other partitions of theirs may have to wait their turn."""
        self._moved_ms.update(dict.fromkeys(nodes, now_ms))

    def verdict(
        self,
        tp: TopicPartition,
        position: int,
        node_id: int | None,
        trouble: Trouble | None,
        now_ms: float,
        *,
        has_more: bool,
    ) -> KcliError | None:
        """The error to end a range with, standing at `position` and served by `node_id`; None: waiting may help.

        `has_more`: there were records behind the position when the range was resolved, so something should come.
        """
        code = trouble.error.code if trouble is not None and isinstance(trouble.error, BrokerError) else None
        if code not in _UNKNOWN:
            self._unknown_since_ms.pop(tp, None)
        elif now_ms - self._unknown_since_ms.setdefault(tp, now_ms) >= UNKNOWN_TOPIC_MS:
            return BrokerError(code or 0, f"topic {tp.topic} is gone")
        stands_at, since_ms = self._stands.setdefault(tp, (position, now_ms))
        if stands_at != position:
            self._stands[tp] = position, now_ms
            return None
        if node_id is not None:
            since_ms = max(since_ms, self._moved_ms.get(node_id, since_ms))
        silent_ms = now_ms - since_ms
        if not has_more or silent_ms < self._patience_ms:
            return None
        why = f": {trouble.error}" if trouble is not None else ""
        return TimeoutExpired(f"nothing more came for {silent_ms / 1000:.3g} s{why}")
