"""aiokafka 0.14, from creating a topic to deleting it."""

from __future__ import annotations

from tests.foreign import python_script
from tests.real_kafka import Kafka


def test_topics_records_groups_and_offsets(any_kafka: Kafka) -> None:
    day = python_script("aiokafka_day.py", "aiokafka==0.14.0")
    assert day(any_kafka.bootstrap_servers, any_kafka.new_name("aio"), any_kafka.new_name("group")) == {
        "created twice": True,
        "config": "100000",
        "last offsets None": [249] * 4,
        "last offsets gzip": [499] * 4,
        "too large": "refused",
        "ends": [500] * 4,
        "each value twice": True,
        "headers": True,
        "after a seek": 490,
        "by time": 0,
        "all values": True,
        "listed": True,
        "offsets": [500] * 4,
    }
