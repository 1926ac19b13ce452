"""A whole read without a group: its end, its status and its reports."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from kcli.cli.consume.printed_records import Limits
from kcli.cli.consume.printing import PrintOptions
from kcli.cli.consume.range_session import print_ranges
from kcli.cli.consume.renderer import Renderer
from kcli.consumer.range_reader import RangeReader
from kcli.consumer.read_range import ReadRange
from kcli.log_place import LOG_END, LOG_START
from kcli.structs import TopicPartition
from tests.cli.fake import FakeEnvironment, Result
from tests.consumer.cluster import FakeCluster

T0 = TopicPartition("t", 0)


def read_all(cluster: FakeCluster, asked: ReadRange, render: Callable[[str], bytes], **options: Any) -> Result:
    """Print partition 0 of topic t, each batch as `render` returns it; return status, output and reports."""
    client, config = cluster.client(max_partition_fetch_bytes=1)
    env = FakeEnvironment(clock=cluster.clock)
    reader = RangeReader(client, {T0: asked}, config)
    renderer = Renderer(lambda tp, columns: render(",".join(value.decode() for value in columns.values() if value)))
    status = print_ranges(env, client, reader, PrintOptions(renderer, **options), cluster.clock.now_ms() + 10_000)
    return env.result(status)


def three_batches() -> FakeCluster:
    cluster = FakeCluster()
    log = cluster.topic("t")
    for value in ("a", "b", "c"):
        log.append(value)
    return cluster


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_ends_the_read_after_the_current_batch(number: signal.Signals) -> None:
    def render(text: str) -> bytes:
        if text == "b":
            os.kill(os.getpid(), number)
        return text.encode()

    status, out, err = read_all(three_batches(), ReadRange(LOG_START, LOG_END), render)
    assert (status, out) == (130, b"ab")
    assert err.splitlines()[1].split() == ["t", "0", "start:end", "0:2", "2", "incomplete", "interrupted"]


def test_statistics_are_a_table_of_several_lines() -> None:
    err = read_all(three_batches(), ReadRange(LOG_START, LOG_END), str.encode, stats=True)[2]
    first, *_, last = err.splitlines()[-4:]
    assert first.split()[:3] == ["TOPIC", "PARTITION", "RECORDS"]
    assert last.startswith("in ")
    assert "\\n" not in err


def test_a_followed_topic_reports_its_end_before_the_read_stops() -> None:
    options = {"limits": Limits(idle_ms=2_000)}
    status, out, err = read_all(three_batches(), ReadRange(LOG_START), str.encode, **options)
    assert (status, out, err) == (0, b"abc", "kcli: reached the end of t 0; waiting for new records\n")


def test_an_idle_end_without_a_broker_is_not_a_success() -> None:
    cluster = three_batches()

    def render(text: str) -> bytes:
        if text == "c":
            cluster.lose(1)
        return text.encode()

    status, out, err = read_all(cluster, ReadRange(LOG_START), render, limits=Limits(idle_ms=3_000))
    assert (status, out) == (5, b"abc")
    assert "kcli: t 0: nothing can be read: no broker answered at 10.0.0.1:9092" in err


@pytest.mark.parametrize("most", [2, 3])
def test_a_read_that_has_reached_its_limit_does_not_wait_for_new_records(most: int) -> None:
    cluster = FakeCluster()
    cluster.topic("t").append("a", "b", "c")
    options = {"limits": Limits(max_records=most)}
    status, out, err = read_all(cluster, ReadRange(LOG_START), str.encode, **options)
    assert (status, out.decode().split(","), err) == (0, ["a", "b", "c"][:most], "")


def test_notes_are_reported_first_and_not_with_quiet() -> None:
    nothing = ReadRange(LOG_END, LOG_END)
    assert read_all(three_batches(), nothing, str.encode, notes=["-e"]).err.startswith("kcli: -e\n")
    assert read_all(three_batches(), nothing, str.encode, notes=["-e"], quiet=True).err == ""
