"""What a handler knows about a request besides its body."""

from __future__ import annotations

from typing import NamedTuple


class RequestContext(NamedTuple):
    """`now_ms` is the steady clock's and `now_wall_ms` the wall clock's time at which the request was taken up."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    connection_id: str
    client_host: str
    now_ms: float
    now_wall_ms: int


class CloseConnection(Exception):
    """Raised by a handler that has no answer: the connection is closed. The text says why."""
