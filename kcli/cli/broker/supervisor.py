"""Processes of one terminal: start them by fork, forward their output, report their ends, and stop them.

A process is forked after its modules are imported, so that all of them share the memory of the modules. It leads a
process group of its own: Ctrl-C reaches the supervisor only, which stops the processes in order. If the supervisor is
killed, its end of a pipe closes, and each process then stops by itself.

Three pipes belong to a process: its output, its status (its address, then `ready`), and the pipe of the supervisor's
life. Descriptors are plain numbers and the supervisor waits with `poll`, so that a forked process can close those that
are not its own.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import NoReturn

from kcli.cli import exit_status
from kcli.cli.environment import StopSignals
from kcli.errors import KcliError

STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_READ_BYTES = 65_536
_MOST_FDS = 4096  # more than the supervisor has open


class Child:
    """A supervised process as its own code sees it."""

    def __init__(self, status_fd: int, signals: StopSignals) -> None:
        self._status_fd = status_fd
        self.signals = signals

    def tell_address(self, address: str) -> None:
        """Tell the supervisor the `host:port` that the process listens on."""
        os.write(self._status_fd, f"address {address}\n".encode())

    def tell_ready(self) -> None:
        """Tell the supervisor that the process serves clients."""
        os.write(self._status_fd, b"ready\n")

    def log(self, text: str) -> None:
        """Log lines for the operator; nothing if the supervisor no longer reads them."""
        with suppress(OSError):
            os.write(2, f"{text}\n".encode(errors="backslashreplace"))


class Process:
    """A supervised process as the supervisor sees it. `exit_code` is None while it runs, negative for a signal."""

    def __init__(self, name: str, pid: int, status_fd: int, output_fd: int) -> None:
        self.name = name
        self.pid = pid
        self.address = ""
        self.is_ready = False
        self.exit_code: int | None = None
        self._status_fd = status_fd
        self._output_fd = output_fd
        self._partial: dict[int, list[bytes]] = {status_fd: [], output_fd: []}
        self.open_fds = {status_fd, output_fd}

    def __repr__(self) -> str:
        state = "ready" if self.is_ready else "starting"
        return f"<Process {self.name} {self.pid} {state if self.exit_code is None else f'ended {self.exit_code}'}>"

    @property
    def end(self) -> str:
        """The way in which the process ended: `was killed by SIGKILL`, `ended with status 1`."""
        code = self.exit_code or 0
        return f"ended with status {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"

    def read(self, fd: int, log: Callable[[str, str], None]) -> None:
        """Take what a pipe has: lines for the log, or the process's status."""
        data = os.read(fd, _READ_BYTES)
        first, *others = data.split(b"\n")
        partial, lines = self._partial[fd], others[:-1]
        partial.append(first)
        if others:
            lines.insert(0, b"".join(partial))
            partial[:] = others[-1:]
        if not data:
            lines = [line] if (line := b"".join(partial)) else []
            os.close(fd)
            self.open_fds.discard(fd)
        for line in lines:
            text = line.decode(errors="backslashreplace")
            if fd == self._output_fd:
                log(self.name, text)
            elif text == "ready":
                self.is_ready = True
            else:
                self.address = text.removeprefix("address ")


class Supervisor:
    """The processes by name. It belongs to the main thread of a process that has no other threads.

    `log(name, text)` receives each line that a process prints, and `on_end(process)` is called when one has ended.
    """

    def __init__(self, log: Callable[[str, str], None], on_end: Callable[[Process], None]) -> None:
        self.processes: dict[str, Process] = {}
        self._log = log
        self._on_end = on_end
        self._life_read, self._life_write = os.pipe()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    @property
    def running(self) -> list[Process]:
        """The processes that have not ended."""
        return [process for process in self.processes.values() if process.exit_code is None]

    def wake(self) -> None:
        """End the current or the next `poll`. Signal handlers may call this."""
        with suppress(BlockingIOError):
            os.write(self._wake_write, b".")

    def start(self, name: str, run: Callable[[Child], int]) -> Process:
        """Fork a process that calls `run` and ends with the status which that returns."""
        status_read, status_write = os.pipe()
        output_read, output_write = os.pipe()
        gc.freeze()  # no collection writes to the pages that the processes share
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        pid = os.fork()
        if pid == 0:
            _run_child(run, self._life_read, status_write, output_write)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(status_write)
        os.close(output_write)
        process = self.processes[name] = Process(name, pid, status_read, output_read)
        return process

    def poll(self, timeout_s: float) -> None:
        """Wait for output, status or the end of a process, or for `wake`, and handle them."""
        poller, owners = select.poll(), {}
        poller.register(self._wake_read, select.POLLIN)
        for process in self.processes.values():
            for fd in process.open_fds:
                owners[fd] = process
                poller.register(fd, select.POLLIN)
        for fd, _ in poller.poll(max(0.0, timeout_s) * 1000):
            if fd == self._wake_read:
                os.read(fd, _READ_BYTES)
            else:
                owners[fd].read(fd, self._log)
        for process in set(owners.values()):
            if not process.open_fds:
                self._reap(process)

    def _reap(self, process: Process) -> None:
        """Take the exit status. Both pipes are closed, so the process is about to end if it has not ended yet."""
        _, status = os.waitpid(process.pid, 0)
        process.exit_code = os.waitstatus_to_exitcode(status)
        self._on_end(process)

    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Poll until the condition is true; return whether it is."""
        until_s = monotonic() + timeout_s
        while not condition():
            remaining_s = until_s - monotonic()
            if remaining_s <= 0:
                return False
            self.poll(remaining_s)
        return True

    def stop(self, names: list[str], timeout_s: float) -> list[str]:
        """Ask these processes to shut down, and kill those that have not ended in time. Return the killed ones."""
        stopping = [process for process in self.running if process.name in names]
        for process in stopping:
            _send(process, signal.SIGTERM)
        self.wait(lambda: all(process.exit_code is not None for process in stopping), timeout_s)
        late = [process for process in stopping if process.exit_code is None]
        for process in late:
            _send(process, signal.SIGKILL)
        self.wait(lambda: all(process.exit_code is not None for process in late), timeout_s)
        return [process.name for process in late]

    def kill(self) -> None:
        """Kill all processes at once, without reading what they still print."""
        for process in self.running:
            _send(process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(process.pid, 0)
            process.exit_code = -signal.SIGKILL

    def close(self) -> None:
        """Kill what still runs, and close the pipes."""
        self.kill()
        for process in self.processes.values():
            for fd in process.open_fds:
                os.close(fd)
            process.open_fds.clear()
        for fd in (self._life_read, self._life_write, self._wake_read, self._wake_write):
            os.close(fd)


def _send(process: Process, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)
        if number == signal.SIGTERM:
            os.kill(process.pid, signal.SIGCONT)  # a stopped process handles no signal


def _run_child(run: Callable[[Child], int], life_fd: int, status_fd: int, output_fd: int) -> NoReturn:
    """Run in the forked process, and end it. Nothing of the supervisor's own may run here, such as its cleanup."""
    status = exit_status.FAILED
    try:
        os.setpgid(0, 0)
        null_fd = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null_fd, 0), (output_fd, 1), (output_fd, 2)):
            os.dup2(source, target)
        _close_others({life_fd, status_fd})
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        with StopSignals() as signals:
            child = Child(status_fd, signals)
            # Signals are blocked until here, and remain so in this thread.
            threading.Thread(target=_watch_supervisor, args=(life_fd,), name="kcli-supervisor", daemon=True).start()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
            try:
                status = run(child)
            except KcliError as error:
                child.log(str(error))
                status = exit_status.status_of(error)
    except KeyboardInterrupt:
        status = exit_status.INTERRUPTED
    except BaseException:
        with suppress(OSError):
            os.write(2, traceback.format_exc().encode(errors="backslashreplace"))
    finally:
        os._exit(status)


def _close_others(kept: set[int]) -> None:
    """Close all descriptors above standard error except these."""
    first = 3
    for fd in sorted(kept):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, max(first, _MOST_FDS))


def _watch_supervisor(life_fd: int) -> None:
    """Stop this process when the supervisor has ended: nobody else would."""
    with suppress(OSError):
        os.read(life_fd, 1)
    os.kill(os.getpid(), signal.SIGTERM)
