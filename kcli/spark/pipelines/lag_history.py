"""History of lag: the commits of groups against the log ends at the same time.

Commits come from __consumer_offsets, log ends from batch headers, so no earlier measurement is needed.
Compaction removes a commit only if a later one of the same group and partition follows, and removes nothing from the
recent part of the log. So no commit is missing between remaining ones; only the time before the first one is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError, NotFound
from kcli.spark.pipelines import lag_tasks
from kcli.spark.pipelines.lag_grid import SERIES, Commits, Log, Place, ends_at, lag_rows
from kcli.spark.pipelines.lag_tasks import COMMIT_FIELDS, END_FIELDS, Grid, reduce_batches, reduce_commits
from kcli.spark.pipelines.result import Result, collect
from kcli.spark.pipelines.source import check_topics_exist, is_selected, load
from kcli.structs import OFFSETS_TOPIC
from kcli.text import format_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kcli.spark.pipelines.source import KafkaSource

COMMIT_COLUMNS = ["group", "topic", "partition", "offset", "commit_timestamp", "log_timestamp", "log_offset"]
BATCH_COLUMNS = ["topic", "partition", "base_offset", "last_offset", "max_timestamp"]
MOST_POINTS = 100_000


class LagHistoryOptions(NamedTuple):
    """Grid of times, groups (None: all), and the series `by`."""

    grid: Grid
    groups: tuple[str, ...] | None = None
    by: str = "group"


class History(NamedTuple):
    """History of lag.

    `lags`: rows by series and time. `silent`: requested groups without a commit before the end; `gone`: deleted topics,
    whose lag is unknown; `first_ms`: time of the first known commit; `ahead`: number of batches with a timestamp in the
    future, which is ignored.
    """

    lags: Result
    silent: list[str]
    gone: list[str]
    first_ms: int | None
    ahead: int = 0


def make_grid(since_ms: int, until_ms: int, every_ms: int) -> Grid:
    """Return the multiples of `every_ms` in the closed interval. ConfigError if there are none or too many."""
    first = -(-since_ms // every_ms) * every_ms
    points = (until_ms - first) // every_ms + 1
    if points < 1:
        raise ConfigError("--every: no multiple of it is between --since and --until; use a shorter one")
    if points > MOST_POINTS:
        raise ConfigError(f"--every: {points:,} points of time are more than {MOST_POINTS:,}; use a longer one")
    return Grid(first, every_ms, points)


def row_columns(by: str) -> list[str]:
    """Return the columns of a row. Sums are over `partitions`, without the `unknown` ones."""
    return [name for name, _ in _fields(by)]


def _fields(by: str) -> list[tuple[str, str]]:
    names = [(name, "int" if name == "partition" else "string") for name in SERIES[by]]
    if by == "partition":
        expressions = [("lag", "bigint"), ("committed", "bigint"), ("end", "bigint"), ("committed_at", "timestamp")]
    else:
        expressions = [("lag", "bigint"), ("max_lag", "bigint"), ("partitions", "int"), ("unknown", "int")]
    return [("time", "timestamp"), *names, *expressions]


def commits_source(source: KafkaSource, groups: Sequence[str] | None) -> KafkaSource:
    """Return the source of commits: all of __consumer_offsets, because a current position may be old. Aborted commits
    are skipped.
    """
    return source._replace(
        kafka={**source.kafka, "isolation.level": "read_committed"},
        topics={OFFSETS_TOPIC: None},
        start={"startingOffsets": "earliest"},
        until={},
        where=None,
        more={**source.more, **({} if groups is None else {"groups": ",".join(groups)})},
    )


def run(spark: SparkSession, source: KafkaSource, options: LagHistoryOptions) -> History:
    """Compute the history. `source` selects the topics (none: all); its `where` filters rows of the result.

    NotFound if no commit of the groups is known, or a named topic does not exist.
    """
    from kcli.spark.deploy.ship import by_value

    with by_value(lag_tasks):
        return _run(spark, source, options)


def _run(spark: SparkSession, source: KafkaSource, options: LagHistoryOptions) -> History:
    commits = _commits(spark, source, options)
    committed_partitions = {(topic, partition) for _, topic, partition in commits}
    check_topics_exist(spark, source, committed_partitions)
    silent = sorted(set(options.groups or ()) - {group for group, _, _ in commits})
    if options.groups and len(silent) == len(set(options.groups)):
        raise NotFound(f"{', '.join(silent)}: no commit before {format_time(options.grid.last_ms)} found")
    logs = (
        {place: log for place, log in _logs(spark, source).items() if place in committed_partitions}
        if committed_partitions
        else {}
    )
    batches, ahead = _batch_ends(spark, source, options.grid, logs)
    ends = ends_at(options.grid, logs, batches, commits)
    rows = lag_rows(options.grid, commits, ends, options.by)
    gone = sorted({topic for topic, _ in committed_partitions - logs.keys()})
    first = min((at for series_commits in commits.values() for at in series_commits.times_ms), default=None)
    return History(_to_result(spark, rows, source.where, options), silent, gone, first, ahead)


def _commits(
    spark: SparkSession, source: KafkaSource, options: LagHistoryOptions
) -> dict[tuple[str, str, int], Commits]:
    """Return the last commit of each series in each step, in log order."""
    frame = load(spark, commits_source(source, options.groups), "commits", COMMIT_COLUMNS)
    table = _reduced(frame, COMMIT_FIELDS, reduce_commits, options.grid).toArrow().sort_by("log_offset")
    commits: dict[tuple[str, str, int], Commits] = {}
    columns = (table.column(name).to_pylist() for name in table.column_names)
    for group, topic, partition, step, committed, at_ms, _ in zip(*columns, strict=True):
        if is_selected(topic, partition, source.topics):
            commits.setdefault((group, topic, partition), Commits([], [], [])).add(step, committed, at_ms)
    return commits


def _logs(spark: SparkSession, source: KafkaSource) -> dict[Place, Log]:
    """Return the present log bounds of all partitions that answer."""
    everywhere = source._replace(topics={}, start={}, until={}, where=None)
    rows = load(spark, everywhere, "offsets", ["topic", "partition", "earliest", "latest"]).collect()
    return {
        (row["topic"], row["partition"]): Log(row["earliest"], row["latest"])
        for row in rows
        if row["earliest"] is not None and row["latest"] is not None
    }


def _batch_ends(
    spark: SparkSession, source: KafkaSource, grid: Grid, logs: Mapping[Place, Log]
) -> tuple[list[tuple[Place, int, int, int]], int]:
    """Return (partition, step, end, base) of batches in the grid, and the number of batches with timestamps in the
    future. See `reduce_batches`.
    """
    if not logs:
        return [], 0
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(logs):
        topics.setdefault(topic, []).append(partition)
    start = {"startingTimestamp": format_time(grid.first_ms), "startingOffsetsByTimestampStrategy": "latest"}
    recent = source._replace(topics=topics, start=start, until={}, where=None)
    frame = load(spark, recent, "batches", BATCH_COLUMNS)
    table = _reduced(frame, END_FIELDS, reduce_batches, grid).toArrow().sort_by("end")
    columns = (table.column(name).to_pylist() for name in table.column_names)
    rows = list(zip(*columns, strict=True))
    return [((topic, partition), *known) for topic, partition, *known, _ in rows], sum(row[-1] for row in rows)


def _reduced(frame: DataFrame, fields: str, reduce: Callable[..., Any], grid: Grid) -> DataFrame:
    """Apply `reduce` to the rows of each task."""

    def reduced(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        kinds = {"string": pyarrow.string(), "int": pyarrow.int32(), "bigint": pyarrow.int64()}
        schema = pyarrow.schema([(name, kinds[kind]) for name, kind in (field.split() for field in fields.split(", "))])
        for columns in reduce(batches, grid, int(time() * 1000)):
            yield pyarrow.RecordBatch.from_pydict(columns, schema)

    return frame.mapInArrow(reduced, fields)


def _to_result(
    spark: SparkSession, rows: Sequence[Mapping[str, Any]], where: str | None, options: LagHistoryOptions
) -> Result:
    """Return the rows for which `where` is true, with formatted times."""
    fields = _fields(options.by)
    names = [name for name, _ in fields]
    times = [name for name, kind in fields if kind == "timestamp"]
    if where is None or not rows:
        return Result(names, [{**row, **{name: format_time(row[name]) for name in times}} for row in rows])
    numbered = ", ".join(f"`{name}` {'bigint' if name in times else kind}" for name, kind in fields)
    frame = spark.createDataFrame([tuple(row[name] for name in names) for row in rows], numbered)
    expressions = [f"timestamp_millis(`{name}`) AS `{name}`" if name in times else f"`{name}`" for name in names]
    filtered = collect(frame.selectExpr(*expressions).where(where))
    return Result(
        names, sorted(filtered.rows, key=lambda row: [row[column] for column in (*SERIES[options.by], "time")])
    )
