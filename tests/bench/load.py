"""The fixed load of the consume bench: JSON-like lines of 90 to 110 bytes, the same in every run."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

WORDS = """
    paid shipped late refund blue window north harbour seven coffee train paper river stone winter order basket
    customer returned gift wrapped express standard pickup locker corner station market garden silver
"""


def values(count: int) -> Iterator[bytes]:
    """Return `count` lines without a newline; line i starts with its number, so all lines differ."""
    dice = random.Random(20261120)
    words = WORDS.split()
    text = " ".join(dice.choice(words) for _ in range(20_000))
    places = [dice.randrange(len(text) - 200) for _ in range(9973)]
    for i in range(count):
        head = f'{{"order":{i},"customer":"c{i * 7919 % 100_003}","note":"'
        start = places[i % 9973]
        room = 90 + i * 31 % 21 - len(head) - 2
        yield f'{head}{text[start : start + room]}"}}'.encode()


def produce(bootstrap_servers: str, topic: str, partitions: int, codec: str, count: int) -> None:
    """Write the load, record i to partition i % partitions, in batches of 16 KiB."""
    from confluent_kafka import Producer

    settings = {
        "bootstrap.servers": bootstrap_servers,
        "batch.size": 16384,
        "linger.ms": 20,
        "compression.type": codec,
        "queue.buffering.max.messages": 200_000,
    }
    producer = Producer(settings)
    for i, value in enumerate(values(count)):
        while True:
            try:
                producer.produce(topic, value, partition=i % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if i % 1000 == 0:
            producer.poll(0)
    unsent = producer.flush(120)
    if unsent:
        raise SystemExit(f"{unsent} records were not written to {topic}")


if __name__ == "__main__":  # a process of its own, so that the measuring one stays small
    produce(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
