"""What a KIP-848 heartbeat says and when it is due. Pure: time comes in as a number.

A broker remembers what a member has said, so a heartbeat says everything only when the member joins, or when it is not
known whether the last one arrived; otherwise what has changed, which is nothing most of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, UnsupportedVersion

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

LEAVE_EPOCH = -1
_INTERVALS_OF_A_SESSION = 9  # group.consumer.session.timeout.ms is 45 s, group.consumer.heartbeat.interval.ms 5 s
LEAVE_STATIC_EPOCH = -2  # the instance will be back, its partitions are kept for it

#: Partitions by topic id, as the protocol names them.
PartitionsById = dict["UUID", frozenset[int]]


class Who(NamedTuple):
    """Under which names a member speaks; part of every heartbeat."""

    group: str
    member_id: str
    instance_id: str | None = None


class Facts(NamedTuple):
    """All that a member tells about itself; what it subscribes to and what it owns may change.

    `owned_round` grows whenever a new assignment was taken on. `topics` is empty with a `regex`, which only v1 can
    carry; `regex` "" is none.
    """

    rebalance_timeout_ms: int
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    rack: str | None = None
    owned: tuple[tuple[UUID, frozenset[int]], ...] = ()
    owned_round: int = 0


def heartbeat(who: Who, epoch: int, facts: Facts, told: Facts | None) -> ConsumerGroupHeartbeatRequest:
    """The next heartbeat: what differs from `told`, or everything if that is None."""
    from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

    request = ConsumerGroupHeartbeatRequest(
        group_id=who.group, member_id=who.member_id, member_epoch=epoch, instance_id=who.instance_id
    )
    if told is None:
        request.rebalance_timeout_ms = facts.rebalance_timeout_ms
        request.server_assignor = facts.assignor
        request.rack_id = facts.rack
    if told is None or facts.topics != told.topics:
        request.subscribed_topic_names = sorted(facts.topics)
    if facts.regex != ("" if told is None else told.regex):
        request.subscribed_topic_regex = facts.regex
    if told is None or (facts.owned, facts.owned_round) != (told.owned, told.owned_round):
        request.topic_partitions = _topic_partitions(facts)
    return request


def farewell(who: Who) -> ConsumerGroupHeartbeatRequest:
    """The last heartbeat: a static member says that it will be back."""
    from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

    epoch = LEAVE_EPOCH if who.instance_id is None else LEAVE_STATIC_EPOCH
    return ConsumerGroupHeartbeatRequest(
        group_id=who.group, member_id=who.member_id, member_epoch=epoch, instance_id=who.instance_id
    )


def _topic_partitions(facts: Facts) -> list[TopicPartitions]:
    from kcli.protocol.messages.consumer_group_heartbeat import TopicPartitions

    return [TopicPartitions(topic_id=topic_id, partitions=sorted(numbers)) for topic_id, numbers in facts.owned]


class HeartbeatTiming:
    """When the next heartbeat is due: one at a time, every `interval_ms` as the broker wants, sooner when `urgent`.

    After a failure the next one does not wait for the interval but for the backoff that `failed` was given.
    """

    def __init__(self) -> None:
        self.interval_ms = 0.0
        self.in_flight = False
        self.failures = 0
        self._sent_ms = float("-inf")
        self._vouched_ms = float("-inf")
        self._not_before_ms = float("-inf")
        self._hurry = False

    def __repr__(self) -> str:
        flight = ", one in flight" if self.in_flight else ""
        return f"<HeartbeatTiming every {self.interval_ms:g} ms{flight}, {self.failures} failures>"

    def is_due(self, now_ms: float, *, urgent: bool) -> bool:
        """Whether to send one now."""
        return not self.in_flight and now_ms >= self.due_ms(urgent=urgent)

    def due_ms(self, *, urgent: bool) -> float:
        """When to send the next one; infinity while the last one is unanswered."""
        if self.in_flight:
            return float("inf")
        if urgent or self._hurry or self.failures:
            return self._not_before_ms
        return max(self._sent_ms + self.interval_ms, self._not_before_ms)

    def hurry(self) -> None:
        """The next one shall not wait for the interval."""
        self._hurry = True

    def sent(self, now_ms: float) -> None:
        """One is on its way."""
        self.in_flight, self._hurry, self._sent_ms = True, False, now_ms

    def succeeded(self, interval_ms: float) -> None:
        """It was answered; the broker wants one every `interval_ms`."""
        self.in_flight, self.failures, self.interval_ms = False, 0, interval_ms
        self._not_before_ms = float("-inf")
        self._vouched_ms = self._sent_ms

    def is_doubtful(self, now_ms: float) -> bool:
        """Whether the broker may have expelled us without our knowing: no heartbeat that left within a session was
        answered. Its length nobody tells; by default it is nine intervals, so that is what we go by."""
        return now_ms >= self._vouched_ms + _INTERVALS_OF_A_SESSION * self.interval_ms

    def failed(self, now_ms: float, backoff_ms: float) -> None:
        """It was not, or with an error; the next one leaves after `backoff_ms`."""
        self.in_flight = False
        self.failures += 1
        self._not_before_ms = now_ms + backoff_ms


Reaction = Literal[
    "retry",  # again after a pause
    "find",  # the coordinator is elsewhere: find it, then again
    "fence",  # the partitions are lost; join anew
    "report",  # raise it, but stay a member: it may be mended meanwhile
    "fail",  # raise it, now and at every poll
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
    "the broker does not speak the group protocol of KIP-848: set group.protocol=classic, or use Kafka 4.0 or newer"
)


def reaction_to(error: KcliError, epoch: int) -> Reaction:
    """What to do about a heartbeat that failed, sent at this member epoch (0: joining).

    A group that is not there is deleted behind the back of a member (it joins anew), but no consumer group to one that
    joins. A code that the table lacks is retried if that is its nature.
    """
    if not isinstance(error, BrokerError):
        return "find" if error.retriable else "fail"
    if error.code == ErrorCode.GROUP_ID_NOT_FOUND and epoch > 0:
        return "fence"
    return REACTIONS.get(error.code, "retry" if error.code.retriable else "fail")


def explain(error: KcliError, group: str, instance_id: str | None) -> KcliError:
    """The error as the application gets it: which group, whose instance, and what can be done where we know."""
    if isinstance(error, UnsupportedVersion):
        return UnsupportedVersion(f"group {group} cannot be joined: {_TOO_OLD}")
    if not isinstance(error, BrokerError):
        return error
    shown = {"api": "ConsumerGroupHeartbeat", "group": group, "instance": instance_id}
    if error.code == ErrorCode.UNSUPPORTED_VERSION:
        return BrokerError(error.code, _TOO_OLD, **shown)
    return BrokerError(error.code, _said(error), **shown)


def _said(error: BrokerError) -> str | None:
    """The broker's own words without the name of the code, which comes by itself."""
    return error.message.removeprefix(f"{error.code.name}: ") or None
