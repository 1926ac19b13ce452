"""Filters of records: regular expressions over values, keys and headers, as masks over columns."""

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

_SPECIAL_CHARACTERS = frozenset(rb"\.^$*+?{}[]|()")


class Filters(NamedTuple):
    """All of them must match; with `invert`, not all of them. A null matches no expression."""

    value: re.Pattern[bytes] | None = None
    key: re.Pattern[bytes] | None = None
    headers: tuple[tuple[str, re.Pattern[bytes]], ...] = ()
    invert: bool = False

    @property
    def highlights(self) -> dict[str, re.Pattern[bytes]]:
        """The expressions that the printed keys and values match, by field."""
        patterns = {"value": self.value, "key": self.key}
        return {name: it for name, it in patterns.items() if it is not None and not self.invert}


def compile_filters(grep: str | None, key: str | None, headers: Sequence[str], *, invert: bool) -> Filters | None:
    """Return the filters of the options; None if there are none. Raise ConfigError for an invalid expression."""
    if grep is None and key is None and not headers:
        if invert:
            raise ConfigError("--invert requires --grep, --key or --header")
        return None
    return Filters(_compiled("--grep", grep), _compiled("--key", key), tuple(map(_header, headers)), invert)


def _header(text: str) -> tuple[str, re.Pattern[bytes]]:
    name, equals, expression = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"--header: {text!r} is not valid; use NAME=REGEX")
    pattern = _compiled("--header", expression)
    assert pattern is not None
    return name, pattern


def _compiled(option: str, expression: str | None) -> re.Pattern[bytes] | None:
    if expression is None:
        return None
    try:
        return re.compile(expression.encode("utf-8", "surrogateescape"))
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"{option}: {expression!r} is not a valid regular expression: {error}") from error


def matching_rows(filters: Filters, columns: RecordColumns) -> Mask:
    """Return the mask of the records that match."""
    import numpy as np

    mask: Mask = np.ones(len(columns), np.bool_)
    if filters.key is not None:
        mask &= _search(filters.key, columns.buffer, columns.key_starts, columns.key_lengths)
    if filters.value is not None:
        mask &= _search(filters.value, columns.buffer, columns.value_starts, columns.value_lengths)
    for name, pattern in filters.headers:
        for row in np.flatnonzero(mask).tolist():
            mask[row] = _has_header(columns, row, name, pattern)
    return ~mask if filters.invert else mask


def _has_header(columns: RecordColumns, row: int, name: str, pattern: re.Pattern[bytes]) -> bool:
    return any(
        header == name and value is not None and pattern.search(value) is not None
        for header, value in columns.headers(row)
    )


def _search(pattern: re.Pattern[bytes], buffer: Any, starts: Any, lengths: Any) -> Mask:
    import numpy as np

    if not _SPECIAL_CHARACTERS & set(pattern.pattern):
        matches = _search_literal(pattern.pattern, buffer, starts, lengths)
        if matches is not None:
            return matches
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
    """Search for a literal in the whole buffer, jumping from each span with a match to the next span.

    None if the spans overlap or do not ascend.
    """
    import numpy as np

    if not literal:
        return np.asarray(lengths >= 0)
    matches: Mask = np.zeros(len(starts), np.bool_)
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
    matches[rows[hits]] = True
    return matches
