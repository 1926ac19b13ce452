"""Progress of Spark while it works: tasks of running stages, records of streaming queries."""

from __future__ import annotations

from typing import Any, NamedTuple


class Reading(NamedTuple):
    """Progress of a job; None: not known.

    `tasks` of `all_tasks` are completed in the running stages, which have read `records`. For streams: `records`
    written, and the rate per second.
    """

    tasks: int | None = None
    all_tasks: int | None = None
    records: int | None = None
    records_per_s: float | None = None


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
        queries = self._spark.streams.active
        if not queries:
            return None
        rate = 0.0
        for query in queries:
            for progress in query.recentProgress:
                self._batches[str(query.runId), progress.batchId] = progress.numInputRows
            last = query.lastProgress
            rate += (last.processedRowsPerSecond or 0.0) if last is not None else 0.0
        return Reading(records=sum(self._batches.values()), records_per_s=rate)

    def _of_tasks(self) -> Reading:
        context = getattr(self._spark, "_sc", None)
        if context is None:  # Spark Connect does not report tasks
            return Reading()
        stages = context._jsc.sc().statusStore().activeStages()
        known = [stages.apply(number) for number in range(stages.size())]
        if not known:
            return Reading()
        read = sum(int(stage.inputRecords()) for stage in known)
        done, every = sum(int(stage.numCompleteTasks()) for stage in known), sum(int(s.numTasks()) for s in known)
        return Reading(done, every, read or None)
