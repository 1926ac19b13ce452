"""`commit_to_group`: a streaming query's position, committed to a consumer group after Spark's own commit.

A StreamingQueryListener in the driver's process: when a progress event comes, Spark has written the batch to its commit
log, so the group is never ahead of the sink. A source's own `commit` comes a batch late and never for the last one
(seen on 4.2 and 4.3), so it would not do. Events are asynchronous: `close` waits for that of the end.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from kcli.errors import KcliError
from kcli.spark.group_commits import Committing, GroupCommits, Position
from kcli.spark.options import SourceOptions
from kcli.spark.stream_checkpoint import last_position, local_path, positions_of_progress
from kcli.spark.task import tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

PATIENCE_S = 10.0


def commit_to_group(
    target: SparkSession | StreamingQuery,
    group: str,
    options: Mapping[str, str],
    *,
    query_name: str | None = None,
    source: int = 0,
    checkpoint: str | None = None,
    idle_s: float = 3_600,
    say: Callable[[str], object] | None = None,
) -> GroupCommitter:
    """Make `group` show how far a streaming query has come, for as long as it runs. Works over Spark Connect too.

    `target` is a query that runs, or the session in which the next query will be started (the one called `query_name`,
    if given). `options` are those of the source, of which `kafka.*` count. `source` is the place of the Kafka source
    among the query's sources. With `checkpoint`, a local folder, the group is brought up to date at once: where the
    query ended before, its last commit may be lacking; of a query that runs the folder is found out, except over
    Connect. The same offsets are committed again after `idle_s` seconds without news (0: never).

    Raises GroupInUse, naming them, if the group has live members, ConfigError for options, and what brokers have to
    say at this first look. From then on troubles are told to `say` (default: standard error), and the query goes on.
    Use it in a `with`, or `close` it after `query.awaitTermination()`.
    """
    kafka = {name.lower()[6:]: value for name, value in options.items() if name.lower().startswith("kafka.")}
    commits = GroupCommits(SourceOptions(kafka), group)
    try:
        commits.refuse_if_in_use()
    except BaseException:
        commits.close()
        raise
    committer = GroupCommitter(commits, source, query_name, idle_s, say or (lambda text: tell([text])))
    committer.attach(target, checkpoint)
    return committer


class GroupCommitter(StreamingQueryListener):  # type: ignore[misc,unused-ignore]
    """Follows one run of one query; made by `commit_to_group`."""

    def __init__(
        self,
        commits: GroupCommits,
        source: int,
        query_name: str | None,
        idle_s: float,
        say: Callable[[str], object],
    ) -> None:
        self._source = source
        self._query_name = query_name
        self._say = say
        self._run_id: str | None = None
        self._over = threading.Event()
        self._session: Any = None
        self._checkpoint: str | None = None
        self._work = Committing(commits, say, idle_s)

    def __enter__(self) -> GroupCommitter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def attach(self, target: Any, checkpoint: str | None) -> None:
        """Follow a query from now on, or the next one of a session."""
        is_session = hasattr(target, "streams")
        self._session = target if is_session else session_of(target)
        if not is_session:
            self._run_id = str(target.runId)
            checkpoint = checkpoint or checkpoint_of(target)
        self._checkpoint = checkpoint
        self._catch_up()
        self._session.streams.addListener(self)
        if not is_session:
            if (last := target.lastProgress) is not None:
                self._see(json.loads(last.json))
            if not target.isActive:  # its last event may have passed before we listened
                self._over.set()

    def onQueryStarted(self, event: Any) -> None:
        """Spark calls this while the query starts: the first one that fits is ours."""
        if self._run_id is None and self._query_name in (None, event.name):
            self._run_id = str(event.runId)

    def onQueryProgress(self, event: Any) -> None:
        """A batch is done, and in Spark's commit log."""
        if str(event.progress.runId) == self._run_id:
            self._see(json.loads(event.progress.json))

    def onQueryIdle(self, event: Any) -> None:
        """Nothing new; the thread that commits knows by itself when to do so again."""

    def onQueryTerminated(self, event: Any) -> None:
        """No event of this run comes after this one."""
        if str(event.runId) == self._run_id:
            self._over.set()

    def close(self, patience_s: float = PATIENCE_S) -> bool:
        """Commit what is left and stop following; whether the group shows where the query is.

        Waits for the last event of a query that has ended, and looks into its checkpoint if that can be read here:
        on a busy machine events come late, and without the last one its batch's offsets are not known.
        """
        heard = self._run_id is None or self._is_running() or self._over.wait(patience_s)
        if not heard and (self._checkpoint is None or local_path(self._checkpoint) is None):
            self._say(f"Spark did not tell of the query's end within {patience_s:g} s: its last commit may be lacking")
        self._catch_up()
        try:
            self._session.streams.removeListener(self)
        except Exception as error:  # a session that is gone has no listeners
            self._say(f"the listener could not be removed: {type(error).__name__}")
        return self._work.finish(patience_s) and heard

    def _is_running(self) -> bool:
        try:
            return any(str(query.runId) == self._run_id for query in self._session.streams.active)
        except Exception:  # a session that is gone has no queries
            return False

    def _see(self, progress: Mapping[str, object]) -> None:
        position = positions_of_progress(progress).get(self._source)
        if position is not None:
            self._work.put(position)

    def _catch_up(self) -> None:
        if self._checkpoint is None:
            return
        if (position := position_in(self._checkpoint, self._source, self._say)) is not None:
            self._work.put(position)


def position_in(checkpoint: str, source: int, say: Callable[[str], object]) -> Position | None:
    """What a checkpoint says, if it can be read here: no reason to stop a query if not."""
    if (folder := local_path(checkpoint)) is None:
        return None
    try:
        return last_position(folder, source)
    except (KcliError, OSError) as error:
        say(f"the group cannot be brought up to date from the checkpoint: {error}")
        return None


def session_of(query: Any) -> Any:
    """The session of a query: over Connect it knows, else it is the one that is active here."""
    from pyspark.sql import SparkSession

    return getattr(query, "_session", None) or SparkSession.active()


def checkpoint_of(query: Any) -> str | None:
    """Where a running query keeps its checkpoint; None where Spark's JVM cannot be asked."""
    try:
        return str(query._jsq.streamingQuery().resolvedCheckpointRoot())
    except Exception:  # Connect has no _jsq, and what is behind it is no promise of Spark's
        return None
