"""User data of sticky assignors in a subscription: the last assignment and its generation.

User data that cannot be decoded counts as absent, as in Kafka: one member with malformed data must not stop the group.
Source: Kafka's StickyAssignor and CooperativeStickyAssignor; KIP-54, KIP-341 (the generation), KIP-429.
"""

from collections.abc import Sequence
from typing import TypeVar

from kcli.assignors.model import NO_GENERATION
from kcli.errors import ProtocolError
from kcli.protocol.codec import decode_struct, encode_struct
from kcli.protocol.consumer_protocol import Subscription, TopicPartitions, by_topic, flat
from kcli.protocol.wire import Array, Int32, since, struct
from kcli.structs import TopicPartition

T = TypeVar("T")
Claim = tuple[tuple[TopicPartition, ...], int]
NOTHING: Claim = ((), NO_GENERATION)
_GENERATION_BYTES = 4


@struct
class PreviousAssignment:
    """User data of the sticky assignor. It has no version field: v1 is v0 followed by the generation."""

    previous_assignment: Array[TopicPartitions] = []
    generation: Int32 = since(1, default=NO_GENERATION, ignorable=True)


@struct
class LastGeneration:
    """User data of the cooperative sticky assignor. The owned partitions are a field of the subscription."""

    generation: Int32 = NO_GENERATION


def write_nothing(owned: Sequence[TopicPartition], generation: int) -> bytes | None:
    """Return None: range and round robin have no user data."""
    return None


def write_sticky(owned: Sequence[TopicPartition], generation: int) -> bytes | None:
    """Encode the last assignment and its generation; None before the first assignment."""
    if generation == NO_GENERATION and not owned:
        return None
    return encode_struct(PreviousAssignment(previous_assignment=by_topic(owned), generation=generation), 1)


def write_cooperative(owned: Sequence[TopicPartition], generation: int) -> bytes | None:
    """Encode the generation."""
    return encode_struct(LastGeneration(generation=generation), 0)


def read_subscription(subscription: Subscription) -> Claim:
    """Return the owned partitions of the subscription. Range and round robin ignore them, but forecasts use them."""
    return flat(subscription.owned_partitions), subscription.generation_id


def read_sticky(subscription: Subscription) -> Claim:
    """Return the claim in the user data; the subscription's own field is ignored.

    An eager member has revoked all partitions before it joins, so that its subscription owns none.
    """
    if not subscription.user_data:
        return NOTHING
    for version in (1, 0):
        try:
            found = decode_struct(PreviousAssignment, subscription.user_data, version)
        except ProtocolError:
            continue
        return flat(found.previous_assignment), found.generation
    return NOTHING


def read_cooperative(subscription: Subscription) -> Claim:
    """Return the owned partitions of the subscription and its generation; before v2 (KIP-792) that of the user data.

    librdkafka writes the same user data for both strategies: the generation comes last.
    """
    owned = flat(subscription.owned_partitions)
    if subscription.generation_id != NO_GENERATION or not subscription.user_data:
        return owned, subscription.generation_id
    if len(subscription.user_data) != _GENERATION_BYTES:
        return owned, read_sticky(subscription)[1]
    return owned, decode_struct(LastGeneration, subscription.user_data, 0).generation
