"""kafka-python 2.0.2, a client of 2020, from creating a topic to deleting it."""

from __future__ import annotations

from tests.foreign import python_script
from tests.real_kafka import Kafka


def test_topics_records_groups_and_offsets(any_kafka: Kafka) -> None:
    day = python_script("old_kafka_python.py", "kafka-python==2.0.2", "six==1.17.0")
    results = day(any_kafka.bootstrap_servers, any_kafka.new_name("old"), any_kafka.new_name("group"))
    assert results == {
        "retention": "600000",
        "last offsets None": [249] * 4,
        "last offsets gzip": [499] * 4,
        "too large": "MessageSizeTooLargeError",
        "ends": [500] * 4,
        "each value twice": True,
        "each value in the group": True,
        "listed": True,
        "described": ["Stable", "consumer", "range", 2],
        "offsets": [500] * 4,
        "groups deleted": ["NoError"],
    }
