"""`OffsetFetcher`: find a position for every partition without one, and validate positions when leaders change.

A partition starts at the committed offset of its group, otherwise by `auto.offset.reset`. When a leader changes, the
epoch of the last record read is compared with the leader's log (OffsetForLeaderEpoch, KIP-320): a log that was
truncated below the position is an error, and no record is skipped silently. Nothing here blocks: requests leave with
the next poll, and responses change the subscription.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kcli import logs
from kcli.client import offset_lookup
from kcli.client.offset_lookup import EpochEnd
from kcli.consumer.fetch_verdict import judge_epoch_end
from kcli.consumer.retry_backoff import RetryBackoffs, RetryWarnings
from kcli.consumer.subscription import FetchPosition, PartitionFailure, PartitionState, SubscriptionState
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, NoOffset, TopicAuthorizationError, UnsupportedVersion
from kcli.structs import Node, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kcli.text import parse_duration

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

# Older versions require the ClusterAction permission.
FIRST_EPOCH_VERSION = 3
_TIMESTAMPS = {"earliest": -2, "latest": -1}


class OffsetFetcher:
    """Handles the partitions in `subscription.not_ready`, and changes of leaders; see the module."""

    def __init__(
        self,
        client: ConsumerNetworkClient,
        subscription: SubscriptionState,
        config: ConsumerConfig,
        lookup: CoordinatorLookup | None = None,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._awaits_coordinator = False
        self._subscription = subscription
        self._config = config
        self._isolation = int(config.reads_committed)
        self._in_flight: set[TopicPartition] = set()
        self._backoffs: RetryBackoffs[TopicPartition] = RetryBackoffs(
            config.retry_backoff_ms, config.retry_backoff_max_ms
        )
        self._failures: dict[TopicPartition, PartitionFailure] = {}
        self._warnings = RetryWarnings(
            "kcli.consumer.positions", "the position of {} cannot be found yet", "the position of {} is found"
        )
        self._cluster: object = None

    def send(self, now_ms: float) -> None:
        """Send the requests for unknown positions. They leave with the client's next poll."""
        if self._client.metadata.cluster is not self._cluster:
            self._cluster = self._client.metadata.cluster
            self._backoffs.end_all()
            self._check_leaders()
        self._backoffs.take_expired(now_ms)
        self._awaits_coordinator = False
        if not self._subscription.not_ready:
            return
        waiting = {
            tp: self._subscription.state(tp)
            for tp in sorted(self._subscription.not_ready)
            if tp not in self._in_flight and tp not in self._failures and not self._backoffs.is_waiting(tp)
        }
        self._validate([tp for tp, state in waiting.items() if state.validating], now_ms)
        self._request_start(
            [tp for tp, state in waiting.items() if state.position is None and state.reset is None], now_ms
        )
        self._reset({tp: state for tp, state in waiting.items() if state.reset is not None}, now_ms)

    def next_ms(self) -> float:
        """Return the time of the next retry."""
        waits_ms = self._backoffs.next_ms()
        if self._lookup is not None and self._awaits_coordinator:
            return min(waits_ms, self._lookup.next_ms())
        return waits_ms

    def take_failures(self) -> list[PartitionFailure]:
        """Return the partitions without a position, with their errors, once."""
        failures, self._failures = list(self._failures.values()), {}
        return failures

    # --- leaders

    def _check_leaders(self) -> None:
        for tp in self._subscription.partitions():
            state = self._subscription.state(tp)
            epoch = self._client.metadata.leader(tp).epoch
            if -1 < state.leader_epoch < epoch:
                self._subscription.request_validation(tp)
            state.leader_epoch = max(epoch, state.leader_epoch)

    def _validate(self, partitions: list[TopicPartition], now_ms: float) -> None:
        led, leaderless = self._by_leader(partitions)
        self._retry_without_leader(leaderless, now_ms)
        for node, members in led.items():
            positions = {tp: self._fetch_position(tp) for tp in members}
            epochs = {tp: position.epoch for tp, position in positions.items()}
            request = offset_lookup.epochs_request(self._client.metadata, epochs)
            future = self._client.send(node, request, min_version=FIRST_EPOCH_VERSION)
            self._expect(members, future, partial(self._validated, positions))

    def _fetch_position(self, tp: TopicPartition) -> FetchPosition:
        position = self._subscription.state(tp).fetch_position
        assert position is not None, f"{tp} is validated without a position"
        return position

    def _validated(self, positions: dict[TopicPartition, FetchPosition], done: RequestFuture[Any]) -> None:
        if isinstance(done.error, UnsupportedVersion):
            # A broker before 2.3 serves this API only with the ClusterAction permission.
            for tp, position in positions.items():
                self._subscription.finish_validation(tp, position, position.epoch)
            return
        for tp, end in self._successes(positions, done, offset_lookup.read_epochs):
            assert isinstance(end, EpochEnd)
            requested = positions[tp]
            verdict = judge_epoch_end(tp, requested.offset, requested.epoch, end.leader_epoch, end.end_offset)
            if verdict.failure is not None and self._subscription.is_validating(tp, requested):
                self._fail(tp, verdict.failure)
            elif verdict.epoch is not None:
                self._subscription.finish_validation(tp, requested, verdict.epoch)

    def _by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[Node, list[TopicPartition]], list[TopicPartition]]:
        """Return the partitions of each leader, and those without a leader."""
        led: dict[Node, list[TopicPartition]] = {}
        leaderless = []
        for tp in partitions:
            node = self._client.metadata.leader(tp).node
            if node is None:
                leaderless.append(tp)
            else:
                led.setdefault(node, []).append(tp)
        return led, leaderless

    # --- resets

    def _reset(self, states: dict[TopicPartition, PartitionState], now_ms: float) -> None:
        policies = {tp: state.reset or "" for tp, state in states.items()}
        led, leaderless = self._by_leader(policies)
        self._retry_without_leader(leaderless, now_ms)
        for node, members in led.items():
            requested = {tp: timestamp_of(policies[tp], self._client.clock.wall_ms()) for tp in members}
            request = offset_lookup.offsets_request(self._client.metadata, requested, self._isolation)
            self._expect(members, self._client.send(node, request), partial(self._has_reset, members, policies))

    def _has_reset(
        self, partitions: list[TopicPartition], policies: dict[TopicPartition, str], done: RequestFuture[Any]
    ) -> None:
        for tp, result in self._successes(partitions, done, offset_lookup.read_offsets):
            assert isinstance(result, OffsetAndTimestamp)
            state = self._subscription.state(tp)
            if result.offset >= 0:
                if self._subscription.finish_reset(tp, policies[tp], result.offset, result.leader_epoch):
                    _log_reset(tp, state.invalid_offset, policies[tp], result.offset)
            elif state.reset == policies[tp]:  # no record is as young as by_duration
                self._subscription.request_reset(tp, "latest", state.invalid_offset)

    # --- start positions

    def _request_start(self, partitions: list[TopicPartition], now_ms: float) -> None:
        if not partitions:
            return
        group = self._config.group_id
        if group is None:
            self._start_by_policy(partitions)
            return
        node = self._coordinator(group, partitions, now_ms)
        if node is None:
            return
        future = request_committed(self._client, node, group, partitions)
        states = {tp: self._subscription.state(tp) for tp in partitions}
        self._expect(partitions, future, partial(self._has_committed, node, states))

    def _coordinator(self, group: str, partitions: list[TopicPartition], now_ms: float) -> Node | None:
        """Return the group's coordinator.

        None while it is unknown, or after `partitions` have failed with its error.
        """
        if self._lookup is None:
            from kcli.consumer.group.coordinator_lookup import CoordinatorLookup

            self._lookup = CoordinatorLookup(self._client, group)
        try:
            node = self._lookup.find(now_ms)
        except KcliError as error:
            for tp in partitions:
                self._fail(tp, error)
            return None
        self._awaits_coordinator = node is None
        return node

    def _start_by_policy(self, partitions: Iterable[TopicPartition]) -> None:
        policy = self._config.auto_offset_reset
        for tp in partitions:
            if policy != "none":
                self._subscription.request_reset(tp, policy)
                self._subscription.policy_starts[tp] = policy
            else:
                text = f"no committed offset for {tp}, and auto.offset.reset is {policy}"
                self._fail(tp, NoOffset(text, group=self._config.group_id, topic=tp.topic, partition=tp.partition))

    def _has_committed(
        self, node: Node, states: dict[TopicPartition, PartitionState], done: RequestFuture[Any]
    ) -> None:
        none_committed = []
        for tp, result in self._successes(states, done, parse_committed, coordinator=node):
            state = self._subscription.get(tp)
            if state is not states[tp] or state.position is not None or state.reset is not None:
                continue  # the caller has set a position meanwhile, or the partition was unassigned and assigned again
            if isinstance(result, OffsetAndMetadata):
                self._subscription.seek(tp, result.offset, result.leader_epoch)
            else:
                none_committed.append(tp)
        self._start_by_policy(none_committed)

    # --- responses

    def _expect(
        self,
        partitions: Iterable[TopicPartition],
        future: RequestFuture[Any],
        handle: Callable[[RequestFuture[Any]], None],
    ) -> None:
        requested = list(partitions)
        self._in_flight.update(requested)

        def answered(done: RequestFuture[Any]) -> None:
            self._in_flight.difference_update(requested)
            handle(done)

        future.add_done_callback(answered)

    def _successes(
        self,
        partitions: Iterable[TopicPartition],
        done: RequestFuture[Any],
        read: Callable[[Any], Iterator[tuple[TopicPartition, Any]]],
        coordinator: Node | None = None,
    ) -> Iterator[tuple[TopicPartition, Any]]:
        """Yield the successful results of partitions that are still read.

        Retry the others later, or report their failure.
        """
        pending = {tp for tp in partitions if self._subscription.get(tp) is not None}
        error, answers = done.error, list[tuple[TopicPartition, Any]]()
        if error is None:
            try:
                answers = list(read(done.value()))
            except BrokerError as refused:
                error = refused
        if error is not None and coordinator is not None and self._lookup is not None:
            self._lookup.handle_error(error, coordinator)
        for tp, outcome in answers:
            if tp not in pending:
                continue
            pending.discard(tp)
            if isinstance(outcome, KcliError):
                self._retry_or_fail(tp, outcome)
            else:
                if self._backoffs.clear(tp):
                    self._warnings.ended(tp, self._client.clock.now_ms())
                yield tp, outcome
        for tp in pending:
            self._retry_or_fail(tp, error or BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"no answer about {tp}"))

    def _retry_or_fail(self, tp: TopicPartition, error: KcliError) -> None:
        if error.retriable or (isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_SERVER_ERROR):
            self._retry_later(tp, error, self._client.clock.now_ms())
            self._client.metadata.request_update()
        else:
            self._fail(tp, error)

    def _retry_later(self, tp: TopicPartition, error: KcliError, now_ms: float) -> None:
        self._warnings.failed(tp, self._backoffs.add(tp, error, now_ms), now_ms)

    def _retry_without_leader(self, partitions: Iterable[TopicPartition], now_ms: float) -> None:
        for tp in partitions:
            error = self._client.leader_error(tp)
            if error.retriable:
                self._retry_later(tp, error, now_ms)
            else:
                self._fail(tp, error)
            self._client.metadata.request_update()

    def _fail(self, tp: TopicPartition, error: KcliError) -> None:
        position = self._subscription.state(tp).fetch_position
        self._failures[tp] = PartitionFailure(tp, -1 if position is None else position.offset, error)


def _log_reset(tp: TopicPartition, invalid_offset: int, policy: str, offset: int) -> None:
    if invalid_offset >= 0:
        text = "%s: the position %d is outside the log; it is reset to %d by auto.offset.reset=%s"
        logs.warning("kcli.consumer.positions", text, tp, invalid_offset, offset, policy)
    else:
        logs.info("kcli.consumer.positions", "%s: reading starts at %d (%s)", tp, offset, policy)


def timestamp_of(policy: str, now_ms: int) -> int:
    """Return the timestamp that ListOffsets needs for a reset policy; `now_ms` is the time since the epoch. Pure."""
    timestamp_ms = _TIMESTAMPS.get(policy)
    return max(0, now_ms - parse_duration(policy.partition(":")[2])) if timestamp_ms is None else timestamp_ms


# The newest version for a single group, and the first with require_stable.
NEWEST_VERSION = 7


def fetch_committed(
    client: ConsumerNetworkClient,
    lookup: CoordinatorLookup,
    group: str,
    partitions: Iterable[TopicPartition],
    deadline_ms: float,
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Return the committed offset of each partition, None where there is none.

    Raise BrokerError (GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED with all its topics) and TimeoutExpired.
    """
    requested = list(partitions)
    last: KcliError | None = None
    if not requested:
        return {}
    for _ in client.attempts(deadline_ms):
        node = lookup.await_node(deadline_ms)
        future = request_committed(client, node, group, requested)
        if not client.poll(until=future, timeout_ms=max(0.0, deadline_ms - client.clock.now_ms())):
            break
        try:
            results = dict(parse_committed(future.value()))
            checked = _checked(results, group, client.principal)
            return {tp: committed for tp, committed in checked.items() if tp in set(requested)}
        except KcliError as error:
            if not error.retriable:
                raise
            last = error
            lookup.handle_error(error, node)
    raise client.timed_out(f"the committed offsets of group {group}", last=last)


def _checked(
    results: dict[TopicPartition, OffsetAndMetadata | BrokerError | None], group: str, principal: str | None
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    errors = [result for result in results.values() if isinstance(result, BrokerError)]
    refused = {tp.topic for tp, result in results.items() if isinstance(result, TopicAuthorizationError)}
    if refused:
        raise TopicAuthorizationError.of(refused, api="OffsetFetch", group=group, principal=principal)
    for error in errors:
        raise error
    return {tp: result for tp, result in results.items() if not isinstance(result, BrokerError)}


def request_committed(
    client: ConsumerNetworkClient, node: Node, group: str, partitions: Iterable[TopicPartition]
) -> RequestFuture[OffsetFetchResponse]:
    """Send an OffsetFetch to the coordinator of a group.

    An offset that an open transaction is about to change is refused with UNSTABLE_OFFSET_COMMIT (KIP-447), which is
    retriable. Brokers before 2.5 do not support that and return the previous offset.
    """
    requested = list(partitions)

    def request_older(error: KcliError) -> RequestFuture[OffsetFetchResponse]:
        if not isinstance(error, UnsupportedVersion):
            raise error
        return client.send(node, offset_fetch_request(group, requested), max_version=NEWEST_VERSION - 1)

    request = offset_fetch_request(group, requested, require_stable=True)
    return client.send(node, request, min_version=NEWEST_VERSION, max_version=NEWEST_VERSION).recover(request_older)


def offset_fetch_request(
    group: str, partitions: Iterable[TopicPartition], *, require_stable: bool = False
) -> OffsetFetchRequest:
    """Return the request in the form of v7 and older; `require_stable` needs v7."""
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

    topics: dict[str, OffsetFetchRequestTopic] = {}
    for tp in partitions:
        topic = topics.setdefault(tp.topic, OffsetFetchRequestTopic(name=tp.topic, partition_indexes=[]))
        topic.partition_indexes.append(tp.partition)
    return OffsetFetchRequest(group_id=group, topics=list(topics.values()), require_stable=require_stable)


def parse_committed(
    response: OffsetFetchResponse,
) -> Iterator[tuple[TopicPartition, OffsetAndMetadata | BrokerError | None]]:
    """Yield the committed offset of each partition in a response, None where there is none.

    Raise an error of the response.
    """
    if response.error_code:
        raise response.broker_error(response.error_code, api="OffsetFetch")
    for topic in response.topics:
        for row in topic.partitions:
            tp = TopicPartition(topic.name, row.partition_index)
            if row.error_code:
                evidence: dict[str, Any] = {"api": "OffsetFetch", "topic": tp.topic, "partition": tp.partition}
                yield tp, response.broker_error(row.error_code, **evidence)
            elif row.committed_offset < 0:
                yield tp, None
            else:
                yield tp, OffsetAndMetadata(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
