"""Parsers of pieces of input, chosen by the options of a command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.cli.produce.delimited import Shape, records_of
from kcli.cli.produce.feed import Parse
from kcli.cli.produce.tally import WriteTally

if TYPE_CHECKING:
    from kcli.protocol.records.record import NewRecord


def raw_parser(shape: Shape, timestamp_ms: int | None) -> Parse:
    """Each piece is a record of this shape. `timestamp_ms` None: the time now."""
    return lambda pieces, now_ms: records_of(pieces, shape, now_ms if timestamp_ms is None else timestamp_ms)


def jsonl_parser(headers: Sequence[tuple[str, bytes | None]], timestamp_ms: int | None, tally: WriteTally) -> Parse:
    """Each piece is a record in JSON, which gets `headers` besides its own; what is not one is told to `tally`."""
    from kcli.cli.produce.jsonl import record_of

    seen = 0

    def parse(pieces: Sequence[bytes], now_ms: int) -> list[NewRecord]:
        nonlocal seen
        records = []
        for piece in pieces:
            seen += 1
            if not piece.strip():
                continue
            try:
                record = record_of(piece, now_ms)
            except ValueError as problem:
                tally.read += 1
                tally.fail("not JSON", f"line {seen} is not a record in JSON: {problem}")
                continue
            if timestamp_ms is not None:
                record = record._replace(timestamp_ms=timestamp_ms)
            records.append(record._replace(headers=[*record.headers, *headers]) if headers else record)
        return records

    return parse
