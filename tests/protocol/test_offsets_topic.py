"""Records of __consumer_offsets and blobs of the consumer protocol, compared with bytes of Kafka's own classes."""

from __future__ import annotations

import contextlib
import tracemalloc
import uuid
from typing import Any

import pytest

from kcli.errors import ProtocolError
from kcli.protocol import consumer_protocol
from kcli.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscribed_topics,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kcli.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_value,
    encode_key,
    encode_offset_value,
)
from tests.protocol.golden import RecordLine, record_lines, struct_as_json

DECODERS = {
    "LegacyOffsetCommitKey": decode_key,
    "OffsetCommitKey": decode_key,
    "GroupMetadataKey": decode_key,
    "OffsetCommitValue": decode_offset_value,
    "GroupMetadataValue": decode_group_value,
    "ConsumerProtocolSubscription": decode_subscription,
    "ConsumerProtocolAssignment": decode_assignment,
}
ENCODERS: dict[str, Any] = {
    "OffsetCommitKey": lambda value, _: encode_key(value),
    "GroupMetadataKey": lambda value, _: encode_key(value),
    "OffsetCommitValue": encode_offset_value,
    "GroupMetadataValue": encode_group_value,
    "ConsumerProtocolSubscription": encode_subscription,
    "ConsumerProtocolAssignment": encode_assignment,
}
every_line = pytest.mark.parametrize("line", record_lines(*DECODERS), ids=str)


@every_line
def test_records_written_by_kafka_are_decoded(line: RecordLine) -> None:
    flexible = line.name.endswith("MetadataValue") or line.name == "OffsetCommitValue"
    found = struct_as_json(DECODERS[line.name](line.data), line.version, flexible and line.version >= 4)

    assert found == line.json


@pytest.mark.parametrize("line", record_lines(*ENCODERS), ids=str)
def test_records_written_by_kafka_are_encoded_to_the_same_bytes(line: RecordLine) -> None:
    assert ENCODERS[line.name](DECODERS[line.name](line.data), line.version) == line.data


@every_line
def test_truncated_records_are_a_protocol_error(line: RecordLine) -> None:
    for length in range(1 if line.name == "ConsumerProtocolAssignment" else 0, len(line.data)):
        with pytest.raises(ProtocolError):
            DECODERS[line.name](line.data[:length])


@every_line
def test_a_huge_number_at_any_position_allocates_little(line: RecordLine) -> None:
    decode = DECODERS[line.name]
    decode(line.data)  # what is compiled now is not counted
    tracemalloc.start()
    try:
        for at in range(2, len(line.data) - 3):
            with contextlib.suppress(ProtocolError):
                decode(line.data[:at] + b"\x7f\xff\xff\xff" + line.data[at + 4 :])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_an_offset_is_encoded_in_the_version_of_kafka_4_3_1() -> None:
    topic_id = uuid.UUID("49c03ab3-68e2-490e-ac49-6204a4b51a7f")
    value = OffsetCommitValue(offset=5, commit_timestamp=1795228703419, topic_id=topic_id)

    # From the __consumer_offsets of a Kafka 4.3.1: a commit without, and one with a retention of its own.
    assert encode_offset_value(value).hex() == (
        "00040000000000000005ffffffff01000001a1fbf81abb01001049c03ab368e2490eac496204a4b51a7f"
    )
    value.expire_timestamp, value.commit_timestamp = 0x1A1FBF822AB, 0x1A1FBF81ADB
    assert encode_offset_value(value).hex() == "000100000000000000050000000001a1fbf81adb000001a1fbf822ab"


def test_a_group_is_encoded_as_v3_as_in_kafka_4_3_1() -> None:
    empty = GroupMetadataValue(current_state_timestamp=0x1A1FBF826CC)

    assert encode_group_value(empty).hex() == "0003000000000000ffffffff000001a1fbf826cc00000000"


def test_both_kinds_of_offset_keys_are_decoded_and_the_newer_is_encoded() -> None:
    key = OffsetCommitKey(group="billing", topic="orders", partition=3)

    assert {decode_key(line.data).group for line in record_lines("LegacyOffsetCommitKey")} == {"billing"}  # type: ignore[union-attr]
    assert encode_key(key)[:2] == b"\0\1"
    assert encode_key(GroupMetadataKey(group="billing"))[:2] == b"\0\2"


@pytest.mark.parametrize("kind", [3, 4, 8, 16, 999, -1])
def test_keys_of_newer_group_types_are_ignored(kind: int) -> None:
    assert decode_key(kind.to_bytes(2, "big", signed=True) + b"\0\1g") is None


def test_newer_value_versions_are_errors() -> None:
    for decode in (decode_offset_value, decode_group_value):
        with pytest.raises(ProtocolError, match="version 5"):
            decode(b"\0\5" + bytes(40))


def test_a_newer_subscription_is_decoded_as_the_newest_known() -> None:
    data = encode_subscription(Subscription(topics=["a"], generation_id=4, rack_id="r"))

    newer = decode_subscription(b"\0\x09" + data[2:] + b"what a later Kafka adds")

    assert newer == Subscription(topics=["a"], generation_id=4, rack_id="r")
    assert consumer_protocol.NEWEST == 3


def test_topics_are_decoded_even_if_later_fields_are_missing() -> None:
    """Some clients write v1 without the owned partitions, which Kafka's coordinator does not read."""
    data = b"\0\1" + encode_subscription(Subscription(topics=["a", "b"]), 0)[2:]

    assert decode_subscribed_topics(data) == ["a", "b"]
    with pytest.raises(ProtocolError):
        decode_subscription(data)


def test_no_bytes_are_an_empty_assignment() -> None:
    assert decode_assignment(b"") == Assignment()
