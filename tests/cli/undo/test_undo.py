"""`kcli undo` on the embedded broker: offsets and settings by one command, and what says that it cannot be undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcli import Producer
from kcli.broker.testing.embedded import EmbeddedBroker
from tests.cli.fake import Result, run_kcli

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as embedded:
        embedded.create_topic("orders", configs={"retention.ms": "1000"})
        with Producer(bootstrap_servers=embedded.address) as producer:
            for _ in range(5):
                producer.send("orders", b"value")
        yield embedded


@pytest.fixture
def run(broker: EmbeddedBroker, tmp_path: Path) -> Run:
    """Run `kcli ...` with a state folder of its own."""
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    return lambda *argv: run_kcli(*argv, "-b", broker.address, environ=environ)


def committed(run: Run, group: str) -> int:
    (item,) = run("offsets", "show", group, "-O", "json").document["items"]
    offset: int = item["offset"]
    return offset


def retention(run: Run) -> str:
    (item,) = run("topic", "describe", "orders", "--configs", "-O", "json").document["items"]
    (value,) = [config["value"] for config in item["configs"] if config["name"] == "retention.ms"]
    return str(value)


def test_the_last_change_is_undone_of_either_kind(run: Run) -> None:
    to = ("offsets", "reset", "billing", "--topic", "orders", "--execute")
    assert run(*to, "--to-offset", "2").status == 0
    assert run(*to, "--to-offset", "4").status == 0
    assert run("topic", "alter", "orders", "-c", "retention.ms=2000", "--execute").status == 0

    shown = run("undo", "--last")
    assert (shown.status, retention(run)) == (0, "2000")
    assert shown.err.endswith("nothing was restored; use --execute to apply the plan\n")
    assert run("undo", "--last", "--execute").status == 0
    assert (retention(run), committed(run, "billing")) == ("1000", 4)

    listed = run("undo", "--list", "-O", "json").document
    assert listed["kind"] == "undo.list"
    rows = [(item["resource"], item["kind"], item["names"], item["changes"]) for item in listed["items"]]
    assert rows == [
        ("offsets", "reset", ["billing"], 1),
        ("offsets", "reset", ["billing"], 1),
        ("settings", "alter", ["orders"], 1),
        ("settings", "undo", ["orders"], 1),
    ]
    second = listed["items"][1]["id"]
    undone = run("undo", second, "--execute")
    assert undone.status == 0
    assert f"undoing {second}: the reset of billing (1 partition), " in undone.err
    assert committed(run, "billing") == 2
    assert len(run("undo", "--list", "-O", "jsonl").text.splitlines()) == 5


def test_the_commands_of_one_kind_choose_and_list_only_theirs(run: Run) -> None:
    assert run("offsets", "reset", "audit", "--topic", "orders", "--to-offset", "1", "--execute").status == 0
    assert run("topic", "alter", "orders", "-c", "retention.ms=3000", "--execute").status == 0
    (offsets,) = run("offsets", "undo", "--list", "-O", "json").document["items"]
    (settings,) = run("topic", "undo", "--list", "-O", "json").document["items"]
    assert (offsets["groups"], settings["topics"]) == (["audit"], ["orders"])
    assert "the reset of audit" in run("offsets", "undo", "--last").err

    refused = run("offsets", "undo", settings["id"])
    has = f"kcli: snapshot {settings['id']} has topic settings, and no committed offsets"
    assert (refused.status, refused.err) == (3, f"{has}; use kcli undo {settings['id']}\n")
    assert run("topic", "undo", offsets["id"]).status == 3
    assert run("undo", "--last", "--execute").status == 0
    assert retention(run) == "1000"


@pytest.mark.parametrize("argv", [(), ("x", "--last"), ("--list", "--execute"), ("--list", "--last")])
def test_one_choice_is_needed(run: Run, argv: tuple[str, ...]) -> None:
    assert run("undo", *argv).status == 2


def test_without_a_snapshot_there_is_nothing_to_undo(run: Run) -> None:
    assert (run("undo", "--last").status, run("undo", "none").status) == (3, 3)
    assert run("undo", "--list", "-O", "json").document["items"] == []


def test_a_damaged_snapshot_is_listed_and_fails(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "kcli" / "snapshots"
    folder.mkdir(parents=True)
    (folder / "20260101T000000.000Z-a.json").write_text("{}")
    listed = run("undo", "--list", "-O", "json")
    assert listed.status == 1
    assert [item["error"]["code"] for item in listed.document["items"]] == ["SnapshotError"]


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("topic", "delete", "orders"), "deleted topics and their records cannot be restored"),
        (("topic", "truncate", "orders", "--before", "2"), "deleted records cannot be restored"),
        (("topic", "alter", "orders", "-p", "4"), "added partitions cannot be removed again"),
        (("topic", "alter", "orders", "-c", "flush.ms=9"), None),
        (("group", "delete", "saved"), None),
    ],
)
def test_a_plan_says_what_cannot_be_undone(run: Run, argv: tuple[str, ...], line: str | None) -> None:
    assert run("offsets", "reset", "saved", "--topic", "orders", "--to-offset", "1", "--execute").status == 0
    shown = run(*argv)
    assert shown.status == 0
    before_last = shown.err.splitlines()[:-1]
    assert before_last[-1:] == ([] if line is None else [line])


def test_a_refused_plan_does_not_say_it(run: Run) -> None:
    assert "cannot be restored" not in run("topic", "delete", "orders", "none").err
