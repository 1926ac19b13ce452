"""The CSV that Apache's group tool exports and reads: no header, with or without the group in front. Pure.

Where the tool guesses, this refuses: it takes 0 for an offset that is missing from a line, and lets a partition that is
named twice have the later offset.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable

from kcli.cli import exit_status
from kcli.cli.compat.problems import Failed, Misused
from kcli.structs import OffsetAndMetadata, TopicPartition

_CHECKED = 24  # characters; the tool's library quotes every text that is longer

_DIGITS = re.compile(r"[+-]?[0-9]{1,19}")
_LARGEST = {"partition": 2**31 - 1, "offset": 2**63 - 1}

Offsets = dict[tuple[str | None, TopicPartition], OffsetAndMetadata]


def quoted(text: str) -> str:
    """A text as the tool writes it."""
    if len(text) > _CHECKED or any(sign < "-" for sign in text):
        return '"' + text.replace('"', '""') + '"'
    return text


def read_offsets(text: str, source: str, groups: Iterable[str]) -> Offsets:
    """What the file tells, by group and partition. It names no groups if there is one group only and it has no column
    for them; without that column nothing is told of several groups."""
    only = list(groups)
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        raise Failed(f"{source} is empty", exit_status.USAGE)
    rows = [next(csv.reader([line.rstrip("\r")])) for line in lines]
    width = len(rows[0])
    offsets: Offsets = {}
    for number, row in enumerate(rows, 1):
        if len(row) != width or width not in (3, 4):
            wanted = "topic,partition,offset or group,topic,partition,offset, the same in all lines"
            raise Failed(f"line {number} of {source} is not {wanted}", exit_status.USAGE)
        tp = TopicPartition(row[-3], _number(row[-2], "partition", number, source))
        offset = OffsetAndMetadata(_number(row[-1], "offset", number, source))
        if offset.offset < 0:
            raise Misused("Invalid negative offset")
        group = row[0] if width == 4 else only[0] if len(only) == 1 else None
        if group is None:
            continue
        if offsets.setdefault((group, tp), offset) != offset:
            raise Failed(f"line {number} of {source} gives {tp} another offset than a line before", exit_status.USAGE)
    return offsets


def _number(text: str, what: str, line: int, source: str) -> int:
    """A number as Java reads it: in ASCII, without underscores, and no more digits than fit."""
    text, largest = text.strip(), _LARGEST[what]
    if not _DIGITS.fullmatch(text) or not -largest <= int(text) <= largest:
        raise Failed(f"line {line} of {source}: '{text}' is no {what}", exit_status.USAGE)
    return int(text)
