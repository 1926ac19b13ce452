"""Decode keys and values of records, test --where, apply --select, and count failures.

The order of all tests of a record: --header, --key and --grep decide on its bytes; then keys and values are decoded;
then --where decides; -n counts the remaining records; --select makes the output.

A failure concerns one record and ends nothing. A key or value that does not decode is printed raw beside its error; in
expressions it is null. A record for which --where fails is not printed, and one for which --select fails prints
nothing, as with jq. All failures are counted, and make the exit status 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kcli.cli import exit_status
from kcli.cli.consume.decoded_columns import DecodedColumns, schema_headers
from kcli.cli.consume.expressions import select, where
from kcli.cli.consume.render_structured import json_objects
from kcli.cli.consume.text_columns import joined_spans
from kcli.cli.options import SIDES, by_side
from kcli.errors import ConfigError
from kcli.schemas.serdes import WITH_SCHEMA, DecodeError, make_decoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kcli.cli.consume.expressions import Expression, Results
    from kcli.cli.consume.options import DecodeOptions
    from kcli.errors import TimeoutExpired
    from kcli.protocol.records.columns import RecordColumns
    from kcli.schemas.registry_client import SchemaRegistry
    from kcli.schemas.serdes import Decoder, Side
    from kcli.structs import TopicPartition

_REPORTED_AT_ONCE = 10

_WITH_HEADERS = (*WITH_SCHEMA, "auto")
NOTHING_UNPRINTED: Mapping[TopicPartition, int] = {}


def make_decoding(
    options: DecodeOptions,
    registry: Callable[[], SchemaRegistry | None],
    report: Callable[[str], None],
    *,
    shows_errors: bool,
    limit_s: float,
) -> Decoding:
    """Return the decoders and the expressions of the options. Raise ConfigError.

    `limit_s` is the longest time that an expression may take for a record.
    `registry` returns the schema registry of the settings; it is called only if a decoder needs one. For the others,
    see `Decoding`.
    """
    names = by_side("-s", options.serde or (), SIDES)
    files = by_side("--schema-file", options.schema_file or (), ("value",))
    messages = by_side("--message", options.message or (), ("value",))
    for option, given in (("--schema-file", files), ("--message", messages)):
        for side in given.keys() - names.keys():
            raise ConfigError(f"{option} for the {side} requires a decoder, such as -s {side}=avro")
    decoders = {
        side: make_decoder(
            name,
            side,
            registry=registry() if name in (*WITH_SCHEMA, "auto") else None,
            schema_file=files.get(side),
            message=messages.get(side),
        )
        for side, name in names.items()
    }
    return Decoding(
        decoders,
        where=None if options.where is None else where(options.where, limit_s),
        select=None if options.select is None else select(options.select, limit_s),
        shows_errors=shows_errors,
        report=report,
    )


class _Failure(NamedTuple):
    """A failure of one record. `kind` is key, value, --where or --select."""

    kind: str
    tp: TopicPartition
    offset: int
    message: str

    def __str__(self) -> str:
        return f"{self.tp.topic} {self.tp.partition} offset {self.offset}: {self.kind}: {self.message}"


class Decoding:
    """Decoders by side (key, value) and expressions, and the failures so far.

    `part_rows` is the number of records for one `apply`: it bounds memory and the time until the first output.
    `report` reports a sentence to the user. Failures are reported when they occur, up to ten of each kind; with
    `shows_errors` the output has the errors of keys and values beside them, and they are reported at the end only.
    """

    part_rows = 1024

    def __init__(
        self,
        decoders: Mapping[Side, Decoder],
        *,
        where: Expression | None = None,
        select: Expression | None = None,
        shows_errors: bool = False,
        report: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.sides = decoders.keys()
        self._decoders = decoders
        self._json_sides = {side for side, decoder in decoders.items() if decoder.name == "json"}
        self._where = where
        self._select = select
        self._shows_errors = shows_errors
        self._report = report
        self._pending: list[_Failure] = []
        self._first: dict[str, _Failure] = {}
        self.counts: dict[str, int] = {}
        #: The row of the last `apply` for which an expression takes too long, and the error; None without one.
        self.late: tuple[int, TimeoutExpired] | None = None

    def apply(self, tp: TopicPartition, columns: RecordColumns) -> DecodedColumns:
        """Return the records for which --where is true, decoded and with the results of --select.

        They end before a record that is `late`. Call `count_failures` when it is known which of them are printed. Raise
        RegistryError.
        """
        self.late = None
        decoded: dict[str, list[Any]] = {
            side: decoder.decode(
                tp.topic,
                columns.keys() if side == "key" else columns.values(),
                schema_headers(columns, side) if decoder.name in _WITH_HEADERS else None,
            )
            for side, decoder in self._decoders.items()
        }
        records = DecodedColumns(columns, decoded, json_sides=self._json_sides)
        for side, values in decoded.items():
            if DecodeError in set(map(type, values)):
                self._fail(side, tp, columns, records.errors(side))
        if self._where is not None or self._select is not None:
            objects = joined_spans(json_objects(tp, records, self.sides), len(records))
            records.lines = [text.decode() for text in objects.texts()]
        rows = np.arange(len(records))
        if self._where is not None:
            results = self._evaluated(self._where, tp, records, rows)
            rows = np.flatnonzero([done and bool(result) for done, result in results])
            if len(rows) < len(records):
                records = records.take(rows)
        if self._select is not None:
            results = self._evaluated(self._select, tp, records, rows)
            if len(results) < len(records):
                records = records.take(slice(0, len(results)))
            records.selected = [result if done else [] for done, result in results]
        return records

    def _evaluated(
        self, expression: Expression, tp: TopicPartition, records: DecodedColumns, rows: NDArray[np.intp]
    ) -> Results:
        """Return the result of the expression for each record before one that is late, and note the failures.

        `rows` are the rows of the records in the columns of `apply`.
        """
        assert records.lines is not None

        def place(row: int) -> str:
            topic, partition = _owner(tp, records, row)
            return f"{topic} {partition} offset {int(records.offsets[row])}"

        results, late = expression.results(records.lines, place)
        if late is not None:
            self.late = int(rows[len(results)]), late
        errors = [None if done else self._with_hint(result) for done, result in results]
        self._fail(expression.option, tp, records, errors)
        return results

    def _with_hint(self, message: str) -> str:
        message = message.split("\n", 1)[0]
        if message.startswith("Cannot index string") and "value" not in self._decoders:
            message += " (a value is a text without -s; -s value=json decodes JSON)"
        return message

    # --- failures

    def _fail(self, kind: str, tp: TopicPartition, columns: RecordColumns, errors: list[str | None]) -> None:
        for row, error in enumerate(errors):
            if error is not None:
                self._pending.append(_Failure(kind, _owner(tp, columns, row), int(columns.offsets[row]), error))

    def count_failures(self, first_unprinted: Mapping[TopicPartition, int] = NOTHING_UNPRINTED) -> None:
        """Count and report the failures of the last `apply`, of records below the first unprinted offset."""
        pending, self._pending = self._pending, []
        for failure in pending:
            if failure.offset >= first_unprinted.get(failure.tp, failure.offset + 1):
                continue
            kind = failure.kind
            count = self.counts[kind] = self.counts.get(kind, 0) + 1
            self._first.setdefault(kind, failure)
            if count <= _REPORTED_AT_ONCE and not self._is_shown(kind):
                rest = "; further ones are only counted" if count == _REPORTED_AT_ONCE else ""
                self._report(f"{failure}{rest}")

    def _is_shown(self, kind: str) -> bool:
        """Return whether the output has the error beside the record."""
        return self._shows_errors and kind in SIDES

    def report_summary(self) -> None:
        """Report the number of failures of each kind; for errors that were not reported before, also the first one."""
        for kind, count in self.counts.items():
            plural = "" if count == 1 else "s"
            text = f"{kind} failed for {count:,} record{plural}"
            if kind in SIDES:
                text = f"{count:,} {kind}{plural} did not decode"
            first = f"; the first: {self._first[kind]}" if self._is_shown(kind) else ""
            self._report(text + first)

    def status(self, status: int) -> int:
        """Return the exit status of a read that would end with `status` without failures."""
        if not self.counts or status == exit_status.INTERRUPTED:
            return status
        return exit_status.FAILED


def _owner(tp: TopicPartition, columns: RecordColumns, row: int) -> TopicPartition:
    """Return the partition of a record; those of merged partitions differ."""
    return tp if columns.partitions is None else tp._replace(partition=int(columns.partitions[row]))
