"""A member of kcli's own Consumer. Arguments and events: see member_loop."""

from __future__ import annotations

from collections.abc import Iterable

from kcli.client.config import ConsumerConfig
from kcli.consumer.consumer import Consumer
from kcli.errors import KcliError
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.interop.groups.scripts.member_loop import CALL_S, MemberLoop, Partition, arguments, say


def main() -> None:
    how, work_ms, topics, properties = arguments()
    config = {"enable.auto.commit": "true" if how == "auto" else "false", **properties}
    consumer = Consumer.from_config(ConsumerConfig.from_properties(config))

    def commit(offsets: dict[Partition, int]) -> None:
        consumer.commit({TopicPartition(*tp): OffsetAndMetadata(offset) for tp, offset in offsets.items()})

    loop = MemberLoop(commit if how == "sync" else None, (KcliError,), work_ms)

    def plain(partitions: Iterable[TopicPartition]) -> list[Partition]:
        return [(tp.topic, tp.partition) for tp in partitions]

    def poll() -> None:
        for tp, records in consumer.poll(CALL_S * 1000).items():
            loop.read((tp.topic, tp.partition), records.offsets.tolist())

    callbacks = {
        "on_assigned": lambda partitions: loop.assigned(plain(partitions)),
        "on_revoked": lambda partitions: loop.revoked(plain(partitions)),
        "on_lost": lambda partitions: loop.lost(plain(partitions)),
    }
    if topics[0].startswith("^"):
        consumer.subscribe(pattern=topics[0], **callbacks)
    else:
        consumer.subscribe(topics, **callbacks)
    try:
        loop.run(poll, consumer.close)
    except KcliError as fatal:
        say("failed", why=f"{type(fatal).__name__}: {fatal}")
        raise


if __name__ == "__main__":
    main()
