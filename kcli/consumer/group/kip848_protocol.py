"""ConsumerGroupHeartbeat (KIP-848): its fields, its timing, and the reaction to each error code.

Pure: time is an argument.

A broker remembers the fields of a member, so a heartbeat contains all fields only when the member joins, or when it is
unknown whether the last heartbeat arrived; otherwise only the changed fields, usually none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, UnsupportedVersion
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

if TYPE_CHECKING:
    from uuid import UUID


LEAVE_EPOCH = -1
_INTERVALS_OF_A_SESSION = 9  # group.consumer.session.timeout.ms is 45 s, group.consumer.heartbeat.interval.ms 5 s
LEAVE_STATIC_EPOCH = -2  # the instance will return, its partitions are kept for it

#: Partitions by topic id, as the protocol names them.
PartitionsById = dict["UUID", frozenset[int]]


class ConsumerIdentity(NamedTuple):
    """The identity of a member, part of every heartbeat."""

    group: str
    member_id: str
    instance_id: str | None = None


class HeartbeatFields(NamedTuple):
    """The fields of a heartbeat that a broker remembers; the subscription and the owned partitions may change.

    `owned_version` increases with every assignment that was applied. `topics` is empty with a `regex`, which requires
    v1; `regex` "": none.
    """

    rebalance_timeout_ms: int
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    rack: str | None = None
    owned: tuple[tuple[UUID, frozenset[int]], ...] = ()
    owned_version: int = 0


def heartbeat(
    identity: ConsumerIdentity, epoch: int, fields: HeartbeatFields, sent: HeartbeatFields | None
) -> ConsumerGroupHeartbeatRequest:
    """Return the next heartbeat: the fields that differ from `sent`, or all fields if that is None."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=identity.group, member_id=identity.member_id, member_epoch=epoch, instance_id=identity.instance_id
    )
    if sent is None:
        request.rebalance_timeout_ms = fields.rebalance_timeout_ms
        request.server_assignor = fields.assignor
        request.rack_id = fields.rack
    if sent is None or fields.topics != sent.topics:
        request.subscribed_topic_names = sorted(fields.topics)
    if fields.regex != ("" if sent is None else sent.regex):
        request.subscribed_topic_regex = fields.regex
    if sent is None or (fields.owned, fields.owned_version) != (sent.owned, sent.owned_version):
        request.topic_partitions = _topic_partitions(fields)
    return request


def leave_heartbeat(identity: ConsumerIdentity) -> ConsumerGroupHeartbeatRequest:
    """Return the last heartbeat. A static member announces its return (epoch -2)."""
    epoch = LEAVE_EPOCH if identity.instance_id is None else LEAVE_STATIC_EPOCH
    return ConsumerGroupHeartbeatRequest(
        group_id=identity.group, member_id=identity.member_id, member_epoch=epoch, instance_id=identity.instance_id
    )


def _topic_partitions(fields: HeartbeatFields) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic_id, partitions=sorted(numbers)) for topic_id, numbers in fields.owned]


class HeartbeatTiming:
    """The time of the next heartbeat: one in flight, every `interval_ms` of the broker, earlier when `urgent`.

    After a failure the next one is sent after the backoff given to `failed`.
    """

    def __init__(self) -> None:
        self.interval_ms = 0.0
        self.in_flight = False
        self.failures = 0
        self._sent_ms = float("-inf")
        self._confirmed_ms = float("-inf")
        self._not_before_ms = float("-inf")
        self._is_expedited = False

    def __repr__(self) -> str:
        flight = ", one in flight" if self.in_flight else ""
        return f"<HeartbeatTiming every {self.interval_ms:g} ms{flight}, {self.failures} failures>"

    def is_due(self, now_ms: float, *, urgent: bool) -> bool:
        """True if one must be sent now."""
        return not self.in_flight and now_ms >= self.due_ms(urgent=urgent)

    def due_ms(self, *, urgent: bool) -> float:
        """Return the time of the next one; infinity while one is in flight."""
        if self.in_flight:
            return float("inf")
        if urgent or self._is_expedited or self.failures:
            return self._not_before_ms
        return max(self._sent_ms + self.interval_ms, self._not_before_ms)

    def expedite(self) -> None:
        """Send the next one without waiting for the interval."""
        self._is_expedited = True

    def sent(self, now_ms: float) -> None:
        """Record that one was sent."""
        self.in_flight, self._is_expedited, self._sent_ms = True, False, now_ms

    def succeeded(self, interval_ms: float) -> None:
        """Record a successful response; the broker requests one every `interval_ms`."""
        self.in_flight, self.failures, self.interval_ms = False, 0, interval_ms
        self._not_before_ms = float("-inf")
        self._confirmed_ms = self._sent_ms

    def may_be_expelled(self, now_ms: float) -> bool:
        """True if the broker may have removed the member: no heartbeat sent within one session was answered.

        The broker does not tell the session timeout; by default it is nine heartbeat intervals, which is used here.
        """
        return now_ms >= self._confirmed_ms + _INTERVALS_OF_A_SESSION * self.interval_ms

    def response_timeout_ms(self, request_timeout_ms: float) -> float:
        """Return the longest wait for a response: half a session is left for another connection, or request.timeout.ms.

        Before the first response the session is unknown.
        """
        half_ms = _INTERVALS_OF_A_SESSION * self.interval_ms / 2
        return min(request_timeout_ms, half_ms) if half_ms else request_timeout_ms

    def failed(self, now_ms: float, backoff_ms: float) -> None:
        """Record a failure; the next heartbeat is sent after `backoff_ms`."""
        self.in_flight = False
        self.failures += 1
        self._not_before_ms = now_ms + backoff_ms


Reaction = Literal[
    "retry",  # retry after a backoff
    "find",  # find the coordinator again, then retry
    "fence",  # the partitions are lost; join again
    "report",  # raise it once and stay a member: the permission may be granted later
    "fail",  # raise it at every poll
]

REACTIONS: dict[ErrorCode, Reaction] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "retry",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "find",
    ErrorCode.NOT_COORDINATOR: "find",
    ErrorCode.FENCED_MEMBER_EPOCH: "fence",
    ErrorCode.UNKNOWN_MEMBER_ID: "fence",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "report",
    ErrorCode.FENCED_INSTANCE_ID: "fail",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "fail",
    ErrorCode.GROUP_ID_NOT_FOUND: "fail",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "fail",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "fail",
    ErrorCode.INVALID_REQUEST: "fail",
    ErrorCode.UNRELEASED_INSTANCE_ID: "fail",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "fail",
    ErrorCode.UNSUPPORTED_VERSION: "fail",
}

_TOO_OLD = (
    "the broker does not support the consumer group protocol of KIP-848; set group.protocol=classic, or use Kafka 4.0 "
    "or newer"
)


def reaction_to(error: KcliError, epoch: int) -> Reaction:
    """Return the reaction to a failed heartbeat that was sent at this member epoch (0: joining).

    GROUP_ID_NOT_FOUND means to a member that its group was deleted (it joins again), and to a joining member that the
    group is not a consumer group. A code that is not in the table is retried if it is retriable.
    """
    if not isinstance(error, BrokerError):
        return "find" if error.retriable else "fail"
    if error.code == ErrorCode.GROUP_ID_NOT_FOUND and epoch > 0:
        return "fence"
    return REACTIONS.get(error.code, "retry" if error.code.retriable else "fail")


def explain(error: KcliError, group: str, instance_id: str | None) -> KcliError:
    """Return the error for the application, with its group and instance, and with a remedy where one is known."""
    if isinstance(error, UnsupportedVersion):
        return UnsupportedVersion(f"group {group} cannot be joined: {_TOO_OLD}")
    if not isinstance(error, BrokerError):
        return error
    evidence = {"api": "ConsumerGroupHeartbeat", "group": group, "instance": instance_id}
    if error.code == ErrorCode.UNSUPPORTED_VERSION:
        return BrokerError(error.code, _TOO_OLD, **evidence)
    return BrokerError(error.code, _detail(error), principal=error.principal, **evidence)


def _detail(error: BrokerError) -> str | None:
    """Return the broker's message without the name of the code."""
    return error.message.removeprefix(f"{error.code.name}: ") or None
