"""Metrics of a running command, in a file for the textfile collector of Prometheus's node exporter.

| metric | meaning |
|---|---|
| kcli_spark_running | 1 while the command runs, then 0 |
| kcli_spark_records | records that were read so far; at the end of an export or load: those that were written |
| kcli_spark_records_per_second | records per second since the last update; of a stream: Spark's rate |
| kcli_spark_offsets_behind | of a stream: offsets between its position and the log ends |
| kcli_spark_tasks, kcli_spark_tasks_completed | of a batch: the tasks of the running stages |
| kcli_spark_update_timestamp_seconds | time of the last update |
| kcli_spark_last_success_timestamp_seconds | time of the last run that succeeded, also of an earlier one |

Each has the label `command`, as "export". A value that is unknown is absent. Over Spark Connect the progress of batches
is unknown.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from kcli.cli.output.openmetrics import check_package
from kcli.cli.parser import Option
from kcli.cli.spark.files import check_file, write_text

if TYPE_CHECKING:
    from kcli.cli.environment import Environment
    from kcli.cli.spark.progress import Reading

Metrics = Annotated[
    str | None,
    Option("--metrics", metavar="FILE", help="Keep metrics for Prometheus in this file, named *.prom, while it runs."),
]
_SUCCESS = "kcli_spark_last_success_timestamp_seconds"
#: An earlier file of this command has about 1000.
_MOST_CHARACTERS = 1 << 16
_HELP = {
    "kcli_spark_running": "1 while the command runs.",
    "kcli_spark_records": "Records read, at the end written.",
    "kcli_spark_records_per_second": "Records per second.",
    "kcli_spark_offsets_behind": "Offsets between the position of the stream and the log ends.",
    "kcli_spark_tasks": "Tasks of the running stages.",
    "kcli_spark_tasks_completed": "Completed tasks of the running stages.",
    "kcli_spark_update_timestamp_seconds": "Time of the last update.",
    _SUCCESS: "Time of the last run that succeeded.",
}


class MetricsFile:
    """The file of one run. It is replaced atomically, so that the collector never reads a part of it."""

    def __init__(self, env: Environment, path: str, command: str) -> None:
        """ConfigError for a file that cannot be written, or without prometheus_client."""
        check_file("--metrics", path)
        check_package("--metrics needs")
        self._env = env
        self._path = path
        self._command = command
        self._success_s = self._earlier_success()
        self._records: int | None = None
        self._is_done = False
        self._has_failed = False
        self._last: tuple[float, int] | None = None

    def update(self, now: Reading) -> None:
        """Write the progress of the running command."""
        rate = now.records_per_s
        if now.records is not None:
            now_ms = self._env.clock.now_ms()
            if rate is None and self._last is not None and now_ms > self._last[0]:
                rate = max(0.0, (now.records - self._last[1]) / (now_ms - self._last[0]) * 1000)
            self._last = now_ms, now.records
            self._records = now.records
        self._write(
            {
                "kcli_spark_running": 1,
                "kcli_spark_records": self._records,
                "kcli_spark_records_per_second": rate,
                "kcli_spark_offsets_behind": now.behind,
                "kcli_spark_tasks": now.all_tasks,
                "kcli_spark_tasks_completed": now.tasks,
            }
        )

    def written(self, records: int) -> None:
        """Set the number of written records: the run has succeeded, unless an error follows."""
        self._records = records
        self._is_done = True

    def finish(self, *, succeeded: bool) -> None:
        """Write the end of the run. It is a success if `written` was called and no error followed."""
        if succeeded and self._is_done:
            self._success_s = self._env.clock.wall_ms() / 1000
        self._write({"kcli_spark_running": 0, "kcli_spark_records": self._records})

    def _write(self, values: dict[str, float | None]) -> None:
        from prometheus_client import CollectorRegistry, Gauge, generate_latest

        registry = CollectorRegistry()
        known = {**values, "kcli_spark_update_timestamp_seconds": self._env.clock.wall_ms() / 1000}
        for name, value in {**known, _SUCCESS: self._success_s}.items():
            if value is not None:
                Gauge(name, _HELP[name], ["command"], registry=registry).labels(self._command).set(value)
        try:
            write_text(self._path, generate_latest(registry).decode())
        except OSError as error:
            if not self._has_failed:  # the command does not end for it, as on a disk that is full for a while
                self._env.report(f"--metrics: cannot write {self._path}: {error.strerror}")
            self._has_failed = True

    def _earlier_success(self) -> float | None:
        """Return the time of success of an earlier run, from the file that it has left."""
        from prometheus_client.parser import text_string_to_metric_families

        if not os.path.isfile(self._path):
            return None  # a device or pipe may be read without end
        try:
            with open(self._path, encoding="utf-8") as file:
                families: Iterable[Any] = list(text_string_to_metric_families(file.read(_MOST_CHARACTERS)))
        except (OSError, ValueError):
            return None
        samples = [sample for family in families for sample in family.samples if sample.name == _SUCCESS]
        return next((sample.value for sample in samples if sample.labels.get("command") == self._command), None)
