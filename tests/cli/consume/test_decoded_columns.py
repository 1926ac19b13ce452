"""Decoded records: texts, paths, errors beside bytes, and their rendering in all formats, with chosen columns."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from typing import Any

import pytest

from kcli.cli.consume.decoded_columns import DecodedColumns, part_of
from kcli.cli.consume.options import RawOptions
from kcli.cli.consume.printing import RenderOptions, make_renderer
from kcli.cli.consume.render_text import Field, named_field
from kcli.errors import ConfigError
from kcli.schemas.serdes import DecodeError
from tests.cli.consume.data import ORDERS_3, columns, record

ORDER = {
    "id": 7,
    "customer": {"name": "Ann\n", "a b": None},
    "items": [{"sku": "x"}, {"sku": "y"}],
    "price": Decimal("1.10"),
}


def decoded(**sides: list[Any]) -> DecodedColumns:
    """Records with these decoded keys and values; the bytes are `k0`, `v0` and so on, and one is not UTF-8."""
    size = len(next(iter(sides.values())))
    return DecodedColumns(
        columns(
            *(record(b"v%d\xff" % n if n == 1 else b"v%d" % n, b"k%d" % n, headers=[("h", b"1")]) for n in range(size))
        ),
        sides,
    )


MIXED = decoded(value=[ORDER, DecodeError("avro: no schema 5"), None, "text"])


def rendering(**options: Any) -> RenderOptions:
    raw = {name: options.pop(name) for name in RawOptions._fields if name in options}
    return RenderOptions(raw=RawOptions(**raw), **options)


def text(batch: DecodedColumns, **options: Any) -> str:
    renderer = make_renderer(rendering(decoders=batch.decoded.keys(), **options))
    return (renderer.begin + bytes(renderer.render(ORDERS_3, batch)) + renderer.end([])).decode(
        "utf-8", "surrogateescape"
    )


def test_raw_output_has_texts_as_they_are_json_for_the_others_and_the_bytes_of_errors() -> None:
    assert text(MIXED, null="NULL").encode("utf-8", "surrogateescape").split(b"\n") == [
        b'{"id":7,"customer":{"name":"Ann\\n","a b":null},"items":[{"sku":"x"},{"sku":"y"}],"price":"1.10"}',
        b"v1\xff",
        b"null",
        b"text",
        b"",
    ]
    assert text(decoded(key=[1, 2]), key_delimiter=":").startswith("1:v0\n2:v1")


def test_a_path_leads_to_a_part_of_a_value() -> None:
    parts = "%o %{value.id} %{value.customer.name} %{value.items[-1].sku} %{value.price} %{value.items}|"
    assert text(MIXED, format=parts, null="-") == (
        '0 7 Ann\n y 1.10 [{"sku":"x"},{"sku":"y"}]|1 - - - - -|2 - - - - -|3 - - - - -|'
    )
    assert text(MIXED, format='%{value.customer["a b"]}%{value.customer."name"}.')[:5] == "Ann\n."


def test_a_format_has_errors_raw_bytes_lengths_and_headers_beside_decoded_values() -> None:
    assert text(MIXED, format="%{value:error},%{value:hex},%S,%{headers.h},%k,%{headers.x};").split(";") == [
        ",7630,2,1,k0,",
        "avro: no schema 5,7631ff,3,1,k1,",
        ",7632,2,1,k2,",
        ",7633,2,1,k3,",
        "",
    ]


def test_control_characters_of_decoded_values_are_escaped_on_a_terminal() -> None:
    assert text(decoded(value=["a\x1b[2J"]), terminal=True) == "a\\x1b[2J\n"
    assert "\x1b" not in text(decoded(value=["a\x1b[2J"]), terminal=True, output="jsonl")


def test_json_nests_values_and_has_the_bytes_and_the_error_of_others() -> None:
    first, second, third, fourth = map(json.loads, text(MIXED, output="jsonl").splitlines())
    assert first["value"] == {**ORDER, "price": "1.10"}
    assert (second["value"], second["value_error"]) == (None, "avro: no schema 5")
    assert (second["value_raw"], second["value_raw_encoding"]) == ("djH/", "base64")
    assert (third["value"], fourth["value"], fourth["key"]) == (None, "text", "k3")
    document = json.loads(text(MIXED, output="json"))
    assert [item["value"] for item in document["items"]] == [first["value"], None, None, "text"]


def test_a_value_that_decodes_to_null_differs_from_a_tombstone() -> None:
    batch = DecodedColumns(columns(record(b"null"), record(None)), {"value": [None, None]})
    first, second = map(json.loads, text(batch, output="jsonl").splitlines())
    assert (first["value"], first["value_raw"]) == (None, "null")
    assert (second["value"], "value_raw" in second) == (None, False)
    assert text(batch, null="NULL") == "null\nNULL\n"
    rows = list(csv.DictReader(io.StringIO(text(batch, output="csv"))))
    assert [(row["value"], row["value_encoding"]) for row in rows] == [("null", "json"), ("", "null")]
    assert [line.split()[5] for line in text(batch, output="table").splitlines()] == ["VALUE", "null", "-"]


NUMBERS = """
{
  "big": 12345678901234567.89, "zeros": 10.10, "huge": 1e999, "text": " \\" {\\n",
  "list": [ -0.50, { "a b": 1E2, "": [] } ]
}
"""


def test_numbers_of_json_keep_their_digits() -> None:
    batch = DecodedColumns(columns(record(NUMBERS.encode())), {"value": [json.loads(NUMBERS)]}, json_sides={"value"})
    whole = (
        '{"big":12345678901234567.89,"zeros":10.10,"huge":1e999,"text":" \\" {\\n","list":[-0.50,{"a b":1E2,"":[]}]}'
    )
    assert text(batch) == f"{whole}\n"
    assert f'"value": {whole}' in text(batch, output="jsonl")
    parts = (
        '%{value.big} %{value.zeros} %{value.huge}%{value.text}%{value.list} %{value.list[-2]} %{value.list[1]["a b"]}'
    )
    assert text(batch, format=parts) == ('12345678901234567.89 10.10 1e999 " {\n[-0.50,{"a b":1E2,"":[]}] -0.50 1E2')
    table = text(batch, columns="value.big,value.list[0]", output="table")
    assert table.splitlines()[-1].split() == ["12345678901234567.89", "-0.50"]


def test_the_last_of_equal_names_in_json_counts() -> None:
    payload = b'{"a": 1.50, "b": 0, "a": 2.50}'
    batch = DecodedColumns(columns(record(payload)), {"value": [json.loads(payload)]}, json_sides={"value"})
    assert text(batch, format="%{value.a}") == "2.50"


@pytest.mark.parametrize("output", ["csv", "tsv"])
def test_csv_and_tsv_have_columns_for_errors(output: str) -> None:
    rows = list(csv.DictReader(io.StringIO(text(MIXED, output=output)), delimiter="\t" if output == "tsv" else ","))
    assert [(row["value_encoding"], row["value_error"], row["key_error"]) for row in rows] == [
        ("json", "", ""),
        ("base64", "avro: no schema 5", ""),
        ("json", "", ""),
        ("utf-8", "", ""),
    ]
    assert (rows[1]["value"], rows[3]["value"], rows[3]["key"]) == ("djH/", "text", "k3")


def test_a_table_shows_the_bytes_and_the_error() -> None:
    headings, *rows = (line.split() for line in text(MIXED, output="table").splitlines())
    assert headings[-1] == "ERROR"
    assert rows[1][-8:] == ["k1", "v1\\xff", "h=1", "value:", "avro:", "no", "schema", "5"]
    assert rows[2][-3:] == ["null", "h=1", "-"]


def test_chosen_columns_of_a_table_and_of_csv() -> None:
    chosen = "offset,value.id,value.customer.name,value:error,headers.h"
    assert [line.split() for line in text(MIXED, output="table", columns=chosen).splitlines()] == [
        ["OFFSET", "value.id", "value.customer.name", "value:error", "headers.h"],
        ["0", "7", "Ann\\n", "-", "1"],
        ["1", "-", "-", "avro:", "no", "schema", "5", "1"],
        ["2", "-", "-", "-", "1"],
        ["3", "-", "-", "-", "1"],
    ]
    assert text(MIXED, output="csv", columns="value.id, value.customer.name").splitlines()[:3] == [
        "value.id,value.customer.name",
        '7,"Ann',
        '"',
    ]


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("value", Field("value")),
        ("key.a.b[0][-1]", Field("key", "", ("a", "b", 0, -1))),
        ('value["a.b"].c', Field("value", "", ("a.b", "c"))),
        ("headers.trace.id", Field("headers", "", ("trace.id",))),
        ("value.", None),
        ("valued", None),
        ("value[x]", None),
        ("value..a", None),
        ("headers.", None),
        ("topic.a", None),
        ("", None),
    ],
)
def test_names_of_fields(name: str, field: Field | None) -> None:
    assert named_field(name) == field


def test_a_missing_part_is_none() -> None:
    assert part_of({"a": [1]}, ("a", 1)) is None
    assert part_of({"a": [1]}, ("a", "b")) is None
    assert part_of("text", (0,)) is None
    assert part_of([[5]], (-1, 0)) == 5
    assert part_of({7: "a", True: "b"}, ("7",)) == "a"  # keys of Protobuf's maps, named as JSON prints them
    assert part_of({True: {-1: "b"}}, ("true", "-1")) == "b"
    assert part_of({7: "a"}, (7,)) == "a"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "%{key.id}"}, "-f: a part or the error of a key requires a decoder, such as -s key=json"),
        ({"output": "csv", "columns": "key:error"}, "--columns: a part or the error of a key requires a decoder"),
        ({"output": "csv", "columns": "id"}, "--columns: 'id' is not a valid column; use time, value,"),
        ({"output": "csv", "columns": "offset,"}, "--columns: '' is not a valid column; use time, value,"),
        ({"output": "jsonl", "columns": "offset"}, "--columns requires --output table, csv or tsv"),
        ({"columns": "offset"}, "--columns requires --output table, csv or tsv"),
        ({"output": "csv", "selects": True}, "--select cannot be combined with --output csv; use --columns, json"),
        ({"format": "%s", "selects": True}, "--select cannot be combined with -f or -K"),
        ({"key_delimiter": ":", "selects": True}, "--select cannot be combined with -f or -K"),
    ],
)
def test_options_that_cannot_be_combined(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        make_renderer(rendering(decoders=["value"], **options))
    assert str(error.value).startswith(message)


def test_a_path_requires_a_decoder_also_if_nothing_is_decoded() -> None:
    with pytest.raises(ConfigError, match="such as -s value=json"):
        make_renderer(RenderOptions(raw=RawOptions("%{value.id}")))
