"""kafkajs 2.2 (JavaScript, its own implementation of the protocol), from creating a topic to deleting it."""

from __future__ import annotations

from tests.foreign import node_script
from tests.real_kafka import Kafka


def test_topics_records_groups_and_offsets(any_kafka: Kafka) -> None:
    day = node_script("kafkajs_day.js", "kafkajs@2.2.4")
    assert day(any_kafka.bootstrap_servers, any_kafka.new_name("js"), any_kafka.new_name("group")) == {
        "created": [True, False],
        "leaders": [[1, 1]] * 4,
        "config": ["100000"],
        "cluster": [[any_kafka.bootstrap_servers], 1],
        "base offsets 0": ["0"] * 4,
        "base offsets 1": ["250"] * 4,
        "tooLarge": "MESSAGE_TOO_LARGE",
        "seen": True,
        "listed": "consumer",
        "described": ["Stable", "RoundRobinAssigner", ["me", "me"]],
        "deletedWhileInUse": "NON_EMPTY_GROUP",
        "offsets": ["500", "500", "500", "7"],
        "deleted": [0],
        "ends": [["0", "500"]] * 4,
        "low": "30",
    }
