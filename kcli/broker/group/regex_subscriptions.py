"""Regular expressions to which members of consumer groups subscribe: their validity, resolution and refresh (KIP-848).

The coordinator resolves all expressions of a group together, after it has answered the heartbeat that asks for it: when
one of them is new, when there are new topics, and from time to time. It does so every ten seconds at most. Another
result raises the group epoch. The topics are those that the asking member may describe.

Source: the behaviour of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from kcli.broker.group.consumer_group import ConsumerGroup, ConsumerGroupMember, Groups, ResolvedRegex
from kcli.broker.group.consumer_records import Record, group_epoch_record, regex_record
from kcli.broker.group.topic_hash import group_hash
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.patterns import InvalidRegex, compile_regex

if TYPE_CHECKING:
    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.group.consumer_changes import ConsumerChanges
    from kcli.clock import Clock

MIN_REFRESH_INTERVAL_MS = 10_000


class RegexChange(Enum):
    """The effect of a heartbeat on the regular expression to which its member subscribes.

    NONE: the expression is the same as before. NEW: it is another one, whose topics are not known yet. RESOLVED: it is
    another one, whose topics are known, or the member has none any more.
    """

    NONE = "none"
    NEW = "new"
    RESOLVED = "resolved"


class RegexSubscriptions:
    """The expressions of all consumer groups."""

    def __init__(self, cluster: ClusterView, changes: ConsumerChanges, groups: Groups, clock: Clock) -> None:
        self._cluster = cluster
        self._changes = changes
        self._groups = groups
        self._clock = clock
        # The topics that existed when the expressions of a group were resolved the last time.
        self._known_topics: dict[str, frozenset[str]] = {}

    def __repr__(self) -> str:
        return f"<RegexSubscriptions of {len(self._known_topics)} groups>"

    def update(
        self,
        group: ConsumerGroup,
        before: ConsumerGroupMember,
        after: ConsumerGroupMember,
        records: list[Record],
        may_describe: Callable[[str], bool] | None,
    ) -> RegexChange:
        """Take the expression of a member before and after its heartbeat; resolve the group's expressions if due.

        Without `may_describe`, for a request of another API, nothing is resolved. Add the tombstone of an expression
        that nobody subscribes to any more. BrokerError INVALID_REGULAR_EXPRESSION for a new one that is not valid.
        """
        old, new = before.regex, after.regex
        subscribed = group.subscribed_regexes
        change, is_due = RegexChange.NONE, False
        if before.subscribed_regex != after.subscribed_regex:
            change = RegexChange.NEW
            if old is not None and subscribed[old] == 1:
                records.append(regex_record(group.group_id, old, None))
            if new is not None and new not in subscribed:
                _check(new)
                is_due = True
            elif (new is None and old is not None) or new in group.resolved_regexes:
                change = RegexChange.RESOLVED
        if may_describe is not None and (is_due or subscribed):
            wanted = {member.regex for member in group.members_with(after) if member.regex is not None}
            if wanted and self._is_time(group, wanted, is_due=is_due):
                self._changes.call_soon(
                    group.group_id, "regex", lambda: self._resolve(group.group_id, wanted, may_describe)
                )
        return change

    def _is_time(self, group: ConsumerGroup, wanted: set[str], *, is_due: bool) -> bool:
        last = next(iter(group.resolved_regexes.values()), None)
        if last is None:
            return True
        now_wall_ms = self._clock.wall_ms()
        if now_wall_ms <= last.timestamp_ms + MIN_REFRESH_INTERVAL_MS:
            return False
        interval_ms = self._cluster.settings.group_consumer_regex_refresh_interval_ms
        return (
            is_due
            or len(wanted) != len(group.resolved_regexes)
            or not self._cluster.topics.keys() <= self._known_topics.get(group.group_id, frozenset())
            or now_wall_ms > last.timestamp_ms + interval_ms
        )

    def _resolve(self, group_id: str, wanted: set[str], may_describe: Callable[[str], bool]) -> None:
        """Write the topics of the expressions to which the group still subscribes."""
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            self._known_topics.pop(group_id, None)
            return
        names = frozenset(self._cluster.topics)
        version, now_wall_ms = self._cluster.features_epoch, self._clock.wall_ms()
        in_use = {member.regex for member in group.members.values() if member.regex is not None}
        resolved: dict[str, ResolvedRegex] = {}
        for pattern in sorted(wanted & in_use):
            try:
                regex = compile_regex(pattern)
            except InvalidRegex:  # stored by another broker; its topics remain as they are
                continue
            topics = frozenset(name for name in names if regex.matches(name) and may_describe(name))
            resolved[pattern] = ResolvedRegex(topics, version, now_wall_ms)
        subscribed = frozenset().union(
            *(member.subscribed_topics for member in group.members.values()),
            *(regex.topics for regex in {**group.resolved_regexes, **resolved}.values()),
        )
        records = [regex_record(group_id, pattern, regex) for pattern, regex in resolved.items()]
        new_hash = group_hash(subscribed, self._cluster)
        none = ResolvedRegex(frozenset(), 0, 0)
        is_changed = any(
            group.resolved_regexes.get(pattern, none).topics != regex.topics for pattern, regex in resolved.items()
        )
        if is_changed or new_hash != group.metadata_hash:
            records.append(group_epoch_record(group_id, group.group_epoch + 1, new_hash))
        if not self._changes.write(group, records):
            self._known_topics[group_id] = names


def _check(pattern: str) -> None:
    try:
        compile_regex(pattern)
    except InvalidRegex as error:
        raise BrokerError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
        ) from None
