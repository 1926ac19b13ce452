"""A member of confluent-kafka (librdkafka). Arguments and events: see member_loop."""

from __future__ import annotations

import itertools

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.interop.groups.scripts.member_loop import CALL_S, MemberLoop, Partition, arguments, say

MOST = 500


class Refused(Exception):
    """The broker refused the commit."""


def main() -> None:
    how, work_ms, topics, properties = arguments()
    consumer = Consumer({"enable.auto.commit": how == "auto", "log_level": 3, **properties})

    def commit(offsets: dict[Partition, int]) -> None:
        wanted = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        for done in consumer.commit(offsets=wanted, asynchronous=False):
            if done.error is not None:
                raise Refused(str(done.error))

    loop = MemberLoop(commit if how == "sync" else None, (KafkaException, Refused), work_ms)
    in_hand: list[tuple[Partition, int]] = []

    def tell() -> None:
        together = itertools.groupby(in_hand, key=lambda it: it[0])
        found = [(partition, [offset for _, offset in offsets]) for partition, offsets in together]
        in_hand.clear()
        for partition, offsets in found:
            loop.read(partition, offsets)

    def plain(partitions: list[TopicPartition]) -> list[Partition]:
        tell()  # what poll has handed out so far came before this
        return [(tp.topic, tp.partition) for tp in partitions]

    def poll() -> None:
        message = consumer.poll(CALL_S)
        while message is not None:
            if message.error() is not None:
                say("error", why=str(message.error()))
            else:
                in_hand.append(((message.topic(), message.partition()), message.offset()))
            message = consumer.poll(0) if len(in_hand) < MOST else None
        tell()

    consumer.subscribe(
        topics,
        on_assign=lambda _, partitions: loop.assigned(plain(partitions)),
        on_revoke=lambda _, partitions: loop.revoked(plain(partitions)),
        on_lost=lambda _, partitions: loop.lost(plain(partitions)),
    )
    loop.run(poll, consumer.close)


if __name__ == "__main__":
    main()
