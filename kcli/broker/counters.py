"""Counts of a broker's work: of topics in the replica manager (BrokerTopicMetrics), of requests in the server.

They are plain attributes; `mbeans` reads them when somebody asks. The answers of hooks in tests are counted, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.broker.serving.request_context import EncodedResponse
from kcli.error_codes import ErrorCode
from kcli.protocol.registry import api_name
from kcli.protocol.wire import Message, fields_of

if TYPE_CHECKING:
    from kcli.broker.delayed import FetchTarget
    from kcli.broker.log.log import AppendInfo
    from kcli.broker.partition import PartitionRead
    from kcli.broker.serving.request_context import RequestContext

_TOPIC_METRICS = "kafka.server:type=BrokerTopicMetrics"
_REQUESTS = "kafka.network:type=RequestMetrics"


#: Kafka returns the log start offset with a refused batch, and counts a failed Produce, except with these errors.
EXPECTED_REFUSALS = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

# With any other error a Fetch has failed in a way that Kafka counts.
_EXPECTED_READ_ERRORS = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


class MBean(NamedTuple):
    """A metric: the domain and type of its MBean, its name, tags, and attributes.

    `Value` is the attribute of a gauge, and `Count` that of a meter; a histogram also has `Mean` and `Max`.
    """

    domain: str
    name: str
    tags: tuple[tuple[str, str], ...]
    attributes: dict[str, float]


class TopicCounts:
    """The counts of one topic. A Produce or Fetch counts once for each of its partitions, as in Kafka."""

    bytes_in = 0
    bytes_out = 0
    bytes_rejected = 0
    failed_fetches = 0
    failed_produces = 0
    fetches = 0
    messages_in = 0
    produces = 0


TOPIC_NAMES = {
    "messages_in": "MessagesInPerSec",
    "bytes_in": "BytesInPerSec",
    "bytes_out": "BytesOutPerSec",
    "bytes_rejected": "BytesRejectedPerSec",
    "produces": "TotalProduceRequestsPerSec",
    "fetches": "TotalFetchRequestsPerSec",
    "failed_produces": "FailedProduceRequestsPerSec",
    "failed_fetches": "FailedFetchRequestsPerSec",
}


class TopicMetrics:
    """The counts by topic, and those of deleted topics together. `replication_bytes_out` goes to followers."""

    def __init__(self) -> None:
        self.replication_bytes_out = 0
        self._topics: dict[str, TopicCounts] = {}
        self._deleted = TopicCounts()

    def __repr__(self) -> str:
        return f"<TopicMetrics {len(self._topics)} topics>"

    def of(self, topic: str) -> TopicCounts:
        """Return the counts of a topic."""
        counts = self._topics.get(topic)
        if counts is None:
            counts = self._topics[topic] = TopicCounts()
        return counts

    def appended(self, topic: str, info: AppendInfo) -> None:
        """Count a batch that was appended, or that was a retry."""
        counts = self.of(topic)
        counts.produces += 1
        counts.bytes_in += info.size_bytes
        counts.messages_in += info.last_offset - info.base_offset + 1

    def refused(self, topic: str, code: ErrorCode, size: int) -> None:
        """Count a batch that was refused."""
        counts = self.of(topic)
        counts.produces += 1
        if code is ErrorCode.MESSAGE_TOO_LARGE:
            counts.bytes_rejected += size
        if code not in EXPECTED_REFUSALS:
            counts.failed_produces += 1

    def fetched(self, targets: Iterable[FetchTarget], reads: Iterable[PartitionRead]) -> None:
        """Count a Fetch by its first reads."""
        for target, read in zip(targets, reads, strict=True):
            if target.tp is not None:
                counts = self.of(target.tp.topic)
                counts.fetches += 1
                if read.error and read.error not in _EXPECTED_READ_ERRORS:
                    counts.failed_fetches += 1

    def forget(self, topic: str) -> None:
        """Leave a deleted topic out; the totals keep its counts."""
        counts = self._topics.pop(topic, None)
        if counts is not None:
            for name in TOPIC_NAMES:
                setattr(self._deleted, name, getattr(self._deleted, name) + getattr(counts, name))

    def mbeans(self, replication_bytes_in: int) -> list[MBean]:
        found = []
        for attribute, name in TOPIC_NAMES.items():
            by_topic = {topic: getattr(counts, attribute) for topic, counts in self._topics.items()}
            found.append(meter(_TOPIC_METRICS, name, sum(by_topic.values()) + getattr(self._deleted, attribute)))
            found += [meter(_TOPIC_METRICS, name, count, topic=topic) for topic, count in sorted(by_topic.items())]
        found.append(meter(_TOPIC_METRICS, "ReplicationBytesInPerSec", replication_bytes_in))
        found.append(meter(_TOPIC_METRICS, "ReplicationBytesOutPerSec", self.replication_bytes_out))
        return found


class _ApiCounts:
    __slots__ = ("errors", "longest_ms", "requests", "total_ms", "versions")

    def __init__(self) -> None:
        self.requests = 0
        self.total_ms = 0.0
        self.longest_ms = 0.0
        self.versions: dict[int, int] = {}
        self.errors: dict[int, int] = {}


class RequestMetrics:
    """The answered requests by API: number by version, errors in the answers, and time from receipt to answer."""

    def __init__(self) -> None:
        self._apis: dict[int, _ApiCounts] = {}

    def __repr__(self) -> str:
        return f"<RequestMetrics {sum(counts.requests for counts in self._apis.values())} requests>"

    def record(self, context: RequestContext, response: Message | EncodedResponse | None, now_ms: float) -> None:
        """Count a request; `response` is None if it gets none (acks=0)."""
        counts = self._apis.get(context.api_key)
        if counts is None:
            counts = self._apis[context.api_key] = _ApiCounts()
        counts.requests += 1
        taken_ms = now_ms - context.now_ms
        counts.total_ms += taken_ms
        if taken_ms > counts.longest_ms:
            counts.longest_ms = taken_ms
        versions, version = counts.versions, context.api_version
        versions[version] = versions.get(version, 0) + 1
        if type(response) is EncodedResponse:  # of an idle Fetch
            counts.errors[0] = counts.errors.get(0, 0) + 1
        elif response is not None:
            _count_errors(response, _error_plan(type(response)), counts.errors)

    def mbeans(self) -> list[MBean]:
        found = []
        for key, counts in sorted(self._apis.items()):
            api = api_name(key)
            for version, count in sorted(counts.versions.items()):
                found.append(meter(_REQUESTS, "RequestsPerSec", count, request=api, version=str(version)))
            for code, count in sorted(counts.errors.items()):
                found.append(meter(_REQUESTS, "ErrorsPerSec", count, request=api, error=ErrorCode.of(code).name))
            attributes = {
                "Count": float(counts.requests),
                "Mean": counts.total_ms / counts.requests,
                "Max": counts.longest_ms,
            }
            found.append(MBean(_REQUESTS, "TotalTimeMs", (("request", api),), attributes))
        return found


# Whether a class has an error code, and its fields with classes that have one somewhere.
_ErrorPlan = tuple[bool, tuple[tuple[str, Any], ...]]
_plans: dict[type, _ErrorPlan] = {}


def _error_plan(cls: type) -> _ErrorPlan:
    plan = _plans.get(cls)
    if plan is None:
        fields = fields_of(cls)
        nested = []
        for field in fields:
            inner = None if field.type.element is None else field.type.element.struct
            if inner is not None and any(below := _error_plan(inner)):
                nested.append((field.name, below))
        plan = _plans[cls] = any(field.name == "error_code" for field in fields), tuple(nested)
    return plan


def _count_errors(message: Any, plan: _ErrorPlan, errors: dict[int, int]) -> None:
    """Count all error codes of an answer, those of its rows, too, as in Kafka: 0 is NONE."""
    has_code, nested = plan
    if has_code:
        code = message.error_code
        errors[code] = errors.get(code, 0) + 1
    for name, below in nested:
        for row in getattr(message, name) or ():
            _count_errors(row, below, errors)


def meter(domain: str, name: str, count: float, **tags: str) -> MBean:
    """Return a count since the start; there are no rates, which Prometheus computes."""
    return MBean(domain, name, tuple(tags.items()), {"Count": float(count)})


def gauge(domain: str, name: str, value: float, **tags: str) -> MBean:
    """Return a value of now."""
    return MBean(domain, name, tuple(tags.items()), {"Value": float(value)})
