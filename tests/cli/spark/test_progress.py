"""Progress of a batch without a terminal, and the metrics file, read by Prometheus's own parser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcli.cli.spark.metrics_file import MetricsFile
from kcli.cli.spark.progress import ProgressLine, Reading
from kcli.clock import ManualClock
from kcli.errors import ConfigError
from tests.cli.fake import FakeEnvironment


class Readings:
    """A meter that returns given readings, the last one again and again."""

    def __init__(self, *readings: Reading) -> None:
        self.readings = list(readings)

    def read(self) -> Reading:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def run_line(line: ProgressLine, meter: Any, clock: ManualClock, seconds: int) -> None:
    line._meter = meter
    for _ in range(seconds):
        clock.advance(1000)
        line.tick()


def metrics(path: Path) -> dict[str, float]:
    parser = pytest.importorskip("prometheus_client.parser")
    samples = [it for family in parser.text_string_to_metric_families(path.read_text()) for it in family.samples]
    assert {it.labels["command"] for it in samples} == {"export"}
    return {it.name.removeprefix("kcli_spark_"): it.value for it in samples}


def test_a_batch_without_a_terminal_reports_a_line_each_minute() -> None:
    clock = ManualClock()
    env = FakeEnvironment(clock=clock)
    line = ProgressLine(env)
    run_line(line, Readings(Reading(3, 8, 1_234_567), Reading(0, 4)), clock, 150)
    line._expected = 2_000_000
    run_line(line, Readings(Reading(3, 8, 1_234_567)), clock, 40)
    assert env.result(0).err.splitlines() == [
        "1,234,567 records, 3 of 8 tasks of the running stages",
        "0 of 4 tasks of the running stages",
        "1,234,567 of at most 2,000,000 records, 3 of 8 tasks of the running stages",
    ]


def test_a_stream_and_an_idle_session_report_no_line_of_tasks() -> None:
    clock = ManualClock()
    env = FakeEnvironment(clock=clock)
    run_line(ProgressLine(env), Readings(Reading(records=5, records_per_s=1.0), Reading()), clock, 150)
    assert env.result(0).err == ""


def test_the_metrics_file_follows_a_stream(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    clock = ManualClock()
    env = FakeEnvironment(clock=clock)
    path = tmp_path / "kcli.prom"
    file = MetricsFile(env, str(path), "export")
    run_line(ProgressLine(env, metrics=file), Readings(Reading(records=70, records_per_s=3.5, behind=9)), clock, 2)
    now = metrics(path)
    updated = now.pop("update_timestamp_seconds")
    assert now == {"running": 1.0, "records": 70.0, "records_per_second": 3.5, "offsets_behind": 9.0}
    file.finish(succeeded=False)
    assert metrics(path).keys() == {"running", "records", "update_timestamp_seconds"}
    file.written(80)
    file.finish(succeeded=True)
    ended = metrics(path)
    assert (ended["running"], ended["records"]) == (0.0, 80.0)
    assert ended["last_success_timestamp_seconds"] >= updated


def test_a_batch_has_a_rate_between_updates_and_the_success_of_an_earlier_run(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    clock = ManualClock()
    env = FakeEnvironment(clock=clock)
    path = tmp_path / "kcli.prom"
    earlier = MetricsFile(env, str(path), "export")
    earlier.written(1)
    earlier.finish(succeeded=True)
    success = metrics(path)["last_success_timestamp_seconds"]
    line = ProgressLine(env, metrics=MetricsFile(env, str(path), "export"))
    run_line(line, Readings(Reading(0, 2, 1000), Reading(1, 2, 6000)), clock, 7)
    now = metrics(path)
    assert (now["tasks"], now["tasks_completed"], now["records"], now["records_per_second"]) == (2, 1, 6000, 1000)
    assert now["last_success_timestamp_seconds"] == success


def test_a_file_that_cannot_be_written_is_an_error_before_the_start_and_one_line_later(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    env = FakeEnvironment(clock=ManualClock())
    with pytest.raises(ConfigError, match=r"--metrics: folder .* does not exist"):
        MetricsFile(env, str(tmp_path / "absent" / "x.prom"), "export")
    folder = tmp_path / "there"
    folder.mkdir()
    file = MetricsFile(env, str(folder / "x.prom"), "export")
    folder.rmdir()
    for _ in range(2):
        file.update(Reading(records=1))
    assert env.result(0).err == f"--metrics: cannot write {folder}/x.prom: No such file or directory\n"


def test_a_device_for_metrics_is_not_read() -> None:
    pytest.importorskip("prometheus_client")
    env = FakeEnvironment()
    file = MetricsFile(env, "/dev/full", "export")  # its content has no end
    file.finish(succeeded=True)
    assert env.result(0).err == "--metrics: cannot write /dev/full: No space left on device\n"
