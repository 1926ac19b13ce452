"""The position of a Spark query as the committed offsets of a consumer group, for those who look at the group.

It is for being seen: Spark's checkpoint stays the truth, and nothing here is ever read back by the source. Committed
from outside the group, as an administrator does; so a group with members is refused: only they may move its offsets.
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
    from kcli.admin.groups.model import Group
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.spark.options import SourceOptions

_TIMEOUT_MS = 30_000
_NAMED = 5  # members in a refusal


class Position(NamedTuple):
    """How far a query has come: what its sink holds is before these offsets. `query_id` "": not known."""

    offsets: Mapping[TopicPartition, int]
    query_id: str = ""
    batch: int = -1


def note_of(position: Position) -> str:
    """What is stored beside each offset: `{"spark":"<query id>","batch":7}`."""
    return json.dumps({"spark": position.query_id, "batch": position.batch}, separators=(",", ":"))


def read_note(metadata: str) -> tuple[str, int] | None:
    """Query id and batch from a committed offset's metadata; None where something else committed it."""
    if not metadata.startswith('{"spark":'):
        return None
    try:
        note = json.loads(metadata)
        return str(note["spark"]), int(note["batch"])
    except (ValueError, KeyError, TypeError):
        return None


class GroupCommits:
    """Commits for one group. Connects with the first question; one thread at a time; `close` it."""

    def __init__(self, options: SourceOptions, group: str) -> None:
        """Of the options only those of the client count. ConfigError if they are wrong, before anything connects."""
        from kcli.spark.client_options import client_config

        self.group = group
        self._config = client_config(options.kafka)
        self._client: ConsumerNetworkClient | None = None

    def refuse_if_in_use(self) -> None:
        """GroupInUse, with its members' names, unless the group is empty or not there."""
        from kcli.admin.groups.describe import describe_groups
        from kcli.admin.offsets.inspection import GroupInUse

        client, deadline_ms = self._ready()
        described = describe_groups(client, {self.group: None}, deadline_ms)
        for error in described.errors.values():
            if not (isinstance(error, BrokerError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND):
                raise error
        if (found := described.values.get(self.group)) and (why := objection_to(found)):
            raise GroupInUse({self.group: why})

    def commit(self, position: Position) -> list[str]:
        """Store the position; a sentence for each kind of failure, none if all is stored. KcliError: nothing is known.

        A position without a query id is stored only where it differs from what is committed: it would wipe out a note.
        """
        from kcli.admin.offsets.commit import commit_many

        client, deadline_ms = self._ready()
        offsets = dict(position.offsets)
        if not position.query_id:
            offsets = self._different(client, offsets, deadline_ms)
        note = note_of(position) if position.query_id else ""
        wanted = {tp: OffsetAndMetadata(offset, metadata=note) for tp, offset in offsets.items() if offset >= 0}
        outcomes = commit_many(client, {self.group: wanted}, deadline_ms) if wanted else {}
        return _sentences({tp: error for (_, tp), error in outcomes.items() if error is not None})

    def close(self) -> None:
        """Hang up; the next question connects again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ready(self) -> tuple[ConsumerNetworkClient, float]:
        if self._client is None:
            from kcli.client.connect import connect

            self._client = connect(self._config)
        return self._client, self._client.clock.now_ms() + min(self._config.default_api_timeout_ms, _TIMEOUT_MS)

    def _different(
        self, client: ConsumerNetworkClient, offsets: Mapping[TopicPartition, int], deadline_ms: float
    ) -> dict[TopicPartition, int]:
        from kcli.admin.groups.committed import committed_offsets

        found = committed_offsets(client, [self.group], deadline_ms).values.get(self.group, {})
        known = {tp: it.offset for tp, it in found.items() if isinstance(it, OffsetAndMetadata)}
        return {tp: offset for tp, offset in offsets.items() if known.get(tp) != offset}


def refuse_if_in_use(options: SourceOptions, group: str) -> None:
    """The same look for who does not commit itself."""
    with closing(GroupCommits(options, group)) as commits:
        commits.refuse_if_in_use()


def _sentences(errors: Mapping[TopicPartition, KcliError]) -> list[str]:
    """One for each kind, by its first partition: thousands may fail alike."""
    alike: dict[object, list[TopicPartition]] = {}
    for tp, error in errors.items():
        alike.setdefault(error.code if isinstance(error, BrokerError) else type(error), []).append(tp)
    return [f"{errors[tps[0]]}{f', and {len(tps) - 1} more like it' if len(tps) > 1 else ''}" for tps in alike.values()]


def objection_to(group: Group) -> str | None:
    """Why Spark cannot commit for this group, as the rest of a sentence, with its members' names; None if it can."""
    from kcli.admin.offsets import inspection

    if (why := inspection.objection_to(group)) is None or not group.members:
        return why
    names = [f"{m.client_id or m.id} on {m.host}" if m.host else m.client_id or m.id for m in group.members[:_NAMED]]
    if (more := len(group.members) - _NAMED) > 0:
        names.append(f"{more} more")
    count = format_count(len(group.members), "member")
    return f"is {group.state} with {count} ({', '.join(names)}): stop them first, or commit to another group"


RETRY_S = 10.0


class Committing:
    """Give it positions; `finish` when there will be no more."""

    def __init__(
        self, commits: GroupCommits, say: Callable[[str], object], idle_s: float = 3_600, retry_s: float = RETRY_S
    ) -> None:
        """`say` gets a sentence for each trouble. `idle_s`: how long before a position is committed again; 0: never."""
        self._commits = commits
        self._say = say
        self._idle_s = idle_s
        self._retry_s = retry_s
        self._changed = threading.Condition()
        self._newest: Position | None = None
        self._is_new = False
        self._is_stored = True
        self._finished = False
        self._told: str | None = None
        self._thread = threading.Thread(target=self._work, name="kcli-group-commits", daemon=True)
        self._thread.start()

    def put(self, position: Position) -> None:
        """Commit this one next, unless a later batch of the same query is known."""
        with self._changed:
            if self._newest and self._newest.query_id == position.query_id and position.batch < self._newest.batch:
                return
            self._newest, self._is_new, self._is_stored = position, True, False
            self._changed.notify()

    def finish(self, timeout_s: float) -> bool:
        """No more positions: commit the last one, once more if that has just failed. Whether it is stored by now; the
        thread ends in any case."""
        with self._changed:
            self._finished = True
            self._changed.notify()
        self._thread.join(timeout_s)
        if timeout_s and self._thread.is_alive():
            self._say(f"the last commit for group {self._commits.group} was not over within {timeout_s:g} s")
        return self._is_stored and not self._thread.is_alive()

    def _work(self) -> None:
        pause_s: float | None = None  # None: until something happens
        while (position := self._next(pause_s)) is not None:
            self._is_stored = self._try(position)
            pause_s = (self._idle_s or None) if self._is_stored else self._retry_s
        if self._newest is not None and not self._is_stored:
            self._is_stored = self._try(self._newest)
        self._commits.close()

    def _next(self, pause_s: float | None) -> Position | None:
        """What to commit: a new position at once, the old one again after a pause. None: that was all."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_new or self._finished, pause_s)
            if self._finished and not self._is_new:
                return None
            self._is_new = False
            return self._newest

    def _try(self, position: Position) -> bool:
        try:
            failures = self._commits.commit(position)
        except KcliError as error:
            failures = [str(error)]
        except Exception as error:  # ours, but no reason to leave the group behind without a word
            failures = [f"{type(error).__name__}: {error}"]
        text = "; ".join(failures)
        if text and text != self._told:
            self._say(f"group {self._commits.group} does not show where the query is, which goes on: {text}")
        self._told = text or None
        return not text
