"""Stories of offsets in transactions and of markers, with the outcome of Apache Kafka 4.3.1. Numbers are its codes."""

from __future__ import annotations

from typing import Any

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.transaction.harness import Recorder
from tests.broker.transaction.requests import (
    ADD,
    END,
    END_WITH_EPOCH,
    PRODUCE,
    abort,
    add,
    add_offsets,
    commit,
    completed,
    describe,
    errors_of,
    init,
    new_producer,
    produce,
)
from tests.limits import Limit

#: The last version of TxnOffsetCommit of clients with one epoch, and the one that adds the group's partition.
OFFSETS, OFFSETS_THAT_ADD = 4, 5
UNSTABLE = 88


def offsets(
    name: str, producer: Any, group: str, *rows: tuple[Any, ...], epoch: int | None = None, **member: Any
) -> Any:
    """TxnOffsetCommit of rows (topic, partition, offset, metadata)."""
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for topic, partition, offset, *metadata in rows:
        one = topics.setdefault(topic, TxnOffsetCommitRequestTopic(name=topic, partitions=[]))
        one.partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=metadata[0] if metadata else ""
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch if epoch is None else epoch,
        topics=list(topics.values()),
        **member,
    )


def codes(answer: Any) -> list[int]:
    """The errors of a TxnOffsetCommit in the order of topics and partitions."""
    rows = [(topic.name, one.partition_index, one.error_code) for topic in answer.topics for one in topic.partitions]
    return [code for _, _, code in sorted(rows)]


def pend(broker: Recorder, version: int = OFFSETS) -> tuple[str, str, str, Any]:
    """Commit offset 7 of partition 0 in an open transaction; return id, group, topic and producer."""
    name, group, topic = broker.new_id(), broker.new_group(), broker.new_topic(2)
    producer = new_producer(broker, name)
    if version < OFFSETS_THAT_ADD:
        assert broker.ask(add_offsets(name, producer, group), 4).error_code == 0
    assert codes(broker.ask(offsets(name, producer, group, (topic, 0, 7)), version)) == [0]
    return name, group, topic, producer


def fetch(
    broker: Recorder, group: str, topic: str | None, *partitions: int, stable: bool = True
) -> list[tuple[int, int]]:
    """Record an OffsetFetch, and return (offset, error) of each partition."""
    topics = None if topic is None else [OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=stable)
    (found,) = broker.ask(request, 9).groups
    return [(one.committed_offset, one.error_code) for t in found.topics for one in t.partitions]


def commit_offset(group: str, topic: str, partition: int, offset: int) -> Any:
    row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[row])],
    )


def delete_offset(group: str, topic: str, partition: int) -> Any:
    rows = [OffsetDeleteRequestPartition(partition_index=partition)]
    return OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=rows)])


def markers(*rows: tuple[Any, int, bool, list[tuple[str, int]]], version: int = 0) -> Any:
    """WriteTxnMarkers of (producer, epoch, is commit, partitions)."""
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=epoch,
                transaction_result=is_commit,
                topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[number]) for name, number in partitions],
                coordinator_epoch=1000,
                transaction_version=version,
            )
            for producer, epoch, is_commit, partitions in rows
        ]
    )


def marked(answer: Any) -> list[int]:
    """The errors of a WriteTxnMarkers by topic and partition."""
    rows = [
        (t.name, one.partition_index, one.error_code)
        for row in answer.markers
        for t in row.topics
        for one in t.partitions
    ]
    return [code for _, _, code in sorted(rows)]


def group_of_one(broker: Recorder, group: str, instance: str | None = None) -> tuple[str, int]:
    """Become the only member of a group; return the member id and the generation. Not recorded: the id is random."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=protocols,
    )
    answer = broker.harness.ask(request, 5)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        request.member_id = answer.member_id
        answer = broker.harness.ask(request, 5)
    assert answer.error_code == 0
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=answer.generation_id,
        member_id=answer.member_id,
        group_instance_id=instance,
        assignments=[SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"all")],
    )
    assert broker.harness.ask(sync, 3).error_code == 0
    return answer.member_id, answer.generation_id


# ---- the end of a transaction ----


def committed_offsets_are_stable_after_the_end(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    assert fetch(broker, group, topic, 0, 1) == [(-1, UNSTABLE), (-1, 0)]
    assert fetch(broker, group, topic, 0, stable=False) == [(-1, 0)]
    assert fetch(broker, group, None) == []
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    assert fetch(broker, group, topic, 0, 1) == [(7, 0), (-1, 0)]
    assert fetch(broker, group, None) == [(7, 0)]


def aborted_offsets_are_dropped(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    broker.ask(abort(name, producer), END)
    completed(broker, name)
    assert fetch(broker, group, topic, 0) == [(-1, 0)]


def earlier_offset_remains_after_an_abort(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    broker.settled(add_offsets(name, producer, group), 4)
    broker.ask(offsets(name, producer, group, (topic, 0, 9), (topic, 1, 4)), OFFSETS)
    assert fetch(broker, group, topic, 0, 1) == [(-1, UNSTABLE), (-1, UNSTABLE)]
    assert fetch(broker, group, None) == [(-1, UNSTABLE)]
    assert fetch(broker, group, topic, 0, stable=False) == [(7, 0)]
    broker.ask(abort(name, producer), END)
    completed(broker, name)
    assert fetch(broker, group, topic, 0, 1) == [(7, 0), (-1, 0)]


def new_producer_drops_the_offsets_of_the_old_one(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    broker.settled(init(name), 5)
    completed(broker, name)
    assert fetch(broker, group, topic, 0) == [(-1, 0)]
    assert codes(broker.ask(offsets(name, producer, group, (topic, 0, 8)), OFFSETS)) == [47]


def offsets_that_add_their_partition(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker, OFFSETS_THAT_ADD)
    (found,) = broker.harness.ask(describe(name), 0).transaction_states
    assert (found.transaction_state, [one.topic for one in found.topics]) == ("Ongoing", ["__consumer_offsets"])
    answer = broker.ask(commit(name, producer), END_WITH_EPOCH)
    completed(broker, name)
    assert fetch(broker, group, topic, 0) == [(7, 0)]
    assert codes(broker.settled(offsets(name, answer, group, (topic, 0, 8)), OFFSETS_THAT_ADD)) == [0]
    broker.ask(abort(name, answer), END_WITH_EPOCH)
    completed(broker, name)
    assert fetch(broker, group, topic, 0) == [(7, 0)]


def offsets_and_records_end_together(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    assert errors_of(broker.ask(add(name, producer, (topic, 0)), ADD)) == [0]
    broker.ask(produce(name, producer, topic, b"a"), PRODUCE)
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    assert broker.read_committed(topic) == [b"a"]
    assert fetch(broker, group, topic, 0) == [(7, 0)]


def offsets_of_two_groups_in_a_transaction(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    other = broker.new_group()
    broker.ask(add_offsets(name, producer, other), 4)
    broker.ask(offsets(name, producer, other, (topic, 1, 5)), OFFSETS)
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    assert (fetch(broker, group, topic, 0, 1), fetch(broker, other, topic, 0, 1)) == (
        [(7, 0), (-1, 0)],
        [(-1, 0), (5, 0)],
    )


def last_offset_of_a_transaction_counts(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    for offset in (9, 3):
        broker.ask(offsets(name, producer, group, (topic, 0, offset)), OFFSETS)
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    assert fetch(broker, group, topic, 0) == [(3, 0)]


# ---- other writers of the same offsets ----


def offset_stored_meanwhile_without_a_transaction_remains(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    assert broker.ask(commit_offset(group, topic, 0, 20), 8).topics[0].partitions[0].error_code == 0
    assert fetch(broker, group, topic, 0) == [(-1, UNSTABLE)]
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    assert fetch(broker, group, topic, 0) == [(20, 0)]


def later_offset_of_two_transactions_remains(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    second = broker.new_id()
    other = new_producer(broker, second)
    broker.ask(add_offsets(second, other, group), 4)
    broker.ask(offsets(second, other, group, (topic, 0, 30)), OFFSETS)
    broker.ask(commit(second, other), END)
    completed(broker, second)
    assert fetch(broker, group, topic, 0) == [(-1, UNSTABLE)]
    assert fetch(broker, group, topic, 0, stable=False) == [(30, 0)]
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    assert fetch(broker, group, topic, 0) == [(30, 0)]


def deleted_offset_is_not_committed(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    broker.ask(offsets(name, producer, group, (topic, 1, 5)), OFFSETS)
    broker.ask(delete_offset(group, topic, 0), 0)
    assert fetch(broker, group, topic, 0, 1) == [(-1, 0), (-1, UNSTABLE)]
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    assert fetch(broker, group, topic, 0, 1) == [(-1, 0), (5, 0)]


def deleted_group_has_no_offsets_of_a_transaction(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    broker.ask(DeleteGroupsRequest(groups_names=[group]), 2)
    assert fetch(broker, group, topic, 0) == [(-1, 0)]
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    assert fetch(broker, group, topic, 0) == [(-1, 0)]


# ---- refusals ----


def unknown_partitions_are_refused_one_by_one(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    rows = [("nope", 0, 1), (topic, 0, 8), (topic, 5, 1), (topic, -1, 1), (topic, 1, 2, "m" * 5000)]
    answer = broker.ask(offsets(name, producer, group, *rows), OFFSETS)
    assert codes(answer) == [3, 3, 0, 12, 3]
    assert codes(broker.ask(offsets(name, producer, group, ("nope", 0, 1)), OFFSETS)) == [3]
    assert broker.ask(offsets(name, producer, group), OFFSETS).topics == []
    # Without a valid partition nothing else is checked.
    assert codes(broker.ask(offsets("?", producer, "", ("nope", 0, 1)), OFFSETS)) == [3]


def empty_group_id_is_refused(broker: Recorder) -> None:
    name, _, topic, producer = pend(broker)
    assert codes(broker.ask(offsets(name, producer, "", (topic, 0, 1)), OFFSETS)) == [24]


def offsets_of_old_clients_need_the_group_in_the_transaction(broker: Recorder) -> None:
    name, group, topic = broker.new_id(), broker.new_group(), broker.new_topic()
    producer = new_producer(broker, name)
    for version in range(5):
        answer = broker.ask(offsets(name, producer, group, (topic, 0, 7)), version)
        assert codes(answer) == [48 if version < OFFSETS else 120]
    assert fetch(broker, group, topic, 0) == [(-1, 0)]


def offsets_after_the_end_are_refused(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    assert codes(broker.ask(offsets(name, producer, group, (topic, 0, 9)), OFFSETS)) == [120]
    assert fetch(broker, group, topic, 0) == [(7, 0)]


def late_offsets_of_an_ended_transaction_are_refused(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker, OFFSETS_THAT_ADD)
    broker.ask(commit(name, producer), END_WITH_EPOCH)
    completed(broker, name)
    assert codes(broker.ask(offsets(name, producer, group, (topic, 0, 9)), OFFSETS_THAT_ADD)) == [47]
    assert fetch(broker, group, topic, 0) == [(7, 0)]


def fenced_producer_commits_no_offsets(broker: Recorder) -> None:
    name, group, topic = broker.new_id(), broker.new_group(), broker.new_topic()
    old = new_producer(broker, name)
    new = new_producer(broker, name)
    broker.ask(add_offsets(name, new, group), 4)
    for version in range(6):
        broker.ask(offsets(name, old, group, (topic, 0, 7)), version)
    assert codes(broker.ask(offsets(name, new, group, (topic, 0, 8)), OFFSETS)) == [0]
    broker.ask(commit(name, new), END)
    completed(broker, name)
    assert fetch(broker, group, topic, 0) == [(8, 0)]


def unknown_transactional_id_commits_no_offsets(broker: Recorder) -> None:
    name, group, topic = broker.new_id(), broker.new_group(), broker.new_topic()
    producer = new_producer(broker, broker.new_id())
    for version in range(6):
        broker.ask(offsets(name, producer, group, (topic, 0, 7)), version)
    assert fetch(broker, group, topic, 0) == [(-1, 0)]


# ---- members (KIP-447) ----


def generation_of_an_unknown_group_is_refused(broker: Recorder) -> None:
    name, _, topic, producer = pend(broker)
    other = broker.new_group()
    broker.ask(add_offsets(name, producer, other), 4)
    request = offsets(name, producer, other, (topic, 0, 1), generation_id=3, member_id="m")
    for version in (3, 4, 5):
        assert codes(broker.ask(request, version)) == [22]
    request.generation_id = -1
    assert codes(broker.ask(request, 4)) == [0]


def members_are_checked_if_they_are_named(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    member, generation = group_of_one(broker, group)

    def code(**who: Any) -> int:
        return codes(broker.ask(offsets(name, producer, group, (topic, 0, 1), **who), 4))[0]

    assert code(member_id=member, generation_id=generation) == 0
    assert code() == 0
    assert code(member_id=member, generation_id=generation + 1) == 22
    assert code(member_id=member, generation_id=generation - 1) == 22
    assert code(member_id=member) == 22
    assert code(generation_id=generation) == 25
    assert code(member_id="unknown", generation_id=generation) == 25
    assert code(member_id="unknown") == 25
    assert code(member_id=member, generation_id=generation, group_instance_id="unknown") == 25
    assert code(group_instance_id="unknown") == 25


def static_members_are_fenced(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    member, generation = group_of_one(broker, group, instance="rack-1")

    def code(**who: Any) -> int:
        return codes(broker.ask(offsets(name, producer, group, (topic, 0, 1), **who), 4))[0]

    assert code(member_id=member, generation_id=generation, group_instance_id="rack-1") == 0
    assert code(member_id="another", generation_id=generation, group_instance_id="rack-1") == 82
    assert code(member_id=member, generation_id=generation) == 0


def members_of_consumer_groups_are_checked_by_their_epoch(broker: Recorder) -> None:
    name, group, topic, producer = pend(broker)
    member = "a" * 22

    def beat(epoch: int, topics: list[str] | None, owned: Any = None) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=30_000 if epoch == 0 else -1,
            subscribed_topic_names=topics,
            topic_partitions=[] if epoch == 0 else owned,
        )
        answer = broker.harness.ask(request, 1)
        assert answer.error_code == 0, answer
        return answer

    def code(**who: Any) -> int:
        return codes(broker.ask(offsets(name, producer, group, (topic, 0, 1), **who), 4))[0]

    answer, assigned, limit = beat(0, [topic]), None, Limit("the assignment of the member")
    while assigned is None:
        limit.check()
        assigned = answer.assignment.topic_partitions or None if answer.assignment is not None else None
        broker.pause(100)
        answer = beat(answer.member_epoch, None, assigned)
    first = answer.member_epoch
    assert code(member_id=member, generation_id=first) == 0
    assert code() == 0
    assert code(member_id=member, generation_id=first + 1) == 22
    assert code(member_id="unknown", generation_id=first) == 25
    assert code(generation_id=first) == 25
    assert code(member_id=member) == 22
    # With a later epoch, the member has still had the partition since the first one.
    other = broker.new_topic()
    answer = beat(first, [topic, other], assigned)
    for _ in range(50):
        if answer.member_epoch > first:
            break
        broker.pause(100)
        answer = beat(answer.member_epoch, None)
    assert answer.member_epoch > first
    assert code(member_id=member, generation_id=first) == 0
    assert codes(
        broker.ask(offsets(name, producer, group, (other, 0, 1), member_id=member, generation_id=first), 4)
    ) == [22]


# ---- markers ----


def markers_of_partitions_without_a_transaction(broker: Recorder) -> None:
    topic = broker.new_topic(2)
    producer = new_producer(broker, broker.new_id())
    rows = [(producer, 5, True, [(topic, 0), (topic, 9), ("nope", 0)])]
    for version in (1, 2):
        assert marked(broker.ask(markers(*rows), version)) == [3, 0, 3]
    assert broker.read_committed(topic) == []
    assert broker.ask(markers(), 2).markers == []
    assert marked(broker.ask(markers((producer, 5, True, [])), 2)) == []


def marker_of_an_older_epoch_is_refused(broker: Recorder) -> None:
    topic = broker.new_topic()
    producer = new_producer(broker, broker.new_id())
    assert marked(broker.ask(markers((producer, 5, True, [(topic, 0)])), 2)) == [0]
    assert marked(broker.ask(markers((producer, 4, True, [(topic, 0)])), 2)) == [47]
    assert marked(broker.ask(markers((producer, 4, True, [(topic, 0)]), version=2), 2)) == [47]
    assert marked(broker.ask(markers((producer, 5, False, [(topic, 0)]), version=2), 2)) == [0]


def marker_of_an_older_coordinator_is_refused(broker: Recorder) -> None:
    topic = broker.new_topic()
    producer = new_producer(broker, broker.new_id())
    request = markers((producer, 5, True, [(topic, 0)]))
    assert marked(broker.ask(request, 2)) == [0]
    request.markers[0].coordinator_epoch = 999
    assert marked(broker.ask(request, 2)) == [52]


def marker_ends_a_transaction_behind_the_coordinators_back(broker: Recorder) -> None:
    """`kafka-transactions.sh abort` does this with hanging transactions."""
    name, topic = broker.new_id(), broker.new_topic()
    producer = new_producer(broker, name)
    broker.ask(add(name, producer, (topic, 0)), ADD)
    broker.ask(produce(name, producer, topic, b"a"), PRODUCE)
    assert broker.read_committed(topic) == []
    assert marked(broker.ask(markers((producer, producer.producer_epoch, False, [(topic, 0)])), 2)) == [0]
    broker.read_committed(topic)
    answer = broker.ask(produce(name, producer, topic, b"b", sequence=1), PRODUCE)
    assert answer.responses[0].partition_responses[0].error_code == 0


def markers_of_several_producers(broker: Recorder) -> None:
    """Apache Kafka does not answer a request whose last marker is for unknown partitions only."""
    topic = broker.new_topic(2)
    first, second = (new_producer(broker, broker.new_id()) for _ in range(2))
    rows = [
        (second, 5, True, [("nope", 0)]),
        (first, 5, True, [(topic, 0), (topic, 1)]),
        (second, 5, False, [(topic, 0)]),
        (first, 4, False, [(topic, 0)]),
    ]
    assert len(broker.ask(markers(*rows), 2).markers) == 2


SCENARIOS = [
    committed_offsets_are_stable_after_the_end,
    aborted_offsets_are_dropped,
    earlier_offset_remains_after_an_abort,
    new_producer_drops_the_offsets_of_the_old_one,
    offsets_that_add_their_partition,
    offsets_and_records_end_together,
    offsets_of_two_groups_in_a_transaction,
    last_offset_of_a_transaction_counts,
    offset_stored_meanwhile_without_a_transaction_remains,
    later_offset_of_two_transactions_remains,
    deleted_offset_is_not_committed,
    deleted_group_has_no_offsets_of_a_transaction,
    unknown_partitions_are_refused_one_by_one,
    empty_group_id_is_refused,
    offsets_of_old_clients_need_the_group_in_the_transaction,
    offsets_after_the_end_are_refused,
    late_offsets_of_an_ended_transaction_are_refused,
    fenced_producer_commits_no_offsets,
    unknown_transactional_id_commits_no_offsets,
    generation_of_an_unknown_group_is_refused,
    members_are_checked_if_they_are_named,
    static_members_are_fenced,
    members_of_consumer_groups_are_checked_by_their_epoch,
    markers_of_partitions_without_a_transaction,
    marker_of_an_older_epoch_is_refused,
    marker_of_an_older_coordinator_is_refused,
    marker_ends_a_transaction_behind_the_coordinators_back,
    markers_of_several_producers,
]
