"""Clients request the metadata of the topics that they use, and of no others, as Java's do.

A topic that does not exist makes metadata due again at once, so one that a client no longer uses would cost a request a
second for as long as the client lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from kcli import Consumer, Producer, TopicPartition
from kcli.errors import BrokerError
from tests.limits import Limit
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow
QUIET_S = 3.0


def delete(kafka: Kafka, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(30)


def metadata_requests(client: Consumer | Producer, work: Callable[[], object], seconds: float = QUIET_S) -> int:
    """Return the number of metadata responses while the client works for this time."""
    metadata, until = client._client.metadata, time.monotonic() + seconds
    before = metadata.update_version
    while time.monotonic() < until:
        work()
    return metadata.update_version - before


@pytest.mark.parametrize("way", ["assign", "lookup", "unsubscribe", "classic", "consumer"])
def test_a_consumer_forgets_the_topics_that_it_no_longer_reads(any_kafka: Kafka, way: str) -> None:
    old, new = any_kafka.new_topic(), any_kafka.new_topic()
    group = {} if way in ("assign", "lookup") else {"group_id": any_kafka.new_name()}
    protocol = {"group_protocol": way} if way in ("classic", "consumer") else {}
    first, second = TopicPartition(old, 0), TopicPartition(new, 0)
    with Consumer(bootstrap_servers=any_kafka.bootstrap_servers, **group, **protocol) as consumer:
        if way in ("assign", "lookup"):
            consumer.assign([second if way == "lookup" else first])
        else:
            consumer.subscribe([old])
        if way == "lookup":
            assert consumer.end_offsets([first]) == {first: 0}
        limit = Limit("an assignment")
        while not consumer.assignment:
            limit.check()
            consumer.poll(100)
        consumer.poll(100)
        if way == "unsubscribe":
            consumer.unsubscribe()
            consumer.assign([second])
        elif way in ("assign", "lookup"):
            consumer.assign([second])
        else:
            consumer.subscribe([new])
            while consumer.assignment != [second]:
                limit.check()
                consumer.poll(100)
        delete(any_kafka, old)
        metadata_requests(consumer, lambda: consumer.poll(100), 1)  # those that are due
        assert metadata_requests(consumer, lambda: consumer.poll(100)) <= 1
        consumer._client.ensure_fresh_metadata(consumer._client.clock.now_ms() + 30_000)
        assert old not in consumer._client.metadata.cluster.topics


def test_a_producer_forgets_the_topics_that_it_does_not_use_for_metadata_max_idle_ms(any_kafka: Kafka) -> None:
    old, new, missing = any_kafka.new_topic(), any_kafka.new_topic(), any_kafka.new_name()
    with Producer(
        bootstrap_servers=any_kafka.bootstrap_servers, metadata_max_idle_ms=5_000, max_block_ms=2_000
    ) as producer:
        for topic in (old, new):
            producer.send(topic, b"1")
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            producer.send(missing, b"1").value()
        producer.flush()
        delete(any_kafka, old)

        def work() -> None:
            producer.send(new, b"2")
            producer.flush()
            time.sleep(0.05)

        limit, requested = Limit("the topics are idle"), producer._client.metadata
        while set(requested.requested_topics) != {new}:
            limit.check()
            work()
        metadata_requests(producer, work, 1)
        assert metadata_requests(producer, work) <= 1
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            producer.send(old, b"3").value()
