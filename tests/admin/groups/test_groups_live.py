"""Groups of real members on our broker and on Apache's; KIP-848, share and streams groups on Apache's only."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kcli.admin.groups.describe import Group, describe_groups
from kcli.admin.groups.lag import CREATE_TIME, DELETED, HOLE
from kcli.admin.groups.listing import list_groups
from kcli.admin.groups.removal import delete_groups, remove_members
from kcli.admin.groups.survey import GroupSurvey, survey_groups
from kcli.admin.offsets.commits import commit_offsets
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.interop.groups.group_configs import configure_group
from tests.interop.shapes import wait_until_decided
from tests.real_kafka import Kafka
from tests.streams_member import StreamsMember

pytestmark = pytest.mark.slow

TIMEOUT_S = 20
JVM_TIMEOUT_S = 120


@contextmanager
def asking(kafka: Kafka) -> Iterator[ConsumerNetworkClient]:
    with connect(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers})) as client:
        yield client


def soon(client: ConsumerNetworkClient) -> float:
    return client.clock.now_ms() + TIMEOUT_S * 1000


@contextmanager
def member(kafka: Kafka, group: str, topic: str, **settings: Any) -> Iterator[Any]:
    """A confluent-kafka consumer with an assignment. It takes part in a rebalance only when it is polled."""
    from confluent_kafka import Consumer

    named = {name.replace("_", "."): value for name, value in settings.items()}
    common = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "client.id": "billing-app"}
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, **common, **named})
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + TIMEOUT_S
        while not consumer.assignment():
            assert time.monotonic() < deadline, f"no assignment in {group}"
            consumer.poll(0.1)
        yield consumer
    finally:
        consumer.close()


def fill(kafka: Kafka, topic: str, partition: int, count: int, timestamp_ms: int = 0) -> None:
    producer = kafka.ordered_producer()
    for number in range(count):
        producer.produce(topic, f"record {number}", partition=partition, timestamp=timestamp_ms)
    assert producer.flush(TIMEOUT_S) == 0


def commit(kafka: Kafka, group: str, offsets: dict[TopicPartition, int]) -> None:
    with asking(kafka) as client:
        wanted = {tp: OffsetAndMetadata(offset, metadata="by hand") for tp, offset in offsets.items()}
        assert not any(commit_offsets(client, group, wanted, soon(client)).values())


def surveyed(kafka: Kafka, group: str, **how: Any) -> GroupSurvey:
    with asking(kafka) as client:
        found = survey_groups(client, [group], soon(client), **how)
    assert not found.errors
    return found.values[group]


def described(kafka: Kafka, group: str) -> Group:
    with asking(kafka) as client:
        found = describe_groups(client, {group: None}, soon(client))
    assert not found.errors
    return found.values[group]


def until(condition: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def code_of(error: KcliError) -> ErrorCode:
    assert isinstance(error, BrokerError), error
    return error.code


# Classic groups


def test_a_classic_group_has_its_member_and_lag(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(3), any_kafka.new_name("g")
    fill(any_kafka, topic, 0, 10)
    fill(any_kafka, topic, 1, 4)
    t0, t1, t2 = (TopicPartition(topic, number) for number in range(3))
    commit(any_kafka, group, {t0: 3, t1: 4})
    with member(any_kafka, group, topic, group_instance_id="billing-1"):
        survey = surveyed(any_kafka, group)
    assert (survey.group.type, survey.group.state, survey.group.assignor) == ("classic", "Stable", "range")
    assert survey.group.protocol_type == "consumer"
    (only,) = survey.group.members
    assert (only.client_id, only.host, only.instance_id) == ("billing-app", "127.0.0.1", "billing-1")
    assert (only.topics, only.owned, only.member_type) == ((topic,), (t0, t1, t2), "classic")
    assert [(row.tp, row.start, row.end, row.lag) for row in survey.partitions] == [
        (t0, 0, 10, 7),
        (t1, 0, 4, 0),
        (t2, 0, 0, None),
    ]
    assert survey.partitions[0].committed == OffsetAndMetadata(3, -1, "by hand")
    assert [row.member for row in survey.partitions] == [only] * 3


def test_a_group_with_commits_only_is_an_empty_classic_group(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("g")
    commit(any_kafka, group, {TopicPartition(topic, 0): 0})
    found = described(any_kafka, group)
    assert (found.type, found.state, found.members, found.protocol_type) == ("classic", "Empty", (), "")


def test_a_missing_group_is_an_error_under_its_name(any_kafka: Kafka) -> None:
    with asking(any_kafka) as client:
        found = survey_groups(client, ["never-seen"], soon(client))
    assert code_of(found.errors["never-seen"]) == ErrorCode.GROUP_ID_NOT_FOUND
    assert not found.values


def test_a_group_is_listed_by_its_coordinator_and_filtered_by_state_and_type(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("g")
    commit(any_kafka, group, {TopicPartition(topic, 0): 0})

    def listed(**filters: Any) -> set[tuple[str, str, str]]:
        with asking(any_kafka) as client:
            found = list_groups(client, soon(client), **filters)
        assert not found.errors
        return {(it.group, it.type, it.state) for its in found.values.values() for it in its if it.group == group}

    assert listed() == listed(states=["empty"]) == listed(types=["CLASSIC"]) == {(group, "classic", "Empty")}
    assert listed(states=["stable"]) == listed(types=["consumer"]) == set()


def test_time_lag_is_the_age_of_the_first_unread_record(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("g")
    fill(any_kafka, topic, 0, 3, timestamp_ms=int(time.time() * 1000) - 3_600_000)
    fill(any_kafka, topic, 0, 3)
    tp = TopicPartition(topic, 0)
    commit(any_kafka, group, {tp: 2})
    (row,) = surveyed(any_kafka, group, time_lag=True).partitions
    assert row.time_lag_ms is not None
    assert 3_600_000 <= row.time_lag_ms < 3_660_000
    assert row.time_lag_note == CREATE_TIME
    commit(any_kafka, group, {tp: 3})
    (row,) = surveyed(any_kafka, group, time_lag=True).partitions
    assert row.time_lag_ms is not None
    assert row.time_lag_ms < 60_000
    commit(any_kafka, group, {tp: 6})
    (row,) = surveyed(any_kafka, group, time_lag=True).partitions
    assert (row.lag, row.time_lag_ms, row.time_lag_note) == (0, 0, None)


def test_time_lag_with_log_append_time_and_with_deleted_records(any_kafka: Kafka) -> None:
    from confluent_kafka import TopicPartition as Theirs
    from confluent_kafka.admin import AdminClient

    topic = any_kafka.new_topic(message_timestamp_type="LogAppendTime")
    group = any_kafka.new_name("g")
    fill(any_kafka, topic, 0, 6, timestamp_ms=1_000)
    commit(any_kafka, group, {TopicPartition(topic, 0): 1})
    (row,) = surveyed(any_kafka, group, time_lag=True).partitions
    assert row.time_lag_note is None
    assert row.time_lag_ms is not None
    assert row.time_lag_ms < 60_000
    admin = AdminClient({"bootstrap.servers": any_kafka.bootstrap_servers})
    for done in admin.delete_records([Theirs(topic, 0, 4)]).values():
        done.result(TIMEOUT_S)
    (row,) = surveyed(any_kafka, group, time_lag=True).partitions
    assert (row.start, row.lag, row.time_lag_note) == (4, 5, DELETED)


def test_only_groups_without_members_are_deleted(any_kafka: Kafka) -> None:
    topic, idle, busy = any_kafka.new_topic(), any_kafka.new_name("g"), any_kafka.new_name("g")
    commit(any_kafka, idle, {TopicPartition(topic, 0): 0})
    with member(any_kafka, busy, topic), asking(any_kafka) as client:
        found = delete_groups(client, [idle, busy, "never-seen"], soon(client))
        assert list(found.values) == [idle]
        assert {name: code_of(error) for name, error in found.errors.items()} == {
            busy: ErrorCode.NON_EMPTY_GROUP,
            "never-seen": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        left = describe_groups(client, {idle: None, busy: None}, soon(client))
        assert list(left.values) == [busy]


def test_a_removed_member_leaves_the_group(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("g")
    with (
        member(any_kafka, group, topic, session_timeout_ms=30_000, group_instance_id="static") as live,
        asking(any_kafka) as client,
    ):
        (old,) = described(any_kafka, group).members
        found = remove_members(client, group, [old, old._replace(id="nobody", instance_id=None)], "test", soon(client))
        assert list(found.values) == [old.id]
        assert code_of(found.errors["nobody"]) == ErrorCode.UNKNOWN_MEMBER_ID
        assert old.id not in {it.id for it in described(any_kafka, group).members}
        again = remove_members(client, group, [old], "", soon(client))
        assert code_of(again.errors[old.id]) in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
        live.unsubscribe()


# Groups of other types


def test_a_consumer_group_has_epochs_and_target_assignments(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(2), any_kafka.new_name("g")
    fill(any_kafka, topic, 1, 5)
    t0, t1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with member(any_kafka, group, topic, group_protocol="consumer", group_instance_id="static-1") as live:
        live.commit(offsets=_theirs({t1: 2}), asynchronous=False)
        until(lambda: described(any_kafka, group).state == "Stable")
        survey = surveyed(any_kafka, group)
        (only,) = survey.group.members
        assert survey.group.type == "consumer"
        assert survey.group.assignor == "uniform"
        assert survey.group.epoch == survey.group.target_epoch == only.epoch
        assert (only.owned, only.target, only.topics) == ((t0, t1), (t0, t1), (topic,))
        assert (only.instance_id, only.member_type, only.host) == ("static-1", "consumer", "127.0.0.1")
        assert [(row.tp, row.lag) for row in survey.partitions] == [(t0, None), (t1, 3)]


def _theirs(offsets: dict[TopicPartition, int]) -> list[Any]:
    from confluent_kafka import TopicPartition as Theirs

    return [Theirs(tp.topic, tp.partition, offset) for tp, offset in offsets.items()]


def test_the_tasks_of_a_streams_group_are_its_partitions(real_kafka: Kafka) -> None:
    wide, narrow = real_kafka.new_topic(3), real_kafka.new_topic(2)
    group = real_kafka.new_name("g")
    fill(real_kafka, wide, 2, 4)
    commit(real_kafka, group, {TopicPartition(wide, 2): 1})
    application = StreamsMember(real_kafka.bootstrap_servers, group, [wide, narrow], client_id="app-1").join()
    try:
        survey = surveyed(real_kafka, group)
    finally:
        application.leave()
    assert survey.group.type == "streams"
    (only,) = survey.group.members
    there = {TopicPartition(wide, n) for n in range(3)} | {TopicPartition(narrow, n) for n in range(2)}
    assert (set(only.owned), only.client_id) == (there, "app-1")
    assert {row.tp for row in survey.partitions} == there
    assert {row.tp: row.lag for row in survey.partitions}[TopicPartition(wide, 2)] == 3
    assert not any(row.error for row in survey.partitions)


def test_offsets_and_lag_of_a_share_group_equal_those_of_apache_s_tool(real_kafka: Kafka) -> None:
    topic, group = real_kafka.new_topic(), real_kafka.new_name("g")
    fill(real_kafka, topic, 0, 12)
    with asking(real_kafka) as client:
        configure_group(client, group, {"share.auto.offset.reset": "earliest"})
    at = ("--bootstrap-server", real_kafka.bootstrap_servers)
    read = (*at, "--topic", topic, "--group", group)
    reader = subprocess.Popen(
        [*real_kafka.java("ConsoleShareConsumer"), *read],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: _share_group_is_done(real_kafka, group), JVM_TIMEOUT_S)
        survey = surveyed(real_kafka, group)
    finally:
        reader.terminate()
        reader.wait(JVM_TIMEOUT_S)
    fill(real_kafka, topic, 0, 5)
    (only,) = survey.group.members
    assert (survey.group.type, only.topics, only.owned) == ("share", (topic,), (TopicPartition(topic, 0),))
    (row,) = surveyed(real_kafka, group).partitions
    shown = real_kafka.tool("ShareGroupCommand", *at, "--describe", "--group", group).stdout.split()
    assert row.committed is not None
    assert shown[-2:] == [str(row.committed.offset), str(row.lag)]
    assert (row.end, row.lag) == (17, 5)  # the start offset may still be 0; acknowledged records are not in the lag


def _share_group_is_done(kafka: Kafka, group: str) -> bool:
    with asking(kafka) as client:
        found = survey_groups(client, {group: "share"}, soon(client))
    return group in found.values and any(row.lag == 0 for row in found.values[group].partitions)


def test_time_lag_at_a_transaction_marker_is_that_of_the_next_record(real_kafka: Kafka) -> None:
    topic, group = real_kafka.new_topic(), real_kafka.new_name("g")
    producer = real_kafka.ordered_producer(transactional_id=group)
    producer.init_transactions()
    for number in range(2):
        producer.begin_transaction()
        producer.produce(topic, f"transaction {number}")
        producer.commit_transaction()
    wait_until_decided(real_kafka, topic, 4)
    commit(real_kafka, group, {TopicPartition(topic, 0): 1})  # where the first marker is
    (row,) = surveyed(real_kafka, group, time_lag=True).partitions
    assert (row.lag, row.time_lag_note) == (3, f"{HOLE}; {CREATE_TIME}")
    commit(real_kafka, group, {TopicPartition(topic, 0): 3})
    (row,) = surveyed(real_kafka, group, time_lag=True).partitions
    assert (row.lag, row.time_lag_ms, row.time_lag_note) == (1, None, "nothing there")


@pytest.mark.parametrize(("isolation_level", "end"), [(0, 1), (1, 0)])
def test_an_open_transaction_holds_back_the_last_stable_offset(
    real_kafka: Kafka, isolation_level: int, end: int
) -> None:
    topic, group = real_kafka.new_topic(), real_kafka.new_name("g")
    commit(real_kafka, group, {TopicPartition(topic, 0): 0})
    producer = real_kafka.ordered_producer(transactional_id=group)
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(TIMEOUT_S)
    (row,) = surveyed(real_kafka, group, isolation_level=isolation_level).partitions
    producer.abort_transaction()
    assert (row.end, row.lag) == (end, end)
