"""Commits of a streaming query's position to a consumer group, for tools that watch groups.

The commits are for monitoring only: Spark's checkpoint remains the source of truth, and the source never reads them.
They are made from outside the group, as by an administrator. A group with members is therefore refused, because only
its members may move its offsets.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.structs import OffsetAndMetadata, TopicPartition
from kcli.text import format_count

if TYPE_CHECKING:
    from kcli.admin.groups.group import Group
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.spark.options import SourceOptions

_TIMEOUT_MS = 30_000
_MOST_NAMED = 5  # members named in a refusal


class Position(NamedTuple):
    """Position of a query: its sink has all records before these offsets. `query_id` is "" if not committed."""

    offsets: Mapping[TopicPartition, int]
    query_id: str = ""
    batch: int = -1


def format_note(position: Position) -> str:
    """Return the metadata stored with each offset: `{"spark":"<query id>","batch":7}`."""
    return json.dumps({"spark": position.query_id, "batch": position.batch}, separators=(",", ":"))


def read_note(metadata: str) -> tuple[str, int] | None:
    """Return query id and batch from the metadata of a committed offset; None if something else committed it."""
    if not metadata.startswith('{"spark":'):
        return None
    try:
        note = json.loads(metadata)
        return str(note["spark"]), int(note["batch"])
    except (ValueError, KeyError, TypeError):
        return None


class GroupCommits:
    """Commits for one group. Connects on the first call; used by one thread at a time; call `close` at the end."""

    def __init__(self, options: SourceOptions, group: str) -> None:
        """Only the client properties of the options are used. ConfigError if they are not valid, before anything
        connects.
        """
        from kcli.spark.client_options import client_config

        self.group = group
        self._config = client_config(options.kafka)
        self._client: ConsumerNetworkClient | None = None

    def refuse_if_in_use(self) -> None:
        """Raise GroupInUse, with the members, unless the group is empty or does not exist."""
        from kcli.admin.groups.describe import describe_groups
        from kcli.admin.offsets.checks import GroupInUse

        client, deadline_ms = self._ready()
        described = describe_groups(client, {self.group: None}, deadline_ms)
        for error in described.errors.values():
            if not (isinstance(error, BrokerError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND):
                raise error
        if (result := described.values.get(self.group)) and (why := refusal_reason(result)):
            raise GroupInUse({self.group: why})

    def commit(self, position: Position) -> list[str]:
        """Commit the position; return one sentence for each kind of failure.

        KcliError if the commit failed as a whole. A position without a query id is committed only where it differs from
        the committed offset, because it would overwrite the metadata.
        """
        from kcli.admin.offsets.commits import commit_many

        client, deadline_ms = self._ready()
        offsets = dict(position.offsets)
        if not position.query_id:
            offsets = self._changed_offsets(client, offsets, deadline_ms)
        note = format_note(position) if position.query_id else ""
        wanted = {tp: OffsetAndMetadata(offset, metadata=note) for tp, offset in offsets.items() if offset >= 0}
        outcomes = commit_many(client, {self.group: wanted}, deadline_ms) if wanted else {}
        return _error_sentences({tp: error for (_, tp), error in outcomes.items() if error is not None})

    def close(self) -> None:
        """Close the connection. The next call opens a new one."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ready(self) -> tuple[ConsumerNetworkClient, float]:
        if self._client is None:
            from kcli.client.connect import connect

            self._client = connect(self._config)
        return self._client, self._client.clock.now_ms() + min(self._config.default_api_timeout_ms, _TIMEOUT_MS)

    def _changed_offsets(
        self, client: ConsumerNetworkClient, offsets: Mapping[TopicPartition, int], deadline_ms: float
    ) -> dict[TopicPartition, int]:
        from kcli.admin.groups.committed_offsets import committed_offsets

        result = committed_offsets(client, [self.group], deadline_ms).values.get(self.group, {})
        committed = {tp: found.offset for tp, found in result.items() if isinstance(found, OffsetAndMetadata)}
        return {tp: offset for tp, offset in offsets.items() if committed.get(tp) != offset}


def refuse_if_in_use(options: SourceOptions, group: str) -> None:
    """Raise GroupInUse, with the members, unless the group is empty or does not exist."""
    with closing(GroupCommits(options, group)) as commits:
        commits.refuse_if_in_use()


def _error_sentences(errors: Mapping[TopicPartition, KcliError]) -> list[str]:
    """Return one sentence for each kind of error, with its first partition: thousands of partitions may fail alike."""
    by_commit: dict[object, list[TopicPartition]] = {}
    for tp, error in errors.items():
        by_commit.setdefault(error.code if isinstance(error, BrokerError) else type(error), []).append(tp)
    return [f"{errors[tps[0]]}{f' (and {len(tps) - 1} more)' if len(tps) > 1 else ''}" for tps in by_commit.values()]


def refusal_reason(group: Group) -> str | None:
    """Return the reason why Spark cannot commit for this group, as the end of a sentence; None if it can."""
    from kcli.admin.offsets import checks

    if (reason := checks.in_use_reason(group)) is None or not group.members:
        return reason
    names = [
        f"{m.client_id or m.id} on {m.host}" if m.host else m.client_id or m.id for m in group.members[:_MOST_NAMED]
    ]
    if (more := len(group.members) - _MOST_NAMED) > 0:
        names.append(f"{more} more")
    count = format_count(len(group.members), "member")
    return f"is {group.state} with {count} ({', '.join(names)}); stop them first, or use another group"


RETRY_S = 10.0


class CommitThread:
    """Thread that commits the newest position, so that Spark's own threads never wait for a broker.

    A failure is reported once and retried. An unchanged position is committed again from time to time, because brokers
    delete the offsets of an empty group (offsets.retention.minutes, KIP-211). Pass positions to `put`, and call
    `finish` at the end.
    """

    def __init__(
        self, commits: GroupCommits, report: Callable[[str], object], idle_s: float = 3_600, retry_s: float = RETRY_S
    ) -> None:
        """`report` receives a sentence for each new failure. `idle_s`: time until a position is committed again; 0:
        never.
        """
        self._commits = commits
        self._report = report
        self._idle_s = idle_s
        self._retry_s = retry_s
        self._changed = threading.Condition()
        self._newest: Position | None = None
        self._is_new = False
        self._is_stored = True
        self._finished = False
        self._last_failure: str | None = None
        self._thread = threading.Thread(target=self._work, name="kcli-group-commits", daemon=True)
        self._thread.start()

    def put(self, position: Position) -> None:
        """Commit this position next, unless a later batch of the same query is committed."""
        with self._changed:
            if self._newest and self._newest.query_id == position.query_id and position.batch < self._newest.batch:
                return
            self._newest, self._is_new, self._is_stored = position, True, False
            self._changed.notify()

    def finish(self, timeout_s: float) -> bool:
        """Commit the last position, retrying it once, and end the thread. Return whether the position is committed."""
        with self._changed:
            self._finished = True
            self._changed.notify()
        self._thread.join(timeout_s)
        if timeout_s and self._thread.is_alive():
            self._report(f"the last commit for group {self._commits.group} was not completed within {timeout_s:g} s")
        return self._is_stored and not self._thread.is_alive()

    def _work(self) -> None:
        pause_s: float | None = None  # None: wait for the next position
        while (position := self._next(pause_s)) is not None:
            self._is_stored = self._commit(position)
            pause_s = (self._idle_s or None) if self._is_stored else self._retry_s
        if self._newest is not None and not self._is_stored:
            self._is_stored = self._commit(self._newest)
        self._commits.close()

    def _next(self, pause_s: float | None) -> Position | None:
        """Return the position to commit: a new one at once, the old one again after a pause. None: finished."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_new or self._finished, pause_s)
            if self._finished and not self._is_new:
                return None
            self._is_new = False
            return self._newest

    def _commit(self, position: Position) -> bool:
        try:
            failures = self._commits.commit(position)
        except KcliError as error:
            failures = [str(error)]
        except Exception as error:  # a bug of kcli, but it must be reported and retried as well
            failures = [f"{type(error).__name__}: {error}"]
        text = "; ".join(failures)
        if text and text != self._last_failure:
            self._report(f"cannot commit to group {self._commits.group}, the query continues: {text}")
        self._last_failure = text or None
        return not text
