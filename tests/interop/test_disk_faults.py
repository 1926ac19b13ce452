"""A data directory that was damaged while the broker was down, and a full disk.

The behaviour of Apache Kafka 4.3.1 was measured in each case; where it loses acknowledged records, our broker keeps
them.
"""

from __future__ import annotations

import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.broker_process import BrokerProcess
from tests.interop.process import ROOT, kcli

pytestmark = pytest.mark.slow

Start = Callable[..., BrokerProcess]

COUNT = 3000
SEGMENT_BYTES = 1 << 20  # the least that Kafka takes


def fill(broker: BrokerProcess, topic: str, count: int = COUNT, size: int = 100) -> list[bytes]:
    """Write `count` records in batches of 20, all acknowledged; return their values."""
    values = [b"%06d " % n + b"x" * size for n in range(count)]
    producer = broker.ordered_producer(topic, batch_num_messages=20, linger_ms=10_000)  # no batch is cut short by time
    refused: list[str] = []
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda e, _: refused.append(str(e)) if e else None)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not refused
    return values


def read(broker: BrokerProcess, topic: str, start: int = 0, **settings: object) -> list[tuple[int, bytes]]:
    """Return (offset, value) from `start` to the end, read with librdkafka. KafkaException for what it cannot read."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    consumer.assign([TopicPartition(topic, 0, start)])
    found: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + 30
    try:
        while True:
            assert time.monotonic() < deadline, f"the reader is stuck after {found[-1:]}"
            message = consumer.poll(1)
            if message is None:
                continue
            if (error := message.error()) is not None:
                if error.name() == "_PARTITION_EOF":
                    return found
                raise KafkaException(error)
            found.append((message.offset(), message.value()))
    finally:
        consumer.close()


def segments(broker: BrokerProcess, topic: str, suffix: str = ".log") -> list[Path]:
    return sorted((broker.data / f"{topic}-0").glob(f"*{suffix}"))


def said(broker: BrokerProcess) -> str:
    return broker.log_file.read_text(errors="replace")


def refuses_to_start(broker: BrokerProcess) -> str:
    """Start the broker as a process: it must end with status 1 and one line, which is returned."""
    command = [sys.executable, "-m", "kcli", "broker", "run", "--port", "0", "--data-dir", str(broker.data)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


@pytest.fixture
def broker(broker_process: Start) -> BrokerProcess:
    return broker_process(log_segment_bytes=SEGMENT_BYTES)


@pytest.mark.parametrize(
    ("damage", "lost"),
    [
        (lambda data: data[:-37], 20),
        (lambda data: data + random.Random(1).randbytes(300), 0),
        (lambda data: data + bytes(4096), 0),
    ],
    ids=["torn batch", "300 random bytes", "4096 zero bytes"],
)
def test_a_damaged_tail_is_truncated_at_the_last_valid_batch_and_logged(
    damage: Callable[[bytes], bytes], lost: int, broker: BrokerProcess
) -> None:
    topic = broker.create_topic("tail", 1)
    values = fill(broker, topic, 1000)
    broker.kill()
    (log,) = segments(broker, topic)
    log.write_bytes(damage(log.read_bytes()))
    broker.start()
    kept = values[: len(values) - lost]
    assert read(broker, topic) == list(enumerate(kept))
    assert re.search(rf"{topic}-0.*\b{len(kept)}\b", said(broker)), said(broker)
    more = fill(broker, topic, 10)
    assert read(broker, topic, len(kept)) == list(enumerate(more, len(kept)))


def test_a_flipped_bit_in_the_unflushed_segment_truncates_the_log_and_is_logged(broker: BrokerProcess) -> None:
    topic = broker.create_topic("flipped", 1)
    values = fill(broker, topic, 1000)
    broker.kill()
    (log,) = segments(broker, topic)
    data = bytearray(log.read_bytes())
    data[data.index(values[507]) + 20] ^= 1
    log.write_bytes(data)
    broker.start()
    assert read(broker, topic) == list(enumerate(values[:500]))
    logged = [line for line in said(broker).splitlines() if f"{topic}-0" in line]
    assert any("500" in line and "1000" in line for line in logged), logged


def test_a_flipped_bit_in_a_sealed_segment_stops_readers_and_is_never_skipped(broker: BrokerProcess) -> None:
    topic = broker.create_topic("sealed", 1)
    values = fill(broker, topic, 20_000)
    broker.stop()
    log = segments(broker, topic)[0]
    data = bytearray(log.read_bytes())
    data[data.index(values[507]) + 20] ^= 1
    log.write_bytes(data)
    broker.start()
    with pytest.raises(KafkaException):
        read(broker, topic, check_crcs=True)
    run = kcli("consume", topic, "-b", broker.bootstrap_servers, "-o", "start", "-e", timeout_s=30)
    assert run.status == 1
    assert run.out.splitlines() == values[:500]
    assert "500" in run.err


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_missing_indexes_are_rebuilt(suffix: str, how: str, broker: BrokerProcess) -> None:
    topic = broker.create_topic("missing", 1)
    values = fill(broker, topic, 20_000)
    getattr(broker, how)()
    assert len(segments(broker, topic)) > 2
    for index in segments(broker, topic, suffix):
        index.unlink()
    broker.start()
    assert len(segments(broker, topic, suffix)) == len(segments(broker, topic))
    assert read(broker, topic) == list(enumerate(values))


@pytest.mark.parametrize("which", [0, -1], ids=["old segment", "active segment"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_of_random_bytes_hides_and_loses_nothing(which: int, suffix: str, broker: BrokerProcess) -> None:
    topic = broker.create_topic("random", 1)
    values = fill(broker, topic, 20_000)
    assert broker.stop() == 0
    index = segments(broker, topic, suffix)[which]
    index.write_bytes(random.Random(2).randbytes(1200))
    broker.start()
    assert read(broker, topic) == list(enumerate(values))
    more = fill(broker, topic, 10)
    broker.kill()
    broker.start()
    assert read(broker, topic, len(values) - 5) == list(enumerate([*values, *more]))[len(values) - 5 :]


@pytest.mark.parametrize(
    "name",
    [
        ".kafka_cleanshutdown",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "*/leader-epoch-checkpoint",
        "*/*.snapshot",
    ],
)
def test_a_missing_auxiliary_file_loses_no_records(name: str, broker: BrokerProcess) -> None:
    topic = broker.create_topic("beside", 1)
    values = fill(broker, topic, 12_000)
    broker.stop()
    for path in broker.data.glob(name):
        path.unlink()
    broker.start()
    assert read(broker, topic) == list(enumerate(values))
    fill(broker, topic, 1)
    assert len(read(broker, topic, 11_990)) == 11


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "beside-0/leader-epoch-checkpoint"])
def test_a_corrupt_checkpoint_is_rebuilt_and_reported_with_its_file_name(name: str, broker: BrokerProcess) -> None:
    """Apache Kafka does not start; the logs have everything that the file had."""
    topic = broker.create_topic("beside", 1)
    values = fill(broker, topic, 100)
    broker.stop()
    (broker.data / name).write_bytes(b"\xffgarbage\n")
    broker.start()
    assert str(broker.data / name) in broker.log_file.read_text()
    assert read(broker, topic) == list(enumerate(values))


def test_a_corrupt_checkpoint_that_the_logs_cannot_replace_is_refused_by_name(broker: BrokerProcess) -> None:
    fill(broker, broker.create_topic("beside", 1), 100)
    broker.stop()
    (broker.data / "log-start-offset-checkpoint").write_bytes(b"\xffgarbage\n")
    assert str(broker.data / "log-start-offset-checkpoint") in refuses_to_start(broker)


def test_a_directory_of_another_node_is_refused(broker: BrokerProcess) -> None:
    broker.stop()
    meta = broker.data / "meta.properties"
    meta.write_text(re.sub(r"(?m)^node.id=.*$", "node.id=7", meta.read_text()))
    line = refuses_to_start(broker)
    assert "meta.properties" in line
    assert "node 7" in line


def test_a_second_broker_on_the_same_directory_is_refused(broker: BrokerProcess) -> None:
    line = refuses_to_start(broker)
    assert str(broker.data) in line
    assert "lock" in line.lower() or "another" in line.lower()
    fill(broker, broker.create_topic("still", 1), 10)  # the first one did not notice


def test_a_stray_directory_is_refused_by_name(broker: BrokerProcess) -> None:
    broker.stop()
    (broker.data / "holiday pictures").mkdir()
    assert "holiday pictures" in refuses_to_start(broker)


def test_a_missing_middle_segment_leaves_a_gap_that_is_logged(broker: BrokerProcess) -> None:
    topic = broker.create_topic("hole", 1)
    values = fill(broker, topic, 20_000)
    broker.stop()
    logs = segments(broker, topic)
    first_gone, following = int(logs[1].stem), int(logs[2].stem)
    logs[1].unlink()
    broker.start()
    assert f"{topic}-0" in said(broker)
    everything = list(enumerate(values))
    assert read(broker, topic) == everything[:first_gone] + everything[following:]
    assert read(broker, topic, first_gone + 5)[0] == everything[following]


def test_a_full_disk_refuses_the_write_ends_the_broker_and_loses_nothing(broker: BrokerProcess) -> None:
    topic = broker.create_topic("full", 1)
    stored: list[bytes] = []
    errors: list[str] = []

    def on_delivery(error: object, message: object) -> None:
        if error is None:
            stored.append(message.value())  # type: ignore[attr-defined]
        else:
            errors.append(error.name())  # type: ignore[attr-defined]

    assert broker.pid is not None
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (300_000, 300_000))
    producer = broker.ordered_producer(batch_num_messages=1, message_timeout_ms=5_000, retries=0)
    process = broker._process
    assert process is not None
    for n in range(60):
        producer.produce(topic, b"%02d" % n + b"x" * 10_000, on_delivery=on_delivery)
        producer.flush(10)
        if errors:
            break
    assert errors
    assert process.wait(10) == 1
    assert any(str(broker.data) in line for line in said(broker).splitlines())
    broker.start()
    found = [value for _, value in read(broker, topic)]
    assert found[: len(stored)] == stored
    assert len(stored) > 20
    assert len(found) <= len(stored) + 1
    fill(broker, topic, 10)
