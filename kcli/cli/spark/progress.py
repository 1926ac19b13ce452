"""Progress line on the terminal while Spark works, and the source's reports from Spark's output.

The progress comes from the tasks of running stages, or from the records of streaming queries.
"""

from __future__ import annotations

import os
import threading
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

from kcli.cli.output.progress import start_bar

if TYPE_CHECKING:
    from kcli.cli.environment import Environment


class Reading(NamedTuple):
    """Progress of a job; None: not known.

    `tasks` of `all_tasks` are completed in the running stages, which have read `records`, from files and topics or from
    the stage before. For streams: `records` written, the rate per second, and the offsets `behind` the log ends.
    """

    tasks: int | None = None
    all_tasks: int | None = None
    records: int | None = None
    records_per_s: float | None = None
    behind: int | None = None


class Follower(Protocol):
    """A receiver of the progress, as the metrics file."""

    def update(self, now: Reading, /) -> None:
        """Take the present progress."""


class Meter:
    """Progress of one session. Used from a thread of its own, because the main thread waits for Spark."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._batches: dict[tuple[str, int], int] = {}

    def read(self) -> Reading:
        """Return the present progress; all None while the session stops."""
        try:
            return self._of_streams() or self._of_tasks()
        except Exception:  # errors of py4j and grpc when the other side has stopped
            return Reading()

    def _of_streams(self) -> Reading | None:
        from kcli.spark.query_progress import offsets_behind

        queries = self._spark.streams.active
        if not queries:
            return None
        rate = 0.0
        behind: int | None = None
        for query in queries:
            for progress in query.recentProgress:
                self._batches[str(query.runId), progress.batchId] = progress.numInputRows
            last = query.lastProgress
            if last is not None:
                rate += last.processedRowsPerSecond or 0.0
                now_behind = offsets_behind(last)
                behind = behind if now_behind is None else (behind or 0) + now_behind
        return Reading(records=sum(self._batches.values()), records_per_s=rate, behind=behind)

    def _of_tasks(self) -> Reading:
        context = getattr(self._spark, "_sc", None)
        if context is None:  # Spark Connect does not report tasks
            return Reading()
        stages = context._jsc.sc().statusStore().activeStages()
        active_stages = [stages.apply(number) for number in range(stages.size())]
        if not active_stages:
            return Reading()
        read = sum(int(stage.inputRecords()) or int(stage.shuffleReadRecords()) for stage in active_stages)
        completed, every = (
            sum(int(stage.numCompleteTasks()) for stage in active_stages),
            sum(int(s.numTasks()) for s in active_stages),
        )
        return Reading(completed, every, read or None)


_EVERY_S = 0.25
_LINE_EVERY_MS = 60_000
_METRICS_EVERY_MS = 5_000
_REPORT = b"kcli: "
"""Prefix of the reports that the source writes to standard error in Spark's workers (`kcli.spark.task.log_reports`)."""


class ProgressLine:
    """Progress line, drawn by a thread while the context is entered. `jvm_output` is a file with Spark's output; None:
    shown already.

    Without a terminal it is a line each minute while a batch runs; a stream reports its written records itself.
    `metrics` is updated every few seconds.
    """

    def __init__(self, env: Environment, jvm_output: IO[bytes] | None = None, metrics: Follower | None = None) -> None:
        self._env = env
        self._jvm_output = jvm_output
        self._metrics = metrics
        self._line_due_ms = env.clock.now_ms() + _LINE_EVERY_MS
        self._metrics_due_ms = env.clock.now_ms()
        self._read = 0
        self._printed: set[bytes] = set()
        self._is_visible = env.can_redraw
        self._bar: Any = None
        self._meter: Meter | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)
        self._last_reading: Reading | None = None
        self._expected = 0
        self._started_ms = 0.0

    def __enter__(self) -> ProgressLine:
        if self._is_visible:
            self._bar = start_bar(self._env, "", None, with_share=False)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def show(self, text: str) -> None:
        """Show the present step."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=text)

    def follow(self, spark: Any, expected: int = 0) -> None:
        """Show the progress of this session from now on; `expected` is the number of records to read, 0: unknown."""
        self._expected = expected

        self.show("planning")
        self._meter = Meter(spark)

    def stop(self) -> None:
        """Remove the line."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join(2)
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def print_reports(self) -> None:
        """Print new reports of the source, each once, even if several tasks made it."""
        if self._jvm_output is None:
            return
        size = os.fstat(self._jvm_output.fileno()).st_size
        text = os.pread(self._jvm_output.fileno(), size - self._read, self._read)
        complete_lines = text[: text.rfind(b"\n") + 1]
        self._read += len(complete_lines)
        for line in complete_lines.splitlines():
            if line.startswith(_REPORT) and line not in self._printed:
                self._printed.add(line)
                self._write_line(line.decode(errors="replace"))

    def _write_line(self, line: str) -> None:
        if self._bar is None:
            self._env.report(line)
        else:
            from kcli.visible import visible

            self._bar.console.print(visible(line))

    def _draw(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self.print_reports()
            self.tick()

    def tick(self) -> None:
        """Show the present progress, as far as it is due."""
        now_ms = self._env.clock.now_ms()
        is_line_due = self._bar is None and now_ms >= self._line_due_ms
        is_metrics_due = self._metrics is not None and now_ms >= self._metrics_due_ms
        if self._meter is not None and (self._bar is not None or is_line_due or is_metrics_due):
            reading = self._meter.read()
            if self._bar is not None:
                self._update(reading)
            if is_line_due:
                self._line_due_ms = now_ms + _LINE_EVERY_MS
                if reading.records_per_s is None and reading.all_tasks:
                    self._env.report(batch_line(reading, self._expected))
            if self._metrics is not None and is_metrics_due:
                self._metrics_due_ms = now_ms + _METRICS_EVERY_MS
                self._metrics.update(reading)
        if self._bar is not None:
            self._bar.refresh()

    def _update(self, now: Reading) -> None:
        task = self._bar.task_ids[0]
        if now.records_per_s is not None:
            count = f"{now.records or 0:,} records, {now.records_per_s:,.0f}/s"
            self._bar.update(task, description="following", total=None, count=count)
        elif now.records and self._expected:
            if self._last_reading is None or not self._last_reading.records:
                self._bar.reset(task, start=True)
                self._started_ms = self._env.clock.now_ms()
            rate = now.records / max(self._env.clock.now_ms() - self._started_ms, 1.0) * 1000
            count = f"{now.records:,} records, {rate:,.0f}/s, {now.tasks:,} of {now.all_tasks:,} tasks"
            self._bar.update(task, description="reading", completed=now.records, total=self._expected, count=count)
        elif now.all_tasks:
            before = self._last_reading
            if before is None or before.all_tasks != now.all_tasks:
                self._bar.reset(task, start=True)  # a new stage
            count = f"{now.tasks:,} of {now.all_tasks:,} tasks"
            self._bar.update(task, description="working", completed=now.tasks, total=now.all_tasks, count=count)
        self._last_reading = now


def batch_line(now: Reading, expected: int) -> str:
    """Return the progress of a batch in one line."""
    tasks = f"{now.tasks or 0:,} of {now.all_tasks or 0:,} tasks of the running stages"
    if not now.records:
        return tasks
    total = f" of at most {expected:,}" if expected >= now.records else ""
    return f"{now.records:,}{total} records, {tasks}"
