"""`Consumer`: read records of topics, with or without a consumer group."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from kcli import forks, logs
from kcli.arguments import checked
from kcli.client.config import ClientConfig, ConsumerConfig, check_callables, not_settings
from kcli.client.field_calls import deserialized, serialization_error
from kcli.client.metrics import MetricGroups, merged
from kcli.client.offset_lookup import EARLIEST, LATEST, list_offsets
from kcli.consumer.consumer_metrics import fetch_metrics, group_metrics
from kcli.consumer.fetch_loop import FetchLoop, UnknownTopics
from kcli.consumer.group.group_client import GroupClient
from kcli.consumer.offset_fetcher import fetch_committed
from kcli.consumer.subscription import PartitionFailure, PositionReset, SubscriptionState
from kcli.error_codes import ErrorCode
from kcli.errors import (
    BrokerError,
    ConcurrentUse,
    KcliError,
    LogTruncated,
    OffsetOutOfRange,
    TimeoutExpired,
    TopicAuthorizationError,
    TopicRecreated,
)
from kcli.structs import GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.keyword_types import ConsumerSettings
    from kcli.consumer.group.group_membership import Membership
    from kcli.consumer.group.offset_commits import Callback
    from kcli.consumer.retry_backoff import RetryState
    from kcli.protocol.records.columns import RecordColumns
    from kcli.protocol.records.record import Headers, Record

_CLOSE_TIMEOUT_MS = 30_000.0
_POLL_MS = 500.0
# A member shows that it lives, and commits, only between polls; so a poll must not bring work for minutes.
_POLLED_BY_MEMBERS = 500
_AFTER_CLOSE = ("close", "_close_after_an_exception")


F = TypeVar("F", bound=Callable[..., Any])


def _one_thread(method: F) -> F:
    """Let one thread at a time run these methods of a consumer, and only those in `_AFTER_CLOSE` after `close`.

    Callbacks may call the consumer that calls them. In a forked process the methods raise ForkedClient, and those that
    close do nothing.
    """
    after_close = method.__name__ in _AFTER_CLOSE

    @functools.wraps(method)
    def call(self: Consumer, /, *arguments: Any, **named: Any) -> Any:
        if after_close and self._client.is_forked:
            return None
        self._client.require_own_process()
        if not self._in_use.acquire(blocking=False):
            text = f"thread {self._user!r} is using this consumer"
            raise ConcurrentUse(f"{text}; it belongs to one thread at a time, and others may only call wakeup")
        try:
            self._user = threading.current_thread().name
            if self._closed and not after_close:
                raise KcliError("the consumer is closed")
            return method(self, *arguments, **named)
        finally:
            self._in_use.release()

    return cast("F", call)


class ConsumerRecord(NamedTuple):
    """One record. `timestamp_ms` is milliseconds since the epoch, -1 for a record without a timestamp.

    `key` and `value` are bytes, or the results of the deserializers of the consumer; None is null.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: Headers


Deserializer = Callable[[bytes], object]
Records = dict[TopicPartition, "RecordColumns"]
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


@checked(Callback="Callable")
class Consumer:
    """A reader of topics.

    Name the topics, and the settings as keywords: Kafka's property names with underscores. Without `group_id` the
    consumer reads all partitions of the topics, from the position that `auto_offset_reset` names, and commits nothing.

    >>> from kcli import Consumer
    >>> with Consumer("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
    ...     records = [(record.key, record.value) for record in consumer.records(to_end=True)]
    >>> sorted(records)
    [(b'a', b'1'), (b'b', b'2'), (b'c', b'3')]

    `for record in consumer:` never ends: it waits for new records. `records(to_end=True)` stops at the end offsets that
    the partitions have when the iteration starts.

    With `group_id` the consumer joins the group and reads the partitions that the group assigns, from the committed
    offsets. `commit` stores the positions; they are also stored automatically, unless `enable_auto_commit` is False.
    The end of the `with` block stores them too. If an exception leaves the block, Ctrl-C and `sys.exit` included, it
    stores them without the records in hand, which are read again: the last record of an iteration, all records of the
    last `poll`, or of the last step of `columns`. They are in hand until the caller asks for more, or commits. `close`
    alone cannot see an exception: it stores all positions, as Java's does. To decide what is handled, commit by
    yourself:

    >>> with Consumer("orders", bootstrap_servers=bootstrap, group_id="billing", auto_offset_reset="earliest",
    ...               enable_auto_commit=False) as consumer:
    ...     count = sum(1 for _ in consumer.records(to_end=True))
    ...     consumer.commit()
    ...     committed = consumer.committed(consumer.assignment)
    >>> count, sum(offset.offset for offset in committed.values() if offset)
    (3, 3)

    `columns` and `poll` return the records of a partition as numpy columns (`RecordColumns`): offsets, timestamps, and
    the positions of keys and values in one buffer. No Python object is created per record, which is several times as
    fast.

    >>> with Consumer("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
    ...     sum(int(columns.value_lengths.sum()) for _, columns in consumer.columns(to_end=True))
    3

    An exception that leaves the `with` block is the one that the caller sees: an error of the close that follows, for
    example of `on_revoked`, is logged.

    A consumer belongs to one thread at a time; a call during a call of another thread raises
    `kcli.errors.ConcurrentUse`. Only `wakeup` may be called by any thread and by a signal handler. A member of a group
    sends its heartbeats in a thread of its own. Errors are `kcli.errors.KcliError`; an unknown or invalid setting is a
    `ConfigError`. A forked process makes consumers of its own: there the methods raise `kcli.ForkedClient`, and `close`
    does nothing.

    Python callables take the place of Java's deserializers and interceptors:

    - `key_deserializer` and `value_deserializer` get the bytes of a record that `records` returns; null stays None.
      `kcli.schemas.SchemaDeserializer` reads Avro, JSON Schema and Protobuf with a schema registry.
      After an exception the iteration raises SerializationError, and the position stays at this record: the next
      iteration returns it again, unless `seek(tp, offset + 1)` skips it.
    - `on_consume` gets the result of each poll (partition -> columns) before it is returned. A dict that it returns
      takes its place.
    - `on_commit` gets the offsets of each commit that the group has stored, before the callback of the commit.

    An exception of `on_consume` and `on_commit` is logged and otherwise ignored, as Java does.

    >>> import json
    >>> with Consumer("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest",
    ...               value_deserializer=json.loads) as consumer:
    ...     sum(record.value for record in consumer.records(to_end=True))
    6

    SIGTERM ends a Python program without `close`, and the group waits for session.timeout.ms before it gives the
    partitions to other members. To leave the group at once, let the handler call `wakeup`; the `with` block closes.

    >>> import signal
    >>> from kcli import WakeupError
    >>> with Consumer("orders", bootstrap_servers=bootstrap, group_id="billing") as consumer:
    ...     previous = signal.signal(signal.SIGTERM, lambda number, frame: consumer.wakeup())
    ...     signal.raise_signal(signal.SIGTERM)  # as `kill` does
    ...     try:
    ...         for record in consumer:
    ...             print(record.value)
    ...     except WakeupError:
    ...         print("ended by SIGTERM")
    ended by SIGTERM
    >>> _ = signal.signal(signal.SIGTERM, previous)
    """

    def __init__(
        self,
        *topics: str,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        on_consume: Callable[[Records], Records | None] | None = None,
        on_commit: Callable[[Offsets], object] | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        """Connect, and subscribe to the topics (with a group) or assign all their partitions (without).

        Without topics, call `subscribe` or `assign` next. Raise ConfigError for an invalid setting, BrokerError for a
        topic that does not exist or must not be read, TimeoutExpired when no broker answers.
        """
        for topic in topics:
            if isinstance(topic, Mapping | ClientConfig):
                advice = "Consumer.from_config(ConsumerConfig.from_properties(...)) or keywords, Consumer(**properties)"
                raise not_settings(topic, "the name of a topic", advice)
            if not isinstance(topic, str):
                raise not_settings(topic, "the name of a topic", "Consumer(*topics)")
        check_callables(
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            on_consume=on_consume,
            on_commit=on_commit,
        )
        self._start(ConsumerConfig.from_keywords(settings), None, in_background=True)
        self._deserializers = key_deserializer, value_deserializer
        self._on_consume = on_consume
        if self._group is not None and on_commit is not None:
            self._group.commits.on_commit = on_commit
        try:
            if topics:
                self._begin(topics)
        except BaseException:
            self._close_after_an_exception()
            raise

    def _begin(self, topics: Iterable[str]) -> None:
        """Read the topics that the constructor got."""
        if self._group is not None:
            self.subscribe(topics)
        else:
            self.assign(self._partitions_of(topics))

    @classmethod
    def from_config(
        cls, config: ConsumerConfig, client: ConsumerNetworkClient | None = None, *, in_background: bool = True
    ) -> Consumer:
        """Return a consumer for a parsed configuration. It does not close a `client` of the caller.

        With `in_background` False, for tests, heartbeats are sent only while the consumer is polled.
        """
        consumer = cls.__new__(cls)
        consumer._start(config, client, in_background=in_background)
        return consumer

    def _start(self, config: ConsumerConfig, client: ConsumerNetworkClient | None, *, in_background: bool) -> None:
        from kcli.client.connect import connect

        if client is None:
            config = _with_own_client_id(config)
        self._config = config
        self._closed = False
        self._close_deadline_ms: float | None = None  # None: nobody closes the consumer
        self._in_use = threading.RLock()
        self._user = ""
        self._deserializers = None, None
        self._on_consume = None
        self._own_client = client is None
        self._client = client or connect(config)
        try:
            self._build(config, in_background=in_background)
        except BaseException:
            if self._own_client:
                self._client.close()
            raise

    def _build(self, config: ConsumerConfig, *, in_background: bool) -> None:
        self.subscription = SubscriptionState()
        self._group: GroupClient | None = None
        if config.group_id is not None:
            self._group = GroupClient(self._client, self.subscription, config, in_background=in_background)
        lookup = None if self._group is None else self._group.lookup
        self._loop = FetchLoop(self._client, self.subscription, config, lookup=lookup)
        self._loop.fetcher.buffer.max_records = config.max_poll_records
        if config.max_poll_records is None and config.group_id is not None:
            self._loop.fetcher.buffer.max_records = _POLLED_BY_MEMBERS
        self._loop.tasks.append(UnknownTopics(self._client, self.subscription))
        if self._group is not None:
            self._loop.tasks.append(self._group)
        self._failures: dict[TopicPartition, PartitionFailure] = {}
        self._topics: dict[str, None] = {}
        forks.call_in_child(self._close_in_child)

    def metrics(self) -> MetricGroups:
        """Return the metrics of this consumer: Kafka's group, with its tags -> Kafka's name -> value, now.

        >>> from kcli import Consumer
        >>> with Consumer("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        ...     records = list(consumer.columns(to_end=True))
        ...     consumer.metrics()["consumer-fetch-manager-metrics,topic=orders,partition=0"]["records-lag"]
        0.0

        Averages, maxima and rates are those of the last 30 to 60 seconds; NaN: no value in that time. Times are in ms.
        A lag is unknown until the first fetch of its partition. Any thread may call it.
        """
        self._client.require_own_process()
        now_ms, metrics = self._client.clock.now_ms(), self._client.metrics
        fetches = fetch_metrics(metrics, self.subscription, now_ms, read_committed=self._config.reads_committed)
        assigned = len(self.subscription.partitions())
        group = {} if self._group is None else group_metrics(metrics, assigned, now_ms)
        return merged(metrics.snapshot("consumer", now_ms), fetches, group)

    def __repr__(self) -> str:
        group = f" {self._group!r}" if self._group is not None else ""
        return f"<Consumer {self.subscription!r} {self._loop.fetcher!r}{group}>"

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._close_after_an_exception()

    def _partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        names = list(topics)
        known = self._client.topics_metadata(names, self._deadline_ms(None)).topics
        refused = [name for name in names if known[name].error == ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        if refused:
            raise TopicAuthorizationError.of(refused, api="Metadata", principal=self._client.principal)
        for name in names:
            if known[name].error:
                raise BrokerError(known[name].error, api="Metadata", topic=name, principal=self._client.principal)
        return [TopicPartition(name, number) for name in names for number in sorted(known[name].partitions)]

    # --- partitions and positions

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now, sorted. Those of a group arrive with the first polls."""
        self._client.require_own_process()
        return sorted(self.subscription.partitions())

    @_one_thread
    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without group membership.

        A new partition starts at the committed offset of `group.id`, otherwise by `auto.offset.reset`. No partitions:
        the same as `unsubscribe`.
        """
        requested = list(partitions)
        if not requested:
            self.unsubscribe()
            return
        self.subscription.assign(requested)
        self._request_topics(tp.topic for tp in requested)

    @_one_thread
    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        on_assigned: Callable[[list[TopicPartition]], None] | None = None,
        on_revoked: Callable[[list[TopicPartition]], None] | None = None,
        on_lost: Callable[[list[TopicPartition]], None] | None = None,
    ) -> None:
        """Read these topics, or all whose whole name matches `pattern`, as a member of the group `group.id`.

        `poll` joins the group and runs the callbacks: `on_assigned` with the new partitions at the end of every
        rebalance, `on_revoked` with partitions before they are given up, `on_lost` with partitions that another member
        may own already (default: `on_revoked`, as in Java). They may use the consumer, also during `close`: to commit
        or to look at positions, but not to poll. The pattern is a Python expression, or with
        group.protocol=consumer one of the broker (RE2). A new subscription replaces the previous one. Raise KcliError
        without a group.id.
        """
        requested = list(topics)
        if not requested and pattern is None:
            self.unsubscribe()
            return
        group = self._group_for("subscribe")
        if pattern is None:
            self.subscription.subscribe(requested)
        elif self._config.group_protocol == "consumer":
            self.subscription.subscribe_server_pattern(pattern)
        else:
            self.subscription.subscribe_pattern(pattern)
        group.subscribed(on_assigned, on_revoked, on_lost)
        self._request_topics(requested)

    @_one_thread
    def unsubscribe(self) -> None:
        """Read nothing. A member first revokes its partitions and leaves its group, within default.api.timeout.ms."""
        try:
            if self._group is not None:
                self._group.leave("the consumer has unsubscribed from everything", self._deadline_ms(None))
        finally:
            self.subscription.unsubscribe()
            self._request_topics(())

    def _request_topics(self, topics: Iterable[str]) -> None:
        """Request the metadata of these topics, and no longer of the previous ones.

        The topics of partitions that a member still owns are requested until its next assignment.
        """
        requested = dict.fromkeys(topics)
        owned = {tp.topic for tp in self.subscription.partitions()}
        self._client.metadata.drop_topics(self._topics.keys() - requested.keys() - owned)
        self._client.metadata.add_topics(requested)
        self._topics = requested

    def _group_for(self, action: str) -> GroupClient:
        if self._group is None:
            raise KcliError(f"cannot {action} without a group.id")
        return self._group

    @_one_thread
    def seek(self, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Set the position. With the leader epoch of the previous record, a truncated log is detected (KIP-320)."""
        if offset < 0:
            raise ValueError(f"offset must not be negative; got {offset}")
        self.subscription.seek(tp, offset, epoch)
        self.subscription.state(tp).topic_id = None  # the caller may mean a topic that was created again

    @_one_thread
    def seek_to_beginning(self, partitions: Iterable[TopicPartition]) -> None:
        """Set the position to the log start offset."""
        for tp in partitions:
            self.subscription.request_reset(tp, "earliest")

    @_one_thread
    def seek_to_end(self, partitions: Iterable[TopicPartition]) -> None:
        """Set the position to the end offset: the high watermark, or under read_committed the last stable offset."""
        for tp in partitions:
            self.subscription.request_reset(tp, "latest")

    @_one_thread
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`. An iteration stops at once to return them."""
        for tp in partitions:
            self.subscription.pause(tp)

    @_one_thread
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo `pause`."""
        for tp in partitions:
            self.subscription.resume(tp)

    @_one_thread
    def position(self, tp: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record; ask the brokers for it if necessary (default.api.timeout.ms)."""
        deadline_ms = self._deadline_ms(timeout_ms)
        while True:
            position = self.subscription.consumed_position(tp)
            if position is not None:
                return position.offset
            now_ms = self._client.clock.now_ms()
            if now_ms >= deadline_ms:
                raise TimeoutExpired(f"no position for {tp} before the timeout")
            self._loop.offsets.send(now_ms)
            self._client.poll(timeout_ms=min(deadline_ms, self._loop.offsets.next_ms()) - now_ms)
            self._client.raise_authentication_error()
            self._keep(self._loop.offsets.take_failures())
            self._raise_failures()

    # --- reading

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self.records()

    def records(self, *, to_end: bool = False) -> Iterator[ConsumerRecord]:
        """Iterate over the records; for ever, unless `to_end` (see `columns`).

        A record counts as consumed, for `commit` and `position`, when the iteration returns it. After a `break` the
        next iteration or poll continues with the next record. Errors are those of `poll`, and SerializationError if a
        deserializer fails: then the position is that of this record.
        """
        unread, in_hand = self.subscription.unread, self.subscription.in_hand
        deserializes = self._deserializers != (None, None)
        for tp, columns in self.columns(to_end=to_end):
            topic, partition = tp
            following = iter([*columns.offsets.tolist()[1:], None])
            for record, next_offset in zip(columns, following, strict=True):
                in_hand[tp] = record.offset
                if deserializes:
                    unread[tp] = record.offset  # the position if it fails
                    record = self._deserialized(tp, record)
                if next_offset is None:
                    unread.pop(tp, None)
                else:
                    unread[tp] = next_offset
                yield ConsumerRecord(topic, partition, *record)
                if next_offset is not None and tp not in unread:
                    break  # the caller has called `seek` or `pause`, or the partition is revoked

    def _deserialized(self, tp: TopicPartition, record: Record) -> Record:
        fields: list[Any] = []
        for name, deserialize, data in zip(
            ("key", "value"), self._deserializers, (record.key, record.value), strict=True
        ):
            try:
                if data is not None and deserialize is not None:
                    fields.append(deserialized(deserialize, tp.topic, name, record.headers, data))
                else:
                    fields.append(data)
            except Exception as error:
                text = f"the {name} of the record at offset {record.offset} of {tp} cannot be deserialized"
                where = {"topic": tp.topic, "partition": tp.partition, "offset": record.offset}
                raise serialization_error(text, error, **where, field=name) from error
        return record._replace(key=fields[0], value=fields[1])

    def columns(self, *, to_end: bool = False) -> Iterator[tuple[TopicPartition, RecordColumns]]:
        """Iterate over the records as columns, in each step those of one partition that one response contains.

        Never ends, unless `to_end`: then each partition is read to the end offset that it has when the iteration first
        sees it, and a member of a group stops when it has read all partitions that are assigned to it by then. One
        without partitions waits for them for two heartbeat intervals, unless the group rebalances eagerly. Paused
        partitions do not count, unless they are resumed before the others are read.

        With isolation_level="read_committed" the end is the last stable offset, the first of an open transaction. A
        transaction is open until its markers are written, which can be some ms after its producer got the answer to the
        commit (KIP-98): a read right after it may return no record of it. To wait, call
        `Admin.describe_transactions` until `is_open` of the transaction is False.
        """
        self._client.require_own_process()
        self._require_subscription()
        self.subscription.rewind_unread()
        unread, in_hand = self.subscription.unread, self.subscription.in_hand
        ends: dict[TopicPartition, int] = {}
        try:
            while not (to_end and self._is_at_end(ends)):
                batches = self.poll(_POLL_MS)
                unread.update((tp, int(columns.offsets[0])) for tp, columns in batches.items())
                in_hand.clear()  # the next record of each partition is unread
                for tp, columns in batches.items():
                    if tp in unread:
                        in_hand[tp] = unread.pop(tp)
                        yield tp, columns
                        self._client.require_own_process()
                        in_hand.clear()
        finally:
            for tp in ends:
                if self.subscription.get(tp) is not None:
                    self.subscription.stop_at(tp, None)

    def _is_at_end(self, ends: dict[TopicPartition, int]) -> bool:
        """True if every partition that is not paused is read to its end. Add the ends of new partitions to `ends`."""
        membership, subscription = self.membership, self.subscription
        if self._is_subscribed():
            if membership is None or membership.state != "stable" or not membership.is_stable():
                return False
            if membership.may_get_first_partitions(self._client.clock.now_ms()):
                return False
        new = [tp for tp in subscription.partitions() if tp not in ends]
        if new:
            ends.update(self.end_offsets(new))
            for tp in new:
                subscription.stop_at(tp, ends[tp])
        states = {tp: subscription.state(tp) for tp in subscription.partitions()}
        return all(
            state.paused or (state.position is not None and state.position.offset >= ends[tp])
            for tp, state in states.items()
        )

    @_one_thread
    def poll(self, timeout_ms: float) -> dict[TopicPartition, RecordColumns]:
        """Return the records of each partition as columns as soon as there are some, {} after `timeout_ms`.

        The unit is milliseconds, unlike in confluent-kafka: `poll(1000)` waits for at most a second.

        Raise the error that stops a partition after all records before it were returned, and again at each poll until
        the caller seeks: OffsetOutOfRange and NoOffset if auto.offset.reset is none, LogTruncated, RecordTooLarge,
        CorruptRecords, TopicAuthorizationError with all its topics. With another policy, a member of a group continues
        where a truncated log still agrees with the records that it has read; see `take_resets`. A position belongs to a
        topic id: if a topic was deleted and created again, auto.offset.reset chooses the position in the new topic,
        and with none TopicRecreated is raised. A topic or partition that does not exist may be created later: it is no
        error, but logged once.

        A member joins and rejoins its group here, and its callbacks run here, before any record is returned; their
        exceptions are raised. Poll at least every max.poll.interval.ms, otherwise the group removes the member. Raise
        BrokerError for a fatal refusal of the group (FENCED_INSTANCE_ID, GROUP_AUTHORIZATION_FAILED, ...), and
        AuthenticationError for refused credentials or certificates, at once; the next poll tries again.
        """
        deadline_ms = self._deadline_ms(timeout_ms)
        self._require_subscription()
        self.subscription.rewind_unread()
        self.subscription.in_hand.clear()
        while True:
            records = self._loop.poll(max(0.0, deadline_ms - self._client.clock.now_ms()))
            failures, self._loop.failures = self._loop.failures, []
            self._keep(failures)
            self.subscription.ended.clear()  # the positions contain the same information
            if records and (consumed := self._consumed(dict(records))):
                return consumed
            self._raise_failures()
            if self._client.clock.now_ms() >= deadline_ms:
                return {}

    def _consumed(self, records: Records) -> Records:
        """Return the records after `on_consume`."""
        if self._on_consume is None:
            return records
        try:
            changed = self._on_consume(records)
            return records if changed is None else {tp: columns for tp, columns in changed.items() if len(columns)}
        except Exception:
            logs.warning("kcli.consumer", "on_consume has failed; its exception is ignored", with_traceback=True)
            return records

    def _require_subscription(self) -> None:
        if self.subscription.mode == "nothing":
            raise KcliError("the consumer has no topics and no partitions; call subscribe or assign first")

    def _keep(self, failures: Iterable[PartitionFailure]) -> None:
        policy = self._config.auto_offset_reset
        for failure in failures:
            if isinstance(failure.error, OffsetOutOfRange) and policy != "none":
                self.subscription.request_reset(failure.tp, policy, failure.offset)
            elif isinstance(failure.error, LogTruncated) and policy != "none" and self._is_subscribed():
                self._reset_truncated(failure.tp, failure.error, policy)
            else:
                self._failures[failure.tp] = failure

    def _is_subscribed(self) -> bool:
        return self.subscription.mode in ("topics", "pattern")

    def _reset_truncated(self, tp: TopicPartition, error: LogTruncated, policy: str) -> None:
        """Continue where the log diverges from the records read, as Java; by the policy if that offset is unknown."""
        offset, end = error.evidence["offset"], error.evidence["end_offset"]
        if end < 0:
            self.subscription.request_reset(tp, policy, offset)
        else:
            self.subscription.seek(tp, end)
            self.subscription.resets[tp] = PositionReset(offset, "truncated", end)
            text = "%s: the log was truncated before the position %d; reading continues where it diverges, at %d"
            logs.warning("kcli.consumer.positions", text, tp, offset, end)

    @_one_thread
    def take_resets(self) -> dict[TopicPartition, PositionReset]:
        """Return the positions that were outside the log since the last call, with their replacements."""
        resets, self.subscription.resets = self.subscription.resets, {}
        return resets

    @_one_thread
    def retry_states(self) -> dict[TopicPartition, RetryState]:
        """Return the failures of the partitions for which nothing arrives; `poll` retries them without limit."""
        return self._loop.fetcher.retry_states()

    @_one_thread
    def check_range(self, partitions: Iterable[TopicPartition]) -> None:
        """Handle positions beyond the end offset as a fetch would; for partitions that are not fetched."""
        ends = list_offsets(self._client, dict.fromkeys(partitions, LATEST), self._deadline_ms(None))
        for tp, end in ends.values.items():
            state = self.subscription.get(tp)
            if state is not None and state.position is not None and state.position.offset > end.offset:
                offset = state.position.offset
                text = f"offset {offset} of {tp} is out of range: the log ends at {end.offset}"
                self._keep([PartitionFailure(tp, offset, OffsetOutOfRange(text, offset=offset))])

    def _raise_failures(self) -> None:
        failures = [failure for failure in self._failures.values() if self._is_current(failure)]
        self._failures.clear()
        refused = [failure for failure in failures if isinstance(failure.error, TopicAuthorizationError)]
        if refused:
            apis = {failure.error.evidence.get("api") for failure in refused}
            api = apis.pop() if len(apis) == 1 else None
            topics = (failure.tp.topic for failure in refused)
            raise TopicAuthorizationError.of(topics, api=api, principal=self._client.principal)
        lost = {
            str(failure.tp): failure.offset
            for failure in sorted(failures)
            if isinstance(failure.error, OffsetOutOfRange) and not isinstance(failure.error, TopicRecreated)
        }
        if lost:
            raise OffsetOutOfRange("the position is out of range, and auto.offset.reset is none", **lost)
        for failure in failures:
            raise failure.error

    def _is_current(self, failure: PartitionFailure) -> bool:
        state = self.subscription.get(failure.tp)
        if state is None:
            return False
        offset = -1 if state.position is None else state.position.offset
        return offset == failure.offset

    # --- the group

    @property
    def membership(self) -> Membership | None:
        """The membership in the group; None before the first `subscribe`."""
        self._client.require_own_process()
        return None if self._group is None else self._group.membership

    @_one_thread
    def group_metadata(self) -> GroupMetadata:
        """Return the identity of this consumer in its group, for a transaction that commits its offsets."""
        return self._group_for("return group metadata").metadata()

    @_one_thread
    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, timeout_ms: float | None = None
    ) -> None:
        """Commit `offsets`, or all positions, and wait for the answer. Errors: see `OffsetCommits.commit_sync`."""
        self.subscription.handled(offsets)
        self._group_for("commit").commits.commit_sync(offsets, self._deadline_ms(timeout_ms))

    @_one_thread
    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, callback: Callback | None = None
    ) -> None:
        """Commit without waiting. A later poll runs `callback(offsets, error)`. See `OffsetCommits.commit_async`."""
        self.subscription.handled(offsets)
        self._group_for("commit").commits.commit_async(offsets, callback)

    @_one_thread
    def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each partition, None where there is none. Raise BrokerError for a refusal."""
        group, name = self._group_for("read committed offsets"), self._config.group_id or ""
        return fetch_committed(self._client, group.lookup, name, partitions, self._deadline_ms(timeout_ms))

    # --- offsets of the log

    @_one_thread
    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time, None without one. Raise the error of a partition.

        Negative times are no times on the wire, but the log's start, its end and others: they raise ValueError.
        """
        for tp, time_ms in times_ms.items():
            if time_ms < 0:
                raise ValueError(f"time must not be negative; got {time_ms} for {tp}")
        offsets = self._list_offsets(times_ms, timeout_ms)
        return {tp: offset if offset.offset >= 0 else None for tp, offset in offsets.items()}

    @_one_thread
    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition."""
        offsets = self._list_offsets(dict.fromkeys(partitions, EARLIEST), timeout_ms)
        return {tp: offset.offset for tp, offset in offsets.items()}

    @_one_thread
    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end offset of each partition; under read_committed the last stable offset."""
        offsets = self._list_offsets(dict.fromkeys(partitions, LATEST), timeout_ms)
        return {tp: offset.offset for tp, offset in offsets.items()}

    def _list_offsets(
        self, times: Mapping[TopicPartition, int], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        isolation = int(self._config.reads_committed)
        with self._client.metadata.for_one_lookup({tp.topic for tp in times}):
            results = list_offsets(self._client, times, self._deadline_ms(timeout_ms), isolation)
        for error in results.errors.values():
            raise error
        return results.values

    def _deadline_ms(self, timeout_ms: float | None) -> float:
        wait_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self._client.clock.now_ms() + wait_ms
        return deadline_ms if self._close_deadline_ms is None else min(deadline_ms, self._close_deadline_ms)

    def wakeup(self) -> None:
        """Make the call that waits now, or else the next one that waits, raise WakeupError.

        May be called by any thread and by a signal handler. The consumer remains usable. `close` is not interrupted.
        """
        self._client.wakeup()

    @_one_thread
    def close(self, timeout_ms: float | None = None) -> None:
        """Commit what is due, leave the group (callbacks run) and close the connections, within `timeout_ms` (30 s).

        Callbacks may use the consumer, to commit for example; their calls end with `timeout_ms`, too. No wakeup
        interrupts this, and the connections are closed also after an error. Safe to call twice.
        """
        if self._closed or self._close_deadline_ms is not None:
            return
        timeout_ms = _CLOSE_TIMEOUT_MS if timeout_ms is None else timeout_ms
        deadline_ms = self._close_deadline_ms = self._deadline_ms(timeout_ms)
        with self._client.without_wakeups():
            try:
                if self._group is not None:
                    self._group.close(deadline_ms)
            finally:
                self._closed = True
                try:
                    self._loop.close()
                finally:
                    if self._own_client:
                        self._client.close()

    def _close_in_child(self) -> None:
        """End the iterations of `records` in a forked process: their records are the parent's."""
        self.subscription.unread.clear()

    @_one_thread
    def _close_after_an_exception(self) -> None:
        """Close, and commit no record that the caller had in hand; log an error, which would hide the exception."""
        self.subscription.hold_back()
        try:
            self.close()
        except Exception as error:
            text = "the consumer was not closed cleanly after an exception: %s"
            logs.warning("kcli.consumer", text, _of(error), with_traceback=True)


def _of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


_numbers = itertools.count(1)


def _with_own_client_id(config: ConsumerConfig) -> ConsumerConfig:
    """Return the configuration with a number in the default client.id: kcli, kcli-2, ... for the process' consumers.

    Java numbers them too: brokers' logs, quotas and member ids can then tell them apart.
    """
    if "client.id" in config.given or (number := next(_numbers)) == 1:
        return config
    return config.with_properties({"client.id": f"{config.client_id}-{number}"})
