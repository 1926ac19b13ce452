"""Filters of records: regular expressions over values, keys and headers, as masks over columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import ConfigError
from kcli.text import compile_regex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kcli.cli.consume.options import FilterOptions
    from kcli.cli.consume.text_columns import HeaderTable, Ints
    from kcli.protocol.records.columns import RecordColumns

    Mask = NDArray[np.bool_]


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
        return {name: pattern for name, pattern in patterns.items() if pattern is not None and not self.invert}


def compile_filters(options: FilterOptions) -> Filters | None:
    """Return the filters of the options; None if there are none. Raise ConfigError for an invalid expression."""
    grep, key, headers = options.grep, options.key, options.header or ()
    if grep is None and key is None and not headers:
        if options.invert:
            raise ConfigError("--invert requires --grep, --key or --header")
        return None
    return Filters(_compiled("--grep", grep), _compiled("--key", key), tuple(map(_header, headers)), options.invert)


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
        return compile_regex(expression.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise ConfigError(f"{option}: {expression!r} is not a valid regular expression: {error}") from error


def matching_rows(filters: Filters, columns: RecordColumns) -> Mask:
    """Return the mask of the records that match."""
    import numpy as np

    from kcli.cli.consume.text_columns import header_table

    mask: Mask = np.ones(len(columns), np.bool_)
    if filters.key is not None:
        _keep_matches(filters.key, columns.key_starts, columns.key_lengths, columns, mask)
    if filters.value is not None:
        _keep_matches(filters.value, columns.value_starts, columns.value_lengths, columns, mask)
    if filters.headers and columns.header_counts.any():
        table = header_table(columns)
        for name, pattern in filters.headers:
            mask &= _has_header(table, name, pattern, len(columns))
    elif filters.headers:
        mask[:] = False
    return ~mask if filters.invert else mask


def _keep_matches(pattern: re.Pattern[bytes], starts: Ints, lengths: Ints, columns: RecordColumns, mask: Mask) -> None:
    """Clear the mask of records whose key or value does not match; only records in the mask are searched."""
    from kcli.cli.consume.text_columns import Spans
    from kcli.cli.consume.text_search import search_of

    rows = (mask & (lengths >= 0)).nonzero()[0]
    matches = search_of(pattern).matches(Spans(columns.buffer, starts[rows], lengths[rows]))
    mask[:] = False
    mask[rows[matches]] = True


def _has_header(table: HeaderTable, name: str, pattern: re.Pattern[bytes], count: int) -> Mask:
    """Return the mask of the records that have a header of this name with a matching value."""
    import numpy as np

    from kcli.cli.consume.text_search import search_of

    rows = np.flatnonzero(table.names.equal(name.encode("utf-8", "surrogateescape")) & ~table.is_null)
    matches = search_of(pattern).matches(table.values.take(rows))
    mask: Mask = np.zeros(count, np.bool_)
    mask[table.records[rows[matches]]] = True
    return mask
