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
    """Warnings that recur for ever: one per key and minute, with the number of those left out. Time is an argument."""

    def __init__(self, logger: str) -> None:
        self._logger = logger
        self._logged: dict[Hashable, tuple[float, int]] = {}

    def warn(self, key: Hashable, now_ms: float, text: str) -> None:
        """Log `text`, unless there was a line for this key in the last minute."""
        logged_ms, left_out = self._logged.get(key, (float("-inf"), 0))
        if now_ms - logged_ms < _REPEATED_AFTER_MS:
            self._logged[key] = (logged_ms, left_out + 1)
            return
        self._logged[key] = (now_ms, 0)
        warning(self._logger, "%s%s", text, f" ({left_out} times more since the last line)" if left_out else "")
