"""Decoded records in the read loop: the order of filters, decoding, --where, -n and --select, and counted failures."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kcli.cli.consume.decoding import Decoding, make_decoding
from kcli.cli.consume.filters import compile_filters
from kcli.cli.consume.options import DecodeOptions, FilterOptions
from kcli.cli.consume.printed_records import Limits, PrintedRecords
from kcli.cli.consume.printing import PrintOptions, RenderOptions, make_renderer
from kcli.cli.consume.read_loop import RecordPrinter, print_records
from kcli.cli.environment import StopSignals
from kcli.clock import ManualClock
from kcli.consumer.coverage import StopReason
from kcli.errors import ConfigError, KcliError, TimeoutExpired
from kcli.protocol.records.columns import RecordColumns
from kcli.schemas.serdes import DecodeError
from kcli.structs import TopicPartition
from tests.cli.consume.data import columns, record
from tests.needs import needs_package

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Polls:
    """A source whose polls are scripted."""

    def __init__(self, *batches: tuple[TopicPartition, RecordColumns]) -> None:
        self.batches = list(batches)

    @property
    def done(self) -> bool:
        return not self.batches

    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]:
        return [self.batches.pop(0)]


class Read:
    """One read of `batches` with decoding, and its results."""

    def __init__(
        self,
        *batches: RecordColumns,
        output: str | None = "jsonl",
        limit: int | None = None,
        grep: str | None = None,
        part_rows: int = 1024,
        limit_s: float = 60.0,
        may_fail: bool = False,
        interrupt: Callable[[list[bytes]], StopSignals] = lambda written: StopSignals(lambda: None),
        **options: Any,
    ) -> None:
        needs_package("jq")
        self.reported: list[str] = []
        self.decoding = make_decoding(
            DecodeOptions(**{"serde": ["value=json"], **options}),
            lambda: None,
            self.reported.append,
            shows_errors=output is not None,
            limit_s=limit_s,
        )
        self.decoding.part_rows = part_rows
        selects = options.get("select") is not None
        renderer = make_renderer(RenderOptions(output, decoders=self.decoding.sides, selects=selects))
        self.written: list[bytes] = []
        self.holds: list[tuple[TopicPartition, int]] = []
        self.printed = PrintedRecords()
        filters = compile_filters(FilterOptions(grep))
        printer = RecordPrinter(
            PrintOptions(renderer, filters, Limits(limit), decoding=self.decoding),
            lambda data: self.written.append(bytes(data)),
            self.printed,
            interrupt(self.written),
            lambda tp, offset: self.holds.append((tp, offset)),
        )
        polls = Polls(*((P0, batch) for batch in batches))
        self.error: KcliError | None = None
        try:
            self.stop = print_records(polls, printer, ManualClock(), offsets_passed=lambda: 0)
        except KcliError as error:
            if not may_fail:
                raise
            self.error = error

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in b"".join(self.written).splitlines()]

    def members(self, name: str) -> list[Any]:
        return [line[name] for line in self.lines]


def orders(*ids: int) -> RecordColumns:
    return columns(*(record(b'{"id": %d}' % number, b"k%d" % number) for number in ids))


def test_a_decoded_value_is_nested_in_json() -> None:
    read = Read(columns(record(b'{\n "id": 9007199254740993, "a": [1, null]\n}', b"k"), record(None)))
    assert read.members("value") == [{"id": 9007199254740993, "a": [1, None]}, None]
    assert read.members("key") == ["k", None]
    assert read.decoding.status(0) == 0


@pytest.mark.parametrize(("output", "where"), [("jsonl", None), ("jsonl", ".value.n"), (None, None)])
def test_json_values_keep_all_digits_and_have_no_line_break(output: str | None, where: str | None) -> None:
    batch = columns(record(b' {"n": 12345678901234567890.1230}\t'), record(b'{\r\n"n": 1}'))
    first, second = b"".join(Read(batch, output=output, where=where).written).splitlines()
    assert b'{"n": 12345678901234567890.1230}' in first
    assert b'{"n":1}' in second


def test_a_value_that_does_not_decode_is_printed_raw_beside_its_error_and_counted() -> None:
    read = Read(columns(record(b"{"), record(b"1"), record(b"\xff")))
    broken, good, binary = read.lines
    assert (broken["value"], broken["value_raw"], "value_raw_encoding" in broken) == (None, "{", False)
    assert broken["value_error"].startswith("json: ")
    assert (good["value"], "value_error" in good) == (1, False)
    assert (binary["value_raw"], binary["value_raw_encoding"]) == ("/w==", "base64")
    assert (read.decoding.counts, read.reported) == ({"value": 2}, [])
    read.decoding.report_summary()
    [summary] = read.reported
    assert summary.startswith("2 values did not decode; the first: orders 0 offset 0: value: json: ")


@pytest.mark.parametrize(("status", "with_failures"), [(0, 1), (5, 1), (130, 130)])
def test_a_failure_makes_the_exit_status_1_unless_the_read_was_interrupted(status: int, with_failures: int) -> None:
    assert Read(orders(1)).decoding.status(status) == status
    assert Read(columns(record(b"{"))).decoding.status(status) == with_failures


def test_failures_are_reported_at_once_in_raw_output_and_ten_of_each_kind_at_most() -> None:
    read = Read(columns(*[record(b"{")] * 12), output=None)
    assert b"".join(read.written) == b"{\n" * 12
    assert len(read.reported) == 10
    assert read.reported[0].startswith("orders 0 offset 0: value: json: ")
    assert read.reported[9].endswith("; further ones are only counted")
    read.decoding.report_summary()
    assert read.reported[10] == "12 values did not decode"


def test_where_selects_records_and_n_counts_them() -> None:
    read = Read(orders(1, 2, 3, 4, 5, 6), where=".value.id % 2 == 0", limit=2)
    assert [value["id"] for value in read.members("value")] == [2, 4]
    assert read.stop is StopReason.RECORD_LIMIT
    assert read.printed.total.records == 2
    assert read.printed.first_unprinted == {P0: 5}


def test_where_is_true_if_any_result_is_neither_false_nor_null() -> None:
    assert Read(orders(1, 2), where="false, .value.id == 2").members("offset") == [1]
    assert Read(orders(1, 2), where="empty").written == []
    assert Read(orders(1, 2), where=".key, null # comment").members("offset") == [0, 1]


def test_filters_on_bytes_come_before_decoding() -> None:
    read = Read(columns(record(b"{"), record(b'{"id": 1}')), grep="id")
    assert read.members("offset") == [1]
    assert read.decoding.counts == {}


def test_a_record_that_does_not_decode_is_null_with_its_error_in_expressions() -> None:
    batch = columns(record(b"{"), record(b'{"id": 1}'))
    assert Read(batch, where=".value.id == 1").members("offset") == [1]
    assert Read(batch, where=".value_error").members("offset") == [0]
    assert Read(batch, select=".value.id").lines == [None, 1]
    assert Read(batch, where=".value.id == 1").decoding.counts == {"value": 1}


def test_a_record_for_which_an_expression_fails_is_counted_and_not_printed() -> None:
    batch = columns(record(b'"text"'), record(b'{"id": 1}'))
    read = Read(batch, where=".value.id == 1")
    assert read.members("offset") == [1]
    assert read.reported == ['orders 0 offset 0: --where: Cannot index string with string ("id")']
    assert read.decoding.status(0) == 1
    read = Read(batch, select=".value.id")
    assert read.lines == [1]
    assert read.decoding.counts == {"--select": 1}


def test_an_expression_on_values_that_are_not_decoded_hints_at_the_option() -> None:
    read = Read(orders(1), serde=[], where=".value.id == 1")
    assert read.reported[0].endswith("(a value is a text without -s; -s value=json decodes JSON)")


def test_select_prints_all_results_with_all_digits() -> None:
    batch = columns(record(b'{"id": 9007199254740993}'), record(b'{"id": 2}'))
    read = Read(batch, select="{offset, id: .value.id}, .key")
    assert b"".join(read.written) == b'{"offset":0,"id":9007199254740993}\nnull\n{"offset":1,"id":2}\nnull\n'
    assert read.printed.total.records == 2
    raw = Read(columns(record(b'{"name": "a\\nb", "n": [1]}')), output=None, select=".value.name, .value")
    assert b"".join(raw.written) == b'a\nb\n{"name":"a\\nb","n":[1]}\n'


def test_failures_of_records_after_the_limit_are_not_counted() -> None:
    batch = columns(record(b"1"), record(b"2"), record(b"{"))
    assert Read(batch, limit=1).decoding.counts == {}
    assert Read(batch, limit=2).decoding.counts == {}
    assert Read(batch).decoding.counts == {"value": 1}


def test_a_batch_is_decoded_in_parts_and_nothing_after_the_limit() -> None:
    read = Read(orders(*range(10)), part_rows=3, limit=4)
    assert read.members("offset") == [0, 1, 2, 3]
    assert read.holds == [(P0, 0), (P0, 3)]
    assert read.printed.first_unprinted == {P0: 4}
    read = Read(orders(*range(10)), part_rows=3, limit=3)
    assert (read.holds, read.printed.first_unprinted) == ([(P0, 0)], {P0: 3})


class StopsAfter(StopSignals):
    """A signal arrives while the second part is being written."""

    def __init__(self, written: list[bytes]) -> None:
        super().__init__(lambda: None)
        self.written = written

    @property
    def requested(self) -> bool:  # type: ignore[override]
        return len(self.written) > 1

    @requested.setter
    def requested(self, value: bool) -> None:
        pass


def test_a_signal_ends_the_read_after_a_part() -> None:
    read = Read(orders(*range(10)), orders(11), part_rows=3, interrupt=StopsAfter)
    assert read.members("offset") == [0, 1, 2, 3, 4, 5]
    assert read.stop is StopReason.INTERRUPTED
    assert read.printed.first_unprinted == {P0: 6}
    last = Read(orders(*range(10)), part_rows=3, interrupt=StopsAfter)
    assert (last.stop, last.printed.first_unprinted) == (StopReason.INTERRUPTED, {P0: 6})


def test_the_first_signal_ends_an_expression_that_takes_for_ever() -> None:
    """jq is C code that holds Python's lock: no handler of a signal runs before it returns."""

    def interrupt(written: list[bytes]) -> StopSignals:
        def signal_in_second_part() -> None:
            while not written:
                time.sleep(0.01)
            time.sleep(0.3)  # a signal before the expression has begun would end the read, too
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=signal_in_second_part, daemon=True).start()
        return signals

    with StopSignals(lambda: None) as signals:
        where = "if .offset == 2 then last(repeat(1)) else true end"
        read = Read(orders(1, 2, 3, 4), part_rows=2, where=where, interrupt=interrupt)
    assert (read.stop, read.members("offset")) == (StopReason.INTERRUPTED, [0, 1])
    assert read.printed.first_unprinted == {P0: 2}


@pytest.mark.parametrize("option", ["where", "select"])
def test_an_expression_takes_no_longer_than_the_timeout_for_a_record(option: str) -> None:
    with pytest.raises(
        TimeoutExpired, match=rf"^--{option} takes longer than 0.2 s \(--timeout\) for orders 0 offset 1$"
    ):
        Read(orders(1, 2), limit_s=0.2, **{option: "if .offset == 1 then last(repeat(1)) else 1 end"})


ENDLESS = "if .offset == 3 then last(repeat(1)) elif .offset == 2 then error else .offset != 0 end"


@pytest.mark.parametrize("part_rows", [2, 1024])
def test_the_matches_before_a_record_that_takes_too_long_are_printed(part_rows: int) -> None:
    read = Read(orders(0, 1, 2, 3, 4), may_fail=True, limit_s=0.2, part_rows=part_rows, where=ENDLESS)
    assert isinstance(read.error, TimeoutExpired)
    assert "orders 0 offset 3" in str(read.error)
    assert read.members("offset") == [1]
    assert read.printed.first_unprinted == {P0: 3}
    assert read.holds[-1] == (P0, 3), "nothing is committed from there on"
    assert read.decoding.counts == {"--where": 1}


def test_the_results_of_select_before_a_record_that_takes_too_long_are_printed() -> None:
    select = "if .offset == 3 then last(repeat(1)) else .offset end"
    read = Read(orders(0, 1, 2, 3, 4), may_fail=True, limit_s=0.2, where=".offset != 1", select=select)
    assert isinstance(read.error, TimeoutExpired)
    assert read.lines == [0, 2]
    assert read.printed.first_unprinted == {P0: 3}


def test_a_limit_that_is_reached_before_a_record_that_takes_too_long_is_no_failure() -> None:
    read = Read(orders(0, 1, 2, 3, 4), limit=1, limit_s=0.2, where=ENDLESS)
    assert (read.stop, read.members("offset")) == (StopReason.RECORD_LIMIT, [1])


def test_records_after_one_that_takes_too_long_are_not_covered() -> None:
    merged = columns(record(b"1"), record(b"2"), record(b"3"), record(b"4"))
    import numpy as np

    merged.partitions = np.array([0, 0, 1, 0])
    where = "if .partition == 1 then last(repeat(1)) else true end"
    read = Read(merged, orders(5), may_fail=True, limit_s=0.2, where=where)
    assert read.members("offset") == [0, 1]
    assert read.printed.first_unprinted == {P1: 2, P0: 3}


def test_merged_records_keep_the_partition_of_each_failure() -> None:
    merged = columns(record(b"1"), record(b"{"), record(b"3"))
    import numpy as np

    merged.partitions = np.array([0, 1, 0])
    read = Read(merged)
    assert read.members("partition") == [0, 1, 0]
    read.decoding.report_summary()
    assert "orders 1 offset 1: value: json" in read.reported[0]


class Refusing:
    """A decoder whose registry cannot be reached after the first part."""

    name = "avro"

    def __init__(self) -> None:
        self.schema_headers: list[Any] = []

    def decode(self, topic: str, payloads: Any, schema_headers: Any = None) -> list[Any]:
        self.schema_headers.append(schema_headers)
        if len(self.schema_headers) > 1:
            raise KcliError("registry: not reachable")
        return [DecodeError("unknown id") for _ in payloads]


def test_a_decoder_gets_the_last_header_with_the_id_of_the_schema() -> None:
    decoder = Refusing()
    Decoding({"value": decoder}).apply(
        P0, columns(record(headers=[("__value_schema_id", b"1"), ("__value_schema_id", b"2")]), record())
    )
    assert decoder.schema_headers == [[b"2", None]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"serde": ["value=avrro"]}, "value: 'avrro' is not a known format; use string, json, hex"),
        ({"serde": ["value="]}, "-s: 'value=' is not valid; use -s [key=|value=]..."),
        ({"serde": ["json", "key=q"]}, "-s: key is given twice, as json and as q"),
        ({"schema_file": ["a.avsc"]}, "--schema-file for the value requires a decoder, such as -s value=avro"),
        ({"message": ["key=M"], "serde": ["value=json"]}, "--message for the key requires a decoder"),
        (
            {"where": ".["},
            "--where: '.[' is not a valid jq expression: syntax error, unexpected end of file at line 1, col",
        ),
        (
            {"select": "foo(1)"},
            "--select: 'foo(1)' is not a valid jq expression: foo/1 is not defined at line 1, column 1",
        ),
    ],
)
def test_options_that_are_not_valid(options: dict[str, Any], message: str) -> None:
    needs_package("jq")
    with pytest.raises(ConfigError) as error:
        make_decoding(DecodeOptions(**options), lambda: None, lambda sentence: None, shows_errors=False, limit_s=60.0)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
