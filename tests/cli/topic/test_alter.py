"""`kcli topic alter` and `kcli topic undo` on the embedded broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from tests.cli.fake import Result, run_kcli

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as embedded:
        yield embedded


@pytest.fixture
def run(broker: EmbeddedBroker, tmp_path: Path) -> Run:
    """Run `kcli topic ...` with a state folder of its own."""
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    return lambda *argv: run_kcli("topic", *argv, "-b", broker.address, environ=environ)


def rows(result: Result) -> list[tuple[str | None, ...]]:
    items = result.document["items"]
    return [(it["topic"], it["status"], it["name"], it["old"], it["new"]) for it in items]


def described(run: Run, topic: str) -> tuple[int, dict[str, str]]:
    """Return the number of partitions and the settings of the topic itself."""
    (item,) = run("describe", topic, "--configs", "--output", "json").document["items"]
    return len(item["partitions"]), {it["name"]: it["value"] for it in item["configs"]}


def test_the_plan_is_shown_executed_and_undone(broker: EmbeddedBroker, run: Run) -> None:
    broker.create_topic("orders", configs={"retention.ms": "1000"})
    change = ("alter", "orders", "-p", "3", "-c", "retention.ms=2000", "-c", "cleanup.policy=compact")

    plan = run(*change, "--output", "json")

    assert plan.status == 0
    assert rows(plan) == [
        ("orders", "would-be-altered", "partitions", "1", "3"),
        ("orders", "would-be-altered", "cleanup.policy", "delete", "compact"),
        ("orders", "would-be-altered", "retention.ms", "1000", "2000"),
    ]
    assert plan.err.splitlines() == [
        "added partitions cannot be removed again",
        "nothing was altered; use --execute to apply the plan",
    ]
    assert described(run, "orders") == (1, {"retention.ms": "1000"})

    done = run(*change, "--execute")

    assert done.status == 0
    assert described(run, "orders") == (3, {"retention.ms": "2000", "cleanup.policy": "compact"})
    command = done.err.removeprefix("to restore the settings: kcli topic ").split()
    (listed,) = run("undo", "--list", "--output", "json").document["items"]
    assert (listed["id"], listed["kind"], listed["topics"], listed["settings"]) == (command[1], "alter", ["orders"], 2)

    undone = run(*command, "--output", "json")

    assert rows(undone) == [
        ("orders", "restored", "retention.ms", "2000", "1000"),
        ("orders", "restored", "cleanup.policy", "compact", "delete"),
    ]
    assert described(run, "orders") == (3, {"retention.ms": "1000"})
    assert [row[1] for row in rows(run("undo", "--last", "--output", "json"))] == ["unchanged", "unchanged"]
    again = run("undo", undone.err.splitlines()[-1].split()[-2], "--execute")
    assert again.status == 0
    assert described(run, "orders") == (3, {"retention.ms": "2000", "cleanup.policy": "compact"})


def test_a_refused_row_prevents_the_others(broker: EmbeddedBroker, run: Run) -> None:
    broker.create_topic("fixed")
    result = run("alter", "fixed", "-p", "2", "-c", "retention.m=9", "-c", "flush.ms=9", "--execute")
    assert result.status == 1
    assert "INVALID_CONFIG: topics have no setting retention.m (did you mean retention.ms" in result.text
    assert [line.split()[1] for line in result.text.splitlines()[1:]] == ["not-altered", "not-altered", "failed"]
    assert described(run, "fixed") == (1, {})
    assert run("undo", "--list", "--output", "json").document["items"] == []


def test_a_value_that_is_not_valid_is_the_error_of_its_row(broker: EmbeddedBroker, run: Run) -> None:
    broker.create_topic("typed")
    result = run("alter", "typed", "-c", "retention.ms=soon", "-c", "flush.ms=9", "--output", "json")
    items = {it["name"]: it for it in result.document["items"]}
    assert items["retention.ms"]["error"]["code"] == "INVALID_CONFIG"
    assert items["flush.ms"]["status"] == "not-altered"


def test_fewer_partitions_are_refused(broker: EmbeddedBroker, run: Run) -> None:
    broker.create_topic("wide", partitions=4)
    result = run("alter", "wide", "-p", "3", "--execute")
    assert result.status == 4
    assert "topic wide has 4 partitions, and partitions cannot be removed" in result.err


def test_a_missing_topic_prevents_the_change_of_the_others(broker: EmbeddedBroker, run: Run) -> None:
    broker.create_topic("billing")
    result = run("alter", "billing", "billingg", "-c", "flush.ms=9", "--execute")
    assert result.status == 3
    assert "there is no topic billingg (did you mean billing" in result.err
    assert described(run, "billing") == (1, {})


def test_an_undo_skips_a_topic_that_was_recreated(broker: EmbeddedBroker, run: Run) -> None:
    broker.create_topic("again")
    assert run("alter", "again", "-c", "flush.ms=9", "--execute").status == 0
    assert run("delete", "again", "--execute").status == 0
    assert "the topic does not exist any more" in run("undo", "--last").text
    broker.create_topic("again", configs={"flush.ms": "9"})
    result = run("undo", "--last", "--execute")
    assert (result.status, "deleted and recreated" in result.text) == (0, True)
    assert described(run, "again") == (1, {"flush.ms": "9"})


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((), "give --partitions, --config or --delete-config"),
        (("--delete-config", "a=b"), "--delete-config: 'a=b' is not valid; use the name of a setting"),
        (("-c", "flush.ms=9", "--delete-config", "flush.ms"), "'flush.ms' is not valid; --config sets it"),
        (("-c", "flush.ms"), "-c: value 1 is not valid; write key=value"),
    ],
)
def test_usage(run: Run, argv: tuple[str, ...], message: str) -> None:
    result = run("alter", "orders", *argv)
    assert (result.status, message in result.err) == (2, True), result.err


def test_an_undo_needs_one_snapshot(run: Run) -> None:
    assert run("undo").status == 2
    assert run("undo", "--list", "--execute").status == 2
    assert run("undo", "none").status == 3
    assert run("undo", "--last").status == 3
