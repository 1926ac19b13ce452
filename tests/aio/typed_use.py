"""A typed program with the clients for asyncio, for mypy and pyright. Each ignore is an error that they must find."""

from typing_extensions import assert_type

from kcli import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    OffsetAndMetadata,
    RecordMetadata,
    RequestFuture,
    TopicPartition,
)
from kcli.admin.groups.survey import GroupSurvey
from kcli.admin.topics import CreatedTopic
from kcli.client.metadata import TopicInfo
from kcli.client.requests import Results
from kcli.consumer.consumer import ConsumerRecord
from kcli.protocol.records.columns import RecordColumns


async def administer() -> None:
    async with AsyncAdmin("localhost:9092") as admin:
        assert_type(admin, AsyncAdmin)
        assert_type(await admin.list_topics(), list[TopicInfo])
        assert_type(await admin.create_topic("orders", 3, replication=1), CreatedTopic)
        assert_type(await admin.group_lag("billing", time_lag=True), Results[str, GroupSurvey])
        await admin.create_topic(3)  # type: ignore[arg-type]
        await admin.forecast()  # type: ignore[call-arg]
        await admin.close()
    AsyncAdmin(client_id=None, bootstrap_servers=3)  # type: ignore[arg-type]


async def on_revoked(partitions: list[TopicPartition]) -> None: ...


async def consume() -> None:
    async with AsyncConsumer("orders", group_id="billing", enable_auto_commit=False) as consumer:
        assert_type(consumer, AsyncConsumer)
        async for record in consumer:
            assert_type(record, ConsumerRecord)
        async for columns in consumer.columns(to_end=True):
            assert_type(columns, tuple[TopicPartition, RecordColumns])
        assert_type(await consumer.poll(timeout_ms=100), dict[TopicPartition, RecordColumns])
        tp = TopicPartition("orders", 0)
        assert_type(await consumer.position(tp), int)
        assert_type(await consumer.committed([tp]), dict[TopicPartition, OffsetAndMetadata | None])
        await consumer.subscribe(["orders"], on_revoked=on_revoked, on_assigned=print)
        await consumer.commit({tp: OffsetAndMetadata(3)}, timeout_ms=100)
        await consumer.commit({tp: 3})  # type: ignore[dict-item]
        await consumer.seek(tp, "3")  # type: ignore[arg-type]
    AsyncConsumer("orders", group_idd="billing")  # type: ignore[call-arg]
    AsyncConsumer("orders", max_poll_records="ten", group_id=[])  # type: ignore[arg-type]


async def produce() -> None:
    async with AsyncProducer(linger_ms=5, value_serializer=str.encode) as producer:
        assert_type(producer, AsyncProducer)
        future = await producer.send("orders", "value", b"key", headers=[("name", b"value")])
        assert_type(future, RequestFuture[RecordMetadata])
        assert_type(await future, RecordMetadata)
        assert_type((await producer.send_and_wait("orders", "value", partition=1)).offset, int)
        async with producer.transaction():
            await producer.send_offsets({TopicPartition("orders", 0): OffsetAndMetadata(3)}, "billing")
        await producer.send(3, "value")  # type: ignore[arg-type]
        await producer.send_offsets({}, 3)  # type: ignore[arg-type]
    AsyncProducer(lingerms=5)  # type: ignore[call-arg]
