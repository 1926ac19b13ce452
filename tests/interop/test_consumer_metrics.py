"""The consumer's metrics beside those that Java's consumer has after it has read the same topic."""

from __future__ import annotations

import re
import subprocess

import confluent_kafka

from kcli import Consumer
from tests.real_kafka import Kafka

_OURS_ALONE = {
    ("consumer-metrics", False, False, name)
    for name in ("request-latency-avg", "request-latency-max", "throttle-time-total")
}
_METRIC = re.compile(r"^([a-z-]+):([a-zA-Z-]+):\{(.*)\} +: (\S+)$", re.MULTILINE)


def test_names_and_counts_are_those_of_javas_consumer(any_kafka: Kafka, kafka_jars: object) -> None:
    topic = any_kafka.new_topic(1, prefix="metrics")
    producer = confluent_kafka.Producer({"bootstrap.servers": any_kafka.bootstrap_servers})
    for _ in range(100):
        producer.produce(topic, b"v" * 100, partition=0)
    assert producer.flush(30) == 0
    command = any_kafka.java("org.apache.kafka.tools.ConsumerPerformance")
    options = ["--bootstrap-server", any_kafka.bootstrap_servers, "--topic", topic, "--num-records", "100"]
    printed = subprocess.run(
        [*command, *options, "--print-metrics"], capture_output=True, text=True, check=True, timeout=100
    ).stdout
    java = {
        (group, "partition=" in tags, "topic=" in tags, name): value
        for group, name, tags, value in _METRIC.findall(printed)
    }
    with Consumer(
        topic, bootstrap_servers=any_kafka.bootstrap_servers, group_id=f"g-{topic}", auto_offset_reset="earliest"
    ) as consumer:
        assert sum(1 for _ in consumer.records(to_end=True)) == 100
        ours = {
            (group.partition(",")[0], "partition=" in group, "topic=" in group, name): value
            for group, metrics in consumer.metrics().items()
            for name, value in metrics.items()
        }
    assert ours.keys() - java.keys() - _OURS_ALONE == set()
    fetches = "consumer-fetch-manager-metrics"
    for with_topic in (False, True):
        records, size = ((fetches, False, with_topic, f"{name}-consumed-total") for name in ("records", "bytes"))
        assert ours[records] == float(java[records]) == 100
        # Java counts the records alone, kcli their batches with the headers, of 61 bytes each.
        assert (ours[size] - float(java[size])) % 61 == 0
        assert 0 < ours[size] - float(java[size]) < 20 * 61
    assert ours["consumer-coordinator-metrics", False, False, "rebalance-total"] == 1
    assert ours["consumer-coordinator-metrics", False, False, "rebalance-latency-avg"] > 0
    assert ours[fetches, False, False, "fetch-throttle-time-avg"] == 0
    for name in ("io-wait-time-ns-avg", "io-time-ns-avg", "select-rate"):
        assert ours["consumer-metrics", False, False, name] > 0
