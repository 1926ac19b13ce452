"""The expressions of --where and --select, in jq's language, over records as `--output jsonl` prints them.

jq rather than JMESPath: users know it, it calculates and compares (`.value.price * .value.count > 100`), and its
library is as fast: 120,000 records per second of one core against 101,000 of JMESPath for the same condition, and
72,000 with the parsing of JSON that JMESPath leaves to Python.

**Non-obvious**

- One call per record is as fast as one for a thousand, and an error then belongs to one record.
- The program itself writes its results as JSON (`tojson`): numbers keep all their digits, which Python's float loses.
- A program is compiled alone first: the message then has the columns of the user's text.
- `last(repeat(1))` never ends, and no signal handler runs meanwhile: the library is C code that holds Python's lock. So
  each expression runs in a forked process, which can be killed, and which a timer ends when a record takes too long.
"""

from __future__ import annotations

import marshal
import mmap
import os
import re
import signal
import struct
from collections.abc import Callable
from time import monotonic
from typing import Any, NoReturn, TypeAlias
from weakref import finalize

from kcli.cli.environment import wide_pipe
from kcli.errors import ConfigError, TimeoutExpired
from kcli.schemas.serdes import missing_extra

#: Whether each record succeeded, and its result, or the message of the error.
Results: TypeAlias = "list[tuple[bool, Any]]"

_SIZE = struct.Struct("=q")
_DESCRIPTORS = 1 << 16
_SLACK = 10  # a record may take a tenth longer than the limit


class Expression:
    """A compiled jq program of an option; `option` is --where or --select.

    `limit_s` is the longest time for one record, in seconds of the processor.
    """

    def __init__(self, option: str, text: str, wrapped: str, result: Callable[[Any], Any], limit_s: float) -> None:
        """`wrapped` is the program to run, with `{}` for the user's text, and `result` takes what is wanted of its
        results. Raise ConfigError for an invalid program.
        """
        try:
            import jq
        except ImportError:
            raise missing_extra(option, "jq") from None
        self.option = option
        self._limit_s = limit_s
        try:
            jq.compile(text)
            program = jq.compile(wrapped.format(f"(\n{text}\n)"))
        except ValueError as error:
            raise ConfigError(f"{option}: {text!r} is not a valid jq expression: {_problem(error)}") from None
        self._program, self._result = program, result
        self._row = mmap.mmap(-1, _SIZE.size)
        asked, self._ask = wide_pipe()  # for a whole part: this halves the waiting
        self._answer, answered = os.pipe()
        pid = os.fork()
        if pid == 0:
            _evaluate(program, result, asked, answered, self._row, limit_s)
        os.close(asked)
        os.close(answered)
        self._end = finalize(self, _end, pid, self._ask, self._answer)

    def results(self, lines: list[str], place: Callable[[int], str]) -> tuple[Results, TimeoutExpired | None]:
        """Return the result for each record in JSON. `place` names the record of a row.

        If a record takes too long, return the results of the records before it, and the error. After that, and after
        KeyboardInterrupt, the expression cannot be used again.
        """
        try:
            _write(self._ask, marshal.dumps(lines))
            results: Results = marshal.loads(_read(self._answer))
        except KeyboardInterrupt:
            self._end()
            raise
        except (EOFError, BrokenPipeError):
            row = _SIZE.unpack(self._row[:])[0]
            late = f"{self.option} takes longer than {self._limit_s:g} s (--timeout) for {place(row)}"
            # The other process has ended with its results. Here the same records end, too, so a signal waits for one.
            return [_result(self._program, self._result, line) for line in lines[:row]], TimeoutExpired(late)
        return results, None


def _result(program: Any, result: Callable[[Any], Any], line: str) -> tuple[bool, Any]:
    """Return whether a record succeeded, and its result, or the message of the error."""
    try:
        return True, result(program.input_text(line))
    except StopIteration:
        return False, "the expression has halted"
    except ValueError as error:
        return False, str(error)


def _evaluate(
    program: Any, result: Callable[[Any], Any], asked: int, answered: int, current_row: mmap.mmap, limit_s: float
) -> NoReturn:
    """Run in the forked process: answer until the pipe is closed, or until SIGPROF ends a record that takes long."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a terminal sends them to all its processes
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        os.dup2(asked, 0)
        os.dup2(answered, 1)
        os.closerange(2, _DESCRIPTORS)
        rows, slack_s = memoryview(current_row).cast("q"), limit_s / _SLACK
        while True:
            results: Results = []
            renew = 0.0
            for row, line in enumerate(marshal.loads(_read(0))):
                rows[0] = row
                if (now := monotonic()) >= renew:  # not for each record: a call of the system costs as much as a record
                    signal.setitimer(signal.ITIMER_PROF, limit_s + slack_s)
                    renew = now + slack_s
                results.append(_result(program, result, line))
            signal.setitimer(signal.ITIMER_PROF, 0)
            _write(1, marshal.dumps(results))
    finally:
        os._exit(0)


def _write(fd: int, content: bytes) -> None:
    for part in (_SIZE.pack(len(content)), content):
        remaining = memoryview(part)
        while remaining:
            remaining = remaining[os.write(fd, remaining) :]


def _read(fd: int) -> bytearray:
    """Return the next content. Raise EOFError if the other process has ended."""
    return _read_exactly(fd, _SIZE.unpack(_read_exactly(fd, _SIZE.size))[0])


def _read_exactly(fd: int, size: int) -> bytearray:
    content = bytearray(size)
    remaining = memoryview(content)
    while remaining:
        count = os.readv(fd, [remaining])
        if not count:
            raise EOFError
        remaining = remaining[count:]
    return content


def _end(pid: int, *pipes: int) -> None:
    for fd in pipes:
        os.close(fd)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def where(text: str, limit_s: float) -> Expression:
    """Return the expression of --where: true if any of its results is neither false nor null."""
    return Expression("--where", text, "any({}; .)", lambda results: bool(results.first()), limit_s)


def select(text: str, limit_s: float) -> Expression:
    """Return the expression of --select: the JSON texts of its results."""
    return Expression("--select", text, "{}|tojson", lambda results: results.all(), limit_s)


def _problem(error: ValueError) -> str:
    """Return the first message of jq in one line: `syntax error, unexpected end of file at line 1, column 2`."""
    first = str(error).split("\n", 1)[0].removeprefix("jq: error: ")
    return re.sub(r" at <top-level>, (line \d+, column \d+):$", r" at \1", first)
