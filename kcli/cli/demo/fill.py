"""What there is to see in the demo: a topic with a shop's orders, and two groups, one of which has fallen behind."""

from __future__ import annotations

import random
from contextlib import closing
from typing import TYPE_CHECKING

from kcli.errors import BrokerError
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.clock import Clock

TOPIC = "orders"
PARTITIONS = 3
RECORDS = 3000
#: What part of the records each group has read.
GROUPS = {"billing": 1.0, "mailing": 0.8}

_SEED = 7
_TIMEOUT_MS = 10_000


def fill(address: str, clock: Clock) -> list[str]:
    """Fill the broker at `address`; what was made, a sentence each. KcliError when the broker refuses."""
    from kcli.client.config import ClientConfig
    from kcli.client.connect import connect

    with closing(connect(ClientConfig.from_properties({"bootstrap.servers": address}), clock)) as client:
        deadline_ms = clock.now_ms() + _TIMEOUT_MS
        ends = _write_orders(address, client, clock, deadline_ms)
        told = [f"Topic {TOPIC}: {sum(ends.values())} events of the last two hours in {PARTITIONS} partitions."]
        for group, share in GROUPS.items():
            behind = _commit(client, group, ends, share, deadline_ms)
            told.append(f"Group {group}: {f'{behind} records behind' if behind else 'has read everything'}.")
        return told


def _write_orders(
    address: str, client: ConsumerNetworkClient, clock: Clock, deadline_ms: float
) -> dict[TopicPartition, int]:
    """Make the topic and write to it; the end offset of each partition."""
    from kcli.admin.topics import NewTopic, create_topics
    from kcli.cli.demo.traffic import orders
    from kcli.client.config import ProducerConfig
    from kcli.producer.batches import Outcome
    from kcli.producer.producer import Producer

    created = create_topics(client, [NewTopic(TOPIC, PARTITIONS, 1, {})], deadline_ms)
    for error in created.errors.values():
        raise error
    ends = {TopicPartition(TOPIC, number): 0 for number in range(PARTITIONS)}

    def tell(outcome: Outcome) -> None:
        if outcome.error is not None:
            raise outcome.error
        ends[outcome.tp] = max(ends[outcome.tp], outcome.base_offset + outcome.record_count)

    producer = Producer(ProducerConfig.from_properties({"bootstrap.servers": address}), client)
    producer.send_many(TOPIC, list(orders(RECORDS, clock.wall_ms(), random.Random(_SEED))), tell)
    producer.flush(deadline_ms)
    return ends


def _commit(
    client: ConsumerNetworkClient, group: str, ends: dict[TopicPartition, int], share: float, deadline_ms: float
) -> int:
    """Commit at this share of each partition; how many records are left to read."""
    from kcli.admin.offsets.commit import commit_offsets

    offsets = {tp: OffsetAndMetadata(int(end * share)) for tp, end in ends.items()}
    for tp, code in commit_offsets(client, group, offsets, deadline_ms).items():
        if code:
            raise BrokerError(code, topic=tp.topic, partition=tp.partition, group=group)
    return sum(end - offsets[tp].offset for tp, end in ends.items())
