"""`kcli group explain`: pages, formats, exit statuses, and read-only requests."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.cli.group.explain import heading
from kcli.cli.output.finding_pages import page
from tests.admin.explain.explain_cases import cluster_facts, group, group_survey, member, unchanged_findings
from tests.cli.fake import FakeEnvironment, Result, run_kcli

QUICK = ("--interval", "0.05")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker with two empty groups: `late` has read 2 of 9 records, `done` has read all."""
    from confluent_kafka import Producer

    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as embedded:
        embedded.create_topic("orders")
        producer = Producer({"bootstrap.servers": embedded.address})
        for number in range(9):
            producer.produce("orders", str(number), partition=0)
        producer.flush(30)
        for name, offset in (("late", 2), ("done", 9)):
            consumer = Consumer({"bootstrap.servers": embedded.address, "group.id": name})
            consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
            consumer.close()
        yield embedded


def explain(broker: EmbeddedBroker, *argv: str, terminal: bool = False) -> Result:
    return run_kcli("group", "explain", *argv, *QUICK, "-b", broker.address, terminal=terminal)


def test_a_page_for_each_group(broker: EmbeddedBroker) -> None:
    result = explain(broker, "late", "done")

    assert result.status == 0
    lines = result.text.splitlines()
    assert lines[0].startswith("late: classic group, Empty, 0 members, 1 partition, lag 7; two observations, ")
    assert lines[2] == "PROBLEM no-members: late"
    assert lines[3] == "  The group has no members; unread: 7 records in 1 partition."
    assert lines[4].startswith("  -> Start the consumers.")
    assert "NOTE no-members: done" in lines


def test_a_page_on_a_terminal_is_coloured_and_wrapped(broker: EmbeddedBroker) -> None:
    result = explain(broker, "late", terminal=True)

    assert "\x1b[1;31mPROBLEM\x1b[0m no-members: late" in result.text
    assert max(map(len, result.text.splitlines())) <= 100 + len("\x1b[1;31m\x1b[0m")
    assert "two observations, 0.05 s apart ..." in result.err


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({"orders-0": (None, 0, 9)}, "1 partition, lag unknown;"),
        ({"orders-0": (None, 0, 9), "orders-1": (2, 0, 5)}, "2 partitions, lag 3, unknown in 1;"),
        ({}, "0 partitions, lag 0;"),
    ],
)
def test_an_unknown_lag_is_not_shown_as_zero(rows: dict[str, tuple[int | None, ...]], expected: str) -> None:
    from kcli.admin.explain.observations import Observations

    seen = group(member("a", *rows))
    assert expected in heading(
        Observations(group_survey(seen, rows, 0), group_survey(seen, rows, 6000), cluster_facts())
    )


def test_control_characters_in_names_are_escaped_on_a_terminal() -> None:
    env = FakeEnvironment(terminal=True)
    seen = group(member("a\x1b[2J", "orders-0"))
    rows = {"orders-0": (0, 0, 5)}
    surveys = group_survey(seen, rows, 0), group_survey(seen, rows, 6000)
    from kcli.admin.explain.observations import Observations

    observations = Observations(*surveys, cluster_facts())
    text = page(env, heading(observations), list(unchanged_findings(seen, rows).values()))
    assert "\x1b[2J" not in text
    assert "a\\x1b[2J-1" in text


def test_json_has_the_group_and_its_findings(broker: EmbeddedBroker) -> None:
    document = explain(broker, "late", "--output", "json").document

    assert document["kind"] == "group.explain"
    (item,) = document["items"]
    assert (item["group"], item["type"], item["state"], item["lag"]) == ("late", "classic", "Empty", 7)
    assert [(it["finding"], it["severity"], it["subject"]) for it in item["findings"]] == [
        ("no-members", "problem", "late")
    ]


def test_csv_has_a_row_for_each_finding(broker: EmbeddedBroker) -> None:
    rows = list(csv.DictReader(io.StringIO(explain(broker, "late", "done", "--output", "csv").text)))
    assert [(row["group"], row["severity"], row["finding"]) for row in rows] == [
        ("late", "problem", "no-members"),
        ("done", "note", "no-members"),
    ]


@pytest.mark.parametrize(
    ("group", "severity", "status"),
    [("late", "problem", 6), ("late", "note", 6), ("done", "problem", 0), ("done", "warning", 0), ("done", "note", 6)],
)
def test_fail_on_sets_the_exit_status(broker: EmbeddedBroker, group: str, severity: str, status: int) -> None:
    assert explain(broker, group, "--fail-on", severity).status == status


@pytest.mark.parametrize(
    ("options", "message"), [(["--fail-on", "all"], "problem, warning or note"), (["--interval", "-1"], "above 0")]
)
def test_bad_options_are_usage_errors(options: list[str], message: str) -> None:
    result = run_kcli("group", "explain", "g", *options)
    assert (result.status, len(result.err.splitlines())) == (2, 1)
    assert message in result.err


def test_a_missing_group_sets_the_status_while_the_others_are_explained(broker: EmbeddedBroker) -> None:
    result = explain(broker, "nosuch", "late")
    assert result.status == 3
    assert "nosuch" in result.err
    assert "late: classic group" in result.text


def test_an_unreachable_broker_is_a_timeout() -> None:
    result = run_kcli("group", "explain", "g", "-b", "127.0.0.1:1", "--timeout", "0.3")
    assert result.status == 5
    assert len(result.err.splitlines()) == 1


SURVEY_APIS = {
    *("ApiVersions", "Metadata", "FindCoordinator", "ConsumerGroupDescribe", "DescribeGroups"),
    *("OffsetFetch", "ListOffsets"),
}
CONTEXT_APIS = {"Fetch", "DescribeConfigs"}  # the age of the next record, and how long it is kept


@pytest.mark.parametrize(
    ("command", "apis"),
    [(["explain", *QUICK], SURVEY_APIS | CONTEXT_APIS), (["watch", "-n", "2", *QUICK], SURVEY_APIS)],
    ids=["explain", "watch"],
)
def test_only_read_requests_are_sent(broker: EmbeddedBroker, command: list[str], apis: set[str]) -> None:
    before = len(broker.requests)
    name, *options = command
    assert run_kcli("group", name, "late", *options, "-b", broker.address).status == 0
    assert {request.api for request in broker.requests[before:]} == apis
