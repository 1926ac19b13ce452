"""Which records are wanted: regular expressions over values, keys and headers, as masks over columns."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kcli.protocol.records.columns import RecordColumns

    Mask = NDArray[np.bool_]

_MEANINGFUL = frozenset(rb"\.^$*+?{}[]|()")


class Filters(NamedTuple):
    """All of them must match, or, with `invert`, not all of them. A null matches no expression."""

    value: re.Pattern[bytes] | None = None
    key: re.Pattern[bytes] | None = None
    headers: tuple[tuple[str, re.Pattern[bytes]], ...] = ()
    invert: bool = False


def compile_filters(grep: str | None, key: str | None, headers: Sequence[str], *, invert: bool) -> Filters | None:
    """What the options say; None if they leave every record in. `ConfigError` for a bad expression."""
    if grep is None and key is None and not headers:
        if invert:
            raise ConfigError("--invert turns --grep, --key or --header round: give one of them")
        return None
    return Filters(_compiled("--grep", grep), _compiled("--key", key), tuple(map(_header, headers)), invert)


def _header(text: str) -> tuple[str, re.Pattern[bytes]]:
    name, equals, expression = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"--header needs NAME=REGEX, not {text!r}")
    pattern = _compiled("--header", expression)
    assert pattern is not None
    return name, pattern


def _compiled(option: str, expression: str | None) -> re.Pattern[bytes] | None:
    if expression is None:
        return None
    try:
        return re.compile(expression.encode("utf-8", "surrogateescape"))
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"{option} {expression!r} is not a regular expression: {error}") from error


def choose(filters: Filters, columns: RecordColumns) -> Mask:
    """True for every record that is wanted."""
    import numpy as np

    wanted: Mask = np.ones(len(columns), np.bool_)
    if filters.key is not None:
        wanted &= _search(filters.key, columns.buffer, columns.key_starts, columns.key_lengths)
    if filters.value is not None:
        wanted &= _search(filters.value, columns.buffer, columns.value_starts, columns.value_lengths)
    for name, pattern in filters.headers:
        for row in np.flatnonzero(wanted).tolist():
            wanted[row] = _has_header(columns, row, name, pattern)
    return ~wanted if filters.invert else wanted


def _has_header(columns: RecordColumns, row: int, name: str, pattern: re.Pattern[bytes]) -> bool:
    return any(
        header == name and value is not None and pattern.search(value) is not None
        for header, value in columns.headers(row)
    )


def _search(pattern: re.Pattern[bytes], buffer: Any, starts: Any, lengths: Any) -> Mask:
    import numpy as np

    if not _MEANINGFUL & set(pattern.pattern):
        found = _search_literal(pattern.pattern, buffer, starts, lengths)
        if found is not None:
            return found
    search, view = pattern.search, memoryview(buffer)
    return np.fromiter(
        (
            length >= 0 and search(view[start : start + length]) is not None
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
        ),
        np.bool_,
        len(starts),
    )


def _search_literal(literal: bytes, buffer: Any, starts: Any, lengths: Any) -> Mask | None:
    """Find a text without meaning to `re` by searching the whole buffer, from one span with a hit to the next.

    None if the spans overlap or do not ascend.
    """
    import numpy as np

    if not literal:
        return np.asarray(lengths >= 0)
    found: Mask = np.zeros(len(starts), np.bool_)
    rows = np.flatnonzero(lengths >= len(literal))
    firsts, ends = starts[rows], starts[rows] + lengths[rows]
    if (firsts[1:] < ends[:-1]).any():
        return None
    spans = firsts.tolist()
    lasts = (ends - len(literal)).tolist()
    data = buffer if isinstance(buffer, bytes | bytearray) else bytes(buffer)
    hits = []
    position = data.find(literal, spans[0]) if spans else -1
    while position >= 0:
        span = bisect_right(spans, position) - 1
        if position <= lasts[span]:
            hits.append(span)
        if span + 1 == len(spans):
            break
        position = data.find(literal, spans[span + 1])
    found[rows[hits]] = True
    return found
