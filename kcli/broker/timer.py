"""Things to be done at a time: one bucket per millisecond, so that what is parked costs nothing until it is due.

Pure: the time comes in. Inserting costs the same whatever is parked already (but for a heap of the bucket times, in C);
cancelling takes the task out at once; a tick touches only what is due. As in Kafka's own timer, what is queued by time
is buckets, not tasks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush

# The heap may hold this many times of emptied buckets more than there are buckets; then it is made anew.
_SPARE_TIMES = 256


class TimerTask:
    """Something to be done once at `deadline_ms`, unless it is cancelled before."""

    __slots__ = ("_timer", "deadline_ms", "fn")

    def __init__(self, deadline_ms: float, fn: Callable[[], None], timer: Timer) -> None:
        self.deadline_ms = deadline_ms
        self.fn = fn
        self._timer: Timer | None = timer

    def __repr__(self) -> str:
        state = f"at {self.deadline_ms:.0f} ms" if self.is_waiting else "over"
        return f"<TimerTask {state}: {self.fn!r}>"

    @property
    def is_waiting(self) -> bool:
        """Neither run nor cancelled yet."""
        return self._timer is not None

    def cancel(self) -> bool:
        """Take it out; False when it has run or was cancelled before."""
        timer, self._timer = self._timer, None
        if timer is None:
            return False
        timer._take_out(self)
        return True


class Timer:
    """Runs what is due when told the time. Deadlines are rounded up to whole milliseconds: never early."""

    def __init__(self) -> None:
        self._buckets: dict[int, dict[TimerTask, None]] = {}
        self._times: list[int] = []  # a heap; some of its times may have no bucket any more
        self._due: deque[TimerTask] = deque()  # out of their buckets, but not run yet
        self._waiting = 0

    def __repr__(self) -> str:
        return f"<Timer {len(self)} waiting, next at {self.next_deadline_ms():.0f} ms>"

    def __len__(self) -> int:
        """How many tasks wait."""
        return self._waiting

    def call_at(self, deadline_ms: float, fn: Callable[[], None]) -> TimerTask:
        """Have `fn` called by the first `advance` that is told `deadline_ms` or later. ValueError if it is infinite."""
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
        """When `advance` will next have something to do; infinity when nothing waits."""
        if self._due:
            return self._due[0].deadline_ms
        times = self._times
        while times and times[0] not in self._buckets:
            heappop(times)
        return times[0] if times else math.inf

    def advance(self, now_ms: float) -> int:
        """Run what is due by `now_ms`, in the order of the deadlines; how many ran.

        What a task adds waits for the next `advance`, even when it is due. When one raises, those behind it wait for
        the next `advance`, too.
        """
        times, due = self._times, self._due
        while times and times[0] <= now_ms:
            due.extend(self._buckets.pop(heappop(times), ()))
        ran = 0
        while due:
            task = due.popleft()
            if task._timer is not None:  # else cancelled by one that ran before it
                task._timer = None
                self._waiting -= 1
                ran += 1
                task.fn()
        return ran

    def _queue(self, time: int) -> None:
        heappush(self._times, time)
        if len(self._times) > 2 * len(self._buckets) + _SPARE_TIMES:
            self._times = list(self._buckets)
            heapify(self._times)

    def _take_out(self, task: TimerTask) -> None:
        self._waiting -= 1
        time = math.ceil(task.deadline_ms)
        bucket = self._buckets.get(time)
        if bucket is not None:  # else it is due, and skipped when its turn comes
            bucket.pop(task, None)
            if not bucket:
                del self._buckets[time]
