"""The end of a `with` block of a member: commits of callbacks, exceptions, records that the caller had in hand."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from kcli import Consumer, OffsetAndMetadata, Producer, TopicPartition
from kcli.errors import KcliError, SerializationError, WakeupError
from tests.real_kafka import Kafka

RECORDS = 6


class Group:
    """A topic of one partition with the values 0 to 5, and a new group."""

    def __init__(self, kafka: Kafka, protocol: str) -> None:
        self.topic = kafka.new_topic(1, prefix="exit")
        self.tp = TopicPartition(self.topic, 0)
        self.name = f"g-{self.topic}"
        self._kafka = kafka
        self._protocol = protocol
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in range(RECORDS):
                producer.send(self.topic, b"%d" % number)

    def consumer(self, *, subscribed: bool = True, **settings: Any) -> Consumer:
        """Return a consumer that commits automatically."""
        settings = {"auto_offset_reset": "earliest", "group_protocol": self._protocol, **settings}
        topics = [self.topic] if subscribed else []
        return Consumer(*topics, bootstrap_servers=self._kafka.bootstrap_servers, group_id=self.name, **settings)

    def committed(self) -> int | None:
        """Return the committed offset."""
        with Consumer(bootstrap_servers=self._kafka.bootstrap_servers, group_id=self.name) as consumer:
            offset = consumer.committed([self.tp])[self.tp]
        return None if offset is None else offset.offset


@pytest.fixture(params=["classic", "consumer"])
def group(any_kafka: Kafka, request: pytest.FixtureRequest) -> Group:
    return Group(any_kafka, request.param)


def read_all(consumer: Consumer) -> None:
    """Poll until all records are returned, in one poll or several."""
    read = 0
    while read < RECORDS:
        read += sum(len(columns) for columns in consumer.poll(1000).values())


# --- callbacks during close


@pytest.mark.parametrize("end", ["close", "unsubscribe"])
def test_a_callback_of_the_end_uses_the_consumer_and_commits(group: Group, end: str) -> None:
    seen: dict[str, Any] = {}

    def on_revoked(partitions: list[TopicPartition]) -> None:
        seen["revoked"] = partitions
        seen["position"] = consumer.position(group.tp)
        consumer.commit({group.tp: OffsetAndMetadata(4, metadata="of the callback")})
        seen["committed"] = consumer.committed([group.tp])[group.tp]
        seen["end"] = consumer.end_offsets([group.tp])[group.tp]
        consumer.seek(group.tp, 2)

    consumer = group.consumer(subscribed=False, enable_auto_commit=False)
    consumer.subscribe([group.topic], on_revoked=on_revoked)
    read_all(consumer)
    getattr(consumer, end)()
    assert seen["revoked"] == [group.tp]
    assert seen["position"] == seen["end"] == RECORDS
    assert seen["committed"] == OffsetAndMetadata(4, metadata="of the callback")
    assert group.committed() == 4
    with pytest.raises(KcliError, match="the consumer is closed" if end == "close" else "call subscribe or assign"):
        consumer.poll(0)
    consumer.close()


@pytest.mark.parametrize("end", ["close", "unsubscribe"])
def test_a_callback_may_seek_and_commit_and_end_the_consumer_once_but_not_poll(group: Group, end: str) -> None:
    calls: list[str] = []

    def callback(name: str) -> Callable[[list[TopicPartition]], None]:
        def call(partitions: list[TopicPartition]) -> None:
            calls.append(name)
            with pytest.raises(KcliError, match="a rebalance callback must not poll"):
                consumer.poll(0)
            if name == "assigned":
                consumer.seek(group.tp, 1)
                consumer.commit({group.tp: OffsetAndMetadata(1)})
            else:
                getattr(consumer, end)()

        return call

    with group.consumer(subscribed=False) as consumer:
        consumer.subscribe([group.topic], on_assigned=callback("assigned"), on_revoked=callback("revoked"))
        for record in consumer:
            assert record.offset == 1
            break
        getattr(consumer, end)()
    assert calls == ["assigned", "revoked"]
    assert group.committed() == 2


def run(group: Group, on_revoked: Callable[[Consumer], object], error: Exception | None, **settings: Any) -> None:
    """Read the first records in a `with` block, which `error` leaves while the record at offset 3 is handled."""
    with group.consumer(subscribed=False, **settings) as consumer:
        consumer.subscribe([group.topic], on_revoked=lambda _: on_revoked(consumer))
        for record in consumer:
            if record.offset == 3 and error is not None:
                raise error
            if record.offset == 3:
                break


def fail(consumer: Consumer) -> None:
    raise RuntimeError("of the callback")


def test_a_commit_in_on_revoked_is_stored_though_an_exception_leaves_the_block(group: Group) -> None:
    with pytest.raises(ValueError, match="of the handler"):
        run(group, Consumer.commit, ValueError("of the handler"), enable_auto_commit=False)
    assert group.committed() == 3


def test_the_exception_that_left_the_block_is_raised_and_that_of_close_is_logged(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match="of the handler"):
        run(group, fail, ValueError("of the handler"))
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    text = "the consumer was not closed cleanly after an exception: RuntimeError: of the callback"
    assert record.getMessage() == text
    assert record.exc_info is not None
    assert group.committed() == 3


def test_without_another_exception_that_of_close_is_raised(group: Group) -> None:
    with pytest.raises(RuntimeError, match="of the callback"):
        run(group, fail, None)
    assert group.committed() == 4


# --- the records in hand


def at(offset: int, error: BaseException, consumer: Consumer, **options: Any) -> None:
    for record in consumer.records(**options):
        if record.offset == offset:
            raise error


def by_columns(consumer: Consumer) -> None:
    for _ in consumer.columns():
        raise ValueError("failed")


def by_poll(consumer: Consumer) -> None:
    while not consumer.poll(1000):
        pass
    raise ValueError("failed")


def second_poll(consumer: Consumer) -> None:
    read_all(consumer)
    consumer.poll(0)
    raise ValueError("failed")


def woken_in_poll(consumer: Consumer) -> None:
    read_all(consumer)
    consumer.wakeup()
    consumer.poll(1000)


def after_the_loop(consumer: Consumer) -> None:
    for _ in consumer.records(to_end=True):
        pass
    raise ValueError("failed")


def after_a_commit(consumer: Consumer) -> None:
    for record in consumer:
        if record.offset == 3:
            consumer.commit()
            raise ValueError("failed")


def after_a_commit_of_a_part(consumer: Consumer) -> None:
    read_all(consumer)
    consumer.commit({consumer.assignment[0]: OffsetAndMetadata(2)})
    raise ValueError("failed")


def after_a_seek(consumer: Consumer) -> None:
    for record in consumer:
        if record.offset == 3:
            consumer.seek(TopicPartition(record.topic, record.partition), 5)
            raise ValueError("failed")


def after_a_break(consumer: Consumer) -> None:
    for record in consumer:
        if record.offset == 3:
            break
    raise ValueError("failed")


CASES: dict[str, tuple[Callable[[Consumer], None], type[BaseException], int]] = {
    "iteration": (lambda consumer: at(3, ValueError("failed"), consumer), ValueError, 3),
    "iteration to the end": (lambda consumer: at(5, ValueError("failed"), consumer, to_end=True), ValueError, 5),
    "Ctrl-C": (lambda consumer: at(3, KeyboardInterrupt(), consumer), KeyboardInterrupt, 3),
    "sys.exit": (lambda consumer: at(3, SystemExit(1), consumer), SystemExit, 3),
    "columns": (by_columns, ValueError, 0),
    "poll": (by_poll, ValueError, 0),
    "second poll": (second_poll, ValueError, RECORDS),
    "wakeup": (woken_in_poll, WakeupError, RECORDS),
    "after the loop": (after_the_loop, ValueError, RECORDS),
    "after commit": (after_a_commit, ValueError, 4),
    "after a commit of a part": (after_a_commit_of_a_part, ValueError, 2),
    "after seek": (after_a_seek, ValueError, 5),
    "after break": (after_a_break, ValueError, 3),
}


@pytest.mark.parametrize("case", CASES)
def test_the_records_in_hand_when_an_exception_is_raised_are_not_committed(group: Group, case: str) -> None:
    use, error, expected = CASES[case]
    with pytest.raises(error), group.consumer() as consumer:
        use(consumer)
    assert group.committed() == expected
    if expected < RECORDS:
        with group.consumer() as consumer:
            left = [record.offset for record in islice(consumer, RECORDS - expected)]
        assert left == list(range(expected, RECORDS)), "they are read again"
        assert group.committed() == RECORDS, "an end without an exception commits all"


def test_the_record_of_a_failed_deserializer_is_read_again_and_those_before_are_not(group: Group) -> None:
    def refuse(data: bytes) -> object:
        if data == b"2":
            raise ValueError("two")
        return json.loads(data)

    with pytest.raises(SerializationError), group.consumer(value_deserializer=refuse) as consumer:
        for _ in consumer:
            pass
    assert group.committed() == 2


def test_an_interrupted_on_consume_loses_no_record(group: Group) -> None:
    def interrupt(records: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), group.consumer(on_consume=interrupt) as consumer:
        read_all(consumer)
    assert group.committed() in (None, 0)
