"""Transactional producers of Python's clients, driven over standard input and output: `python_client.py LIBRARY`.

A line of JSON with the name of a producer or consumer and what it shall do comes in, a line with the result or the
class of the error goes out. LIBRARY is confluent-kafka, kafka-python or aiokafka.
"""

import asyncio
import json
import os
import sys
import time

WAIT_S = 30


class Confluent:
    """librdkafka."""

    def __init__(self):
        import confluent_kafka

        self.lib = confluent_kafka
        self.producers, self.consumers, self.errors, self.offsets = {}, {}, [], []

    def error_name(self, error):
        return error.args[0].name() if isinstance(error, self.lib.KafkaException) else type(error).__name__

    def producer(self, name, settings):
        self.producers[name] = self.lib.Producer({**settings, "log_level": 0})

    def init(self, name):
        self.producers[name].init_transactions(WAIT_S)

    def begin(self, name):
        self.producers[name].begin_transaction()

    def send(self, name, topic, partition, value):
        def stored(error, message):
            if error is None:
                self.offsets.append(message.offset())
            else:
                self.errors.append(error)

        self.producers[name].produce(topic, value, partition=partition, on_delivery=stored)

    def flush(self, name):
        self.errors, self.offsets = [], []
        self.producers[name].flush(WAIT_S)
        if self.errors:
            raise self.lib.KafkaException(self.errors[0])
        return {"offsets": self.offsets}

    def send_offsets(self, name, topic, partition, offset, group=None, consumer=None):
        position = [self.lib.TopicPartition(topic, partition, offset)]
        reader = self.consumers.get(consumer) or self.lib.Consumer({**self.at, "group.id": group})
        self.producers[name].send_offsets_to_transaction(position, reader.consumer_group_metadata(), WAIT_S)
        if consumer is None:
            reader.close()

    def commit(self, name):
        self.producers[name].commit_transaction(WAIT_S)

    def abort(self, name):
        self.producers[name].abort_transaction(WAIT_S)

    def close(self, name):
        del self.producers[name]

    def consumer(self, name, settings, topic):
        self.consumers[name] = self.lib.Consumer(settings)
        self.consumers[name].subscribe([topic])

    def poll(self, name, count):
        values, end = [], time.monotonic() + WAIT_S
        while len(values) < count and time.monotonic() < end:
            values += [one.value().decode() for one in self.consumers[name].consume(count, 0.1) if not one.error()]
        return {"values": values}

    def leave(self, name):
        self.consumers.pop(name).close()


class KafkaPython:
    """kafka-python."""

    def __init__(self):
        import kafka

        self.lib = kafka
        self.producers, self.sent = {}, {}

    def error_name(self, error):
        return type(error).__name__

    def producer(self, name, settings):
        named = {key.replace(".", "_"): int(value) if value.isdigit() else value for key, value in settings.items()}
        self.producers[name] = self.lib.KafkaProducer(**named)
        self.sent[name] = []

    def init(self, name):
        self.producers[name].init_transactions()

    def begin(self, name):
        self.producers[name].begin_transaction()

    def send(self, name, topic, partition, value):
        self.sent[name].append(self.producers[name].send(topic, value.encode(), partition=partition))

    def flush(self, name):
        self.producers[name].flush(WAIT_S)
        sent, self.sent[name] = self.sent[name], []
        return {"offsets": [one.get(WAIT_S).offset for one in sent]}

    def send_offsets(self, name, topic, partition, offset, group):
        position = self.lib.structs.OffsetAndMetadata(offset, "", -1)
        self.producers[name].send_offsets_to_transaction({self.lib.TopicPartition(topic, partition): position}, group)

    def commit(self, name):
        self.producers[name].commit_transaction()

    def abort(self, name):
        self.producers[name].abort_transaction()

    def close(self, name):
        self.producers.pop(name).close(0)


class AioKafka:
    """aiokafka; its event loop runs only while it does something."""

    def __init__(self):
        import aiokafka

        self.lib = aiokafka
        self.loop = asyncio.new_event_loop()
        self.producers, self.sent = {}, {}

    def _wait(self, awaitable):
        return self.loop.run_until_complete(asyncio.wait_for(awaitable, WAIT_S))

    def error_name(self, error):
        return type(error).__name__

    def producer(self, name, settings):
        named = {key.replace(".", "_"): int(value) if value.isdigit() else value for key, value in settings.items()}

        async def create():
            return self.lib.AIOKafkaProducer(**named)

        self.producers[name] = self._wait(create())
        self.sent[name] = []

    def init(self, name):
        self._wait(self.producers[name].start())

    def begin(self, name):
        self._wait(self.producers[name].begin_transaction())

    def send(self, name, topic, partition, value):
        self.sent[name].append(self._wait(self.producers[name].send(topic, value.encode(), partition=partition)))

    def flush(self, name):
        sent, self.sent[name] = self.sent[name], []
        return {"offsets": [self._wait(one).offset for one in sent]}

    def send_offsets(self, name, topic, partition, offset, group):
        position = {self.lib.TopicPartition(topic, partition): offset}
        self._wait(self.producers[name].send_offsets_to_transaction(position, group))

    def commit(self, name):
        self._wait(self.producers[name].commit_transaction())

    def abort(self, name):
        self._wait(self.producers[name].abort_transaction())

    def close(self, name):
        self._wait(self.producers.pop(name).stop())


def main(library):
    client = {"confluent-kafka": Confluent, "kafka-python": KafkaPython, "aiokafka": AioKafka}[library]()
    for line in sys.stdin:
        order = json.loads(line)
        action = order.pop("do")
        if "settings" in order:
            client.at = {"bootstrap.servers": order["settings"]["bootstrap.servers"]}
        try:
            answer = getattr(client, action)(**order) or {}
        except Exception as error:
            answer = {"error": client.error_name(error), "message": str(error)}
        print(json.dumps(answer), flush=True)
    os._exit(0)  # clients that were given up would try to end their transactions


if __name__ == "__main__":
    main(sys.argv[1])
