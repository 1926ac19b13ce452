"""Plans applied and undone on our broker and on Apache's, verified with kafka-python; refused plans change nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Theirs
from kafka import KafkaAdminClient

from kcli.admin.groups.describe import describe_groups
from kcli.admin.offsets.apply import apply_plan
from kcli.admin.offsets.checks import GroupInUse, PlanOutdated
from kcli.admin.offsets.commits import commit_many
from kcli.admin.offsets.offset_plan import OffsetPlan, OffsetRow, make_plan, plan_reset
from kcli.admin.offsets.reset import gather_facts
from kcli.admin.offsets.undo import plan_undo
from kcli.admin.plan import Applied
from kcli.admin.snapshots import SnapshotStore
from kcli.errors import KcliError
from kcli.log_place import LOG_START
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.admin.groups.test_groups_live import asking, fill, member, soon, until
from tests.real_kafka import Kafka
from tests.streams_member import StreamsMember

Positions = dict[str, dict[TopicPartition, OffsetAndMetadata]]

NOTES = ["", "by the app", "caf\u00e9 \u2603 \U0001f980", '{"at": "10:00\\n"}', "\u0000\u0001\u2028\ufffd", "n" * 4096]


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "snapshots")


def commit(kafka: Kafka, positions: Positions) -> None:
    with asking(kafka) as client:
        assert not any(commit_many(client, positions, soon(client)).values())


def positions(kafka: Kafka, groups: Iterable[str], topic: str) -> Positions:
    """Return the committed offsets that kafka-python reads. librdkafka 2.14 returns metadata with memory after it."""
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        by_group = admin.list_group_offsets(list(groups))
    finally:
        admin.close()
    return {
        group: {
            TopicPartition(tp.topic, tp.partition): OffsetAndMetadata(it.offset, it.leader_epoch, it.metadata)
            for tp, it in offsets.items()
            if tp.topic == topic and it.offset >= 0
        }
        for group, offsets in by_group.items()
    }


def planned(kafka: Kafka, groups: Iterable[str], topic: str) -> OffsetPlan:
    """Return a plan to reset all partitions of a topic to the start of the log."""
    with asking(kafka) as client:
        facts = gather_facts(client, groups, {topic: None}, LOG_START, soon(client))
        assert not facts.errors
        rows = [row for name, it in facts.values.items() for row in plan_reset(name, it.partitions, LOG_START)]
        states = {name: it.state for name, it in facts.values.items()}
        return make_plan("reset", rows, client.clock.wall_ms(), states, client.metadata.cluster.cluster_id)


def applied(kafka: Kafka, plan: OffsetPlan, store: SnapshotStore) -> Applied:
    with asking(kafka) as client:
        return apply_plan(client, plan, store, soon(client))


def undone(kafka: Kafka, snapshot_id: str | None, store: SnapshotStore) -> OffsetPlan:
    assert snapshot_id is not None
    with asking(kafka) as client:
        plan = plan_undo(client, store.load(snapshot_id), soon(client))
        assert not apply_plan(client, plan, store, soon(client)).errors
    return plan


def test_undo_brings_back_every_offset_epoch_and_byte_of_metadata(any_kafka: Kafka, store: SnapshotStore) -> None:
    """Two groups, with uncommitted partitions, a deletion, and an offset that is already at its target. The undo can be
    undone as well."""
    count = len(NOTES) + 3
    topic = any_kafka.new_topic(count)
    groups = sorted(any_kafka.new_name("g") for _ in range(2))  # the order of plans
    partition = [TopicPartition(topic, number) for number in range(count)]
    before = {
        group: {partition[n]: OffsetAndMetadata(40 + n, n - 1 + shift, note) for n, note in enumerate(NOTES)}
        for shift, group in enumerate(groups)
    }
    for offsets in before.values():
        offsets[partition[-1]] = OffsetAndMetadata(0, -1, "there already")
    commit(any_kafka, before)
    assert positions(any_kafka, groups, topic) == before
    plan = planned(any_kafka, groups, topic)
    first = plan.rows[0]
    plan = replace(plan, rows=(replace(first, new=None, action="delete"), *plan.rows[1:]))
    did = applied(any_kafka, plan, store)
    assert not did.errors
    assert [row.action for row in plan.rows].count("keep") == 2
    after = positions(any_kafka, groups, topic)
    assert {group: len(offsets) for group, offsets in after.items()} == {groups[0]: count - 1, groups[1]: count}
    assert {it.offset for offsets in after.values() for it in offsets.values()} == {0}
    back = undone(any_kafka, did.snapshot_id, store)
    assert positions(any_kafka, groups, topic) == before
    assert [row.action for row in back.rows].count("delete") == 4
    again = undone(any_kafka, did.snapshot_id, store)
    assert {row.action for row in again.rows} == {"keep"}
    undo_of_undo = store.ids()[1]
    undone(any_kafka, undo_of_undo, store)
    assert positions(any_kafka, groups, topic) == after


def test_undo_of_a_reset_that_created_the_group_leaves_no_offsets(any_kafka: Kafka, store: SnapshotStore) -> None:
    topic, group = any_kafka.new_topic(2), any_kafka.new_name("g")
    did = applied(any_kafka, planned(any_kafka, [group], topic), store)
    assert len(positions(any_kafka, [group], topic)[group]) == 2
    undone(any_kafka, did.snapshot_id, store)
    assert positions(any_kafka, [group], topic) == {group: {}}


def _refused(kafka: Kafka, plan: OffsetPlan, store: SnapshotStore, topic: str) -> KcliError:
    """Return the error, after asserting that nothing was written."""
    before = positions(kafka, plan.groups, topic)
    with pytest.raises(KcliError) as caught:
        applied(kafka, plan, store)
    assert positions(kafka, plan.groups, topic) == before
    assert not store.ids()
    return caught.value


def _live_group_is_refused(kafka: Kafka, store: SnapshotStore, **settings: str) -> GroupInUse:
    topic, idle, live = kafka.new_topic(2), kafka.new_name("g"), kafka.new_name("g")
    t0 = TopicPartition(topic, 0)
    commit(kafka, {group: {t0: OffsetAndMetadata(3, 0, "here")} for group in (idle, live)})
    plan = planned(kafka, [idle, live], topic)
    with member(kafka, live, topic, **settings):
        error = _refused(kafka, plan, store, topic)
    assert isinstance(error, GroupInUse)
    assert list(error.groups) == [live]
    with asking(kafka) as client:
        until(lambda: describe_groups(client, {live: None}, soon(client)).values[live].state == "Empty")
    assert not applied(kafka, plan, store).errors  # the member has left and the plan is still valid
    return error


def test_a_group_with_a_member_refuses_the_plan_for_all_groups(any_kafka: Kafka, store: SnapshotStore) -> None:
    _live_group_is_refused(any_kafka, store)


def test_a_kip848_group_with_a_member_refuses_the_plan(any_kafka: Kafka, store: SnapshotStore) -> None:
    """DescribeGroups returns the state Dead for such a group (KIP-848)."""
    _live_group_is_refused(any_kafka, store, group_protocol="consumer")


def test_a_streams_group_refuses_the_plan(real_kafka: Kafka, store: SnapshotStore) -> None:
    topic, group = real_kafka.new_topic(2), real_kafka.new_name("g")
    commit(real_kafka, {group: {TopicPartition(topic, 0): OffsetAndMetadata(3)}})
    plan = planned(real_kafka, [group], topic)
    application = StreamsMember(real_kafka.bootstrap_servers, group, [topic], client_id="app-1").join()
    application.leave()
    error = _refused(real_kafka, plan, store, topic)
    assert isinstance(error, GroupInUse)
    assert "change its offsets with kafka-streams-groups.sh" in error.groups[group]


def test_a_commit_after_the_plan_refuses_it(any_kafka: Kafka, store: SnapshotStore) -> None:
    topic, group = any_kafka.new_topic(2), any_kafka.new_name("g")
    t0, t1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
    commit(any_kafka, {group: {t0: OffsetAndMetadata(3, 0, "here")}})
    plan = planned(any_kafka, [group], topic)
    commit(any_kafka, {group: {t0: OffsetAndMetadata(3, 0, "there"), t1: OffsetAndMetadata(1)}})
    error = _refused(any_kafka, plan, store, topic)
    assert isinstance(error, PlanOutdated)
    assert [it.tp for it in error.differences] == [t0, t1]


def test_a_pending_transactional_offset_refuses_the_plan(real_kafka: Kafka, store: SnapshotStore) -> None:
    """After the commit of the transaction, its offset replaces the one of the plan (KIP-447)."""
    topic, group = real_kafka.new_topic(2), real_kafka.new_name("g")
    commit(real_kafka, {group: {TopicPartition(topic, 0): OffsetAndMetadata(3)}})
    fill(real_kafka, topic, 0, 5)
    plan = planned(real_kafka, [group], topic)
    producer = real_kafka.ordered_producer(transactional_id=group)
    producer.init_transactions()
    producer.begin_transaction()
    reader = Consumer({"bootstrap.servers": real_kafka.bootstrap_servers, "group.id": group})
    producer.send_offsets_to_transaction([Theirs(topic, 0, 5)], reader.consumer_group_metadata(), 20)
    with pytest.raises(PlanOutdated, match="UNSTABLE_OFFSET_COMMIT"):
        applied(real_kafka, plan, store)
    producer.abort_transaction()
    reader.close()
    until(lambda: _is_applied(real_kafka, plan, store))


def _is_applied(kafka: Kafka, plan: OffsetPlan, store: SnapshotStore) -> bool:
    """The group coordinator learns of the end of a transaction a little after the producer."""
    try:
        return not applied(kafka, plan, store).errors
    except PlanOutdated:
        return False


def test_large_metadata_take_several_commits(any_kafka: Kafka, store: SnapshotStore) -> None:
    """A coordinator stores a commit as one batch of __consumer_offsets, which is limited to 1 MiB."""
    topic, group = any_kafka.new_topic(300), any_kafka.new_name("g")
    before = {TopicPartition(topic, number): OffsetAndMetadata(9, 0, "n" * 4096) for number in range(300)}
    commit(any_kafka, {group: before})
    rows = [OffsetRow((group, tp), old, old._replace(offset=0), "move") for tp, old in before.items()]
    did = applied(any_kafka, make_plan("reset", rows, 0, {}), store)
    assert not did.errors
    assert {it.offset for it in positions(any_kafka, [group], topic)[group].values()} == {0}
    undone(any_kafka, did.snapshot_id, store)
    assert positions(any_kafka, [group], topic) == {group: before}


def test_undo_skips_a_topic_that_was_recreated(any_kafka: Kafka, store: SnapshotStore) -> None:
    topic, kept, group = any_kafka.new_topic(2), any_kafka.new_topic(1), any_kafka.new_name("g")
    old, other = TopicPartition(topic, 0), TopicPartition(kept, 0)
    commit(any_kafka, {group: {old: OffsetAndMetadata(9), other: OffsetAndMetadata(5)}})
    rows = [
        OffsetRow((group, tp), OffsetAndMetadata(offset), OffsetAndMetadata(0), "move")
        for tp, offset in {old: 9, other: 5}.items()
    ]
    with asking(any_kafka) as client:
        client.topics_metadata([topic, kept], soon(client))
        did = apply_plan(client, make_plan("reset", rows, 0, {}), store, soon(client))
    any_kafka.delete_topic(topic)
    any_kafka.create_topic(topic, 2)
    plan = undone(any_kafka, did.snapshot_id, store)
    assert {row.tp: (row.action, row.why) for row in plan.rows if row.tp == old} == {
        old: ("skip", "the topic was deleted and recreated since")
    }
    assert positions(any_kafka, [group], kept)[group] == {other: OffsetAndMetadata(5)}
