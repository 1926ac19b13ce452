"""kcli's own broker for tests: `kcli broker run` as a process, with the interface of a real Kafka."""

from __future__ import annotations

import os
from pathlib import Path

from tests.preloaded import KcliProcess
from tests.real_kafka import SETTINGS, OwnBroker, free_ports

# Settings of the real Kafka that other tests rely on.
SAME = ("num.partitions", "offsets.topic.num.partitions", "group.initial.rebalance.delay.ms")
SAME += ("group.min.session.timeout.ms", "log.cleaner.backoff.ms")
SAME += tuple(f"group.consumer.{name}.ms" for name in ("min.heartbeat.interval", "heartbeat.interval"))
SAME += tuple(f"group.consumer.{name}.ms" for name in ("min.session.timeout", "session.timeout"))
SAME += ("share.coordinator.state.topic.num.partitions", "transaction.state.log.num.partitions")
SAME += ("transaction.abort.timed.out.transaction.cleanup.interval.ms",)
SAME += ("log.initial.task.delay.ms", "log.retention.check.interval.ms")


class BrokerProcess(OwnBroker):
    """`kcli broker run` on a port and a data directory that stay the same across restarts."""

    def __init__(
        self,
        folder: Path,
        jars: Path | None = None,
        *,
        settings: dict[str, str] | None = None,
        port: int | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        """`settings` are broker properties, `options` more command-line options; `jars` are for Kafka's tools only."""
        super().__init__(folder, port or free_ports(1)[0], jars)
        self._settings = {**{name: SETTINGS[name] for name in SAME}, **(settings or {})}
        self._options = options

    def start(self, timeout_s: float = 30) -> None:
        """Start the broker and wait until it answers."""
        command = ["broker", "run", *(() if "listeners" in self._settings else ("--port", str(self.port)))]
        command += ["--data-dir", str(self.data), *self._options]
        command += [word for name, value in self._settings.items() for word in ("--config", f"{name}={value}")]
        with self.log_file.open("ab") as log, open(os.devnull) as nothing:
            self._process = KcliProcess(command, stdin=nothing.fileno(), stdout=log.fileno(), stderr=log.fileno())
        self.wait_until_ready(timeout_s, every_s=0.02)
