"""`kcli group describe` on terminals of different widths and in pipes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from kcli.admin.offsets.commits import commit_offsets
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.cli.fake import Result, run_kcli

ALL = "GROUP TOPIC PARTITION COMMITTED START END LAG TIME-LAG MEMBER HOST CLIENT-ID"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as serving:
        serving.create_topic("orders", 1)
        with closing(connect(ClientConfig.from_properties({"bootstrap.servers": serving.address}))) as client:
            offsets = {TopicPartition("orders", 0): OffsetAndMetadata(0)}
            commit_offsets(client, "billing", offsets, client.clock.now_ms() + 10_000)
        yield serving


def describe(broker: EmbeddedBroker, *words: str, columns: int, terminal: bool = True) -> Result:
    environ = {"COLUMNS": str(columns), "NO_COLOR": "1"}
    return run_kcli("group", "describe", "billing", *words, "-b", broker.address, environ=environ, terminal=terminal)


def heading(result: Result) -> list[str]:
    assert result.status == 0, result
    return result.text.splitlines()[0].split()


def test_a_narrow_terminal_shows_the_columns_that_fit(broker: EmbeddedBroker) -> None:
    result = describe(broker, columns=80)
    assert heading(result) == [name for name in ALL.split() if name not in ("START", "HOST")]
    assert max(map(len, result.text.splitlines())) <= 80
    assert "too narrow for START, HOST; --wide shows all columns" in result.err
    assert heading(describe(broker, columns=20)) == ["GROUP", "TOPIC", "PARTITION", "LAG"]


@pytest.mark.parametrize("table", ["--members", "--state"])
def test_the_other_tables_are_as_narrow_as_the_terminal(broker: EmbeddedBroker, table: str) -> None:
    result = describe(broker, table, columns=40)
    assert max(map(len, result.text.splitlines())) <= 40
    assert heading(describe(broker, table, "--wide", columns=40)) == heading(
        describe(broker, table, columns=40, terminal=False)
    )


@pytest.mark.parametrize(
    ("words", "narrow"),
    [
        ("group lag billing", ["GROUP", "STATE", "LAG", "MAX-LAG", "TIME-LAG"]),
        ("group lag billing --by-topic", ["GROUP", "TOPIC", "LAG", "MAX-LAG", "TIME-LAG"]),
        ("offsets show billing", ["GROUP", "TOPIC", "PARTITION", "OFFSET", "LAG"]),
    ],
)
def test_the_columns_that_identify_a_row_and_the_lag_are_always_shown(
    broker: EmbeddedBroker, words: str, narrow: list[str]
) -> None:
    environ = {"COLUMNS": "40", "NO_COLOR": "1"}
    command = (*words.split(), "-b", broker.address)
    assert heading(run_kcli(*command, environ=environ, terminal=True)) == narrow
    wide = run_kcli(*command, "--wide", environ=environ, terminal=True)
    assert heading(wide) == heading(run_kcli(*command, environ=environ))


def test_a_wide_terminal_the_option_wide_and_a_pipe_show_all_columns(broker: EmbeddedBroker) -> None:
    for result in (
        describe(broker, columns=120),
        describe(broker, "--wide", columns=80),
        describe(broker, columns=80, terminal=False),
    ):
        assert heading(result) == ALL.split()
        assert "--wide" not in result.err


@pytest.mark.parametrize(
    "words",
    [
        *("group describe {}", "group describe {} --state", "group lag {}", "group watch {}", "group explain {}"),
        *("group delete {}", "group remove-members {} --all", "offsets show {}", "offsets export {}"),
        *("offsets copy {} --to-group new", "offsets delete {} --topic orders", "assignor diff {}"),
        "offsets reset {} --to-earliest --all-topics",
    ],
)
def test_similar_groups_are_suggested_for_one_that_does_not_exist(broker: EmbeddedBroker, words: str) -> None:
    result = run_kcli(*words.format("biling").split(), "-b", broker.address)
    assert result.status == 3
    assert "(did you mean billing?)" in result.text + result.err
    assert "did you mean" not in run_kcli(*words.format("zzz").split(), "-b", broker.address).err


def test_a_reset_that_creates_a_group_suggests_existing_ones(broker: EmbeddedBroker) -> None:
    words = ("offsets", "reset", "biling", "--to-earliest", "--topic", "orders")
    result = run_kcli(*words, "-b", broker.address)
    assert "group biling does not exist (did you mean billing?); the commit creates it" in result.err
