"""A kafka-python reader for the consume bench: it writes every value of a topic to stdout, one per line."""

from __future__ import annotations

import sys

from kafka import KafkaConsumer, TopicPartition


def main(bootstrap_servers: str, topic: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest")
    partitions = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic))]
    consumer.assign(partitions)
    left = sum(consumer.end_offsets(partitions).values())
    out = sys.stdout.buffer
    while left:
        for records in consumer.poll(timeout_ms=1000, max_records=5000).values():
            out.write(b"".join([record.value + b"\n" for record in records]))
            left -= len(records)
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
