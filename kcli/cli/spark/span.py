"""What `--from` and `--until` mean, as options of the source. Pure: no I/O, no clock.

START = "earliest" | "latest" | TIME | "group:" GROUP | JSON        "start" and "end" are understood too
END   = "latest" | TIME | JSON
TIME  = see kcli.text; an "@" before it, as `kcli consume` has it, is allowed
JSON  = {"orders": {"0": 23, "1": -2}}, of all partitions: offsets, -2 for the earliest, -1 for the latest
"""

from __future__ import annotations

import re

from kcli.errors import ConfigError
from kcli.text import TIME, parse_time

_NAMED = {"earliest": "earliest", "start": "earliest", "beginning": "earliest", "latest": "latest", "end": "latest"}


def start_options(text: str | None, now_ms: int) -> dict[str, str]:
    """The source's options for a start; None is the earliest record. A time with no record behind it is the end."""
    text = "earliest" if text is None else text.strip()
    if text in _NAMED:
        return {"startingOffsets": _NAMED[text]}
    if text.startswith("group:") and text != "group:":
        return {"startingOffsets": text}
    if text.startswith("{"):
        return {"startingOffsets": text}
    ms = _time("--from", text, "earliest, latest, group:GROUP", now_ms)
    return {"startingTimestamp": str(ms), "startingOffsetsByTimestampStrategy": "latest"}


def end_options(text: str | None, now_ms: int) -> dict[str, str]:
    """The source's options for an end; None: none, a batch then ends at the latest record."""
    if text is None:
        return {}
    text = text.strip()
    if _NAMED.get(text) == "latest":
        return {"endingOffsets": "latest"}
    if text in _NAMED:
        raise ConfigError(f"--until {text} leaves nothing to read")
    if text.startswith("{"):
        return {"endingOffsets": text}
    return {"endingTimestamp": str(_time("--until", text, "latest", now_ms))}


def _time(option: str, text: str, others: str, now_ms: int) -> int:
    bare = text.removeprefix("@")
    if not re.fullmatch(TIME, bare):
        raise ConfigError(f"{option} is {others}, a time (2024-01-31T10:00:00Z, -1h30m) or JSON, not '{text[:100]}'")
    return parse_time(bare, now_ms)
