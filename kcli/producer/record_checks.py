"""Checks of the records that a caller passes in. Pure.

A record that cannot be encoded would make the encoding of its whole batch fail, so it is refused before it is added.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcli.protocol.records.record import Headers, NewRecords

_BYTES_OR_NULL = {bytes, type(None)}
_LATEST_MS = 2**63 - 1


def checked_records(records: NewRecords) -> NewRecords:
    """Return the records, with bytes for bytearrays and memoryviews. TypeError or ValueError for an invalid one."""
    count = len(records)
    for name in ("keys", "headers", "timestamps_ms"):
        column = getattr(records, name)
        if column is not None and not isinstance(column, int) and len(column) != count:
            raise ValueError(f"records have {count} values, but {len(column)} {name}")
    _check_timestamps(records.timestamps_ms)
    values, keys = _column("value", records.values), records.keys
    keys = None if keys is None else _column("key", keys)
    headers = None if records.headers is None else _headers_column(records.headers)
    if values is records.values and keys is records.keys and headers is records.headers:
        return records
    return NewRecords(values, records.timestamps_ms, keys, headers)


def _column(kind: str, column: Sequence[bytes | None]) -> Sequence[bytes | None]:
    if set(map(type, column)) <= _BYTES_OR_NULL:
        return column
    return [as_bytes(kind, data) for data in column]


def as_bytes(kind: str, data: object) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)  # the caller may change it before the record is encoded
    advice = "; encode it first" if isinstance(data, str) else ""
    raise TypeError(f"the {kind} of a record is bytes or None, not {type(data).__name__}{advice}")


def _headers_column(column: Sequence[Headers]) -> Sequence[Headers]:
    """Check adjacent headers that are the same object once."""
    checked: list[Headers] = []
    last: Headers | None = None
    result: Headers = ()
    for headers in column:
        if headers is not last:
            last, result = headers, checked_headers(headers)
        checked.append(result)
    return checked


def checked_headers(headers: object) -> Headers:
    """Return a copy, because the caller may change its list before the record is encoded."""
    if not isinstance(headers, Sequence) or isinstance(headers, str | bytes):
        advice = "; use list(headers.items())" if isinstance(headers, dict) else ""
        raise TypeError(f"the headers of a record are a list of (name, value), not {type(headers).__name__}{advice}")
    return [_header(header) for header in headers]


def _header(header: object) -> tuple[str, bytes | None]:
    if not isinstance(header, tuple | list) or len(header) != 2:
        raise TypeError(f"a header of a record is (name, value), not {header!r}")
    name, value = header
    if not isinstance(name, str):
        raise TypeError(f"the name of a header is a str, not {type(name).__name__}")
    name.encode()
    return name, as_bytes("header value", value)


def _check_timestamps(times_ms: int | Sequence[int]) -> None:
    if isinstance(times_ms, int):
        check_timestamp(times_ms)
    elif not isinstance(times_ms, Sequence):
        raise TypeError(f"the timestamps of records are an int or a list, not {type(times_ms).__name__}")
    elif times_ms and not (set(map(type, times_ms)) == {int} and min(times_ms) >= -1 and max(times_ms) <= _LATEST_MS):
        for time_ms in times_ms:
            check_timestamp(time_ms)


def check_timestamp(timestamp_ms: object) -> None:
    if not isinstance(timestamp_ms, int):
        raise TypeError(f"the timestamp of a record is an int, ms since the epoch, not {type(timestamp_ms).__name__}")
    if not -1 <= timestamp_ms <= _LATEST_MS:
        raise ValueError(f"the timestamp of a record is -1 to 2**63 - 1; got {timestamp_ms}")
