"""Lag history, snapshots and SQL without Spark: time grids, differences, parsed statements; refused options."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from kcli.admin.groups.committed_offsets import _read_offsets
from kcli.admin.offsets.plan_files import Positions
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, KcliError, Refused
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kcli.spark.pipelines.group_offsets import LAG_COLUMNS, Snapshot, difference, snapshot_of
from kcli.spark.pipelines.lag_grid import Commits, Log, ends_at, lag_rows
from kcli.spark.pipelines.lag_history import make_grid
from kcli.spark.pipelines.lag_tasks import Grid, reduce_batches, reduce_commits
from kcli.spark.pipelines.result import Result as Answer
from kcli.spark.pipelines.result import collect
from kcli.spark.pipelines.source import unseen_topics
from kcli.spark.pipelines.sql import StatementResult, columns_of, find_tables
from kcli.spark.pipelines.sql_text import Relation, replace_relations, split_statements
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.cli.fake import Result, run_kcli
from tests.real_kafka import Kafka

# --- lag-history


def test_a_grid_has_whole_multiples_from_since_to_until() -> None:
    grid = make_grid(1_001, 4_000, 1_000)
    assert grid == Grid(2_000, 1_000, 3)
    assert [grid.step(ms) for ms in (-5, 2_000, 2_001, 3_000, 4_000, 4_001, 99_999)] == [0, 0, 1, 1, 2, 3, 3]
    for wrong in ((1_001, 1_900, 1_000), (0, 200_000_000, 1)):
        with pytest.raises(ConfigError):
            make_grid(*wrong)


GRID = Grid(100_000, 10_000, 12)
NOW_MS = 1_000_000
TIMES = [GRID.first_ms + GRID.every_ms * point for point in range(GRID.points)]


def test_reducing_commits_and_batches_in_tasks_keeps_all_points() -> None:
    """For any split into tasks and batches, compared with loops over everything."""
    chance = random.Random(5)
    for _ in range(30):
        commits, clock = [], 60_000
        for log_offset in range(40):
            clock += chance.randrange(-2_000, 9_000)
            offset = chance.choice([None, *range(60)])
            commits.append((chance.choice("ab"), chance.randrange(2), clock, offset, log_offset))
        batches: dict[int, list[tuple[int, int]]] = {}
        for partition in range(2):
            at, batches[partition] = 70_000, []
            for base in range(0, 50, 5):
                at += chance.randrange(-4_000, 20_000)
                batches[partition].append((base, at))
        found = lag_rows(GRID, _reduced_commits(commits, chance), _reduced_ends(commits, batches, chance), "partition")
        expected = []
        for group in "ab":
            for partition in range(2):
                expected += list(_plain(group, partition, commits, batches[partition]))
        assert [(row["group"], row["partition"], row["time"], row["lag"]) for row in found] == expected


def _plain(group: str, partition: int, commits: list[Any], batches: list[Any]) -> Any:
    proof = 0
    for now in TIMES:
        held: dict[str, int | None] = {}
        clocks = {"a": 0, "b": 0}
        for name, number, at, offset, _ in commits:
            if number == partition:
                clocks[name] = max(clocks[name], at)
                if clocks[name] <= now:
                    held[name] = offset
        proof = max([proof, *(offset for offset in held.values() if offset is not None and offset <= 50)])
        end = max(proof, next((base for base, at in batches if at > now), 50))
        offset = held.get(group)
        if offset is not None:
            yield group, partition, now, end - offset if offset <= end else None


def _pieces(rows: list[Any], chance: random.Random) -> list[list[Any]]:
    cuts = sorted(chance.choices(range(len(rows) + 1), k=3))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def _reduced_commits(rows: list[Any], chance: random.Random) -> dict[tuple[str, str, int], Commits]:
    found = []
    for task in _pieces(rows, chance):
        for part in reduce_commits((_commit_batch(it) for it in _pieces(task, chance)), GRID, NOW_MS):
            found += list(zip(*part.values(), strict=True))
    series: dict[tuple[str, str, int], Commits] = {}
    for group, topic, partition, step, offset, at, _ in sorted(found, key=lambda it: it[-1]):
        series.setdefault((group, topic, partition), Commits([], [], [])).add(step, offset, at)
    return series


def _commit_batch(rows: list[Any]) -> pa.RecordBatch:
    time = pa.timestamp("us", "UTC")
    return pa.RecordBatch.from_pydict(
        {
            "group": pa.array([it[0] for it in rows], pa.string()),
            "topic": pa.array(["t"] * len(rows), pa.string()),
            "partition": pa.array([it[1] for it in rows], pa.int32()),
            "offset": pa.array([it[3] for it in rows], pa.int64()),
            "commit_timestamp": pa.array([None if it[3] is None else it[2] * 1000 for it in rows], time),
            "log_timestamp": pa.array([it[2] * 1000 for it in rows], time),
            "log_offset": pa.array([it[4] for it in rows], pa.int64()),
        }
    )


def _reduced_ends(commits: list[Any], batches: dict[int, list[Any]], chance: random.Random) -> Any:
    found = []
    for partition, rows in batches.items():
        for task in _pieces(rows, chance):
            parts = (_header_batch(partition, it) for it in _pieces(task, chance))
            for part in reduce_batches(parts, GRID, NOW_MS):
                found += [((topic, number), *it) for topic, number, *it, _ in zip(*part.values(), strict=True)]
    logs = {("t", partition): Log(0, 50) for partition in batches}
    return ends_at(GRID, logs, sorted(found, key=lambda it: it[2]), _reduced_commits(commits, chance))


def _header_batch(partition: int, rows: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array(["t"] * len(rows), pa.string()),
            "partition": pa.array([partition] * len(rows), pa.int32()),
            "base_offset": pa.array([it[0] for it in rows], pa.int64()),
            "last_offset": pa.array([it[0] + 4 for it in rows], pa.int64()),
            "max_timestamp": pa.array([it[1] * 1000 for it in rows], pa.timestamp("us", "UTC")),
        }
    )


def test_an_end_is_unknown_before_the_first_remaining_batch() -> None:
    place = ("t", 0)
    batches = [(place, 6, 130, 120)]  # the first remaining batch has the records from 120 on
    held = {("g", "t", 0): Commits([1, 4], [50, 120], [0, 0])}
    ends = ends_at(GRID, {place: Log(120, 130)}, batches, held)
    assert ends[place].tolist() == [-1] * 4 + [120] * 2 + [130] * 6  # the second commit proves that 120 existed
    [*_, last] = lag_rows(GRID, held, ends, "group")
    assert (last["lag"], last["partitions"], last["unknown"]) == (10, 1, 0)
    first = lag_rows(GRID, held, ends, "group")[0]
    assert (first["time"], first["lag"], first["partitions"], first["unknown"]) == (TIMES[1], None, 1, 1)
    # In contrast, a log examined from the start of the grid ended there until the first batch.
    assert ends_at(GRID, {place: Log(7, 130)}, batches, {})[place].tolist() == [120] * 6 + [130] * 6
    assert ends_at(GRID, {place: Log(7, 130)}, [], {})[place].tolist() == [130] * 12


@pytest.mark.parametrize("odd_ms", [NOW_MS + 1, 1_700_000_000_000_000])
def test_a_timestamp_in_the_future_does_not_hide_lag(odd_ms: int) -> None:
    """For example of a producer that sends microseconds: all later batches would seem to be as late."""
    times = [90_000, 105_000, odd_ms, 125_000, 135_000, odd_ms]
    parts = reduce_batches([_header_batch(0, [(5 * n, at) for n, at in enumerate(times)])], GRID, NOW_MS)
    rows = [row for part in parts for row in zip(*part.values(), strict=True)]
    assert [(step, end) for _, _, step, end, _, _ in rows] == [(0, 5), (1, 15), (3, 20), (4, 30)]
    assert sum(row[-1] for row in rows) == 2
    commits = [("a", 0, 95_000, 3, 0), ("a", 0, odd_ms, 7, 1), ("a", 0, 115_000, 9, 2)]
    parts = reduce_commits([_commit_batch(commits)], GRID, NOW_MS)
    rows = [(*row[3:6],) for part in parts for row in zip(*part.values(), strict=True)]
    assert rows == [(0, 7, 95_000), (2, 9, 115_000)]


# --- group-offsets


def row(group: str, partition: int, committed: int, lag: int | None = 0) -> dict[str, Any]:
    return {"group": group, "topic": "t", "partition": partition, "committed": committed, "lag": lag}


def test_a_difference_classifies_each_position() -> None:
    def at(group: str, topic: str, partition: int, offset: int) -> Any:
        return (group, TopicPartition(topic, partition)), OffsetAndMetadata(offset)

    old = Positions(
        dict([at("a", "t", 0, 5), at("a", "t", 1, 9), at("a", "t", 2, 4), at("b", "u", 0, 1)]), made_ms=1_000
    )
    now = Snapshot([row("a", 0, 25, 7), row("a", 1, 8), row("a", 3, 2), row("c", 0, 1)], [])
    found = {(it["group"], it["topic"], it["partition"]): it for it in difference(old, now, 6_000, {}, None).rows}
    assert {place: (it["change"], it["moved"], it["per_s"], it["lag"]) for place, it in found.items()} == {
        ("a", "t", 0): ("forward", 20, 4.0, 7),
        ("a", "t", 1): ("back", -1, -0.2, 0),
        ("a", "t", 2): ("gone", None, None, None),
        ("a", "t", 3): ("new", None, None, 0),
        ("b", "u", 0): ("gone", None, None, None),
        ("c", "t", 0): ("new", None, None, 0),
    }
    within = difference(old, Snapshot([row("a", 0, 5)], []), 6_000, {"t": [0]}, ("a",)).rows
    assert [(it["change"], it["moved"], it["per_s"]) for it in within] == [("same", 0, 0.0)]


def lag_row(group: str, topic: str, partition: int, **more: Any) -> dict[str, Any]:
    """A row of the view for which `where` is true."""
    return {
        **dict.fromkeys(LAG_COLUMNS),
        "group": group,
        "topic": topic,
        "partition": partition,
        "is_selected": True,
        **more,
    }


def group_row(group: str, kind: str = "consumer") -> dict[str, Any]:
    return {"group": group, "type": kind, "state": "Stable", "members": 1, "error": None}


def test_positions_excluded_by_where_are_not_gone() -> None:
    at = OffsetAndMetadata
    old = Positions({("a", TopicPartition("t", number)): at(5) for number in range(3)}, made_ms=1_000)
    rows = [lag_row("a", "t", 0, committed=9, lag=5), lag_row("a", "t", 1, committed=7, lag=0, is_selected=False)]
    now = snapshot_of([group_row("a")], rows, {}, False)
    assert (now.left_out, "is_selected" in now.rows[0]) == ({("a", TopicPartition("t", 1))}, False)
    assert [(it["partition"], it["change"]) for it in difference(old, now, 6_000, {}, None).rows] == [
        (0, "forward"),
        (2, "gone"),
    ]


UNREAD = str(BrokerError(ErrorCode.UNSTABLE_OFFSET_COMMIT, api="OffsetFetch", topic="t", partition=1))


@pytest.mark.parametrize(
    "failed",
    [
        lag_row("a", "t", 1, error=UNREAD, is_selected=False),
        {"group": "a", "topic": None, "error": "COORDINATOR_NOT_AVAILABLE: ..."},
        {"group": None, "topic": None, "error": "the groups of node 2 are not known: ..."},
    ],
)
def test_a_snapshot_is_complete_or_an_error(failed: dict[str, Any]) -> None:
    rows = [lag_row("a", "t", 0, committed=9), failed]
    with pytest.raises(KcliError, match="cannot read all offsets"):
        snapshot_of([group_row("a")], rows, {"t": None}, False)


def test_log_errors_do_not_make_a_snapshot_incomplete() -> None:
    """Errors of an owned partition without a commit, a deleted topic, a topic that is not selected, a share group."""
    no_leader = str(BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, topic="t", partition=1))
    rows = [
        lag_row("a", "t", 0, committed=9, error=no_leader),
        lag_row("a", "t", 1, error=no_leader),
        lag_row("a", "other", 0, error=UNREAD),
        {"group": "s", "topic": None, "error": "..."},
    ]
    found = snapshot_of([group_row("a"), group_row("s", "share")], rows, {"t": None}, False)
    assert [(it["partition"], it["committed"], it["lag"]) for it in found.rows] == [(0, 9, None)]
    with pytest.raises(Refused):
        snapshot_of([group_row("s", "share")], rows, {}, True)


def test_an_offset_fetch_error_is_recognised() -> None:
    """The rows of the view have the error text that `snapshot_of` expects."""
    failed = OffsetFetchResponsePartitions(
        partition_index=1, committed_offset=-1, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT
    )
    topics = [OffsetFetchResponseTopics(name="t", partitions=[failed])]
    response = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="a", topics=topics)])
    [(name, found)] = _read_offsets(response)
    assert isinstance(found, dict)
    [error] = found.values()
    assert name == "a"
    assert str(error) == UNREAD


def test_unseen_topics_and_partitions() -> None:
    seen = {("a", 0), ("b", 1)}
    assert unseen_topics({}, seen) == {}
    assert unseen_topics({"a": None, "x": None}, seen) == {"x": None}
    assert unseen_topics({"a": [0], "b": [0, 1, 2], "x": [3]}, seen) == {"b": [0, 2], "x": [3]}


def remote_snapshot(monkeypatch: pytest.MonkeyPatch, found: Snapshot, *words: str, address: str) -> Result:
    """Run `kcli spark group-offsets --remote ...` with this result of Spark."""
    monkeypatch.setattr("kcli.cli.spark.session.spark_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr("kcli.spark.pipelines.group_offsets.run", lambda *_: found)
    return run_kcli("spark", "group-offsets", "--remote", "sc://x", *words, "-b", address, "--timeout", "2")


def test_a_remote_snapshot_has_the_cluster_id_if_a_broker_answers(
    our_kafka: Kafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = Snapshot([lag_row("a", "t", 0, committed=9)], [])
    near, far = tmp_path / "near.json", tmp_path / "far.json"
    output = remote_snapshot(monkeypatch, found, "--to", str(near), address=our_kafka.bootstrap_servers)
    assert (output.status, "cluster id is unknown" in output.err) == (0, False)
    cluster = json.loads(near.read_text())["cluster_id"]
    assert cluster
    output = remote_snapshot(monkeypatch, found, "--to", str(far), "--diff", str(near), address="127.0.0.1:1")
    assert output.status == 0
    assert f"the cluster id is unknown, because no broker answers here; {far} does not have it" in output.err
    assert "cannot check that the file of --diff is of this cluster" in output.err
    assert json.loads(far.read_text())["cluster_id"] is None
    output = remote_snapshot(monkeypatch, found, "--diff", str(far), address=our_kafka.bootstrap_servers)
    assert "cannot check that the file of --diff is of this cluster: the file has no cluster id" in output.err
    near.write_text(near.read_text().replace(cluster, "another"))
    output = remote_snapshot(monkeypatch, found, "--diff", str(near), address=our_kafka.bootstrap_servers)
    assert (output.status, "another" in output.err) == (4, True)


def test_an_empty_snapshot_does_not_replace_a_file(
    our_kafka: Kafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saved = tmp_path / "backup.json"
    saved.write_text("good")
    output = remote_snapshot(monkeypatch, Snapshot([], []), "--to", str(saved), address=our_kafka.bootstrap_servers)
    assert (output.status, output.out, saved.read_text()) == (3, b"", "good")
    assert f"{saved} was not written" in output.err


# --- sql


@pytest.mark.parametrize(
    ("results", "items"),
    [
        ([Answer(["n"], [{"n": 1}, {"n": 2}])], [{"n": 1}, {"n": 2}]),
        (
            [Answer(["n"], [{"n": 1}]), Answer(["m"], [])],
            [{"result": 1, "columns": ["n"], "rows": [{"n": 1}]}, {"result": 2, "columns": ["m"], "rows": []}],
        ),
    ],
)
def test_json_output_of_several_statements_is_one_document(
    monkeypatch: pytest.MonkeyPatch, results: list[Answer], items: list[dict[str, Any]]
) -> None:
    monkeypatch.setattr("kcli.cli.spark.session.spark_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr("kcli.spark.pipelines.sql.run", lambda *_, **__: [StatementResult(it, False) for it in results])
    done = run_kcli("spark", "sql", "SELECT 1; SELECT 2", "--output", "json")
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.text) == {"kcli": 1, "kind": "spark.sql", "items": items}


def test_scripts_are_split_at_semicolons() -> None:
    text = "SELECT ';' /* ; /* ; */ ; */, `;`, \"a\\\";\" -- ;\n; ;\n-- nothing\n;SELECT r'\\';SELECT 1"
    assert [it.text.strip().splitlines()[0] for it in split_statements(text)] == [
        'SELECT \';\' /* ; /* ; */ ; */, `;`, "a\\";" -- ;',
        "SELECT r'\\'",
        "SELECT 1",
    ]


def test_table_names_are_found() -> None:
    [statement] = split_statements(
        """SELECT lag(x) OVER (ORDER BY offset), 'topic(''a'')', s.topic('no')
        FROM topic ( 'a', 'b:0,1', from => '-1h', until=>'latest' ) t, `topic`('no'), lag -- topic('no')
        JOIN batches('it\\'s') USING (topic) JOIN other.groups"""
    )
    names = iter("xyz")
    output: list[Relation] = []

    def name(relation: Relation) -> str:
        output.append(relation)
        return next(names)

    text = replace_relations(statement, name).text
    assert output == [
        Relation("records", ("a", "b:0,1"), "-1h", "latest"),
        Relation("lag"),
        Relation("batches", ("it's",)),
    ]
    assert "FROM `x` t, `topic`('no'), lag -- topic('no')" in text
    assert "JOIN `z` USING (topic) JOIN other.groups" in text
    assert "SELECT lag(x) OVER (ORDER BY offset), 'topic(''a'')', s.topic('no')" in text


def test_malformed_calls_are_refused() -> None:
    for text, words in (
        ("SELECT * FROM topic('a'", "no closing parenthesis"),
        ("SELECT * FROM topic()", "has no topic"),
        ("SELECT * FROM topic('a',)", "'' is not a valid argument"),
        ("SELECT * FROM topic(a)", "'a' is not a valid argument"),
        ("SELECT * FROM batches('a', since => '-1h')", "is not a valid argument"),
    ):
        with pytest.raises(ConfigError, match=words):
            find_tables(split_statements(text))


USUAL = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def test_only_necessary_columns_are_read() -> None:
    for text, columns in (
        ("SELECT count(*) FROM topic('a')", ["partition"]),
        (
            "SELECT KEY, value_size FROM topic('a', from => '-1h') WHERE `timestampType` = 1",
            ["key", "timestampType", "value_size"],
        ),
        ("SELECT 'value' FROM topic('a') ORDER BY offset DESC -- key", ["offset"]),
        ("SELECT headers, t.* FROM topic('a') t", [*USUAL, "headers"]),
        ("SELECT a FROM topic('a') AS t(a, b, c, d, e, f, g)", USUAL),
        ("SELECT a FROM topic('a') t (a, b, c, d, e, f, g)", USUAL),
        ("SELECT offset FROM topic('a') WHERE (partition = 1)", ["partition", "offset"]),
        ("FROM topic('a')", USUAL),
        ("SELECT x FROM (FROM topic('a'))", USUAL),
        ("FROM topic('a') |> SELECT key", USUAL),
        ("SELECT key FROM topic('a') NATURAL JOIN topic('b')", USUAL),
        ("TABLE topic('a')", USUAL),
        ("DESCRIBE topic('a')", USUAL),
    ):
        [statement] = split_statements(text)
        assert columns_of(statement, "records") == columns, text


def test_repeated_column_names_are_numbered() -> None:
    """As in `SELECT a.offset, b.offset FROM ...`."""
    names = ["offset", "offset", "offset_2", "offset"]
    table = pa.table([pa.array([column, 10 * column]) for column in range(4)], names)
    frame: Any = SimpleNamespace(toArrow=lambda: table, columns=names)
    found = collect(frame)
    assert found.columns == ["offset", "offset_3", "offset_2", "offset_4"]
    assert [list(row.values()) for row in found.rows] == [[0, 1, 2, 3], [0, 10, 20, 30]]
    assert all(list(row) == found.columns for row in found.rows)


# --- as they are typed


def test_usage_errors_are_one_line_before_spark_starts(tmp_path: Path) -> None:
    plan = tmp_path / "old.csv"
    plan.write_text("t,0,5\n")
    for words, output in (
        (("lag-history", "--every", "soon"), "--every: 'soon' is not valid; use a duration"),
        (("lag-history", "--by", "broker"), "use group, topic or partition"),
        (("lag-history", "--since", "-1h", "--until", "-2h"), "--since -1h is after --until -2h"),
        (("lag-history", "--since", "2020-01-01", "--every", "1s"), "use a longer one"),
        (("lag-history", "--groups", " , "), "--groups must not be empty"),
        (("lag-history", "--fail-if", "lagg>1"), "'lagg' is unknown"),
        (("group-offsets", "--all"), "--all requires --diff"),
        (("group-offsets", "--to", str(tmp_path / "no" / "file")), "does not exist"),
        (("group-offsets", "--diff", str(tmp_path / "none.json")), "cannot read"),
        (("group-offsets", "--diff", str(plan)), "does not name the groups of its offsets"),
        (("sql",), "either a STATEMENT or --file FILE"),
        (("sql", " ; -- nothing"), "no SQL statement given"),
        (("sql", "SELECT 1", "--where", "x"), "use WHERE in the statement"),
        (("sql", "SELECT * FROM topic('')"), "is not a valid topic; write it like orders"),
        (("sql", "SELECT * FROM topic('a', from => 'soon')"), "use one of earliest"),
    ):
        result = run_kcli("spark", *words)
        assert (result.status, result.out) == (2, b""), (words, result.err)
        assert output in result.err
        assert len(result.err.strip().splitlines()) == 1


@pytest.mark.usefixtures("without_java")
def test_missing_topics_and_groups_are_reported_before_spark_starts(our_kafka: Kafka) -> None:
    for words, output in (
        (("sql", "SELECT * FROM topic('not-there')"), "not-there"),
        (("group-offsets", "--groups", "not-there"), "not-there"),
        (("group-offsets", "not-there"), "not-there"),
    ):
        result = run_kcli("spark", *words, "-b", our_kafka.bootstrap_servers)
        assert result.status == 3, result.err
        assert output in result.err


def test_dry_runs_do_not_start_spark(our_kafka: Kafka) -> None:
    topic = our_kafka.new_topic(2)
    consumer = Consumer({"bootstrap.servers": our_kafka.bootstrap_servers, "group.id": topic})
    consumer.commit(offsets=[Place(topic, 0, 0)], asynchronous=False)
    consumer.close()
    script = f"""
import sys
from kcli.cli.app import run
from kcli.cli.environment import Environment
for words in (
    ["sql", "SELECT count(*) FROM topic('{topic}:1'), batches('{topic}') JOIN lag"],
    ["group-offsets"],
    ["lag-history", "--since", "-1h"],
):
    status = run(["spark", *words, "--dry-run", "-b", "{our_kafka.bootstrap_servers}"], Environment.of_process())
    print(words[0], status, "pyspark" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    lines = done.stderr.splitlines()
    assert [line for line in lines if line.endswith("False")] == [
        "sql 0 False",
        "group-offsets 0 False",
        "lag-history 0 False",
    ]
    assert [line for line in lines if line.startswith("also read, not counted here: batch headers from ")]
    assert "  columns=partition" in lines
    assert [line.split()[:3] for line in done.stdout.splitlines() if line.startswith(("topic(", "batches("))] == [
        [f"topic('{topic}:1')", topic, "1"],
        [f"batches('{topic}')", topic, "0"],
        [f"batches('{topic}')", topic, "1"],
    ]


def test_a_dry_run_of_many_tables_is_one_document(our_kafka: Kafka) -> None:
    topic = our_kafka.new_topic()
    text = f"SELECT 1 FROM topic('{topic}', from => 'earliest') JOIN lag; SELECT count(*) FROM batches('{topic}')"
    done = run_kcli("spark", "sql", text, "--dry-run", "-O", "json", "-b", our_kafka.bootstrap_servers)
    assert done.status == 0, done.err
    document = json.loads(done.text)
    assert document["kind"] == "spark.dry-run"
    assert [(it["table"], it["topic"], it["end"], it["tasks"]) for it in document["items"]] == [
        (f"topic('{topic}', from => 'earliest')", topic, 0, 0),
        ("lag", None, None, 1),
        (f"batches('{topic}')", topic, 0, 0),
    ]


def test_sums_exclude_and_count_unknown_lag() -> None:
    held = {("g", "t", 0): Commits([0], [3], [1]), ("g", "u", 0): Commits([1], [1], [2])}
    ends = ends_at(GRID, {("t", 0): Log(0, 9)}, [], held)
    rows = lag_rows(GRID, held, ends, "group")
    assert [(it["lag"], it["max_lag"], it["partitions"], it["unknown"]) for it in rows[:2]] == [
        (6, 6, 1, 0),
        (6, 6, 2, 1),
    ]
    assert [it["group"] for it in lag_rows(GRID, held, ends, "topic")][:1] == ["g"]
    assert {it["topic"]: it["lag"] for it in lag_rows(GRID, held, ends, "topic")} == {"t": 6, "u": None}
