"""Producers that write to a cluster while its brokers fail, and keep an account of what was acknowledged."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.real_kafka import Kafka, die_with_parent


class Acked(NamedTuple):
    """An acknowledged record. librdkafka does not know the offset of a batch that a retry found stored already."""

    partition: int
    offset: int | None
    value: bytes


class LibrdkafkaWriter:
    """librdkafka's idempotent producer, in a thread: `per_s` records to each partition in turn.

    It has one request in flight. With two, a broker that becomes leader between them answers NOT_LEADER_OR_FOLLOWER and
    OUT_OF_ORDER_SEQUENCE_NUMBER (Apache's does, too). librdkafka 2.16 then begins a new producer epoch for all
    partitions, and doubles the batches that an old leader of another partition has stored but not acknowledged.
    """

    def __init__(self, cluster: Kafka, topic: str, partitions: int, per_s: float = 200) -> None:
        self.acked: list[Acked] = []
        self.failed: list[str] = []
        self._topic, self._partitions, self._per_s = topic, partitions, per_s
        self._producer = self._make(cluster)
        self._running, self._ended = threading.Event(), threading.Event()
        self._paused = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._running.set()
        self._thread.start()

    @staticmethod
    def _make(cluster: Kafka) -> Any:
        from confluent_kafka import Producer

        settings = {"enable.idempotence": True, "acks": "all", "linger.ms": 5, "log_level": 0}
        timing = {"message.timeout.ms": 120_000, "retry.backoff.ms": 20, "reconnect.backoff.max.ms": 500}
        in_flight = {"max.in.flight.requests.per.connection": 1}
        return Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings, **timing, **in_flight})

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            if not self._running.is_set():
                self._producer.flush(60)
                self._paused.set()
                self._running.wait(0.05)
                continue
            self._paused.clear()
            value = b"librdkafka-%d" % number
            self._producer.produce(
                self._topic, value, partition=number % self._partitions, on_delivery=self._on_delivery
            )
            number += 1
            self._producer.poll(1 / self._per_s)
        self._producer.flush(60)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acked.append(Acked(message.partition(), message.offset(), message.value()))

    def pause(self) -> None:
        """Stop writing, and wait until every record is acknowledged."""
        self._running.clear()
        assert self._paused.wait(90), f"records are not acknowledged: {len(self._producer)} of librdkafka wait"

    def resume(self) -> None:
        self._running.set()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(90)
        assert not self._thread.is_alive(), "librdkafka still waits for acknowledgements"


class JavaWriter:
    """Kafka's VerifiableProducer with idempotence, as a process of its own."""

    def __init__(self, cluster: Kafka, topic: str, folder: Path, per_s: int = 100) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config, self._output = folder / "producer.properties", folder / "acknowledged.json"
        config.write_text(
            "enable.idempotence=true\nretries=2147483647\nacks=all\ndelivery.timeout.ms=120000\n"
            "request.timeout.ms=10000\nlinger.ms=5\nretry.backoff.ms=20\nreconnect.backoff.max.ms=500\n"
            "metadata.max.age.ms=5000\n"
        )
        command = cluster.java("VerifiableProducer")
        command += ["--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--throughput", str(per_s)]
        command += ["--repeating-keys", "30", "--value-prefix", "7", "--command-config", str(config)]
        with self._output.open("wb") as out:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=die_with_parent
            )

    def _lines(self) -> list[dict[str, Any]]:
        text = self._output.read_text(errors="replace")
        whole = text[: text.rfind("\n") + 1].splitlines()
        return [json.loads(line) for line in whole if line.startswith("{")]

    @property
    def acked(self) -> list[Acked]:
        found = [line for line in self._lines() if line["name"] == "producer_send_success"]
        return [Acked(line["partition"], line["offset"], line["value"].encode()) for line in found]

    @property
    def failed(self) -> list[str]:
        return [line["message"] for line in self._lines() if line["name"] == "producer_send_error"]

    def pause(self) -> None:
        """Suspend the process; its requests in flight still reach the brokers."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it after its last acknowledgement."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        finally:
            self._process.kill()


Writer = LibrdkafkaWriter | JavaWriter


def await_more(writers: Sequence[Writer], count: int = 30, timeout_s: float = 40) -> None:
    """Wait until each writer has got that many more acknowledgements."""
    for writer in writers:
        wanted = len(writer.acked) + count
        deadline = time.monotonic() + timeout_s
        while len(writer.acked) < wanted:
            kind = type(writer).__name__
            assert time.monotonic() < deadline, f"{kind} has {len(writer.acked)} of {wanted} acknowledgements"
            time.sleep(0.05)
