"""`kcli group watch`: rates, the line view, the live view, and the restored terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from kcli.admin.groups.rates import GroupsSample, RateHistory, TopicRow, drain_ms
from kcli.cli.group.watch_views import ASCII_BARS, LineView, picture, row_cells, row_item, sparkline
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from tests.admin.explain.explain_cases import group, group_survey, member
from tests.cli.fake import FakeEnvironment, run_kcli
from tests.real_kafka import Kafka

GONE = BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, group="billing")
SEEN = group(member("a", "orders-0", "orders-1"))
WALL_MS = 1_700_000_000_000


def looked(rows: Mapping[str, tuple[int | None, int, int]], at_ms: float, ends_ms: float | None = None) -> GroupsSample:
    survey = group_survey(SEEN, rows, at_ms)
    return GroupsSample({"billing": survey if ends_ms is None else survey._replace(ends_ms=ends_ms)})


def test_rates_come_from_two_samples_and_the_times_of_their_responses() -> None:
    watch = RateHistory()
    (first,) = watch.add(looked({"orders-0": (100, 0, 150), "orders-1": (0, 0, 10)}, 1000))
    (second,) = watch.add(looked({"orders-0": (140, 0, 160), "orders-1": (10, 0, 10)}, 3000, ends_ms=3500))

    assert (first.lag, first.consumed, first.produced, first.drain_ms) == (60, None, None, None)
    assert (second.lag, second.consumed, second.produced) == (20, 25.0, 4.0)
    assert second.drain_ms == pytest.approx(20 / 21 * 1000)
    assert second.lags == (60, 20)


def test_rates_are_those_of_the_last_fifteen_seconds() -> None:
    """A consumer commits every five seconds; in between it has not stopped."""
    watch = RateHistory()
    for second in range(60):
        (row,) = watch.add(looked({"orders-0": (second // 5 * 50, 0, second * 10)}, second * 1000))
    assert row.consumed == pytest.approx(10, rel=0.35)
    assert row.produced == pytest.approx(10)
    for second in range(60, 80):
        (row,) = watch.add(looked({"orders-0": (590, 0, 590)}, second * 1000))
    assert (row.consumed, row.produced) == (0, 0)  # what was before is forgotten
    assert len(row.lags) == 40


def test_an_offset_moved_back_counts_as_no_consumption() -> None:
    watch = RateHistory()
    watch.add(looked({"orders-0": (100, 0, 100)}, 0))
    (row,) = watch.add(looked({"orders-0": (0, 0, 100)}, 1000))
    assert (row.lag, row.consumed, row.drain_ms) == (100, 0, None)


def test_a_new_partition_has_no_rate_yet() -> None:
    watch = RateHistory()
    watch.add(looked({"orders-0": (100, 0, 100)}, 0))
    (row,) = watch.add(looked({"orders-0": (100, 0, 100), "orders-1": (5000, 0, 9000)}, 1000))
    assert (row.lag, row.consumed, row.produced) == (4000, 0, 0)


def test_a_commit_after_the_log_end_makes_lag_and_drain_unknown() -> None:
    watch = RateHistory()
    watch.add(looked({"orders-0": (0, 0, 100), "orders-1": (10, 0, 10)}, 0))
    (row,) = watch.add(looked({"orders-0": (50, 0, 100), "orders-1": (10, 0, 5)}, 1000))
    assert (row.lag, row.drain_ms, row_cells(row)[5]) == (None, None, "-")


def test_a_missing_group_and_one_without_topics_are_rows() -> None:
    empty = group_survey(group(state="Empty"), {}, 0)
    rows = RateHistory().add(GroupsSample({"empty": empty}, {"billing": GONE}))
    assert rows == [TopicRow("billing", error=GONE), TopicRow("empty", None, "Empty")]
    assert [row_cells(row)[:6] for row in rows] == [["billing", *"-----"], ["empty", "Empty", "0", "-", "-", "-"]]
    assert row_item(rows[0])["error"]["code"] == "GROUP_ID_NOT_FOUND"


def test_the_error_of_one_partition_keeps_the_lag_of_the_others() -> None:
    survey = group_survey(SEEN, {"orders-0": (1, 0, 4), "orders-1": (1, None, None)}, 0, error={"orders-1": GONE})
    (row,) = RateHistory().add(GroupsSample({"billing": survey}))
    assert (row.lag, row.error) == (3, GONE)


def test_drain_time() -> None:
    assert drain_ms(0, None, None) == 0
    assert drain_ms(90, 40.0, 10.0) == 3000
    assert drain_ms(90, 10.0, 10.0) is None
    assert drain_ms(90, None, None) is None
    assert drain_ms(None, 40.0, 10.0) is None
    stuck = TopicRow("g", "t", "Stable", 1, 1, 90, 10.0, 10.0)
    assert row_cells(stuck)[-1] == "never"
    assert row_cells(stuck._replace(consumed=None))[-1] == "-"
    assert row_cells(stuck._replace(drain_ms=187_000.0))[-1] == "3m07s"


def test_sparkline() -> None:
    assert sparkline([0, 1, 50, None, 100]) == "▁▂▄ █"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([3, 4], ASCII_BARS) == "+#"
    assert sparkline([None]) == " "
    assert sparkline([]) == ""


ROW = TopicRow("billing", "orders", "Stable", 2, 4, 1200, 50.5, 10.25, 29_000.0, (1500, 1200))


HEADERS_OF_RATES = "CONSUMED-PER-S  PRODUCED-PER-S  DRAIN"


def test_line_view_keeps_columns_aligned() -> None:
    env = FakeEnvironment()
    lines = LineView(env, None)
    lines.show([ROW], WALL_MS)
    lines.show([ROW._replace(lag=7, topic="returns")], WALL_MS + 2000)

    when = "2023-11-14T22:13:2"
    assert env.result(0).text.splitlines() == [
        "TIME                      GROUP    STATE   MEMBERS  TOPIC   PARTITIONS   LAG  " + HEADERS_OF_RATES,
        when + "0.000Z  billing  Stable        2  orders           4  1200            50.5            10.2    29s",
        when + "2.000Z  billing  Stable        2  returns           4     7            50.5            10.2    29s",
    ]


def test_line_view_as_jsonl_and_csv() -> None:
    env = FakeEnvironment()
    LineView(env, "jsonl").show([ROW, TopicRow("gone", error=GONE)], WALL_MS)
    first, second = map(json.loads, env.result(0).text.splitlines())
    assert first == {
        "time": "2023-11-14T22:13:20.000Z",
        "group": "billing",
        "state": "Stable",
        "member_count": 2,
        "topic": "orders",
        "partition_count": 4,
        "lag": 1200,
        "consumed_per_s": 50.5,
        "produced_per_s": 10.2,
        "drain_ms": 29000,
    }
    assert second["error"]["code"] == "GROUP_ID_NOT_FOUND"
    assert "GROUP_ID_NOT_FOUND" in env.result(0).err

    env = FakeEnvironment()
    lines = LineView(env, "csv")
    for _ in range(2):
        lines.show([ROW], WALL_MS)
    header, *rows = env.result(0).text.splitlines()
    assert header == "time,group,state,members,topic,partitions,lag,consumed_per_s,produced_per_s,drain_ms,error"
    assert rows == ["2023-11-14T22:13:20.000Z,billing,Stable,2,orders,4,1200,50.5,10.2,29000,"] * 2


def test_live_view_has_bars_and_escapes_control_characters() -> None:
    from io import StringIO

    from rich.console import Console

    text = StringIO()
    console = Console(file=text, width=140, force_terminal=False)
    console.print(picture([ROW._replace(topic="or\x1b[2Jders")], WALL_MS, "every 2 s; q quits", width=140))
    assert "or\\x1b[2Jders" in text.getvalue()
    assert "█▆" in text.getvalue()
    assert "2023-11-14 22:13:20Z  every 2 s; q quits" in text.getvalue()


def drawn(row: TopicRow, width: int) -> list[str]:
    """The lines of the live view of a terminal with so many columns."""
    from io import StringIO

    from rich.console import Console

    text = StringIO()
    console = Console(file=text, width=width, force_terminal=False)
    console.print(picture([row], WALL_MS, "q quits", width=width))
    return text.getvalue().splitlines()


@pytest.mark.parametrize(
    ("width", "columns", "hidden"),
    [
        (140, "GROUP STATE MEMBERS TOPIC PARTITIONS LAG CONSUMED-PER-S PRODUCED-PER-S DRAIN LAG-SO-FAR", ""),
        (80, "GROUP STATE TOPIC LAG CONSUMED-PER-S PRODUCED-PER-S DRAIN LAG-SO-FAR", "MEMBERS, PARTITIONS"),
        (35, "GROUP TOPIC LAG DRAIN", ""),
        (18, "GROUP LAG", ""),
    ],
)
def test_group_and_lag_are_shown_in_every_width(width: int, columns: str, hidden: str) -> None:
    heading, cells, *footer = drawn(ROW, width)
    assert heading.split() == columns.split()
    assert cells.startswith("billing")
    assert cells.split()[columns.split().index("LAG")] == "1200"
    assert f"too narrow for {hidden}" in " ".join(footer) if hidden else True
    assert max(map(len, (heading, cells))) <= width


def test_a_group_name_that_is_longer_than_the_terminal_is_cut_and_the_lag_is_not() -> None:
    heading, cells, *_ = drawn(ROW._replace(group="a-very-long-name-of-a-group"), 16)
    assert heading.split() == ["GROUP", "LAG"]
    assert cells == "a-very-lo\u2026  1200"


def test_the_bars_of_the_newest_samples_fill_the_remaining_width() -> None:
    row = ROW._replace(lags=(*[0] * 30, 9))
    assert drawn(row, 118)[1].endswith("\u2581" * 12 + "\u2588")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--interval", "0"], "--interval"),
        (["--count", "0"], "--count"),
        (["--output", "json"], "jsonl"),
    ],
)
def test_bad_options_are_usage_errors(options: list[str], words: str) -> None:
    result = run_kcli("group", "watch", "g", *options)
    assert result.status == 2
    assert words in result.err
    assert len(result.err.splitlines()) == 1


# Against a broker


@pytest.fixture
def lagging(any_kafka: Kafka) -> tuple[Kafka, str, str]:
    """A broker with a group that has read 3 of a topic's 10 records and is empty: broker, group, topic."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as At

    topic, name = any_kafka.new_topic(), any_kafka.new_name("watched")
    producer = any_kafka.ordered_producer()
    for number in range(10):
        producer.produce(topic, str(number))
    producer.flush(30)
    consumer = Consumer({"bootstrap.servers": any_kafka.bootstrap_servers, "group.id": name})
    consumer.commit(offsets=[At(topic, 0, 3)], asynchronous=False)
    consumer.close()
    return any_kafka, name, topic


def test_a_pipe_gets_a_line_for_each_sample(lagging: tuple[Kafka, str, str]) -> None:
    kafka, name, topic = lagging
    result = run_kcli(
        *("group", "watch", name, "-b", kafka.bootstrap_servers, "--interval", "0.05", "-n", "3", "--output", "jsonl")
    )
    assert result.status == 0
    rows = [json.loads(line) for line in result.text.splitlines()]
    assert [(row["topic"], row["lag"], row["state"]) for row in rows] == [(topic, 7, "Empty")] * 3
    assert [row["consumed_per_s"] for row in rows] == [None, 0.0, 0.0]


def test_a_missing_group_has_status_3(any_kafka: Kafka) -> None:
    result = run_kcli("group", "watch", "nosuch", "-b", any_kafka.bootstrap_servers)
    assert result.status == 3
    assert "nosuch" in result.err


class Terminal:
    """`kcli group watch` on a pseudo-terminal of ours."""

    def __init__(self, *argv: str, columns: int = 160) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(columns)
        self.before = termios.tcgetattr(self.slave)
        environ = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
        command = [sys.executable, "-m", "kcli", "group", "watch", *argv]
        self.process = subprocess.Popen(
            command, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=environ, start_new_session=True
        )
        self.seen = ""

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))

    def wait_for(self, words: str) -> None:
        deadline = time.monotonic() + 30
        while words not in self.seen:
            assert time.monotonic() < deadline, self.seen
            self._read(0.2)

    def _read(self, timeout_s: float) -> None:
        if select.select([self.master], [], [], timeout_s)[0]:
            self.seen += os.read(self.master, 65536).decode(errors="replace")

    def end(self) -> int:
        """Its status, when it has ended by itself; then `seen` is all that it wrote."""
        deadline = time.monotonic() + 30
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.seen
            self._read(0.05)
        while select.select([self.master], [], [], 0)[0]:
            self._read(0)
        return self.process.returncode


@contextmanager
def watching(kafka: Kafka, *argv: str, columns: int = 160) -> Iterator[Terminal]:
    terminal = Terminal("-b", kafka.bootstrap_servers, *argv, columns=columns)
    try:
        yield terminal
    finally:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()
        os.close(terminal.master)
        os.close(terminal.slave)


ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
ENDS = {"q": 0, "Ctrl-C": 130, "SIGTERM": 130}


@pytest.mark.parametrize("how", ENDS)
def test_the_terminal_is_restored_after_each_kind_of_exit(lagging: tuple[Kafka, str, str], how: str) -> None:
    kafka, name, topic = lagging
    with watching(kafka, name, "--interval", "0.2") as terminal:
        terminal.wait_for("q quits")
        terminal.wait_for(topic)
        assert ENTER in terminal.seen
        assert not termios.tcgetattr(terminal.slave)[3] & termios.ICANON
        if how == "q":
            os.write(terminal.master, b"q")
        else:
            terminal.process.send_signal(signal.SIGINT if how == "Ctrl-C" else signal.SIGTERM)

        assert terminal.end() == ENDS[how]
        assert termios.tcgetattr(terminal.slave) == terminal.before
        assert terminal.seen.rindex(LEAVE) > terminal.seen.rindex(ENTER)
        assert "\x1b[?25h" in terminal.seen  # the cursor is back
        assert "Traceback" not in terminal.seen


def test_the_live_view_follows_the_size_of_the_terminal(our_kafka: Kafka, lagging: tuple[Kafka, str, str]) -> None:
    """Between two samples, here an hour apart; COLUMNS keeps the size at the start of the shell."""
    kafka, name, topic = lagging
    with watching(kafka, name, "--interval", "3600", columns=80) as terminal:
        terminal.wait_for(topic)
        terminal.wait_for("too narrow for ")
        assert "mLAG\x1b" in terminal.seen
        assert "mMEMBERS\x1b" not in terminal.seen
        terminal.seen = ""
        terminal.resize(160)
        terminal.wait_for("mMEMBERS\x1b")
        terminal.wait_for(topic)
        terminal.seen = ""
        terminal.resize(40)
        terminal.wait_for("mLAG\x1b")
        os.write(terminal.master, b"q")
        assert terminal.end() == 0


def test_an_error_of_the_first_sample_is_printed_on_the_main_screen(our_kafka: Kafka) -> None:
    with watching(our_kafka, "nosuch") as terminal:
        assert terminal.end() == 3
        assert termios.tcgetattr(terminal.slave) == terminal.before
        assert "nosuch" in terminal.seen[terminal.seen.rindex(LEAVE) :]
