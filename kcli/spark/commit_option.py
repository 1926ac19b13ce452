"""The option `commitGroup` of a stream, seen from the driver: Spark's planner asks the source a batch too late.

`register` adds one listener to a session with a JVM. It finds the options of a starting query in its plan, which is
Spark's inside: where that looks different, and over Spark Connect, only `commit_to_group` commits the last batch.
"""

from __future__ import annotations

import atexit
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener

from kcli.errors import KcliError
from kcli.spark.commit_listener import PATIENCE_S, checkpoint_of, position_in
from kcli.spark.group_commits import Committing, GroupCommits
from kcli.spark.options import SourceOptions, parse_options
from kcli.spark.stream_checkpoint import positions_of_progress
from kcli.spark.task import tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "kcli"


def follow_option(spark: SparkSession) -> None:
    """Commit for every stream of this session with the option; again does no harm."""
    if not hasattr(spark, "_jsparkSession") or hasattr(spark, "_kcli_commits"):
        return
    listener = OptionCommitter(spark)
    spark._kcli_commits = listener
    spark.streams.addListener(listener)
    atexit.register(listener.finish)


class Followed(NamedTuple):
    """The commits for a source of a query, and where the query's checkpoint is, if that is known."""

    work: Committing
    source: int
    checkpoint: str | None

    def catch_up(self) -> None:
        """Commit what the checkpoint calls done: the events of the last batches may be late, or never come."""
        if self.checkpoint is not None and (position := position_in(self.checkpoint, self.source, _say)) is not None:
            self.work.put(position)


class OptionCommitter(StreamingQueryListener):  # type: ignore[misc,unused-ignore]
    """Commits for the sources of a session's queries that ask for it; by run and place of the source."""

    def __init__(self, spark: SparkSession) -> None:
        self._session = spark
        self._runs: dict[str, dict[int, Followed]] = {}
        self._ending: list[Committing] = []

    def onQueryStarted(self, event: Any) -> None:
        """Spark waits for this: what talks to brokers is done by other threads."""
        query = self._session.streams.get(str(event.id))
        wanted = {} if query is None else options_of_sources(query)
        self._runs[str(event.runId)] = {
            index: begun for index, options in wanted.items() if (begun := _begin(query, index, options)) is not None
        }

    def onQueryProgress(self, event: Any) -> None:
        """A batch is done, and in Spark's commit log."""
        if sources := self._runs.get(str(event.progress.runId)):
            for index, position in positions_of_progress(json.loads(event.progress.json)).items():
                if index in sources:
                    sources[index].work.put(position)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing new."""

    def onQueryTerminated(self, event: Any) -> None:
        """The last batch may still be on its way to the broker: `finish` waits for that."""
        ended = self._runs.get(str(event.runId), {})
        for followed in ended.values():
            followed.catch_up()
        self._ending = [*self._ending, *(it.work for it in ended.values())]
        self._runs.pop(str(event.runId), None)
        self._ending = [work for work in self._ending if not work.finish(0)]

    def finish(self, patience_s: float = PATIENCE_S) -> None:
        """At the end of the process: what is known is committed. Of a query that has just ended, Spark may not have
        told yet."""
        running = [followed for sources in list(self._runs.values()) for followed in sources.values()]
        for followed in running:
            followed.catch_up()
        for work in [*self._ending, *(followed.work for followed in running)]:
            work.finish(patience_s)


def options_of_sources(query: Any) -> dict[int, SourceOptions]:
    """By place among the query's sources, the options of ours that name a group. {} where the plan cannot be read."""
    try:
        leaves = query._jsq.streamingQuery().analyzedPlan().collectLeaves()
        streams: list[Any] = []
        for leaf in (leaves.apply(number) for number in range(leaves.size())):
            if leaf.isStreaming() and not any(leaf.equals(known) for known in streams):
                streams.append(leaf)
        return {index: found for index, leaf in enumerate(streams) if (found := _options_of(leaf)) is not None}
    except Exception:  # no promise of Spark's
        return {}


def _options_of(leaf: Any) -> SourceOptions | None:
    if leaf.getClass().getSimpleName() != "StreamingRelationV2" or leaf.sourceName() != FORMAT:
        return None
    told = leaf.extraOptions().asCaseSensitiveMap()
    options = parse_options({str(key): str(told.get(key)) for key in told}, stream=True)
    return options if options.commit_group is not None else None


def _begin(query: Any, source: int, options: SourceOptions) -> Followed | None:
    try:
        work = Committing(GroupCommits(options, str(options.commit_group)), _say, options.commit_on_idle_s)
    except KcliError as error:  # the source says the same, and the query ends
        _say(str(error))
        return None
    followed = Followed(work, source, checkpoint_of(query))
    followed.catch_up()
    return followed


def _say(text: str) -> None:
    tell([text])
