"""All of kafka-python 2.0.2 (2020: ApiVersions v0, JoinGroup up to v2, Fetch up to v11) in one run.

Usage: old_kafka_python.py BOOTSTRAP TOPIC GROUP. It creates the topic and prints its results as JSON.
"""

import contextlib
import json
import sys
import threading
import time

import old_python  # noqa: F401
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import CommitFailedError, KafkaError

bootstrap, topic, group = sys.argv[1:]
results = {}


def consumer(*topics, **settings):
    own = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 200}
    return KafkaConsumer(*topics, **dict(own, bootstrap_servers=bootstrap, session_timeout_ms=6000, **settings))


def values(polled):
    return [record.value.decode() for records in polled.values() for record in records]


def until(condition, what):
    deadline = time.time() + 30
    while not condition():
        if time.time() > deadline:
            raise SystemExit("waited too long for " + what)
        time.sleep(0.01)


# Topics
admin = KafkaAdminClient(bootstrap_servers=bootstrap)
admin.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "600000"})])
admin.create_partitions({topic: NewPartitions(4)})
until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 4, "four partitions")
described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
results["retention"] = {entry[0]: entry[1] for one in described for entry in one.resources[0][4]}["retention.ms"]

# Writing, in every codec that needs nothing installed
for codec in (None, "gzip"):
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", compression_type=codec, linger_ms=5)
    sent = [producer.send(topic, b"%d" % n, partition=n % 4) for n in range(1000)]
    producer.flush(30)
    results["last offsets " + str(codec)] = [future.get(10).offset for future in sent[-4:]]
    producer.close()
try:
    KafkaProducer(bootstrap_servers=bootstrap, max_request_size=5000000).send(topic, b"x" * 3000000).get(30)
except KafkaError as refused:
    results["too large"] = type(refused).__name__

# Reading what is there
reader = consumer()
partitions = [TopicPartition(topic, number) for number in range(4)]
reader.assign(partitions)
results["ends"] = sorted(reader.end_offsets(partitions).values())
seen = []
until(lambda: seen.extend(values(reader.poll(200))) or len(seen) >= 2000, "all records")
results["each value twice"] = sorted(map(int, seen)) == sorted(list(range(1000)) * 2)
reader.close()


# A group of two, then one of them leaves. A poll blocks while the group rebalances, so each has its thread.
class Member(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.consumer = consumer(topic, group_id=group, client_id="me")
        self.values, self.leaving = [], threading.Event()
        self.start()

    def run(self):
        while not self.leaving.is_set():
            polled = values(self.consumer.poll(50))
            self.values += polled
            with contextlib.suppress(CommitFailedError):  # a rebalance came first
                self.consumer.commit()
        self.consumer.close(autocommit=False)

    @property
    def partitions(self):
        return len(self.consumer.assignment())

    def leave(self):
        self.leaving.set()
        self.join(30)


def committed():
    return sorted(place.offset for place in admin.list_consumer_group_offsets(group).values())


pair = [Member(), Member()]
until(lambda: [one.partitions for one in pair] == [2, 2], "two partitions each")
until(lambda: committed() == [500] * 4, "all records to be read and committed")
results["each value in the group"] = set(pair[0].values + pair[1].values) == set(map(str, range(1000)))
results["listed"] = (group, "consumer") in admin.list_consumer_groups()
[found] = admin.describe_consumer_groups([group])
results["described"] = [found.state, found.protocol_type, found.protocol, len(found.members)]
pair[0].leave()
until(lambda: pair[1].partitions == 4, "all partitions for the one that is left")
pair[1].leave()
results["offsets"] = committed()

# The end
results["groups deleted"] = [error.__name__ for _, error in admin.delete_consumer_groups([group])]
admin.delete_topics([topic])
until(lambda: topic not in admin.list_topics(), "the topic to be gone")
print(json.dumps(results))
