"""What sticky assignors put into the user data of a subscription: the last assignment and its generation.

A blob that cannot be read says nothing, as for Kafka: the group must go on though one member writes nonsense.
Source: Kafka's StickyAssignor and CooperativeStickyAssignor; KIP-54, KIP-341 (the generation), KIP-429.
"""

from collections.abc import Sequence
from typing import TypeVar

from kcli.assignors.model import NO_GENERATION
from kcli.errors import ProtocolError
from kcli.protocol.consumer_protocol import Subscription, TopicPartitions, by_topic, flat
from kcli.protocol.plan import plan
from kcli.protocol.primitives import Buffer
from kcli.protocol.wire import Array, Int32, since, struct
from kcli.structs import TopicPartition

T = TypeVar("T")
Claim = tuple[tuple[TopicPartition, ...], int]
NOTHING: Claim = ((), NO_GENERATION)
_GENERATION_BYTES = 4


@struct
class PreviousAssignment:
    """User data of the sticky assignor. It carries no version: v1 is v0 with the generation behind it."""

    previous_assignment: Array[TopicPartitions] = []
    generation: Int32 = since(1, default=NO_GENERATION, ignorable=True)


@struct
class LastGeneration:
    """User data of the cooperative sticky assignor; owned partitions have their place in the subscription."""

    generation: Int32 = NO_GENERATION


def write_nothing(owned: Sequence[TopicPartition], generation: int) -> bytes | None:
    """Range and round robin have no user data."""
    return None


def write_sticky(owned: Sequence[TopicPartition], generation: int) -> bytes | None:
    """The last assignment and its generation; nothing before a member has had one."""
    if generation == NO_GENERATION and not owned:
        return None
    return _encode(PreviousAssignment(previous_assignment=by_topic(owned), generation=generation), 1)


def write_cooperative(owned: Sequence[TopicPartition], generation: int) -> bytes | None:
    """The generation alone."""
    return _encode(LastGeneration(generation=generation), 0)


def read_subscription(subscription: Subscription) -> Claim:
    """What the subscription itself says is owned; of use to forecasts where the strategy does not ask."""
    return flat(subscription.owned_partitions), subscription.generation_id


def read_sticky(subscription: Subscription) -> Claim:
    """Only the user data counts: an eager member has revoked everything, and its subscription says so."""
    if not subscription.user_data:
        return NOTHING
    for version in (1, 0):
        try:
            found = _decode(PreviousAssignment, subscription.user_data, version)
        except ProtocolError:
            continue
        return flat(found.previous_assignment), found.generation
    return NOTHING


def read_cooperative(subscription: Subscription) -> Claim:
    """Owned partitions of the subscription; its generation, or before v2 (KIP-792) that of the user data.

    Members of librdkafka write the same user data for both strategies: the generation is at its end.
    """
    owned = flat(subscription.owned_partitions)
    if subscription.generation_id != NO_GENERATION or not subscription.user_data:
        return owned, subscription.generation_id
    if len(subscription.user_data) != _GENERATION_BYTES:
        return owned, read_sticky(subscription)[1]
    return owned, _decode(LastGeneration, subscription.user_data, 0).generation


def _encode(value: object, version: int) -> bytes:
    parts: list[Buffer] = []
    _, write, _ = plan(type(value), version, False)
    write(value, parts)
    return b"".join(parts)


def _decode(cls: type[T], data: Buffer, version: int) -> T:
    read, _, _ = plan(cls, version, False)
    found: T
    found, _ = read(memoryview(data), 0)
    return found
