"""Commits of a streaming query's position to a consumer group, after Spark's own commit.

A StreamingQueryListener in the driver process: when a progress event arrives, Spark has written the batch to its commit
log, so the group is never ahead of the sink. (A source's own `commit` is called one batch late and never for the last
batch, as seen on 4.2 and 4.3.) Events are asynchronous: `close` waits for the last one.

`commit_to_group` adds a listener for one query. For the option `commitGroup`, `register` adds one to a session with a
JVM, which commits for each query with the option. It finds the options of a starting query in its plan, which is
internal to Spark: if the plan has another form, and over Spark Connect, only `commit_to_group` commits the last batch.
"""

from __future__ import annotations

import atexit
import json
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from kcli.errors import KcliError
from kcli.spark.group_commits import CommitThread, GroupCommits, Position
from kcli.spark.options import SourceOptions, parse_options
from kcli.spark.stream_checkpoint import last_position, local_path, positions_of_progress
from kcli.spark.task import log_reports

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

PATIENCE_S = 30.0


def commit_to_group(
    target: SparkSession | StreamingQuery,
    group: str,
    options: Mapping[str, str],
    *,
    query_name: str | None = None,
    source: int = 0,
    checkpoint: str | None = None,
    idle_ms: float = 3_600_000,
    say: Callable[[str], object] | None = None,
) -> GroupCommitter:
    """Commit the position of a streaming query to `group` while it runs. Works over Spark Connect as well.

    `target` is a running query, or the session in which the next query will be started (the one called `query_name`, if
    given). `options` are those of the source; only `kafka.*` are used. `source` is the index of the Kafka source among
    the query's sources. `checkpoint`, a local folder, makes the group up to date at once: a query that ended before may
    not have committed its last batch. For a running query the folder is found, except over Connect. The same offsets
    are committed again after `idle_ms` milliseconds without progress (0: never).

    Raises GroupInUse if the group has live members, ConfigError for options, and broker errors of this first check.
    Later errors are passed to `say` (default: standard error), and the query continues. Use the result in a `with`
    statement, or call `close` after `query.awaitTermination()`.
    """
    kafka = {name.lower()[6:]: value for name, value in options.items() if name.lower().startswith("kafka.")}
    commits = GroupCommits(SourceOptions(kafka), group)
    try:
        commits.refuse_if_in_use()
    except BaseException:
        commits.close()
        raise
    committer = GroupCommitter(commits, source, query_name, idle_ms / 1000, say or (lambda text: log_reports([text])))
    committer.attach(target, checkpoint)
    return committer


class GroupCommitter(StreamingQueryListener):  # type: ignore[misc,unused-ignore]
    """Listener that commits for one run of one query; made by `commit_to_group`."""

    def __init__(
        self,
        commits: GroupCommits,
        source: int,
        query_name: str | None,
        idle_s: float,
        report: Callable[[str], object],
    ) -> None:
        self._source = source
        self._query_name = query_name
        self._report = report
        self._run_id: str | None = None
        self._ended = threading.Event()
        self._session: Any = None
        self._checkpoint: str | None = None
        self._thread = CommitThread(commits, report, idle_s)

    def __enter__(self) -> GroupCommitter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def attach(self, target: Any, checkpoint: str | None) -> None:
        """Follow a running query, or the next query of a session."""
        is_session = hasattr(target, "streams")
        self._session = target if is_session else session_of(target)
        if not is_session:
            self._run_id = str(target.runId)
            checkpoint = checkpoint or checkpoint_of(target)
        self._checkpoint = checkpoint
        self._commit_checkpoint()
        self._session.streams.addListener(self)
        if not is_session:
            if (last := target.lastProgress) is not None:
                self._commit_progress(json.loads(last.json))
            if not target.isActive:  # its last event may have been sent before the listener was added
                self._ended.set()

    def onQueryStarted(self, event: Any) -> None:
        """Choose the query to follow: the first one with the wanted name. Spark calls this while the query starts."""
        if self._run_id is None and self._query_name in (None, event.name):
            self._run_id = str(event.runId)

    def onQueryProgress(self, event: Any) -> None:
        """Commit the position of a batch that is in Spark's commit log."""
        if str(event.progress.runId) == self._run_id:
            self._commit_progress(json.loads(event.progress.json))

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing: the committing thread repeats commits by itself."""

    def onQueryTerminated(self, event: Any) -> None:
        """Note the end: no event of this run follows."""
        if str(event.runId) == self._run_id:
            self._ended.set()

    def close(self, patience_s: float = PATIENCE_S) -> bool:
        """Commit the last position and stop following; return whether the group has the query's position.

        Waits for the last event of an ended query, and reads its checkpoint if that is local: events may be late, and
        without the last one the offsets of its batch are not known.
        """
        is_complete = self._run_id is None or self._is_running() or self._ended.wait(patience_s)
        if not is_complete and (self._checkpoint is None or local_path(self._checkpoint) is None):
            self._report(
                f"Spark did not report the query's end within {patience_s:g} s; its last commit may be missing"
            )
        self._commit_checkpoint()
        try:
            self._session.streams.removeListener(self)
        except Exception as error:  # a stopped session has no listeners
            self._report(f"the listener could not be removed: {type(error).__name__}")
        return self._thread.finish(patience_s) and is_complete

    def _is_running(self) -> bool:
        try:
            return any(str(query.runId) == self._run_id for query in self._session.streams.active)
        except Exception:  # a stopped session has no queries
            return False

    def _commit_progress(self, progress: Mapping[str, object]) -> None:
        position = positions_of_progress(progress).get(self._source)
        if position is not None:
            self._thread.put(position)

    def _commit_checkpoint(self) -> None:
        if self._checkpoint is None:
            return
        if (position := checkpoint_position(self._checkpoint, self._source, self._report)) is not None:
            self._thread.put(position)


def checkpoint_position(checkpoint: str, source: int, report: Callable[[str], object]) -> Position | None:
    """Return the position in a checkpoint; None, with a report, if it cannot be read."""
    if (folder := local_path(checkpoint)) is None:
        return None
    try:
        return last_position(folder, source)
    except (KcliError, OSError) as error:
        report(f"cannot read the position in the checkpoint: {error}")
        return None


def session_of(query: Any) -> Any:
    """Return the session of a query: its own over Connect, otherwise the active one."""
    return getattr(query, "_session", None) or SparkSession.active()


def checkpoint_of(query: Any) -> str | None:
    """Return the checkpoint location of a running query; None where Spark's JVM cannot be asked."""
    try:
        return str(query._jsq.streamingQuery().resolvedCheckpointRoot())
    except Exception:  # Connect has no _jsq, and the rest is not a public interface
        return None


# The option commitGroup

FORMAT = "kcli"


def follow_option(spark: SparkSession) -> None:
    """Add the listener to a session. Repeated calls have no effect."""
    if not hasattr(spark, "_jsparkSession") or hasattr(spark, "_kcli_commits"):
        return
    listener = OptionCommitter(spark)
    spark._kcli_commits = listener
    spark.streams.addListener(listener)
    atexit.register(listener.finish)


class FollowedSource(NamedTuple):
    """Commits for one source of a query. `checkpoint` is the location of the query's checkpoint, if known."""

    thread: CommitThread
    source: int
    checkpoint: str | None

    def commit_checkpoint(self) -> None:
        """Commit the position in the checkpoint: the events of the last batches may be late or never sent."""
        if (
            self.checkpoint is not None
            and (position := checkpoint_position(self.checkpoint, self.source, _log)) is not None
        ):
            self.thread.put(position)


class OptionCommitter(StreamingQueryListener):  # type: ignore[misc,unused-ignore]
    """Listener that commits for the sources with the option, by run id and source index."""

    def __init__(self, spark: SparkSession) -> None:
        self._session = spark
        self._runs: dict[str, dict[int, FollowedSource]] = {}
        self._ending: list[CommitThread] = []

    def onQueryStarted(self, event: Any) -> None:
        """Start committing. Spark waits for this call, so the connections are made by other threads."""
        query = self._session.streams.get(str(event.id))
        options_by_source = {} if query is None else options_of_sources(query)
        self._runs[str(event.runId)] = {
            index: followed
            for index, options in options_by_source.items()
            if (followed := _follow(query, index, options)) is not None
        }

    def onQueryProgress(self, event: Any) -> None:
        """Commit the positions of a batch that is in Spark's commit log."""
        if sources := self._runs.get(str(event.progress.runId)):
            for index, position in positions_of_progress(json.loads(event.progress.json)).items():
                if index in sources:
                    sources[index].thread.put(position)

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:
        """Commit the last position. `finish` waits for commits that are still in flight."""
        ended = self._runs.get(str(event.runId), {})
        for followed in ended.values():
            followed.commit_checkpoint()
        self._ending = [*self._ending, *(followed.thread for followed in ended.values())]
        self._runs.pop(str(event.runId), None)
        self._ending = [work for work in self._ending if not work.finish(0)]

    def finish(self, patience_s: float = PATIENCE_S) -> None:
        """Commit the last known positions at the end of the process. The end of a query may not have been
        reported yet.
        """
        running = [followed for sources in list(self._runs.values()) for followed in sources.values()]
        for followed in running:
            followed.commit_checkpoint()
        for thread in [*self._ending, *(followed.thread for followed in running)]:
            thread.finish(patience_s)


def options_of_sources(query: Any) -> dict[int, SourceOptions]:
    """Return the source options that name a group, by source index; empty if the plan cannot be read."""
    try:
        leaves = query._jsq.streamingQuery().analyzedPlan().collectLeaves()
        streams: list[Any] = []
        for leaf in (leaves.apply(number) for number in range(leaves.size())):
            if leaf.isStreaming() and not any(leaf.equals(known) for known in streams):
                streams.append(leaf)
        return {index: options for index, leaf in enumerate(streams) if (options := _options_of(leaf)) is not None}
    except Exception:  # not a public interface of Spark
        return {}


def _options_of(leaf: Any) -> SourceOptions | None:
    if leaf.getClass().getSimpleName() != "StreamingRelationV2" or leaf.sourceName() != FORMAT:
        return None
    given = leaf.extraOptions().asCaseSensitiveMap()
    options = parse_options({str(key): str(given.get(key)) for key in given}, stream=True)
    return options if options.commit_group is not None else None


def _follow(query: Any, source: int, options: SourceOptions) -> FollowedSource | None:
    try:
        thread = CommitThread(GroupCommits(options, str(options.commit_group)), _log, options.commit_on_idle_s)
    except KcliError as error:  # the source raises the same error, which ends the query
        _log(str(error))
        return None
    followed = FollowedSource(thread, source, checkpoint_of(query))
    followed.commit_checkpoint()
    return followed


def _log(text: str) -> None:
    log_reports([text])
