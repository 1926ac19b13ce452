"""The log lines of the library, through Python's `logging`: the loggers are `kcli.client`, `.consumer`, `.producer`.

A program that configures no logging sees warnings on stderr, as Python prints them. Ground.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable

_REPEATED_AFTER_MS = 60_000.0
_is_quiet = False


def keep_quiet() -> None:
    """Let Python print no line of the library for which nobody has made a handler: the command line reports itself."""
    global _is_quiet
    _is_quiet = True


def info(logger: str, text: str, *arguments: object) -> None:
    """Log an event of normal operation. Java's clients log it with the level INFO."""
    _log("INFO", logger, text, arguments)


def warning(logger: str, text: str, *arguments: object, with_traceback: bool = False) -> None:
    """Log a fault that the client survives, or a loss; with the traceback of the exception that is handled now."""
    _log("WARNING", logger, text, arguments, with_traceback=with_traceback)


def _log(level: str, logger: str, text: str, arguments: tuple[object, ...], *, with_traceback: bool = False) -> None:
    if _is_quiet and "logging" not in sys.modules:
        return  # nobody can have a handler, and the import takes time at the start of a command
    import logging

    if _is_quiet and not logging.getLogger("kcli").handlers:
        logging.getLogger("kcli").addHandler(logging.NullHandler())
    logging.getLogger(logger).log(getattr(logging, level), text, *arguments, exc_info=with_traceback)


class RepeatedWarnings:
    """Faults that may last for ever: at most one warning per key and minute, and a line when the fault has ended.

    A later line says how long the fault has lasted, and how many times it came since the last line. Time is an
    argument.
    """

    def __init__(self, logger: str) -> None:
        self._logger = logger
        self._faults: dict[Hashable, _Fault] = {}

    def warn(self, key: Hashable, now_ms: float, text: str) -> None:
        """Log `text`, unless there was a line for this key in the last minute."""
        fault = self._faults.setdefault(key, _Fault())
        if fault.since_ms is None:
            fault.since_ms = now_ms
        if now_ms - fault.logged_ms < _REPEATED_AFTER_MS:
            fault.left_out += 1
            return
        lasts = [f"for {(now_ms - fault.since_ms) / 1000:.0f} s"] if now_ms > fault.since_ms else []
        left_out = [f"{fault.left_out} more since the last line"] if fault.left_out else []
        fault.logged_ms, fault.left_out = now_ms, 0
        more = "; ".join(lasts + left_out)
        warning(self._logger, "%s%s", text, f" ({more})" if more else "")

    def ended(self, now_ms: float, text: str, *keys: Hashable) -> bool:
        """Log `text` as information if one of these faults has lasted, and a line has said so. Return True then."""
        faults = [fault for key in keys if (fault := self._faults.get(key)) is not None]
        logged_ms = [
            fault.since_ms for fault in faults if fault.since_ms is not None and fault.logged_ms >= fault.since_ms
        ]
        for fault in faults:
            fault.since_ms = None
        if logged_ms:
            info(self._logger, "%s, after %.0f s", text, (now_ms - min(logged_ms)) / 1000)
        return bool(logged_ms)


class _Fault:
    """The time since which a fault lasts (None: it has ended), that of its last line, and the lines left out since."""

    __slots__ = ("left_out", "logged_ms", "since_ms")

    def __init__(self) -> None:
        self.since_ms: float | None = None
        self.logged_ms = float("-inf")
        self.left_out = 0
