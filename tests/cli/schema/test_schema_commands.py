"""`kcli schema` on a registry in this process: output, notes, and exit statuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fake import Result, run_kcli
from tests.fake_registry import FakeRegistry, Request, fake_registry


def _record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)}


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
OLD, NEW = _record(ID), _record(ID, NOTE)


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as server:
        server.register("orders-value", OLD)
        server.register("orders-value", NEW)
        server.register("clicks-value", {"type": "object", "properties": {"n": {"type": "integer"}}}, "JSON")
        yield server


def _schema(registry: FakeRegistry, command: str, *words: str) -> Result:
    return run_kcli("schema", command, *words, "--schema-registry", registry.url)


def _items(result: Result) -> list[dict[str, Any]]:
    assert result.status == 0, result.err
    found: list[dict[str, Any]] = [json.loads(line) for line in result.text.splitlines()]
    return found


def test_list_prints_sorted_names(registry: FakeRegistry) -> None:
    assert _schema(registry, "list") == Result(0, b"clicks-value\norders-value\n", "")
    assert _schema(registry, "list", "--match", "^ord").out == b"orders-value\n"


def test_list_long_has_the_newest_version_and_the_rule(registry: FakeRegistry) -> None:
    assert _items(_schema(registry, "list", "--long", "-O", "jsonl")) == [
        {
            "subject": "clicks-value",
            "type": "JSON",
            "versions": 1,
            "newest": 1,
            "id": 3,
            "compatibility": "BACKWARD",
        },
        {
            "subject": "orders-value",
            "type": "AVRO",
            "versions": 2,
            "newest": 2,
            "id": 2,
            "compatibility": "BACKWARD",
        },
    ]


def test_list_long_shows_a_subject_that_was_deleted_in_the_meantime_as_an_error(registry: FakeRegistry) -> None:
    def fault(request: Request) -> Any:
        gone = request.path.startswith("/subjects/clicks")
        return (404, {"error_code": 40401, "message": "Subject not found."}) if gone else None

    registry.fault = fault
    result = _schema(registry, "list", "--long")
    assert result.status == 3
    assert [line.split()[0] for line in result.text.splitlines()] == ["SUBJECT", "clicks-value", "orders-value"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["orders-value"], NEW), (["orders-value", "--version", "1"], OLD), (["--id", "1"], OLD)],
    ids=["newest", "version", "id"],
)
def test_show_prints_the_indented_text_alone(registry: FakeRegistry, words: list[str], expected: Any) -> None:
    assert _schema(registry, "show", *words) == Result(0, json.dumps(expected, indent=2).encode() + b"\n", "")


def test_show_raw_prints_the_text_as_registered(registry: FakeRegistry) -> None:
    assert _schema(registry, "show", "orders-value", "--raw").text == json.dumps(NEW) + "\n"


def test_show_by_guid_and_as_json(registry: FakeRegistry) -> None:
    (item,) = _items(_schema(registry, "show", "orders-value", "--version", "1", "-O", "jsonl"))
    assert {name: item[name] for name in ("subject", "version", "id", "type", "references", "schema")} == {
        "subject": "orders-value",
        "version": 1,
        "id": 1,
        "type": "AVRO",
        "references": [],
        "schema": json.dumps(OLD),
    }
    assert _schema(registry, "show", "--guid", item["guid"]).text == json.dumps(OLD, indent=2) + "\n"


def test_show_fields_prints_a_line_per_field_and_attribute(registry: FakeRegistry) -> None:
    lines = [
        tuple(item.values()) for item in _items(_schema(registry, "show", "orders-value", "--fields", "-O", "jsonl"))
    ]
    expected = [(".", "record shop.Order"), ("id", "long"), ("note", "null | string"), ("note @default", "null")]
    assert lines == expected


def test_show_names_the_references_on_stderr(registry: FakeRegistry) -> None:
    reference = {"name": "shop.Price", "subject": "price", "version": 1}
    registry.register("refers-value", _record({"name": "price", "type": "shop.Price"}), references=[reference])
    result = _schema(registry, "show", "refers-value")
    assert result.err == "kcli: note: shop.Price is subject price, version 1\n"


def test_versions_with_their_changes(registry: FakeRegistry) -> None:
    assert _schema(registry, "versions", "orders-value").text.splitlines()[0].split() == [
        "VERSION", "ID", "TYPE", "BYTES", "REFERENCES"
    ]  # fmt: skip
    first, second = _items(_schema(registry, "versions", "orders-value", "--long", "-O", "jsonl"))
    assert "added" not in first
    assert (second["version"], second["id"], second["added"], second["removed"], second["changed"]) == (2, 2, 2, 0, 0)


def test_a_version_that_is_not_valid_is_a_row_with_an_error(registry: FakeRegistry) -> None:
    for text in ("{", json.dumps(NEW) + " "):
        registry.register("orders-value", text)
    result = _schema(registry, "versions", "orders-value", "--long", "-O", "jsonl")
    items = [json.loads(line) for line in result.text.splitlines()]
    assert result.status == 1
    assert [(it.get("added"), "error" in it) for it in items] == [
        (None, False),
        (2, False),
        (None, True),
        (None, False),
    ]


def test_a_subject_with_a_slash(registry: FakeRegistry) -> None:
    registry.register("shop/orders.avsc", OLD)
    assert _schema(registry, "show", "shop/orders.avsc").text == json.dumps(OLD, indent=2) + "\n"
    assert _schema(registry, "versions", "shop/orders.avsc").status == 0


def test_diff_shows_the_fields_of_the_two_newest_versions(registry: FakeRegistry) -> None:
    result = _schema(registry, "diff", "orders-value")
    assert (result.status, result.err) == (0, "")
    assert result.text.splitlines() == [
        "CHANGE    PATH           OLD    NEW",
        "added     note           -      null | string",
        "added     note @default  -      null",
    ]


def test_diff_of_protobuf_has_numbers_types_and_the_contents_of_messages(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    start = 'syntax = "proto3"; package shop; import "money.proto"; enum Size { S = 0; } '
    old = "message Order { int64 id = 1; Money price = 2; map<string, int32> tags = 3; oneof way { string by = 4; } }"
    new = "message Order { int64 id = 1; repeated Money price = 2; map<string, int64> tags = 3; string by = 4; "
    registry.register("money", 'syntax = "proto3"; package shop; message Money { int64 units = 1; }', "PROTOBUF")
    reference = {"name": "money.proto", "subject": "money", "version": 1}
    registry.register("proto-value", start + old, "PROTOBUF", [reference])
    file = tmp_path / "order.proto"
    file.write_text(start + "\n// a comment\n" + new + "Size size = 5; }")
    items = _items(_schema(registry, "diff", "proto-value", "--schema-file", str(file), "-O", "jsonl"))
    assert [tuple(item.values()) for item in items] == [
        ("changed", "Order.price", "shop.Money = 2", "repeated shop.Money = 2"),
        ("changed", "Order.tags", "map<string, int32> = 3", "map<string, int64> = 3"),
        ("changed", "Order.by", "string of way = 4", "string = 4"),
        ("added", "Order.size", None, "shop.Size = 5"),
    ]


def test_diff_with_a_file_and_a_status(registry: FakeRegistry, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(_record({**ID, "type": "int"})))
    words = ("orders-value", "--from", "1", "--schema-file", str(file), "-O", "csv")
    result = _schema(registry, "diff", *words, "--fail-on-change")
    assert (result.status, result.text) == (6, "change,path,old,new,error\nchanged,id,long,int,\n")
    file.write_text(json.dumps(OLD, indent=4))
    assert _schema(registry, "diff", *words, "--fail-on-change").status == 0


@pytest.mark.parametrize(
    ("rule", "versions"), [("BACKWARD", [2]), ("FULL_TRANSITIVE", [1, 2])], ids=["newest version", "all versions"]
)
def test_check_asks_about_the_versions_of_the_rule(
    registry: FakeRegistry, tmp_path: Path, rule: str, versions: list[int]
) -> None:
    registry.rule = rule
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(_record(ID, NOTE, {**NOTE, "name": "more"})))
    items = _items(_schema(registry, "check", "orders-value", "--schema-file", str(file), "-O", "jsonl"))
    assert [(it["version"], it["rule"], it["compatible"]) for it in items] == [(n, rule, True) for n in versions]
    asked = [it.body["schema"] for it in registry.requests if it.path.startswith("/compatibility")]
    assert asked == [file.read_text()] * len(versions)
    assert len(registry.subjects["orders-value"]) == 2, "nothing was registered"


def test_check_of_an_incompatible_schema_shows_the_reasons_and_ends_with_6(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    registry.verdict = lambda subject, schema, version: [f"reader field 'x'\n is missing in {version}"]
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(_record({"name": "x", "type": "int"})))
    result = _schema(registry, "check", "orders-value", "--schema-file", str(file))
    assert result.status == 6
    assert (
        " ".join(result.text.splitlines()[1].split()) == "orders-value 2 BACKWARD no reader field 'x' is missing in 2"
    )


def test_check_reports_a_schema_that_the_subject_has(registry: FakeRegistry, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(OLD))
    result = _schema(registry, "check", "orders-value", "--schema-file", str(file))
    assert (result.status, result.err) == (0, "kcli: the subject has this schema already: version 1, id 1\n")


def test_check_warns_of_a_rule_that_accepts_everything(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.rule = "NONE"
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(_record()))
    warning = "kcli: warning: the rule of subject orders-value is NONE: the registry accepts every schema\n"
    assert _schema(registry, "check", "orders-value", "--schema-file", str(file)).err == warning


def test_check_of_a_subject_that_does_not_exist(registry: FakeRegistry, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(OLD))
    words = ("check", "order-value", "--schema-file", str(file))
    missing = "kcli: the registry has no subject 'order-value'; use --allow-new for a new one\n"
    assert _schema(registry, *words) == Result(3, b"", missing)
    new = "kcli: subject order-value is new: every schema is compatible\n"
    assert _schema(registry, *words, "--allow-new") == Result(0, b"", new)


def test_check_takes_the_references_of_the_newest_version_or_the_given_ones(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    reference = {"name": "shop.Price", "subject": "price", "version": 1}
    text = _record({"name": "price", "type": "shop.Price"})
    registry.register("refers-value", text, references=[reference])
    file = tmp_path / "refers.avsc"
    file.write_text(json.dumps(text))
    words = ("check", "refers-value", "--schema-file", str(file))
    note = f"kcli: note: {file} has the references of version 1: shop.Price=price:1\n"
    assert _schema(registry, *words).err.startswith(note)
    assert not _schema(registry, *words, "--reference", "shop.Price=price:7").err.startswith("kcli: note")
    sent = [it.body["references"] for it in registry.requests if it.path.startswith("/compatibility")]
    assert sent == [[reference], [{**reference, "version": 7}]]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("show", 2, "give exactly one of SUBJECT, --id and --guid"),
        ("show orders-value --id 1", 2, "give exactly one of SUBJECT, --id and --guid"),
        ("show --id 1 --version 2", 2, "--version needs a SUBJECT"),
        ("show orders-value --version 0", 2, "--version: '0' is not a version; use a number from 1, or latest"),
        ("show orders-value --version 9", 3, "the registry has no version 9 of subject 'orders-value'"),
        ("show other", 3, "the registry has no subject 'other'"),
        ("show --id 99", 3, "the registry has no schema with id 99"),
        (
            "diff clicks-value",
            2,
            "subject clicks-value has no version before 1; use --schema-file FILE to compare a file",
        ),
        ("diff orders-value --type avro", 2, "--type needs --schema-file"),
        ("check orders-value", 2, "--schema-file is missing; use --schema-file FILE"),
        ("check orders-value --schema-file no.avsc", 2, "cannot read schema file no.avsc: No such file or directory"),
        (
            "check orders-value --schema-file no.txt",
            2,
            "--schema-file: the type of 'no.txt' is not known; use --type avro, protobuf, json-schema",
        ),
        (
            "check orders-value --schema-file no.avsc --against x",
            2,
            "--against: 'x' is not a version; use a number from 1, latest or all",
        ),
        (
            "list --match (",
            2,
            "--match: '(' is not a valid regular expression: missing ), unterminated subpattern at position 0",
        ),
    ],
)
def test_errors_are_one_line(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, status: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _schema(registry, *words.split()) == Result(status, b"", f"kcli: {message}\n")


def test_without_a_registry_the_error_names_the_option() -> None:
    message = "kcli: no schema registry is named; use --schema-registry URL or the property schema.registry.url\n"
    assert run_kcli("schema", "list") == Result(2, b"", message)
