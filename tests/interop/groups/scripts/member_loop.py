"""The loop of every scripted member: poll, report the records, commit them, until stdin says to leave.

Events are JSON lines on stdout: joined, assigned, revoked, lost, records, committed, commit_failed, left, failed.
`at` is CLOCK_MONOTONIC in ns, which all processes of a machine share. A record is reported before it is committed.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

Partition = tuple[str, int]
Commit = Callable[[dict[Partition, int]], None]
CALL_S = 0.1


def say(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, "at": time.monotonic_ns(), **facts}, separators=(",", ":")), flush=True)


class MemberLoop:
    """The state of one member: records that it read of its partitions and has not committed yet."""

    def __init__(self, commit: Commit | None, refused: tuple[type[Exception], ...], work_ms: int) -> None:
        """`commit` waits for the broker and raises one of `refused`; None: this member does not commit here."""
        self._commit = commit
        self._refused = refused
        self._work_s = work_ms / 1000
        self._pending: dict[Partition, int] = {}
        self._leaving = threading.Event()
        threading.Thread(target=self._wait_for_stdin, daemon=True).start()

    def _wait_for_stdin(self) -> None:
        sys.stdin.readline()
        self._leaving.set()

    def run(self, poll: Callable[[], None], close: Callable[[], None]) -> None:
        """Run the loop. `poll` takes at most CALL_S and calls the methods below."""
        say("joined")
        while not self._leaving.is_set():
            poll()
            if self._pending and self._work_s:
                time.sleep(self._work_s)
            self.commit()
        close()
        say("left")

    def assigned(self, partitions: Iterable[Partition]) -> None:
        say("assigned", partitions=list(partitions))

    def revoked(self, partitions: Iterable[Partition]) -> None:
        self.commit()
        self._gone("revoked", partitions)

    def lost(self, partitions: Iterable[Partition]) -> None:
        self._gone("lost", partitions)

    def _gone(self, event: str, partitions: Iterable[Partition]) -> None:
        gone = list(partitions)
        for partition in gone:
            self._pending.pop(partition, None)
        say(event, partitions=gone)

    def read(self, partition: Partition, offsets: list[int]) -> None:
        say("records", topic=partition[0], partition=partition[1], offsets=offsets)
        self._pending[partition] = offsets[-1] + 1

    def commit(self) -> None:
        """Commit the reported records. A refusal is an event; its offsets stay pending while we own the partition."""
        if self._commit is None:
            self._pending.clear()
        if self._commit is None or not self._pending:
            return
        begun, offsets = time.monotonic_ns(), dict(self._pending)
        result = [[*partition, offset] for partition, offset in offsets.items()]
        try:
            self._commit(offsets)
        except self._refused as why:
            say("commit_failed", begun=begun, offsets=result, why=f"{type(why).__name__}: {why}")
        else:
            say("committed", begun=begun, offsets=result)
            self._pending = {tp: offset for tp, offset in self._pending.items() if offsets.get(tp) != offset}


def arguments() -> tuple[str, int, list[str], dict[str, str]]:
    """Parse COMMIT WORK_MS TOPIC,TOPIC... NAME=VALUE...: kind of commit, time per batch, topics, properties."""
    commit, work_ms, topics, *properties = sys.argv[1:]
    return commit, int(work_ms), topics.split(","), dict(one.split("=", 1) for one in properties)
