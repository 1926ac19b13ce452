"""The process as a command sees it: streams, terminal, environment variables, clock, and signals to stop.

Commands get one `Environment` and never use `sys` or `os.environ`; a test passes one made of buffers.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, BinaryIO, TextIO

from kcli.clock import Clock, SystemClock
from kcli.visible import visible

#: Names of colours, and their numbers in the control sequences of terminals.
COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}


class Environment:
    """The streams, variables and clock of one run. Data goes to `stdout`, messages to `stderr`."""

    def __init__(
        self,
        stdin: TextIO,
        stdout: TextIO,
        stderr: TextIO,
        environ: Mapping[str, str],
        clock: Clock | None = None,
    ) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.environ = environ
        self.clock: Clock = clock or SystemClock()
        #: Ctrl-C arrived when a command had almost finished: a caller that runs several commands stops here.
        self.interrupted = False

    @classmethod
    def of_process(cls) -> Environment:
        """Return the environment of this process. Characters that the encoding lacks are escaped.

        Lines are written when they are printed, also into a pipe.
        """
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace", line_buffering=True)
        return cls(sys.stdin, sys.stdout, sys.stderr, os.environ)

    @property
    def stdout_bytes(self) -> BinaryIO:
        """Standard output for bytes. Text written earlier is flushed first, to keep the order."""
        self.stdout.flush()
        return self.stdout.buffer

    @property
    def stdin_bytes(self) -> BinaryIO:
        return self.stdin.buffer

    @property
    def stdin_is_terminal(self) -> bool:
        return self.stdin.isatty()

    @property
    def stdout_is_terminal(self) -> bool:
        return self.stdout.isatty()

    @property
    def stderr_is_terminal(self) -> bool:
        return self.stderr.isatty()

    @property
    def can_redraw(self) -> bool:
        """True if a line on stderr can be drawn again, as progress is: on a terminal that moves its cursor."""
        return self.stderr_is_terminal and self.environ.get("TERM") != "dumb"

    @property
    def colour(self) -> bool:
        """True if output may have colours: only on a terminal, and not with NO_COLOR (no-color.org)."""
        return self.stdout_is_terminal and not self.environ.get("NO_COLOR") and self.environ.get("TERM") != "dumb"

    @property
    def is_verbose(self) -> bool:
        """True if KCLI_VERBOSE asks for the details of `-v`."""
        return self.environ.get("KCLI_VERBOSE", "").lower() in ("1", "true", "yes", "on")

    @property
    def profile_file(self) -> str | None:
        """Path of the file of profiles, in the XDG folder for configuration; None without such a folder."""
        home = self.environ.get("HOME")
        folder = self.environ.get("XDG_CONFIG_HOME") or (os.path.join(home, ".config") if home else None)
        return os.path.join(folder, "kcli", "config.toml") if folder else None

    @property
    def width(self) -> int:
        """Columns of the terminal: COLUMNS, else the terminal's own width, else 80."""
        columns = self.environ.get("COLUMNS", "")
        if columns.isdigit() and int(columns) > 0:
            return int(columns)
        try:
            return os.get_terminal_size(self.stdout.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def report(self, line: str) -> None:
        """Report one line to the user on stderr, after everything written to standard output.

        Control characters and line breaks are escaped, so that names and brokers' messages can neither control the
        terminal nor look like a line of kcli.
        """
        self.report_lines([line])

    def report_lines(self, lines: Iterable[str]) -> None:
        """Report several lines on stderr as `report` does, at once."""
        self.stdout.flush()
        self.write_stderr("".join(f"{visible(line)}\n" for line in lines))

    def report_in_colour(self, line: str, colour: str) -> None:
        """Report one line in this colour, one of `COLOURS`, if stderr is a terminal that may have colours."""
        if not self.can_redraw or self.environ.get("NO_COLOR"):
            return self.report(line)
        self.stdout.flush()
        self.write_stderr(f"\x1b[1;{COLOURS[colour]}m{visible(line)}\x1b[0m\n")
        return None

    def discard_stdout(self) -> None:
        """Discard all further output: the text in the buffer would raise the error of a full disk at every flush."""
        with suppress(OSError):  # a stream without a descriptor has no such buffer
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stdout.fileno())

    def write_stderr(self, text: str) -> None:
        """Write to stderr without a flush of standard output. A stderr that fails loses the text."""
        try:
            self.stderr.write(text)
            self.stderr.flush()
        except OSError:
            pass  # stderr is closed or its disk is full; the data and the status still count


def open_closed_streams() -> bool:
    """Open the null device for each closed standard stream; return False if standard output was closed.

    Otherwise a socket would get the number of that stream, and the next message would be sent through it. An output
    stream that is open for reading only counts as closed. A closed stdin gets a descriptor whose reads fail.
    """
    has_stdout = True
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)  # None: the process was started with it closed
        if stream is not None and (name == "stdin" or _is_writable(stream)):
            continue
        null = os.open(os.devnull, os.O_WRONLY)
        if null != number:
            os.dup2(null, number)
            os.close(null)
        os.set_inheritable(number, True)  # or a child process would start with it closed
        if stream is None:
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115
        has_stdout = has_stdout and name != "stdout"
    return has_stdout


def _is_writable(stream: TextIO) -> bool:
    import fcntl

    try:
        return fcntl.fcntl(stream, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except (OSError, ValueError):  # a stream without a descriptor
        return not stream.closed


def wide_pipe() -> tuple[int, int]:
    """Return the ends of a pipe, to read and to write, that holds a mebibyte if the system has pipes of that size."""
    import fcntl

    pipe = os.pipe()
    with suppress(OSError, AttributeError):  # another system than Linux, or the user's limit of pipes
        fcntl.fcntl(pipe[1], fcntl.F_SETPIPE_SZ, 1 << 20)
    return pipe


# `timeout` and shells signal the process and its process group: one request arrives twice.
_DUPLICATE_S = 1.0
#: Time for leaving a group after a second signal.
HURRIED_MS = 500.0


class StopSignals:
    """Signals that ask the process to end: the first one in order, a second one at once.

    While entered, SIGINT, SIGTERM and SIGHUP (the terminal was closed) set `requested` and call `wake`. Without a
    `wake`, and from the second signal on, they raise KeyboardInterrupt. If SIGHUP was ignored before, as under nohup,
    it stays ignored. Outside the main thread signals cannot be handled.
    """

    def __init__(self, wake: Callable[[], None] | None = None) -> None:
        self.requested = False
        self.wake = wake
        self._raises = False
        self._last_s = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
            number = getattr(signal, name, None)
            if number is None or (name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN):
                continue
            try:
                self._before[number] = signal.signal(number, self._on_signal)
            except ValueError:
                break
        return self

    def __exit__(self, *_exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Raise KeyboardInterrupt at the first signal, too, during the block: for a step that may take for ever."""
        self._raises = True
        try:
            yield
        finally:
            self._raises = False

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer the signals until the block has ended: for a step that must not be interrupted."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._before)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _on_signal(self, _number: int, _frame: Any) -> None:
        now_s = monotonic()
        is_first = not self.requested
        if not is_first and now_s - self._last_s < _DUPLICATE_S:
            return
        self.requested, self._last_s = True, now_s
        if self.wake is None or not is_first or self._raises:
            raise KeyboardInterrupt
        self.wake()
