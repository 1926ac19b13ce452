"""Reports in every format: the layout that scripts rely on."""

from __future__ import annotations

import csv
import io
import json

import pytest
from tabulate import tabulate

from kcli.cli.output.json import indented
from kcli.cli.output.printer import as_csv, print_report
from kcli.cli.output.report import Report, cell, error_field
from kcli.cli.output.table import as_table, plain_table
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, TimeoutExpired
from tests.cli.fake import FakeEnvironment

ITEMS = [
    {"topic": "orders", "partitions": 12, "replicas": [1, 2], "leader_epoch": None, "internal": False},
    {"topic": "with,comma\tand tab", "partitions": 3, "replicas": [], "leader_epoch": 7, "internal": True},
]
FAILED = {"topic": "gone", "error": {"code": "UNKNOWN_TOPIC_OR_PARTITION", "message": "no such topic"}}
COLUMNS = ["topic", "partitions", "replicas", "leader_epoch", "internal"]


def shown(output: str | None, *extra: dict[str, object], terminal: bool = False, **environ: str) -> str:
    env = FakeEnvironment(terminal=terminal, environ=environ)
    print_report(env, Report("topic.describe", COLUMNS, [*ITEMS, *extra]), output)
    return env.result(0).text


def test_a_table_in_a_pipe_is_plain_and_splits_on_white_space() -> None:
    lines = shown(None).splitlines()
    assert lines[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS", "LEADER-EPOCH", "INTERNAL"]
    assert lines[1].split() == ["orders", "12", "1,2", "-", "no"]
    assert all(line == line.rstrip() for line in lines)
    assert shown("table") == shown(None)


def test_numbers_are_right_aligned_and_text_left_aligned() -> None:
    _, first, second = shown(None).splitlines()
    assert first.index("12") + 2 == second.index(" 3 ") + 2
    assert first.startswith("orders ")


def test_names_that_look_like_numbers_are_not_changed() -> None:
    env = FakeEnvironment()
    print_report(env, Report("t", ["topic"], [{"topic": "007"}, {"topic": "1e5"}, {"topic": "0x10"}]), None)
    assert env.result(0).text.splitlines()[1:] == ["007", "1e5", "0x10"]


def test_an_error_column_appears_only_when_an_item_failed() -> None:
    assert "ERROR" not in shown(None)
    lines = shown(None, FAILED).splitlines()
    assert lines[0].split()[-1] == "ERROR"
    assert lines[-1].split()[:4] == ["gone", "-", "-", "-"]
    assert lines[-1].endswith("no such topic")


def test_failures_are_reported_on_stderr_unless_stdout_is_a_terminal() -> None:
    report = Report("t", ["topic"], [ITEMS[0], FAILED, {**FAILED, "topic": "also gone"}])
    piped, terminal = FakeEnvironment(), FakeEnvironment(terminal=True)
    print_report(piped, report, "json")
    print_report(terminal, report, None)
    assert piped.result(0).err == "kcli: UNKNOWN_TOPIC_OR_PARTITION: no such topic (and 1 more)\n"
    assert terminal.result(0).err == ""


def test_json_has_the_code_of_an_error_once_and_text_has_it_before_the_message() -> None:
    error = error_field(BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="gone"))
    sentence = "the broker has no such topic or partition (topic gone)"
    assert error == {"code": "UNKNOWN_TOPIC_OR_PARTITION", "message": sentence}
    assert (
        cell(error)
        == str(BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="gone"))
        == f"UNKNOWN_TOPIC_OR_PARTITION: {sentence}"
    )
    assert cell(error_field(TimeoutExpired("late"))) == "late"
    assert cell({"code": "NONE", "message": ""}) == "NONE"


def test_a_table_without_rows_is_its_header() -> None:
    env = FakeEnvironment()
    print_report(env, Report("t", ["topic", "topic_id"], []), None)
    assert env.result(0).text.split() == ["TOPIC", "TOPIC-ID"]


def test_a_terminal_gets_a_rich_table_with_colours_if_allowed() -> None:
    coloured = shown(None, terminal=True)
    assert "\x1b[1m" in coloured
    assert "orders" in coloured
    assert "\x1b" not in shown(None, terminal=True, NO_COLOR="1")


def test_a_narrow_terminal_folds_errors_but_not_names() -> None:
    narrow = shown(
        None, {**FAILED, "error": {"code": "X", "message": "word " * 30}}, terminal=True, NO_COLOR="1", COLUMNS="40"
    )
    lines = narrow.splitlines()
    assert len(lines) > 4 + 1
    assert [line.split()[0] for line in lines[:2]] == ["TOPIC", "orders"]
    assert r"with,comma\tand tab" in lines[2]
    assert max(map(len, lines)) < 110


def narrow(width: int, *, terminal: bool = True) -> tuple[list[str], str]:
    """Return the headings of a table with optional columns, and the messages."""
    items = [{"group": "billing", "host": "/10.0.0.7", "end": 4711, "lag": 11}]
    report = Report("t", ["group", "host", "end", "lag"], items, optional=["host", "end"])
    env = FakeEnvironment(terminal=terminal, environ={"COLUMNS": str(width), "NO_COLOR": "1"})
    print_report(env, report, None)
    result = env.result(0)
    return result.text.splitlines()[0].split(), result.err


def test_a_narrow_terminal_omits_optional_columns_and_names_them() -> None:
    assert narrow(29) == (["GROUP", "HOST", "END", "LAG"], "")
    too_narrow = "the terminal is too narrow for {}; --wide shows all columns\n"
    assert narrow(28) == (["GROUP", "HOST", "LAG"], too_narrow.format("END"))
    assert narrow(18) == (["GROUP", "END", "LAG"], too_narrow.format("HOST"))  # a narrower column takes its place
    assert narrow(5) == (["GROUP", "LAG"], too_narrow.format("HOST, END"))
    assert narrow(5, terminal=False) == (["GROUP", "HOST", "END", "LAG"], "")


def test_states_and_lags_have_colours_on_a_terminal_that_allows_them() -> None:
    rows = [{"state": "Stable", "lag": 0}, {"state": "Empty", "lag": 7}, {"state": "Reconciling", "lag": None}]

    def printed(**environ: str) -> str:
        env = FakeEnvironment(terminal=True, environ=environ)
        print_report(env, Report("t", ["state", "lag"], rows), None)
        return env.result(0).text

    coloured = printed(TERM="xterm")
    assert [line.count("\x1b[3") for line in coloured.splitlines()] == [0, 2, 2, 1]
    assert "\x1b[32mStable" in coloured
    assert "\x1b" not in printed(NO_COLOR="1")
    assert "\x1b" not in printed(TERM="dumb")


def test_control_characters_and_markup_in_data_are_escaped() -> None:
    env = FakeEnvironment(terminal=True)
    print_report(env, Report("t", ["name"], [{"name": "[red]x[/red]\x1b[31m"}]), None)
    text = env.result(0).text
    assert "[red]x[/red]" in text
    assert "\x1b[31m" not in text


@pytest.mark.parametrize("output", ["json", "jsonl", "csv", "tsv"])
def test_control_characters_are_escaped_in_programs_formats_on_a_terminal(output: str) -> None:
    name = "a\x1b[31m\x9b1m\u202eb\tc\nd\\"
    items = [{"name": name, "error": {"code": "Failed", "message": "bad\x1b]0;x\x07\nname"}}]
    env, pipe = FakeEnvironment(terminal=True), FakeEnvironment()
    print_report(env, Report("t", ["name"], items), output)
    print_report(pipe, Report("t", ["name"], items), output)
    assert all(line.expandtabs().isprintable() for line in env.result(0).text.splitlines())
    if output == "json":
        assert json.loads(env.result(0).text) == json.loads(pipe.result(0).text)
    if output == "tsv":
        assert r"\x1b[31m\u009b1m\u202eb\tc\nd\\" + "\t" in env.result(0).text
    if output == "csv":
        assert name in next(iter(list(csv.reader(io.StringIO(pipe.result(0).text, newline="")))[1:]))
    assert pipe.result(0).err == r"kcli: bad\x1b]0;x\x07\nname" + "\n"


def test_json_is_one_versioned_document() -> None:
    document = json.loads(shown("json", FAILED))
    assert document["kcli"] == 1
    assert document["kind"] == "topic.describe"
    assert document["items"] == [*ITEMS, FAILED]


def test_jsonl_is_one_item_per_line() -> None:
    assert [json.loads(line) for line in shown("jsonl").splitlines()] == ITEMS


def test_an_error_column_of_the_report_is_not_added_again() -> None:
    """`kcli spark sql "SELECT * FROM groups"`: the view has one."""
    report = Report("spark.sql", ["error", "group"], [{"group": "a", "error": None}, {"group": "b", "error": "boom"}])
    assert as_csv(report).splitlines() == ["error,group", ",a", "boom,b"]
    table, _ = as_table(FakeEnvironment(), report)
    assert table.split() == ["ERROR", "GROUP", "-", "a", "boom", "b"]


def test_csv_quotes_and_always_has_an_error_column() -> None:
    header, *records = csv.reader(io.StringIO(shown("csv", FAILED)))
    assert header == [*COLUMNS, "error"]
    assert records[0] == ["orders", "12", "1,2", "", "no", ""]
    assert records[1][0] == "with,comma\tand tab"
    assert records[2] == ["gone", "", "", "", "", "UNKNOWN_TOPIC_OR_PARTITION: no such topic"]


def test_tsv_escapes_instead_of_quoting() -> None:
    header, *records = (line.split("\t") for line in shown("tsv").splitlines())
    assert header == [*COLUMNS, "error"]
    assert records[1][0] == r"with,comma\tand tab"


def test_a_line_break_in_a_field_does_not_break_the_table() -> None:
    env = FakeEnvironment()
    print_report(env, Report("t", ["name"], [{"name": "a\nb\tc"}]), None)
    assert env.result(0).text.splitlines()[1:] == [r"a\nb\tc"]


@pytest.mark.parametrize("output", ["json", "jsonl", "csv", "tsv", None])
def test_text_beyond_ascii_stays_readable(output: str | None) -> None:
    env = FakeEnvironment()
    print_report(env, Report("t", ["name"], [{"name": "größe €"}]), output)
    assert "größe €" in env.result(0).text


@pytest.mark.parametrize(
    "cells", [["a", "bb", "ccc-wider-than-its-heading"], ["größe", "Ålesund", "x"], ["", "-", "x"]]
)
def test_a_plain_table_is_laid_out_as_by_tabulate(cells: list[str]) -> None:
    columns = ["name", "count", "heading"]
    rows = [[text, number * 1_000_000, "x"] for number, text in enumerate(cells)]
    env = FakeEnvironment()
    print_report(env, Report("t", columns, [dict(zip(columns, row, strict=True)) for row in rows]), None)
    expected = tabulate(
        rows, ["NAME", "COUNT", "HEADING"], "plain", disable_numparse=True, colalign=["left", "right", "left"]
    )
    assert env.result(0).text.splitlines() == [line.rstrip() for line in expected.splitlines()]


def test_equal_values_of_different_types_keep_their_texts() -> None:
    """1, True and 1.0 are equal in Python, but have different texts."""
    env = FakeEnvironment()
    print_report(env, Report("t", ["v"], [{"v": value} for value in (1, True, 1.0, [1], None)]), None)
    assert env.result(0).text.split() == ["V", "1", "yes", "1.0", "1", "-"]


@pytest.mark.parametrize(
    "value",
    [
        [], {}, None, "a\n\"b\" é", 1.5, [[]], [{}], [{}, {"a": 1}], {"a": {}}, {"a": []}, [1, [2], {"b": 3}],
        [{"a": 1, "b": []}, {"a": "},\n    {", "c": {}}],
        [{"a": True}, {"a": [1]}, {"a": {"b": None}}],
        {"topics": {"orders": [0, 1], "bills": []}, 7: "seven", None: 0, True: [{"x": (1, 2)}, {"y": ()}]},
        {"items": [{"group": "g", "partitions": [{"p": n, "owners": []} for n in range(3)], "members": [{"m": [1]}]}]},
    ],
)  # fmt: skip
def test_documents_are_indented_as_by_json_dumps(value: object) -> None:
    """`indented` makes the same text faster."""
    assert indented(value) == json.dumps(value, indent=2, ensure_ascii=False)


def test_a_small_table_for_stderr_aligns_numbers_right() -> None:
    lines = plain_table(["TOPIC", "RECORDS", "NOTE"], [["orders", 5, ""], ["total", None, "done"]]).split("\n")
    assert [line.split() for line in lines] == [["TOPIC", "RECORDS", "NOTE"], ["orders", "5"], ["total", "-", "done"]]
    assert lines[1].index("5") == lines[0].index("RECORDS") + len("RECORDS") - 1
    assert plain_table(["TOPIC"], []) == "TOPIC"
