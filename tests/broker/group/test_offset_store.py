"""The offset store: what it acknowledges is in the log, and what is in the log is what it knows."""

from __future__ import annotations

import pytest

from kcli.broker.group.expiry import CommittedOffset, GroupFacts
from kcli.broker.group.group_log import group_hash
from kcli.broker.group.offset_store import NewOffset
from kcli.error_codes import ErrorCode
from kcli.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
)
from kcli.protocol.records import batch as layout
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord
from kcli.structs import OFFSETS_TOPIC, TopicPartition
from tests.broker.group.offsets_lab import DAY_MS, NOW_MS, Lab, Written, clicks, orders

# Math.abs("...".hashCode()) by Java 17, and 0 for the smallest number, which has no positive one.
JAVA_HASHES = {
    "": 0,
    "g": 103,
    "billing": 109829509,
    "console-consumer-40523": 161168345,
    "polygenelubricants": 0,
    "grüppe-名-😀": 276267516,
}


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.mark.parametrize(("group_id", "java"), JAVA_HASHES.items())
def test_a_group_has_the_partition_that_kafka_gives_it(lab: Lab, group_id: str, java: int) -> None:
    assert group_hash(group_id) == java
    assert lab.offsets.partition_for(group_id) == java % 50


def test_an_existing_topic_says_how_many_partitions_there_are() -> None:
    lab = Lab(offsets_topic_num_partitions=4)
    lab.commit("billing", (orders(0), 1))

    lab.config = Lab(offsets_topic_num_partitions=50).config
    lab.start()

    assert lab.offsets.partition_for("billing") == 109829509 % 4
    assert lab.committed("billing") == {orders(0): 1}


def test_the_topic_is_made_by_the_first_commit(lab: Lab) -> None:
    assert lab.offsets.fetch("billing") == {}
    assert OFFSETS_TOPIC not in lab.cluster.topics

    lab.commit("billing", (orders(0), 1))

    assert lab.cluster.topics[OFFSETS_TOPIC].partitions == 50


def test_offsets_are_fetched_as_they_were_committed(lab: Lab) -> None:
    errors = lab.offsets.commit(
        "billing", [NewOffset(orders(0), 5, 3, "a note"), NewOffset(orders(1), 7, metadata=None)], NOW_MS
    )

    topic_id = lab.cluster.topics["orders"].topic_id
    assert errors == [ErrorCode.NONE, ErrorCode.NONE]
    assert lab.offsets.fetch("billing") == {
        orders(0): CommittedOffset(5, 3, "a note", NOW_MS, -1, topic_id),
        orders(1): CommittedOffset(7, -1, "", NOW_MS, -1, topic_id),
    }
    assert list(lab.offsets.fetch("billing", [orders(1), orders(3)])) == [orders(1)]
    assert lab.offsets.fetch("another") == {}


def test_a_request_is_one_batch_as_kafka_writes_it(lab: Lab) -> None:
    lab.commit("billing", (orders(0), 5), (clicks(1), 6))

    log = lab.replicas.logs[TopicPartition(OFFSETS_TOPIC, 109829509 % 50)]
    ((_, data),) = log.batches
    header = layout.HEADER.unpack_from(data)
    assert header[5:] == (0, 1, NOW_MS, NOW_MS, -1, -1, 0, 2)  # from the attributes on, as in Kafka 4.3.1's log


def test_the_cache_is_not_changed_by_a_commit_that_did_not_get_into_the_log(lab: Lab) -> None:
    lab.commit("billing", (orders(0), 5))
    lab.replicas.failure = ErrorCode.KAFKA_STORAGE_ERROR

    assert lab.commit("billing", (orders(0), 9), (orders(1), 9)) == [ErrorCode.NOT_COORDINATOR] * 2

    assert lab.committed("billing") == {orders(0): 5}
    lab.replicas.failure = None
    lab.start()
    assert lab.committed("billing") == {orders(0): 5}


def test_a_commit_that_failed_leaves_no_group_behind(lab: Lab) -> None:
    lab.replicas.failure = ErrorCode.MESSAGE_TOO_LARGE
    lab.commit("billing", (orders(0), 9))
    assert lab.groups.restored == {}

    lab.replicas.failure = None
    lab.commit("billing", (orders(0), 9))
    assert lab.groups.restored == {"billing": None}


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_a_failed_append_is_told_in_words_for_members(lab: Lab, failure: ErrorCode, told: ErrorCode) -> None:
    lab.replicas.failure = failure

    assert lab.commit("billing", (orders(0), 9)) == [told]
    assert lab.offsets.store_group("billing", GroupMetadataValue(), NOW_MS) is told
    assert lab.offsets.delete_group("billing", NOW_MS) is told


def test_of_one_partition_named_twice_the_last_offset_counts(lab: Lab) -> None:
    lab.commit("billing", (orders(0), 5), (orders(1), 1), (orders(0), 3))
    assert lab.committed("billing") == {orders(0): 3, orders(1): 1}

    lab.start()
    assert lab.committed("billing") == {orders(0): 3, orders(1): 1}


@pytest.mark.parametrize(
    ("note", "error"),
    [
        ("m" * 4096, ErrorCode.NONE),
        ("m" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("名" * 4096, ErrorCode.NONE),
        ("😀" * 2048, ErrorCode.NONE),
        ("😀" * 2049, ErrorCode.OFFSET_METADATA_TOO_LARGE),  # two of Java's characters each
    ],
)
def test_a_note_may_be_as_long_as_java_counts(lab: Lab, note: str, error: ErrorCode) -> None:
    new = [NewOffset(orders(0), 1, metadata=note), NewOffset(orders(1), 2)]

    assert lab.offsets.commit("billing", new, NOW_MS) == [error, ErrorCode.NONE]

    assert (orders(0) in lab.committed("billing")) == (error is ErrorCode.NONE)
    assert lab.committed("billing")[orders(1)] == 2


def test_everything_comes_back_after_a_restart(lab: Lab) -> None:
    lab.offsets.commit("billing", [NewOffset(orders(0), 5, 3, "näme")], NOW_MS)
    lab.offsets.commit("old client", [NewOffset(orders(2), 9)], NOW_MS, retention_ms=60_000)
    for offset in range(20):
        lab.commit(f"group {offset % 7}", (clicks(1), offset))
    before = {group: dict(lab.offsets.fetch(group)) for group in ["billing", "group 3", "group 6"]}

    lab.start()

    assert {group: dict(lab.offsets.fetch(group)) for group in before} == before
    # The layout that has a retention of its own has no topic id.
    assert lab.offsets.fetch("old client") == {orders(2): CommittedOffset(9, -1, "", NOW_MS, NOW_MS + 60_000, None)}
    assert lab.offsets.reports == []


def test_groups_are_restored_and_those_with_offsets_alone_are_simple(lab: Lab) -> None:
    member = MemberMetadata(member_id="m", client_id="c", client_host="/127.0.0.1", subscription=b"\0\0")
    value = GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", leader="m", members=[member])
    lab.offsets.store_group("billing", GroupMetadataValue(), NOW_MS)
    lab.offsets.store_group("billing", value, NOW_MS)
    lab.commit("billing", (orders(0), 1))
    lab.commit("simple", (orders(0), 1))
    lab.offsets.store_group("gone", value, NOW_MS)
    lab.offsets.store_group("gone", None, NOW_MS)

    lab.start()

    assert lab.groups.restored == {"billing": value, "simple": None}


def test_deleted_offsets_stay_deleted(lab: Lab) -> None:
    lab.commit("billing", (orders(0), 1), (orders(1), 2))

    assert lab.offsets.delete("billing", [orders(0), orders(0), orders(3)], NOW_MS) is ErrorCode.NONE

    assert lab.committed("billing") == {orders(1): 2}
    assert lab.written("billing")[2:] == [Written(OffsetCommitKey(group="billing", topic="orders", partition=0), None)]
    lab.start()
    assert lab.committed("billing") == {orders(1): 2}


def test_a_deletion_that_did_not_get_into_the_log_deletes_nothing(lab: Lab) -> None:
    lab.commit("billing", (orders(0), 1))
    lab.replicas.failure = ErrorCode.NOT_ENOUGH_REPLICAS

    assert lab.offsets.delete("billing", [orders(0)], NOW_MS) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert lab.offsets.delete_group("billing", NOW_MS) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    assert lab.committed("billing") == {orders(0): 1}


def test_a_deleted_group_leaves_tombstones_in_one_batch(lab: Lab) -> None:
    lab.commit("billing", (orders(0), 1), (clicks(1), 2))
    lab.offsets.store_group("billing", GroupMetadataValue(protocol_type="consumer"), NOW_MS)

    assert lab.offsets.delete_group("billing", NOW_MS) is ErrorCode.NONE

    log = lab.replicas.logs[TopicPartition(OFFSETS_TOPIC, lab.offsets.partition_for("billing"))]
    assert len(log.batches) == 3
    assert lab.written("billing")[3:] == [
        Written(OffsetCommitKey(group="billing", topic="orders", partition=0), None),
        Written(OffsetCommitKey(group="billing", topic="clicks", partition=1), None),
        Written(GroupMetadataKey(group="billing"), None),
    ]
    lab.start()
    assert lab.groups.restored == {}


def test_many_tombstones_are_written_in_pieces_and_what_failed_is_kept(lab: Lab) -> None:
    lab.commit("wide", *((TopicPartition("orders", n), n) for n in range(2500)))
    lab.replicas.failure, lab.replicas.fail_after = ErrorCode.KAFKA_STORAGE_ERROR, 1

    assert lab.offsets.delete_group("wide", NOW_MS) is ErrorCode.NOT_COORDINATOR
    assert len(lab.committed("wide")) == 1500

    lab.replicas.failure = None
    assert lab.offsets.delete_group("wide", NOW_MS) is ErrorCode.NONE
    assert lab.committed("wide") == {}


def test_the_offsets_of_a_deleted_topic_go_from_all_groups(lab: Lab) -> None:
    lab.commit("billing", (orders(0), 1), (clicks(0), 2))
    lab.commit("audit", (orders(3), 3))
    del lab.cluster.topics["orders"]

    lab.offsets.forget_topic("orders", NOW_MS)

    assert lab.committed("billing") == {clicks(0): 2}
    assert lab.committed("audit") == {}
    lab.start()
    assert lab.committed("billing") == {clicks(0): 2}
    assert lab.committed("audit") == {}


def test_a_topic_made_again_does_not_inherit_offsets_though_their_tombstones_are_missing(lab: Lab) -> None:
    """As after a crash between the topic's deletion and the tombstones; and the failure is told."""
    lab.commit("billing", (orders(0), 1), (clicks(0), 2))
    lab.replicas.failure = ErrorCode.KAFKA_STORAGE_ERROR
    lab.offsets.forget_topic("orders", NOW_MS)
    assert lab.offsets.reports == [
        "offsets of group billing in deleted topic orders could not be deleted: NOT_COORDINATOR"
    ]

    lab.replicas.failure = None
    lab.cluster.add("orders")
    assert lab.committed("billing") == {clicks(0): 2}
    assert lab.offsets.fetch("billing", [orders(0)]) == {}

    lab.commit("billing", (orders(0), 7))
    assert lab.committed("billing") == {orders(0): 7, clicks(0): 2}


def test_offsets_expire_by_retention_and_an_empty_group_goes_with_its_last(lab: Lab) -> None:
    lab.commit("simple", (orders(0), 1))
    lab.clock.advance(6 * DAY_MS)
    lab.commit("simple", (orders(1), 1))
    lab.clock.advance(DAY_MS - 1)
    assert lab.offsets.expire(lab.clock.wall_ms()) == []
    assert lab.committed("simple") == {orders(0): 1, orders(1): 1}

    lab.clock.advance(1)
    assert lab.offsets.expire(lab.clock.wall_ms()) == []
    assert lab.committed("simple") == {orders(1): 1}

    lab.clock.advance(6 * DAY_MS)
    assert lab.offsets.expire(lab.clock.wall_ms()) == ["simple"]
    assert lab.groups.known == {}
    assert lab.written("simple")[-1] == Written(GroupMetadataKey(group="simple"), None)
    lab.start()
    assert lab.groups.restored == {}


def test_a_group_that_could_not_be_expired_is_still_there(lab: Lab) -> None:
    lab.commit("simple", (orders(0), 1))
    lab.replicas.failure = ErrorCode.KAFKA_STORAGE_ERROR

    assert lab.offsets.expire(NOW_MS + 8 * DAY_MS) == []

    assert lab.committed("simple") == {orders(0): 1}
    assert list(lab.groups.known) == ["simple"]


def test_offsets_that_members_read_stay_and_so_does_their_group(lab: Lab) -> None:
    lab.commit("billing", (orders(0), 1), (clicks(0), 1))
    lab.groups.known["billing"] = GroupFacts("Stable", "consumer", frozenset({"orders"}), NOW_MS)

    assert lab.offsets.expire(NOW_MS + 30 * DAY_MS) == []

    assert lab.committed("billing") == {orders(0): 1}


def test_an_empty_group_without_offsets_goes_at_once_and_others_stay(lab: Lab) -> None:
    lab.groups.known = {
        "empty": GroupFacts("Empty", "consumer", frozenset(), NOW_MS),
        "stable": GroupFacts("Stable", "consumer", frozenset(), NOW_MS),
        "joining": GroupFacts("PreparingRebalance", "consumer", None, NOW_MS),
    }

    assert lab.offsets.expire(NOW_MS) == ["empty"]
    assert sorted(lab.groups.known) == ["joining", "stable"]


def test_expiry_comes_round_as_often_as_it_is_set_to() -> None:
    lab = Lab(offsets_retention_check_interval_ms=1000, offsets_retention_minutes=1)
    lab.commit("simple", (orders(0), 1))
    assert lab.offsets.tick(0, NOW_MS + DAY_MS) == 1000
    assert lab.offsets.tick(999, NOW_MS + DAY_MS) == 1000
    assert lab.committed("simple") == {orders(0): 1}

    assert lab.offsets.tick(1000, NOW_MS + 60_000) == 2000
    assert lab.committed("simple") == {}


def test_a_damaged_batch_is_told_and_all_others_are_loaded(lab: Lab) -> None:
    for offset in range(3):
        lab.commit("billing", (orders(offset), offset))
    log = lab.replicas.logs[TopicPartition(OFFSETS_TOPIC, lab.offsets.partition_for("billing"))]
    base, data = log.batches[1]
    log.batches[1] = base, data[:-3] + b"\xff" + data[-2:]

    lab.start()

    assert lab.committed("billing") == {orders(0): 0, orders(2): 2}
    (report,) = lab.offsets.reports
    assert report.startswith("__consumer_offsets-9: the batch at offset 1 was skipped: its checksum is wrong")


def test_records_that_are_none_of_ours_are_counted(lab: Lab) -> None:
    lab.commit("billing", (orders(0), 1))
    log = lab.replicas.logs[TopicPartition(OFFSETS_TOPIC, 0)]
    keys = [b"\0\3\0\1g", b"\0\5\0\1g", b"\0\1\0\x09too short"]
    log.append(build_batch([NewRecord(key, b"\0\0", NOW_MS) for key in keys]))

    lab.start()

    assert lab.committed("billing") == {orders(0): 1}
    assert lab.offsets.reports == [
        "__consumer_offsets: 2 records of unknown kinds were skipped",
        "__consumer_offsets: 1 records that cannot be decoded were skipped",
    ]


def test_a_partition_that_is_missing_is_told(lab: Lab) -> None:
    lab.commit("billing", (orders(0), 1))
    del lab.replicas.logs[TopicPartition(OFFSETS_TOPIC, 9)]

    lab.start()

    assert lab.offsets.reports == [
        "__consumer_offsets-9 is not on this broker: the groups and offsets stored there are unknown"
    ]
