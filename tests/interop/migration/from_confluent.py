"""Ten programs that confluent-kafka's README and examples teach, written anew with kcli.

Each gets the address of a broker and the name of a topic with three partitions, and returns what it has seen.
"""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

from kcli import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    KcliError,
    OffsetAndMetadata,
    Place,
    Producer,
    ProducerConfig,
    RecordMetadata,
    TopicPartition,
    Wanted,
    total_lag,
)
from kcli.schemas import SchemaDeserializer, SchemaRegistry, SchemaSerializer


def delivery_reports(at: str, topic: str) -> tuple[int, int]:
    """examples/producer.py: one delivery callback for all messages; poll() serves it there, and nothing here."""
    reports: list[RecordMetadata] = []
    failures: list[KcliError] = []

    def delivered(metadata: RecordMetadata, error: KcliError | None) -> None:
        if error is None:
            reports.append(metadata)
        else:
            failures.append(error)

    with Producer(bootstrap_servers=at, on_ack=delivered) as producer:
        for number in range(50):
            producer.send(topic, b"line %d" % number, key=str(uuid4()).encode())
    return len(reports), len(failures)


def idempotent_producer(at: str, topic: str) -> list[bytes | None]:
    """examples/README.md, the idempotent producer: acks=all, no duplicates and the order of the messages."""
    properties = {"bootstrap.servers": at, "enable.idempotence": "true"}
    with Producer.from_config(ProducerConfig.from_properties(properties)) as producer:
        for number in range(5):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush()
    with Consumer(topic, bootstrap_servers=at, auto_offset_reset="earliest") as consumer:
        return [record.value for record in consumer.records(to_end=True)]


def synchronous_commits(at: str, topic: str) -> tuple[int, int | None]:
    """docs, Consumer: poll in a loop, and a synchronous commit after each batch; then what is committed."""
    with Producer(bootstrap_servers=at) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number)
    handled, group = 0, f"{topic}-group"
    with Consumer(
        topic, bootstrap_servers=at, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        while handled < 20:
            for columns in consumer.poll(1_000).values():
                handled += len(columns)
            consumer.commit()
    with Admin(at) as admin:
        return handled, total_lag(admin.group_lag(group)[group].partitions).known_lag


def rebalance_callbacks(at: str, topic: str) -> tuple[list[str], int]:
    """examples/consumer.py: print the assignment; commit in the callback of the revocation."""
    with Producer(bootstrap_servers=at) as producer:
        for number in range(6):
            producer.send(topic, b"%d" % number)
    events: list[str] = []
    group = f"{topic}-group"

    def assigned(partitions: list[TopicPartition]) -> None:
        events.append("assigned " + " ".join(str(tp.partition) for tp in partitions))

    def revoked(partitions: list[TopicPartition]) -> None:
        consumer.commit()
        events.append(f"revoked {len(partitions)}")

    with Consumer(
        bootstrap_servers=at, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe([topic], on_assigned=assigned, on_revoked=revoked)
        list(consumer.records(to_end=True))
    with Consumer(bootstrap_servers=at, group_id=group) as reader:
        committed = reader.committed([TopicPartition(topic, number) for number in range(3)])
    return events, sum(offset.offset for offset in committed.values() if offset is not None)


def transactions(at: str, topic: str) -> tuple[int, int]:
    """examples/eos-transactions.py: read, count and write in a transaction with the offsets of the input."""
    output = f"{topic}-out"
    with Admin(at) as admin:
        admin.create_topic(output, partitions=1)
    with Producer(bootstrap_servers=at) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)
    group = f"{topic}-group"
    with (
        Consumer(
            bootstrap_servers=at,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        ) as consumer,
        Producer(bootstrap_servers=at, transactional_id=f"{topic}-eos") as producer,
    ):
        producer.init_transactions()
        consumer.subscribe([topic])
        read = 0
        while read < 10:
            batch = consumer.poll(1_000)
            if not batch:
                continue
            with producer.transaction():
                for columns in batch.values():
                    for record in columns:
                        producer.send(output, b"processed " + (record.value or b""), key=record.key)
                        read += 1
                offsets = {tp: OffsetAndMetadata(consumer.position(tp)) for tp in batch}
                producer.send_offsets(offsets, consumer.group_metadata())
        try:
            with producer.transaction():
                producer.send(output, b"never seen")
                raise RuntimeError("the program fails")
        except RuntimeError:
            pass
        with producer.transaction():
            last = producer.send(output, b"the last one")
    end = last.value().offset
    written, tp = 0, TopicPartition(output, 0)
    with Consumer(bootstrap_servers=at, auto_offset_reset="earliest", isolation_level="read_committed") as reader:
        reader.assign([tp])
        while reader.position(tp) <= end:
            written += sum(len(columns) for columns in reader.poll(1_000).values())
    with Admin(at) as admin:
        lag = total_lag(admin.group_lag(group)[group].partitions)
    return written, lag.lag


def watermarks_and_lag(at: str, topic: str) -> list[tuple[int, int, int]]:
    """examples/get_watermark_offsets.py: the watermarks, the committed offset and the lag of each partition."""
    with Producer(bootstrap_servers=at) as producer:
        for partition in range(3):
            for number in range(partition * 2):
                producer.send(topic, b"%d" % number, partition=partition)
    partitions = [TopicPartition(topic, number) for number in range(3)]
    with Consumer(bootstrap_servers=at, group_id=f"{topic}-group") as consumer:
        consumer.commit({tp: OffsetAndMetadata(1) for tp in partitions[1:]})
        lows, highs = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        committed = consumer.committed(partitions)
    rows: list[tuple[int, int, int]] = []
    for tp in partitions:
        offset = committed[tp]
        next_offset = lows[tp] if offset is None else offset.offset
        rows.append((lows[tp], highs[tp], highs[tp] - next_offset))
    return rows


def seek_by_time(at: str, topic: str) -> tuple[list[bytes | None], bool]:
    """docs, offsets_for_times: begin to read at a time; pause and resume a partition."""
    noon = int(time.time() * 1000) - 60_000
    with Producer(bootstrap_servers=at) as producer:
        for minute in range(5):
            producer.send(topic, b"%d" % minute, partition=0, timestamp_ms=noon + minute * 1_000)
    tp = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=at) as consumer:
        consumer.assign([tp])
        found = consumer.offsets_for_times({tp: noon + 2_500})[tp]
        assert found is not None
        consumer.seek(tp, found.offset)
        consumer.pause([tp])
        nothing = consumer.poll(100) == {}
        consumer.resume([tp])
        return [record.value for record in consumer.records(to_end=True)], nothing


def admin_day(at: str, topic: str) -> tuple[list[str], int, list[str]]:
    """examples/adminapi.py: create, alter and describe topics, delete records and groups."""
    with Producer(bootstrap_servers=at) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0)
    group = f"{topic}-group"
    with Consumer(bootstrap_servers=at, group_id=group) as consumer:
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(3)})
    with Admin(at, timeout_ms=20_000) as admin:
        plan = admin.plan_alterations({topic: Wanted(settings={"cleanup.policy": "compact,delete"})})
        changes = [f"{row.key[1]}: {row.new}" for row in plan.changes]
        admin.alter(plan)
        cut = admin.plan_truncation({topic: [0]}, Place.offset(4))
        start = admin.truncate(cut)[TopicPartition(topic, 0)]
        groups = list(admin.list_groups(match=topic).listed)
        admin.delete_groups(group)
    return changes, start, groups


def avro_with_registry(at: str, topic: str, registry_url: str) -> list[object]:
    """examples/avro_producer.py and avro_consumer.py: User records with a schema registry."""
    user = {
        "type": "record",
        "name": "User",
        "fields": [{"name": "name", "type": "string"}, {"name": "favorite_number", "type": "long"}],
    }
    registry = SchemaRegistry.connect(registry_url)
    with Producer(
        bootstrap_servers=at,
        key_serializer=str.encode,
        value_serializer=SchemaSerializer("avro", registry, schema=user, register=True),
    ) as producer:
        producer.send(topic, {"name": "Ada", "favorite_number": 7}, key="ada")
    with Consumer(
        topic,
        bootstrap_servers=at,
        auto_offset_reset="earliest",
        value_deserializer=SchemaDeserializer("avro", registry),
    ) as consumer:
        return [record.value for record in consumer.records(to_end=True)]


def asyncio_day(at: str, topic: str) -> tuple[int, list[bytes | None]]:
    """examples/asyncio_example.py: produce and consume in a web service's event loop."""

    async def run() -> tuple[int, list[bytes | None]]:
        async with AsyncProducer(bootstrap_servers=at) as producer:
            future = await producer.send(topic, b"first", partition=0)
            offset = (await future).offset
            await asyncio.gather(*(producer.send(topic, b"%d" % number) for number in range(5)))
            await producer.flush()
        async with AsyncConsumer(topic, bootstrap_servers=at, auto_offset_reset="earliest") as consumer:
            values = [record.value async for record in consumer.records(to_end=True)]
        return offset, sorted(values)

    return asyncio.run(run())
