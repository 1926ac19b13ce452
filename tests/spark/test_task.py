"""Reading of a task and its data loss decisions, on both brokers and without a JVM: the rows for tasks of the
failOnDataLoss table in `kcli.spark.loss`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition as ForeignPartition
from confluent_kafka.admin import AdminClient

pa = pytest.importorskip("pyarrow")

from kcli.error_codes import ErrorCode  # noqa: E402
from kcli.errors import BrokerError, TimeoutExpired  # noqa: E402
from kcli.spark import task  # noqa: E402
from kcli.spark.loss import DataLoss  # noqa: E402
from kcli.spark.options import SourceOptions, parse_options  # noqa: E402
from kcli.spark.views.registry import read_task  # noqa: E402
from tests.interop import shapes  # noqa: E402
from tests.real_kafka import Kafka, OwnBroker  # noqa: E402


def options(kafka: Kafka, topic: str, **more: object) -> SourceOptions:
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
    return parse_options(given | {name.replace("_", "."): str(value).lower() for name, value in more.items()})


def read(options: SourceOptions, *task: Any) -> list[dict[str, Any]]:
    return [row for batch in read_task(options, [task]) for row in batch.to_pylist()]


def values(options: SourceOptions, *task: Any) -> list[bytes]:
    return [row["value"] for row in read(options, *task)]


def filled(kafka: Kafka, count: int = 20, **settings: Any) -> str:
    topic = kafka.new_topic(1, **settings)
    shapes.produce(kafka, topic, [b"%d" % number for number in range(count)])
    return topic


def delete_before(kafka: Kafka, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for deleted in admin.delete_records([ForeignPartition(topic, 0, offset)]).values():
        assert deleted.result(30).low_watermark == offset


def test_exactly_the_range_is_read(any_kafka: Kafka) -> None:
    topic = filled(any_kafka)
    assert values(options(any_kafka, topic), topic, 0, 5, 12) == [b"%d" % number for number in range(5, 12)]


def test_a_task_reads_ranges_of_several_partitions(any_kafka: Kafka) -> None:
    first, second = filled(any_kafka), filled(any_kafka, 30)
    ranges = [(first, 0, 5, 12), (second, 0, 0, 30)]
    rows = [row for batch in read_task(options(any_kafka, "any"), ranges) for row in batch.to_pylist()]
    for topic, _, start, end in ranges:
        found = [(row["offset"], row["value"]) for row in rows if row["topic"] == topic]
        assert found == [(offset, b"%d" % offset) for offset in range(start, end)]
    assert len(rows) == 37


def test_loss_in_one_range_of_a_task_is_reported_for_it(any_kafka: Kafka, capfd: pytest.CaptureFixture[str]) -> None:
    whole, cut = filled(any_kafka), filled(any_kafka)
    delete_before(any_kafka, cut, 8)
    ranges = [(whole, 0, 0, 20), (cut, 0, 3, 20), ("never-was", 0, 0, 5)]
    lenient = options(any_kafka, "any", failOnDataLoss=False, kafkaConsumer_pollTimeoutMs=2_000)
    rows = [row for batch in read_task(lenient, ranges) for row in batch.to_pylist()]
    assert sorted((row["topic"], row["offset"]) for row in rows) == sorted(
        [*((whole, offset) for offset in range(20)), *((cut, offset) for offset in range(8, 20))]
    )
    reported = capfd.readouterr().err
    assert f"{cut}-0: offsets 3 to 7 were deleted before they were read" in reported
    assert "never-was-0 does not exist any more" in reported
    assert whole not in reported
    with pytest.raises(DataLoss, match=rf"({cut}|never-was)-0"):
        list(read_task(lenient._replace(fail_on_data_loss=True), ranges))


def test_a_row_limit_applies_to_each_range_of_a_task(any_kafka: Kafka) -> None:
    first, second = filled(any_kafka), filled(any_kafka)
    limited = options(any_kafka, "any", rowLimitPerPartition=3)
    batches = read_task(limited, [(first, 0, 5, 12), (second, 0, 0, 20)])
    rows = [(row["topic"], row["offset"]) for batch in batches for row in batch.to_pylist()]
    assert rows == [*((first, offset) for offset in (5, 6, 7)), *((second, offset) for offset in (0, 1, 2))]


def test_a_task_without_a_range_yields_nothing(any_kafka: Kafka) -> None:
    """PySpark makes one task with None for an empty list of partitions."""
    assert list(read_task(options(any_kafka, "any"), None)) == []


def test_the_row_limit_ends_a_task(any_kafka: Kafka) -> None:
    topic = filled(any_kafka)
    limited = options(any_kafka, topic, rowLimitPerPartition=3)
    assert values(limited, topic, 0, 5, 20) == [b"5", b"6", b"7"]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_range_that_ends_with_control_records_is_complete(real_kafka: Kafka, isolation: str) -> None:
    """Other clients wait forever: risingwave#25121, seatunnel#11486, karapace#1355."""
    topic, visible = shapes.ending_in_markers(real_kafka)
    read_so = options(real_kafka, topic, kafka_isolation_level=isolation)
    assert values(read_so, topic, 0, 0, 6) == visible
    assert values(read_so, topic, 0, 5, 6) == []


def test_skipped_aborted_records_are_not_loss(real_kafka: Kafka) -> None:
    """Pinot raised false alarms: apache/pinot#19161."""
    topic, visible = shapes.aborted_at_the_end(real_kafka)
    committed = options(real_kafka, topic, kafka_isolation_level="read_committed")
    assert values(committed, topic, 0, 0, 16) == visible


def test_deleted_records_end_the_task(any_kafka: Kafka) -> None:
    topic = filled(any_kafka)
    delete_before(any_kafka, topic, 8)
    with pytest.raises(
        DataLoss, match="offsets 3 to 7 were deleted before they were read; 5 offsets are lost"
    ) as expected:
        read(options(any_kafka, topic), topic, 0, 3, 20)
    assert expected.value.evidence["wanted"] == 3
    assert expected.value.evidence["available"] == 8
    assert "failOnDataLoss=false" in expected.value.message


def test_deleted_records_are_skipped_without_failondataloss(
    any_kafka: Kafka, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = filled(any_kafka)
    delete_before(any_kafka, topic, 8)
    lenient = options(any_kafka, topic, failOnDataLoss=False)
    assert values(lenient, topic, 0, 3, 11) == [b"8", b"9", b"10"]
    assert "offsets 3 to 7 were deleted before they were read" in capfd.readouterr().err


def test_reading_after_a_loss_stays_in_the_range(any_kafka: Kafka) -> None:
    """Continuing at a log start after the end of the range would read records twice (SPARK-25214)."""
    topic = filled(any_kafka)
    delete_before(any_kafka, topic, 15)
    assert values(options(any_kafka, topic, failOnDataLoss=False), topic, 0, 3, 10) == []


@pytest.mark.parametrize("lenient", [True, False])
def test_records_deleted_while_the_task_reads(any_kafka: Kafka, lenient: bool) -> None:
    """The first response has arrived when the other records are deleted: the next fetch is out of range."""
    topic = any_kafka.new_topic(1)
    shapes.produce(any_kafka, topic, [b"%06d" % number + bytes(60_000) for number in range(60)])
    slowly = options(any_kafka, topic, failOnDataLoss=not lenient, kafka_max_partition_fetch_bytes=100_000)
    batches = read_task(slowly, [(topic, 0, 0, 60)])
    found = [next(batches)]
    delete_before(any_kafka, topic, 50)
    if not lenient:
        with pytest.raises(DataLoss, match="to 49 were deleted before they were read"):
            list(batches)
        return
    found += batches
    numbers = [int(row["value"][:6]) for batch in found for row in batch.to_pylist()]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 0
    assert numbers[-10:] == list(range(50, 60))
    assert len(numbers) < 60


def test_a_range_after_the_log_end_is_reported_as_truncation(any_kafka: Kafka) -> None:
    topic = filled(any_kafka)
    with pytest.raises(DataLoss, match=r"the log ends at 20; was it truncated or recreated\?"):
        read(options(any_kafka, topic), topic, 0, 15, 30)
    lenient = options(any_kafka, topic, failOnDataLoss=False)
    assert values(lenient, topic, 0, 15, 30) == [b"%d" % number for number in range(15, 20)]


def test_a_deleted_topic_is_loss(any_kafka: Kafka) -> None:
    lenient = options(any_kafka, "never-was", failOnDataLoss=False, kafkaConsumer_pollTimeoutMs=2_000)
    assert values(lenient, "never-was", 0, 0, 5) == []
    with pytest.raises(DataLoss, match="never-was-0 does not exist any more"):
        read(lenient._replace(fail_on_data_loss=True), "never-was", 0, 0, 5)


@pytest.mark.parametrize("lenient", [True, False])
def test_no_data_within_the_poll_timeout_is_an_error(broker_process: Callable[..., OwnBroker], lenient: bool) -> None:
    """An error with either failOnDataLoss, with the position and the leader."""
    broker = broker_process()
    topic = filled(broker)
    patient = options(broker, topic, failOnDataLoss=not lenient, kafkaConsumer_pollTimeoutMs=700)
    assert len(values(patient, topic, 0, 0, 20)) == 20  # the connection is kept for the next task
    broker.kill()
    with pytest.raises(TimeoutExpired, match="0"):
        read(patient, topic, 0, 0, 20)


@pytest.mark.parametrize("method", ["resolve", "poll"])
def test_other_errors_are_raised_without_failondataloss(
    our_kafka: Kafka, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """An error that is missing in the coverage must not be treated as deleted records."""
    from kcli.consumer.range_reader import RangeReader

    def refuse(*_: object) -> None:
        raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, api="Metadata")

    topic = filled(our_kafka)
    monkeypatch.setattr(RangeReader, method, refuse)
    with pytest.raises(BrokerError, match="Metadata"):
        read(options(our_kafka, topic, failOnDataLoss=False), topic, 0, 0, 20)


def close_idle() -> None:
    while task._idle:
        task._idle.popitem()[1].close()


def test_a_connection_is_reused_by_the_next_task(any_kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are reused, so a module's state survives tasks. A topic recreated meanwhile is not loss then."""
    import kcli.client.connect

    made = []
    connect = kcli.client.connect.connect
    monkeypatch.setattr(kcli.client.connect, "connect", lambda *it, **more: made.append(1) or connect(*it, **more))
    close_idle()
    topic = filled(any_kafka)
    assert len(values(options(any_kafka, topic), topic, 0, 0, 20)) == 20
    any_kafka.delete_topic(topic)
    any_kafka.create_topic(topic, 1)
    shapes.produce(any_kafka, topic, [b"new"])
    assert values(options(any_kafka, topic), topic, 0, 0, 1) == [b"new"]
    assert len(made) == 1


def test_a_task_closed_early_closes_its_connection(any_kafka: Kafka) -> None:
    """`take(20)` closes the iterator of a task: a response in flight must not reach the next task."""
    close_idle()
    topic = filled(any_kafka)
    batches = read_task(options(any_kafka, topic, arrow_batchRows=5), [(topic, 0, 0, 20)])
    assert next(batches).num_rows == 5
    batches.close()  # type: ignore[attr-defined]
    assert not task._idle


def test_a_reused_connection_without_an_answer_is_closed(any_kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    close_idle()
    topic = filled(any_kafka)
    assert len(values(options(any_kafka, topic), topic, 0, 0, 20)) == 20
    [client] = task._idle.values()
    closed, close = [], client.close
    monkeypatch.setattr(client, "close", lambda: closed.append(1) or close())

    def silent(_: float) -> None:
        raise TimeoutExpired("no broker answers")

    monkeypatch.setattr(client, "ensure_fresh_metadata", silent)
    with pytest.raises(TimeoutExpired, match="no broker answers"):
        values(options(any_kafka, topic), topic, 0, 0, 20)
    assert closed
    assert not task._idle
