"""Everything a command may touch of the process it runs in: streams, terminal, environment variables, clock.

Commands get one `Environment` and never reach for `sys` or `os.environ`; a test hands in one made of buffers.
"""

import os
import sys
from collections.abc import Mapping
from typing import BinaryIO, TextIO

from kcli.clock import Clock, SystemClock


class Environment:
    """The streams, variables and clock of one run. Data goes to `stdout`, everything else to `stderr`."""

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
        #: Ctrl-C came while a command was at its end already: whoever runs several in a row stops there.
        self.interrupted = False

    @classmethod
    def of_process(cls) -> "Environment":
        """The real one. What the terminal's encoding cannot show is escaped, not an error."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        return cls(sys.stdin, sys.stdout, sys.stderr, os.environ)

    @property
    def stdout_bytes(self) -> BinaryIO:
        """Standard output for bytes. Text written before is flushed first, so that order is kept."""
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
    def colour(self) -> bool:
        """May standard output be coloured? Only on a terminal, and not against NO_COLOR (no-color.org)."""
        return self.stdout_is_terminal and not self.environ.get("NO_COLOR") and self.environ.get("TERM") != "dumb"

    @property
    def width(self) -> int:
        """Columns of the terminal: COLUMNS, else what it says itself, else 80."""
        columns = self.environ.get("COLUMNS", "")
        if columns.isdigit() and int(columns) > 0:
            return int(columns)
        try:
            return os.get_terminal_size(self.stdout.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def say(self, line: str) -> None:
        """One line for the person, on standard error; what was written to standard output before comes first.

        Names and brokers' words in it cannot command a terminal: control characters are shown escaped.
        """
        self.stdout.flush()
        self._tell(_harmless(line) + "\n")

    def confirm(self, question: str) -> bool:
        """Ask on standard error, answer from standard input. Only "y" or "yes" is a yes; end of input is a no."""
        self.stdout.flush()
        self._tell(f"{question} [y/N] ")
        answer = self.stdin.readline()
        if not answer.endswith("\n"):
            self._tell("\n")
        return answer.strip().lower() in ("y", "yes")

    def _tell(self, text: str) -> None:
        try:
            self.stderr.write(text)
            self.stderr.flush()
        except OSError:
            pass  # nobody listens, or the disk is full; the data and the status still count


def _harmless(text: str) -> str:
    if text.isprintable():
        return text
    from kcli.cli.output.escapes import visible

    return "\n".join(map(visible, text.split("\n")))
