"""Offsets committed without a member, on both brokers, read by librdkafka."""

from __future__ import annotations

from contextlib import closing

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Theirs

from kcli.admin.offsets.commits import commit_offsets
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.error_codes import ErrorCode
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.real_kafka import Kafka


def test_a_commit_returns_the_error_code_of_each_partition(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(partitions=2), any_kafka.new_name("group")
    first, second, missing = (TopicPartition(topic, number) for number in (0, 1, 7))
    wanted = {
        first: OffsetAndMetadata(7, 3, "a note"),
        missing: OffsetAndMetadata(1),
        second: OffsetAndMetadata(0),
    }
    with closing(connect(ClientConfig.from_properties({"bootstrap.servers": any_kafka.bootstrap_servers}))) as client:
        done = commit_offsets(client, group, wanted, client.clock.now_ms() + 30_000)
    assert list(done) == list(wanted)
    assert [int(code) for code in done.values()] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    consumer = Consumer({"bootstrap.servers": any_kafka.bootstrap_servers, "group.id": group})
    found = consumer.committed([Theirs(topic, 0), Theirs(topic, 1)], timeout=30)
    consumer.close()
    assert [(tp.offset, tp.metadata) for tp in found] == [(7, "a note"), (0, None)]
