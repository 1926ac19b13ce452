"""A group member of kafka-python 2.0.2 that runs until its standard input ends.

Usage: old_member.py BOOTSTRAP TOPIC GROUP. It prints JSON lines: {"partitions": [...]} and {"value": "..."}.
"""

import json
import sys
import threading

import old_python  # noqa: F401
from kafka import ConsumerRebalanceListener, KafkaConsumer

bootstrap, topic, group = sys.argv[1:]


def tell(**what):
    print(json.dumps(what), flush=True)


class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked):
        pass

    def on_partitions_assigned(self, assigned):
        tell(partitions=sorted(tp.partition for tp in assigned))


ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
settings = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 200, "session_timeout_ms": 6000}
consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, **settings)
consumer.subscribe([topic], listener=Listener())
while not ended.is_set():
    for records in consumer.poll(100).values():
        for record in records:
            tell(value=record.value.decode())
consumer.close()
