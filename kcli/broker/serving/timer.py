"""Timer with one bucket per millisecond: a waiting task costs nothing until it is due.

Pure: the caller passes the time. The cost of inserting does not depend on the number of waiting tasks, except for a
heap of bucket times; cancelling removes the task at once; `advance` touches only due tasks. As in Kafka's timer,
buckets are ordered by time, tasks are not.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush

# The heap is rebuilt when it has this many more times of empty buckets than there are buckets.
_MAX_STALE_TIMES = 256


class TimerTask:
    """A function to be called once at `deadline_ms`, unless the task is cancelled before."""

    __slots__ = ("_timer", "deadline_ms", "fn")

    def __init__(self, deadline_ms: float, fn: Callable[[], None], timer: Timer) -> None:
        self.deadline_ms = deadline_ms
        self.fn = fn
        self._timer: Timer | None = timer

    def __repr__(self) -> str:
        state = f"at {self.deadline_ms:.0f} ms" if self.is_waiting else "done"
        return f"<TimerTask {state}: {self.fn!r}>"

    @property
    def is_waiting(self) -> bool:
        """True until the task runs or is cancelled."""
        return self._timer is not None

    def cancel(self) -> bool:
        """Remove the task. False if it has run or was cancelled before."""
        timer, self._timer = self._timer, None
        if timer is None:
            return False
        timer._remove(self)
        return True


class Timer:
    """Runs due tasks. Deadlines are rounded up to whole milliseconds, so that no task runs early."""

    def __init__(self) -> None:
        self._buckets: dict[int, dict[TimerTask, None]] = {}
        self._times: list[int] = []  # a heap; some of its times may no longer have a bucket
        self._due: deque[TimerTask] = deque()  # removed from their buckets, but not run yet
        self._waiting = 0

    def __repr__(self) -> str:
        return f"<Timer {len(self)} waiting, next at {self.next_deadline_ms():.0f} ms>"

    def __len__(self) -> int:
        """Return the number of waiting tasks."""
        return self._waiting

    def call_at(self, deadline_ms: float, fn: Callable[[], None]) -> TimerTask:
        """Call `fn` in the first `advance` at or after `deadline_ms`. ValueError for an infinite deadline."""
        if not math.isfinite(deadline_ms):
            raise ValueError(f"{deadline_ms} is not a deadline")
        task = TimerTask(deadline_ms, fn, self)
        time = math.ceil(deadline_ms)
        bucket = self._buckets.get(time)
        if bucket is None:
            bucket = self._buckets[time] = {}
            self._queue(time)
        bucket[task] = None
        self._waiting += 1
        return task

    def next_deadline_ms(self) -> float:
        """Return the time of the next due task, infinity if no task waits."""
        if self._due:
            return self._due[0].deadline_ms
        times = self._times
        while times and times[0] not in self._buckets:
            heappop(times)
        return times[0] if times else math.inf

    def advance(self, now_ms: float) -> int:
        """Run the tasks due by `now_ms` in the order of their deadlines, and return their number.

        Tasks that are added meanwhile wait for the next `advance`, even if they are due. If a task raises, the due
        tasks after it wait for the next `advance`, too.
        """
        times, due = self._times, self._due
        while times and times[0] <= now_ms:
            due.extend(self._buckets.pop(heappop(times), ()))
        run_count = 0
        while due:
            task = due.popleft()
            if task._timer is not None:  # else an earlier task cancelled it
                task._timer = None
                self._waiting -= 1
                run_count += 1
                task.fn()
        return run_count

    def _queue(self, time: int) -> None:
        heappush(self._times, time)
        if len(self._times) > 2 * len(self._buckets) + _MAX_STALE_TIMES:
            self._times = list(self._buckets)
            heapify(self._times)

    def _remove(self, task: TimerTask) -> None:
        self._waiting -= 1
        time = math.ceil(task.deadline_ms)
        bucket = self._buckets.get(time)
        if bucket is not None:  # else it is due already, and `advance` skips it
            bucket.pop(task, None)
            if not bucket:
                del self._buckets[time]
