"""The renderers of JSON, csv, tsv and tables: safe for any bytes; a null differs from an empty value."""

import base64
import csv
import io
import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.cli.consume.options import RawOptions
from kcli.cli.consume.printing import RenderOptions, make_renderer
from kcli.cli.consume.renderer import Renderer
from kcli.protocol.records.columns import RecordColumns
from kcli.structs import TopicPartition
from tests.cli.consume.data import NOON, ORDERS_3, columns, record

MIXED = columns(
    record(b'say "hi"\n\\', b"k1", headers=[("a", b"1"), ("b", None), ("a", b"\x00\xff")]),
    record(None, b""),
    record(b"", None),
    record(b"\xc3\xbc\x1b[2J", b"\xff"),
    base_offset=7,
)


def whole(renderer: Renderer, *batches: RecordColumns, coverage: Any = ()) -> bytes:
    parts = [renderer.begin, *(bytes(renderer.render(ORDERS_3, batch)) for batch in batches), renderer.end(coverage)]
    return b"".join(parts)


def lines(batch: RecordColumns, **options: Any) -> list[dict[str, Any]]:
    text = whole(make_renderer(RenderOptions("jsonl", **options)), batch).decode()
    assert text.endswith("\n")
    return [json.loads(line) for line in text[:-1].split("\n")]


def test_a_line_of_json() -> None:
    first, second, third, fourth = lines(MIXED)
    assert first == {
        "topic": "orders",
        "partition": 3,
        "offset": 7,
        "timestamp": NOON,
        "timestamp_type": "create",
        "key": "k1",
        "value": 'say "hi"\n\\',
        "headers": [
            {"name": "a", "value": "1"},
            {"name": "b", "value": None},
            {"name": "a", "value": "AP8=", "value_encoding": "base64"},
        ],
    }
    assert (second["key"], second["value"], second["headers"]) == ("", None, [])
    assert (third["key"], third["value"]) == (None, "")
    assert (fourth["key"], fourth["key_encoding"], fourth["value"]) == ("/w==", "base64", "ü\x1b[2J")
    assert "value_encoding" not in fourth
    assert [line["offset"] for line in (first, second, third, fourth)] == [7, 8, 9, 10]


def test_the_timestamp_type_append_is_shown() -> None:
    [line] = lines(columns(record(), timestamp_type="append", max_timestamp_ms=5))
    assert (line["timestamp"], line["timestamp_type"]) == (5, "append")


DATA = st.one_of(st.none(), st.binary(max_size=8), st.text(max_size=8).map(str.encode), st.just(b"\x1e"))


def as_bytes(item: dict[str, Any], name: str) -> bytes | None:
    text = item[name]
    if text is None:
        return None
    return base64.b64decode(text) if item.get(f"{name}_encoding") == "base64" else text.encode()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(DATA, DATA, DATA), min_size=1, max_size=12), st.booleans())
def test_the_bytes_can_be_restored_from_json(rows, terminal):
    batch = columns(*(record(value, key, headers=[("h", header)]) for key, value, header in rows))
    read = lines(batch, terminal=terminal)
    got = [(as_bytes(one, "key"), as_bytes(one, "value"), as_bytes(one["headers"][0], "value")) for one in read]
    assert got == rows


TEXT = st.one_of(DATA, st.text('a,"\n\r\t\\\x1e\x00\u00fc', max_size=8).map(str.encode))
HEADERS = st.lists(st.tuples(st.text('ab"\\\n', max_size=4), TEXT), max_size=3)


def text_of(data: bytes | None) -> tuple[str, str]:
    """Return bytes as text, and its encoding."""
    try:
        return ("", "null") if data is None else (data.decode(), "utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(data or b"").decode(), "base64"


def json_headers_of(headers: list[tuple[str, bytes | None]]) -> str:
    objects = []
    for name, value in headers:
        text, encoding = text_of(value)
        more = {"value_encoding": encoding} if encoding == "base64" else {}
        objects.append({"name": name, "value": None if value is None else text, **more})
    return json.dumps(objects, ensure_ascii=False)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT, HEADERS), min_size=1, max_size=12))
def test_rows_are_those_of_a_plain_writer(rows):
    batch = columns(*(record(value, key, headers=headers) for key, value, headers in rows), base_offset=98)
    texts = []
    for n, (key, value, headers) in enumerate(rows):
        times = [str(NOON), "2024-01-31T12:00:00.000Z", "create"]
        shown_headers = json_headers_of(headers) if headers else ""
        texts.append(["orders", "3", str(98 + n), *times, *text_of(key), *text_of(value), shown_headers])
    expected = "".join(",".join(map(csv_quoted, row)) + "\n" for row in texts)
    assert bytes(make_renderer(RenderOptions("csv")).render(ORDERS_3, batch)).decode() == expected
    expected = "".join("\t".join(map(tsv_escaped, row)) + "\n" for row in texts)
    assert bytes(make_renderer(RenderOptions("tsv")).render(ORDERS_3, batch)).decode() == expected


def csv_quoted(text: str) -> str:
    return '"{}"'.format(text.replace('"', '""')) if re.search('[,"\r\n]', text) else text


def tsv_escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT, HEADERS), min_size=1, max_size=12), st.booleans())
def test_lines_are_those_of_a_plain_encoder(rows, appended):
    times = {"timestamp_type": "append", "max_timestamp_ms": NOON} if appended else {}
    batch = columns(*(record(value, key, headers=headers) for key, value, headers in rows), base_offset=98, **times)
    expected = ""
    for n, (key, value, headers) in enumerate(rows):
        fields = {"topic": "orders", "partition": 3, "offset": 98 + n, "timestamp": NOON}
        fields["timestamp_type"] = "append" if appended else "create"
        for name, data in (("key", key), ("value", value)):
            text, encoding = text_of(data)
            fields |= {name: None if data is None else text}
            fields |= {f"{name}_encoding": encoding} if encoding == "base64" else {}
        line = json.dumps(fields, ensure_ascii=False)
        expected += f'{line[:-1]}, "headers": {json_headers_of(headers)}}}\n'
    assert bytes(make_renderer(RenderOptions("jsonl")).render(ORDERS_3, batch)).decode() == expected


def test_the_document_is_valid_json_over_all_batches() -> None:
    coverage = [{"partition": 3, "complete": True}]
    document = json.loads(whole(make_renderer(RenderOptions("json")), MIXED, MIXED.take([]), MIXED, coverage=coverage))
    assert (document["kcli"], document["kind"], document["coverage"]) == (1, "consume.topic", coverage)
    assert document["items"] == lines(MIXED) * 2
    empty = json.loads(whole(make_renderer(RenderOptions("json"))))
    assert empty["items"] == []


def test_json_on_a_terminal_has_no_control_characters_and_the_same_values() -> None:
    batch = columns(record("\x7f\u009b31m\u202e".encode()))
    plain, shown = (whole(make_renderer(RenderOptions("jsonl", terminal=t)), batch).decode() for t in (False, True))
    assert json.loads(plain) == json.loads(shown)
    assert not set(shown) & set("\x7f\u009b\u202e")


def test_nulls_can_be_restored_from_csv() -> None:
    text = whole(make_renderer(RenderOptions("csv")), MIXED).decode()
    first, second, third, fourth = csv.DictReader(io.StringIO(text, newline=""))
    assert (first["topic"], first["partition"], first["offset"]) == ("orders", "3", "7")
    assert (first["timestamp"], first["time"]) == (str(NOON), "2024-01-31T12:00:00.000Z")
    assert (first["value"], first["value_encoding"]) == ('say "hi"\n\\', "utf-8")
    assert json.loads(first["headers"])[1] == {"name": "b", "value": None}
    assert (second["key"], second["key_encoding"], second["value_encoding"]) == ("", "utf-8", "null")
    assert (third["key_encoding"], third["value_encoding"], third["headers"]) == ("null", "utf-8", "")
    assert (fourth["key"], fourth["key_encoding"]) == ("/w==", "base64")


def test_tsv_is_one_line_per_record() -> None:
    heading, first, *rest = whole(make_renderer(RenderOptions("tsv")), MIXED).decode().split("\n")
    assert heading.split("\t")[:3] == ["topic", "partition", "offset"]
    assert first.split("\t")[8] == 'say "hi"\\n\\\\'
    assert len(rest) == 4
    assert rest[-1] == ""


def test_tsv_on_a_terminal_escapes_once() -> None:
    line = whole(make_renderer(RenderOptions("tsv", terminal=True)), columns(record(b"a\tb\n\x1b\\"))).splitlines()[1]
    assert line.split(b"\t")[8] == rb"a\tb\n\x1b\\"


@pytest.mark.parametrize("output", ["csv", "tsv", "table", "json", "jsonl"])
def test_control_characters_are_escaped_on_a_terminal(output):
    shown = whole(make_renderer(RenderOptions(output, terminal=True)), MIXED)
    assert b"\x1b" not in shown


def test_a_table_widens_with_its_rows() -> None:
    renderer = make_renderer(RenderOptions("table"))
    text = whole(renderer, columns(record(b"a", b"k")), columns(record(b"longer", b"a long key"), record(b"b", None)))
    assert text.decode().splitlines() == [
        "TOPIC   PARTITION  OFFSET  TIME                      KEY  VALUE  HEADERS",
        "orders  3          0       2024-01-31T12:00:00.000Z  k    a      -",
        "orders  3          0       2024-01-31T12:00:00.000Z  a long key  longer  -",
        "orders  3          1       2024-01-31T12:00:00.000Z  -           b       -",
    ]
    assert whole(make_renderer(RenderOptions("table"))) == b"TOPIC  PARTITION  OFFSET  TIME  KEY  VALUE  HEADERS\n"


def test_in_a_table_each_null_and_absent_headers_are_a_minus_sign() -> None:
    rows = columns(record(b"v", b"k", headers=[("h", None), ("e", b"")]), record(None, None))
    table = whole(make_renderer(RenderOptions("table")), rows).decode().splitlines()
    assert [line.split()[4:] for line in table] == [
        ["KEY", "VALUE", "HEADERS"],
        ["k", "v", "h=-,e="],
        ["-", "-", "-"],
    ]


def test_a_table_counts_terminal_cells_and_colours_matches_without_shifting_columns() -> None:
    rows = columns(record("東京VALUE".encode(), b"k1"), record(b"VALUE", b"key2"))
    renderer = make_renderer(RenderOptions("table", highlights={"value": re.compile(b"VALUE")}))
    table = whole(renderer, rows).decode().splitlines()
    assert [line[51:] for line in table] == [
        "  KEY   VALUE      HEADERS",
        "  k1    東京\x1b[1;31mVALUE\x1b[0m  -",
        "  key2  \x1b[1;31mVALUE\x1b[0m      -",
    ]


@pytest.mark.parametrize(
    "options",
    [
        RenderOptions(output="jsonl"),
        RenderOptions(output="csv"),
        RenderOptions(output="table"),
        RenderOptions(raw=RawOptions("%t %p %o %s\\n")),
    ],
)
def test_merged_records_are_printed_as_each_alone_with_its_own_partition(options: RenderOptions) -> None:
    records = columns(*(record(b"%d" % number) for number in range(4)))
    alone, together = make_renderer(options), make_renderer(options)
    numbers = [2, 0, 2, 11]
    expected = b"".join(
        bytes(alone.render(TopicPartition("orders", number), records.take([row]))) for row, number in enumerate(numbers)
    )
    records.partitions = np.array(numbers)
    assert bytes(together.render(ORDERS_3, records)) == expected
