"""The option `commitGroup` of a stream: a listener on the driver that commits for each query with the option.

The listener is needed because Spark's planner calls the source's `commit` one batch late. `register` adds one listener
to a session with a JVM. It finds the options of a starting query in its plan, which is internal to Spark: if the plan
has another form, and over Spark Connect, only `commit_to_group` commits the last batch.
"""

from __future__ import annotations

import atexit
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener

from kcli.errors import KcliError
from kcli.spark.commit_listener import PATIENCE_S, checkpoint_of, checkpoint_position
from kcli.spark.group_commits import CommitThread, GroupCommits
from kcli.spark.options import SourceOptions, parse_options
from kcli.spark.stream_checkpoint import positions_of_progress
from kcli.spark.task import log_reports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
            and (position := checkpoint_position(self.checkpoint, self.source, _report)) is not None
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
        self._ending = [*self._ending, *(it.thread for it in ended.values())]
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
        thread = CommitThread(GroupCommits(options, str(options.commit_group)), _report, options.commit_on_idle_s)
    except KcliError as error:  # the source raises the same error, which ends the query
        _report(str(error))
        return None
    followed = FollowedSource(thread, source, checkpoint_of(query))
    followed.commit_checkpoint()
    return followed


def _report(text: str) -> None:
    log_reports([text])
