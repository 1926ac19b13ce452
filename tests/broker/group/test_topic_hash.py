"""The metadata hash of consumer groups (KIP-1101)."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from kcli.broker.cluster.cluster_values import PartitionState, TopicState
from kcli.broker.group.topic_hash import group_hash, xxh3_64

# Made by xxhash 3.6.0 (libxxhash 0.8.3) of the bytes that random.Random(5) gives one after the other.
EXPECTED = {
    0: 0x2D06800538D394C2,
    1: 0xA1CD1F36D839FC34,
    3: 0x37AAC1C1519E97AC,
    4: 0x79CC4BA001F55EA3,
    8: 0x5F162A9C02EA131A,
    9: 0x21189C45CEA17D7,
    16: 0x5A7335727ECEA830,
    17: 0xF04BA9EFBD0D8B33,
    32: 0x8C5A05B66CEDAC99,
    33: 0xC6E867C0CFF4B4F3,
    64: 0x89128DF4BBC1C422,
    65: 0x121E4229A1A455B6,
    96: 0xF7DDE681FE83AA00,
    97: 0x910CC687C5ADE25B,
    128: 0x90E27608F1A5C8E,
    129: 0xF538A5B2C0B1110F,
    144: 0xD526F7267B96323A,
    240: 0x1D35D320E56157FF,
    241: 0x3287FF971BF58309,
    1023: 0xA85415E98588F176,
    1024: 0xDD971B27EA3EBF22,
    1025: 0xED37770956042A50,
    2049: 0x729243B0E1792DBA,
}


def test_the_hash_equals_that_of_xxhash_for_all_classes_of_length() -> None:
    source = random.Random(5)

    assert {size: xxh3_64(source.randbytes(size)) for size in EXPECTED} == EXPECTED


def _cluster(rack: str | None) -> Any:
    partitions = {number: PartitionState((1,), (1,), 1) for number in range(2)}
    topic = TopicState("orders", UUID(int=(1 << 64) | 2), partitions)
    return SimpleNamespace(
        topics={"orders": topic},
        advertised={"PLAINTEXT": ("127.0.0.1", 9092)},
        brokers=lambda listener, with_fenced: [SimpleNamespace(node_id=1, rack=rack)],
    )


# Made by hash4j 0.22.0, which Kafka 4.3.1 uses, with the calls of Kafka's Utils.computeTopicHash and computeGroupHash.
@pytest.mark.parametrize(("rack", "expected"), [(None, -3606193654843869190), ("r1", -3609284937007092315)])
def test_the_hash_of_a_topic_equals_kafkas(rack: str | None, expected: int) -> None:
    assert group_hash(["orders", "missing"], _cluster(rack)) == expected


def test_no_existing_topic_gives_zero() -> None:
    assert group_hash(["missing"], _cluster(None)) == 0
