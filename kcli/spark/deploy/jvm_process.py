"""The process of the JVM that runs a session: started by PySpark's launcher, recorded, and ended.

There is at most one in a process, as PySpark has one gateway.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import IO, Any, ClassVar

from kcli.spark.deploy.spark_errors import SparkFailed

STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals that ask a process to end. Windows has no SIGHUP."""


class _Jvm(subprocess.Popen[bytes]):
    """The process of the JVM, recorded from its start on: PySpark returns it only when the JVM is ready.

    It is in a process group of its own, so that a Ctrl-C on the terminal is for kcli alone, and the launcher, which is
    a process for a second, is ended too.
    """

    started: ClassVar[_Jvm | None] = None
    is_ready = False

    def __init__(self, command: list[str], **settings: Any) -> None:
        _Jvm.started = self
        # An interruption between the start and the assignment of `pid` would lose the process.
        with _deferred_signals():
            super().__init__(command, **{**settings, "start_new_session": True})

    def poll(self) -> int | None:
        """Return the exit status. SparkFailed for 0 before the JVM is ready: `launch_gateway` takes it for a process
        that still runs, and waits for ever.
        """
        status = super().poll()
        if status == 0 and not self.is_ready:
            raise SparkFailed("the JVM ended before it was ready, with exit status 0; check PYSPARK_SUBMIT_ARGS")
        return status

    def signal_group(self, number: int) -> None:
        """Send a signal to the JVM and its launcher, if any of them is alive."""
        if self.has_started and self.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, number)

    @property
    def has_started(self) -> bool:
        return getattr(self, "pid", None) is not None


@contextlib.contextmanager
def recorded_jvm() -> Iterator[None]:
    """Let `launch_gateway` start the JVM as a `_Jvm`."""
    from pyspark import java_gateway

    usual = java_gateway.Popen
    java_gateway.Popen = _Jvm
    try:
        yield
        if _Jvm.started is not None:
            _Jvm.started.is_ready = True
    finally:
        java_gateway.Popen = usual


@contextlib.contextmanager
def _deferred_signals() -> Iterator[None]:
    """Call Python's handlers of signals after the block. A mask would not do: another thread can receive the signal,
    and processes inherit it.
    """
    arrived: list[int] = []
    handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in STOP_SIGNALS:
            if callable(signal.getsignal(number)):
                handlers[number] = signal.signal(number, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in arrived:
            signal.raise_signal(number)


def running_jvm() -> subprocess.Popen[bytes] | None:
    """Return the process of the JVM that `open_session` has started and `close_session` has not yet ended."""
    return _Jvm.started


def jvm_failure() -> SparkFailed | None:
    """Return the error for a JVM that has ended by itself, or None: calls then fail with errors of the connection."""
    process = _Jvm.started
    if process is None:
        return None
    try:
        status = process.wait(1)  # the connection closes a moment before the process ends
    except subprocess.TimeoutExpired:
        return None
    how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    cure = "if memory was short, increase it with --conf spark.driver.memory=4g; -v shows the output of Spark"
    return SparkFailed(f"the JVM of Spark has ended unexpectedly ({how}); {cure}")


def kill_jvm() -> None:
    """Kill the JVM that `open_session` started, if there is one. Its temporary files remain."""
    if _Jvm.started is not None:
        _Jvm.started.signal_group(signal.SIGKILL)


def end_jvm(patience_s: float, *, at_once: bool = False) -> None:
    """End the JVM by closing its standard input; it then exits and removes its temporary files.

    While it starts it does not read its standard input: end it `at_once` with a signal. The gateway is not called:
    after a Ctrl-C in one of its calls `shutdown` waits forever (observed).
    """
    process = _Jvm.started
    if process is None:
        return
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    if at_once:
        process.signal_group(signal.SIGTERM)
    if process.has_started:
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.signal_group(signal.SIGKILL)
            process.wait()
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = None
    _Jvm.started = None


def text_of(jvm_output: IO[bytes]) -> str:
    try:
        jvm_output.seek(0)
        return jvm_output.read().decode(errors="replace")
    except OSError:  # a pipe or a terminal
        return ""
