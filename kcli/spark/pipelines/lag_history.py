"""How far behind groups were at any time: their commits of then against where the logs ended then.

Commits come from __consumer_offsets, ends from the headers of batches: so it goes back to before anybody watched. Its
log is compacted, which takes a commit away only where a later one of the same group and partition follows, and of what
is not yet compacted nothing at all: hence between commits that are left none is missing, and what is not known is the
time before the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError, NotFound
from kcli.spark.pipelines.lag_grid import SERIES, Commits, Log, Place, ends_at, lag_rows
from kcli.spark.pipelines.lag_tasks import COMMIT_FIELDS, END_FIELDS, Grid
from kcli.spark.pipelines.result import Result, collect
from kcli.spark.pipelines.source import check_named, is_meant, load
from kcli.structs import OFFSETS_TOPIC
from kcli.text import format_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kcli.spark.pipelines.source import KafkaSource

COMMIT_COLUMNS = ["group", "topic", "partition", "offset", "commit_timestamp", "log_timestamp", "log_offset"]
BATCH_COLUMNS = ["topic", "partition", "base_offset", "last_offset", "max_timestamp"]
MOST_POINTS = 100_000


class Wish(NamedTuple):
    """The lag at each point of the grid, of these groups (None: of all), a row for each series of `by`."""

    grid: Grid
    groups: tuple[str, ...] | None = None
    by: str = "group"


class History(NamedTuple):
    """`lags`: by series and time. `silent`: groups that were asked for and have no commit till then; `gone`: topics
    that are not there any more, whose lag is not known; `first_ms`: when the first commit was of which anything is
    known; `ahead`: of how many batches the time is yet to come, so that it is none.
    """

    lags: Result
    silent: list[str]
    gone: list[str]
    first_ms: int | None
    ahead: int = 0


def make_grid(since_ms: int, until_ms: int, every_ms: int) -> Grid:
    """Whole multiples of `every_ms` from since to until, both included. ConfigError for none, or for too many."""
    first = -(-since_ms // every_ms) * every_ms
    points = (until_ms - first) // every_ms + 1
    if points < 1:
        raise ConfigError("there is no point of time to look at: --since is too near to --until for this --every")
    if points > MOST_POINTS:
        raise ConfigError(f"{points:,} points of time are more than {MOST_POINTS:,}: choose a longer --every")
    return Grid(first, every_ms, points)


def row_columns(by: str) -> list[str]:
    """What a row tells. Sums are over `partitions`, without those of `unknown` lag."""
    return [name for name, _ in _fields(by)]


def _fields(by: str) -> list[tuple[str, str]]:
    names = [(name, "int" if name == "partition" else "string") for name in SERIES[by]]
    if by == "partition":
        told = [("lag", "bigint"), ("committed", "bigint"), ("end", "bigint"), ("committed_at", "timestamp")]
    else:
        told = [("lag", "bigint"), ("max_lag", "bigint"), ("partitions", "int"), ("unknown", "int")]
    return [("time", "timestamp"), *names, *told]


def commits_source(source: KafkaSource, groups: Sequence[str] | None) -> KafkaSource:
    """Where commits come from: all of __consumer_offsets, as a position of today may be an old one. What transactions
    have not committed is not committed.
    """
    return source._replace(
        kafka={**source.kafka, "isolation.level": "read_committed"},
        topics={OFFSETS_TOPIC: None},
        start={"startingOffsets": "earliest"},
        until={},
        where=None,
        more={**source.more, **({} if groups is None else {"groups": ",".join(groups)})},
    )


def run(spark: SparkSession, source: KafkaSource, wish: Wish) -> History:
    """Count. `source`: the topics that are meant, none for all, and with `where` rows of the result. NotFound: nothing
    is known of any of the groups, or of a topic that is named.
    """
    from kcli.spark.pipelines import lag_tasks
    from kcli.spark.pipelines.by_value import by_value

    with by_value(lag_tasks):
        return _run(spark, source, wish)


def _run(spark: SparkSession, source: KafkaSource, wish: Wish) -> History:
    commits = _commits(spark, source, wish)
    held = {(topic, partition) for _, topic, partition in commits}
    check_named(spark, source, held)
    silent = sorted(set(wish.groups or ()) - {group for group, _, _ in commits})
    if wish.groups and len(silent) == len(set(wish.groups)):
        raise NotFound(f"of {', '.join(silent)} no commit before {format_time(wish.grid.last_ms)} is left")
    logs = {place: log for place, log in _logs(spark, source).items() if place in held} if held else {}
    batches, ahead = _batch_ends(spark, source, wish.grid, logs)
    ends = ends_at(wish.grid, logs, batches, commits)
    rows = lag_rows(wish.grid, commits, ends, wish.by)
    gone = sorted({topic for topic, _ in held - logs.keys()})
    first = min((at for its in commits.values() for at in its.times_ms), default=None)
    return History(_shown(spark, rows, source.where, wish), silent, gone, first, ahead)


def _commits(spark: SparkSession, source: KafkaSource, wish: Wish) -> dict[tuple[str, str, int], Commits]:
    """The last commit of each series in each step, in the order of the log."""
    from kcli.spark.pipelines.lag_tasks import reduce_commits

    frame = load(spark, commits_source(source, wish.groups), "commits", COMMIT_COLUMNS)
    table = _reduced(frame, COMMIT_FIELDS, reduce_commits, wish.grid).toArrow().sort_by("log_offset")
    found: dict[tuple[str, str, int], Commits] = {}
    columns = (table.column(name).to_pylist() for name in table.column_names)
    for group, topic, partition, step, committed, at_ms, _ in zip(*columns, strict=True):
        if is_meant(topic, partition, source.topics):
            found.setdefault((group, topic, partition), Commits([], [], [])).add(step, committed, at_ms)
    return found


def _logs(spark: SparkSession, source: KafkaSource) -> dict[Place, Log]:
    """Where the logs begin and end now, of all that answer."""
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
    """(place, step, end, base), from batches that are as young as the grid, and how many of them have times that are
    yet to come: see `reduce_batches`.
    """
    from kcli.spark.pipelines.lag_tasks import reduce_batches

    if not logs:
        return [], 0
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(logs):
        topics.setdefault(topic, []).append(partition)
    start = {"startingTimestamp": str(grid.first_ms), "startingOffsetsByTimestampStrategy": "latest"}
    young = source._replace(topics=topics, start=start, until={}, where=None)
    frame = load(spark, young, "batches", BATCH_COLUMNS)
    table = _reduced(frame, END_FIELDS, reduce_batches, grid).toArrow().sort_by("end")
    columns = (table.column(name).to_pylist() for name in table.column_names)
    rows = list(zip(*columns, strict=True))
    return [((topic, partition), *known) for topic, partition, *known, _ in rows], sum(row[-1] for row in rows)


def _reduced(frame: DataFrame, fields: str, reduce: Callable[..., Any], grid: Grid) -> DataFrame:
    """What `reduce` makes of each task's rows."""

    def reduced(batches: Iterator[Any]) -> Iterator[Any]:
        from time import time

        import pyarrow

        kinds = {"string": pyarrow.string(), "int": pyarrow.int32(), "bigint": pyarrow.int64()}
        schema = pyarrow.schema([(name, kinds[kind]) for name, kind in (it.split() for it in fields.split(", "))])
        for columns in reduce(batches, grid, int(time() * 1000)):
            yield pyarrow.RecordBatch.from_pydict(columns, schema)

    return frame.mapInArrow(reduced, fields)


def _shown(spark: SparkSession, rows: Sequence[Mapping[str, Any]], where: str | None, wish: Wish) -> Result:
    """The rows for which `where` holds, times as results have them."""
    fields = _fields(wish.by)
    names = [name for name, _ in fields]
    times = [name for name, kind in fields if kind == "timestamp"]
    if where is None or not rows:
        return Result(names, [{**row, **{name: format_time(row[name]) for name in times}} for row in rows])
    numbered = ", ".join(f"`{name}` {'bigint' if name in times else kind}" for name, kind in fields)
    frame = spark.createDataFrame([tuple(row[name] for name in names) for row in rows], numbered)
    told = [f"timestamp_millis(`{name}`) AS `{name}`" if name in times else f"`{name}`" for name in names]
    found = collect(frame.selectExpr(*told).where(where))
    return Result(names, sorted(found.rows, key=lambda row: [row[it] for it in (*SERIES[wish.by], "time")]))
