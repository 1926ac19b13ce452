"""OffsetStore: commits, deletions and expiry, and their records in the log."""

from __future__ import annotations

import pytest

from kcli.broker.coordinator_log import key_hash
from kcli.broker.group.expiry import CommittedOffset, GroupFacts
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
from tests.broker.group.store_harness import DAY_MS, NOW_MS, StoreHarness, Written, clicks, orders

# Math.abs("...".hashCode()) of Java 17, and 0 for Integer.MIN_VALUE, which has no positive counterpart.
JAVA_HASHES = {
    "": 0,
    "g": 103,
    "billing": 109829509,
    "console-consumer-40523": 161168345,
    "polygenelubricants": 0,
    "grüppe-名-😀": 276267516,
}


@pytest.fixture
def harness() -> StoreHarness:
    return StoreHarness()


@pytest.mark.parametrize(("group_id", "java"), JAVA_HASHES.items())
def test_partition_of_a_group_equals_kafkas(harness: StoreHarness, group_id: str, java: int) -> None:
    assert key_hash(group_id) == java
    assert harness.group_log.partition_for(group_id) == java % 50


def test_partition_count_is_that_of_the_existing_topic() -> None:
    harness = StoreHarness(offsets_topic_num_partitions=4)
    harness.commit("billing", (orders(0), 1))

    harness.config = StoreHarness(offsets_topic_num_partitions=50).config
    harness.start()

    assert harness.group_log.partition_for("billing") == 109829509 % 4
    assert harness.committed("billing") == {orders(0): 1}


def test_offsets_are_fetched_as_they_were_committed(harness: StoreHarness) -> None:
    errors = harness.offsets.commit(
        "billing", [NewOffset(orders(0), 5, 3, "a note"), NewOffset(orders(1), 7, metadata=None)], NOW_MS
    )

    topic_id = harness.cluster.topics["orders"].topic_id
    assert errors == [ErrorCode.NONE, ErrorCode.NONE]
    assert harness.offsets.fetch("billing") == {
        orders(0): CommittedOffset(5, 3, "a note", NOW_MS, -1, topic_id),
        orders(1): CommittedOffset(7, -1, "", NOW_MS, -1, topic_id),
    }
    assert list(harness.offsets.fetch("billing", [orders(1), orders(3)])) == [orders(1)]
    assert harness.offsets.fetch("another") == {}


def test_retention_beyond_64_bits_of_milliseconds_never_ends(harness: StoreHarness) -> None:
    [error] = harness.offsets.commit("old client", [NewOffset(orders(2), 9)], NOW_MS, retention_ms=2**63 - 1)
    assert error is ErrorCode.NONE
    assert harness.offsets.fetch("old client")[orders(2)].expire_timestamp_ms == 2**63 - 1


def test_commit_is_one_batch_with_kafkas_header(harness: StoreHarness) -> None:
    harness.commit("billing", (orders(0), 5), (clicks(1), 6))

    log = harness.replicas.logs[TopicPartition(OFFSETS_TOPIC, 109829509 % 50)]
    ((_, data),) = log.batches
    header = layout.HEADER.unpack_from(data)
    assert header[5:] == (0, 1, NOW_MS, NOW_MS, -1, -1, 0, 2)  # from the attributes on, equal to Kafka 4.3.1's


def test_failed_commit_does_not_change_the_cache(harness: StoreHarness) -> None:
    harness.commit("billing", (orders(0), 5))
    harness.replicas.failure = ErrorCode.KAFKA_STORAGE_ERROR

    assert harness.commit("billing", (orders(0), 9), (orders(1), 9)) == [ErrorCode.NOT_COORDINATOR] * 2

    assert harness.committed("billing") == {orders(0): 5}
    harness.replicas.failure = None
    harness.start()
    assert harness.committed("billing") == {orders(0): 5}


def test_failed_commit_creates_no_group(harness: StoreHarness) -> None:
    harness.replicas.failure = ErrorCode.MESSAGE_TOO_LARGE
    harness.commit("billing", (orders(0), 9))
    assert harness.groups.restored == {}

    harness.replicas.failure = None
    harness.commit("billing", (orders(0), 9))
    assert harness.groups.restored == {"billing": None}


@pytest.mark.parametrize(
    ("failure", "expected"),
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
def test_append_errors_are_translated_for_members(
    harness: StoreHarness, failure: ErrorCode, expected: ErrorCode
) -> None:
    harness.replicas.failure = failure

    assert harness.commit("billing", (orders(0), 9)) == [expected]
    assert harness.offsets.store_group("billing", GroupMetadataValue(), NOW_MS) is expected
    assert harness.offsets.delete_group("billing", NOW_MS) is expected


def test_last_offset_of_a_repeated_partition_is_stored(harness: StoreHarness) -> None:
    harness.commit("billing", (orders(0), 5), (orders(1), 1), (orders(0), 3))
    assert harness.committed("billing") == {orders(0): 3, orders(1): 1}

    harness.start()
    assert harness.committed("billing") == {orders(0): 3, orders(1): 1}


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("m" * 4096, ErrorCode.NONE),
        ("m" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("名" * 4096, ErrorCode.NONE),
        ("😀" * 2048, ErrorCode.NONE),
        ("😀" * 2049, ErrorCode.OFFSET_METADATA_TOO_LARGE),  # two UTF-16 units each
    ],
)
def test_metadata_length_is_limited_in_utf16_units(harness: StoreHarness, metadata: str, error: ErrorCode) -> None:
    new = [NewOffset(orders(0), 1, metadata=metadata), NewOffset(orders(1), 2)]

    assert harness.offsets.commit("billing", new, NOW_MS) == [error, ErrorCode.NONE]

    assert (orders(0) in harness.committed("billing")) == (error is ErrorCode.NONE)
    assert harness.committed("billing")[orders(1)] == 2


def test_offsets_are_restored_after_a_restart(harness: StoreHarness) -> None:
    harness.offsets.commit("billing", [NewOffset(orders(0), 5, 3, "näme")], NOW_MS)
    harness.offsets.commit("old client", [NewOffset(orders(2), 9)], NOW_MS, retention_ms=60_000)
    for offset in range(20):
        harness.commit(f"group {offset % 7}", (clicks(1), offset))
    before = {group: dict(harness.offsets.fetch(group)) for group in ["billing", "group 3", "group 6"]}

    harness.start()

    assert {group: dict(harness.offsets.fetch(group)) for group in before} == before
    # The record version with a retention of its own has no topic id.
    assert harness.offsets.fetch("old client") == {orders(2): CommittedOffset(9, -1, "", NOW_MS, NOW_MS + 60_000, None)}
    assert harness.offsets.reports == []


def test_groups_are_restored_and_those_with_only_offsets_are_simple(harness: StoreHarness) -> None:
    member = MemberMetadata(member_id="m", client_id="c", client_host="/127.0.0.1", subscription=b"\0\0")
    value = GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", leader="m", members=[member])
    harness.offsets.store_group("billing", GroupMetadataValue(), NOW_MS)
    harness.offsets.store_group("billing", value, NOW_MS)
    harness.commit("billing", (orders(0), 1))
    harness.commit("simple", (orders(0), 1))
    harness.offsets.store_group("gone", value, NOW_MS)
    harness.offsets.store_group("gone", None, NOW_MS)

    harness.start()

    assert harness.groups.restored == {"billing": value, "simple": None}


def test_deleted_offsets_are_not_restored(harness: StoreHarness) -> None:
    harness.commit("billing", (orders(0), 1), (orders(1), 2))

    assert harness.offsets.delete("billing", [orders(0), orders(0), orders(3)], NOW_MS) is ErrorCode.NONE

    assert harness.committed("billing") == {orders(1): 2}
    assert harness.written("billing")[2:] == [
        Written(OffsetCommitKey(group="billing", topic="orders", partition=0), None)
    ]
    harness.start()
    assert harness.committed("billing") == {orders(1): 2}


def test_failed_deletion_deletes_nothing(harness: StoreHarness) -> None:
    harness.commit("billing", (orders(0), 1))
    harness.replicas.failure = ErrorCode.NOT_ENOUGH_REPLICAS

    assert harness.offsets.delete("billing", [orders(0)], NOW_MS) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.offsets.delete_group("billing", NOW_MS) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    assert harness.committed("billing") == {orders(0): 1}


def test_deleted_group_writes_tombstones_in_one_batch(harness: StoreHarness) -> None:
    harness.commit("billing", (orders(0), 1), (clicks(1), 2))
    harness.offsets.store_group("billing", GroupMetadataValue(protocol_type="consumer"), NOW_MS)

    assert harness.offsets.delete_group("billing", NOW_MS) is ErrorCode.NONE

    log = harness.replicas.logs[TopicPartition(OFFSETS_TOPIC, harness.group_log.partition_for("billing"))]
    assert len(log.batches) == 3
    assert harness.written("billing")[3:] == [
        Written(OffsetCommitKey(group="billing", topic="orders", partition=0), None),
        Written(OffsetCommitKey(group="billing", topic="clicks", partition=1), None),
        Written(GroupMetadataKey(group="billing"), None),
    ]
    harness.start()
    assert harness.groups.restored == {}


def test_many_tombstones_are_written_in_batches_and_failed_ones_are_kept(harness: StoreHarness) -> None:
    harness.commit("wide", *((TopicPartition("orders", n), n) for n in range(2500)))
    harness.replicas.failure, harness.replicas.fail_after = ErrorCode.KAFKA_STORAGE_ERROR, 1

    assert harness.offsets.delete_group("wide", NOW_MS) is ErrorCode.NOT_COORDINATOR
    assert len(harness.committed("wide")) == 1500

    harness.replicas.failure = None
    assert harness.offsets.delete_group("wide", NOW_MS) is ErrorCode.NONE
    assert harness.committed("wide") == {}


def test_offsets_of_a_deleted_topic_are_removed_from_all_groups(harness: StoreHarness) -> None:
    harness.commit("billing", (orders(0), 1), (clicks(0), 2))
    harness.commit("audit", (orders(3), 3))
    del harness.cluster.topics["orders"]

    harness.offsets.forget_topic("orders", NOW_MS)

    assert harness.committed("billing") == {clicks(0): 2}
    assert harness.committed("audit") == {}
    harness.start()
    assert harness.committed("billing") == {clicks(0): 2}
    assert harness.committed("audit") == {}


def test_recreated_topic_does_not_inherit_offsets_without_tombstones(harness: StoreHarness) -> None:
    """As after a crash between the deletion of the topic and the tombstones; the failure is reported."""
    harness.commit("billing", (orders(0), 1), (clicks(0), 2))
    harness.replicas.failure = ErrorCode.KAFKA_STORAGE_ERROR
    harness.offsets.forget_topic("orders", NOW_MS)
    assert harness.offsets.reports == [
        "offsets of group billing in deleted topic orders could not be deleted: NOT_COORDINATOR"
    ]

    harness.replicas.failure = None
    harness.cluster.add("orders")
    assert harness.committed("billing") == {clicks(0): 2}
    assert harness.offsets.fetch("billing", [orders(0)]) == {}

    harness.commit("billing", (orders(0), 7))
    assert harness.committed("billing") == {orders(0): 7, clicks(0): 2}


def test_offsets_expire_and_an_empty_group_is_deleted_with_the_last_one(harness: StoreHarness) -> None:
    harness.commit("simple", (orders(0), 1))
    harness.clock.advance(6 * DAY_MS)
    harness.commit("simple", (orders(1), 1))
    harness.clock.advance(DAY_MS - 1)
    assert harness.offsets.expire(harness.clock.wall_ms()) == []
    assert harness.committed("simple") == {orders(0): 1, orders(1): 1}

    harness.clock.advance(1)
    assert harness.offsets.expire(harness.clock.wall_ms()) == []
    assert harness.committed("simple") == {orders(1): 1}

    harness.clock.advance(6 * DAY_MS)
    assert harness.offsets.expire(harness.clock.wall_ms()) == ["simple"]
    assert harness.groups.known == {}
    assert harness.written("simple")[-1] == Written(GroupMetadataKey(group="simple"), None)
    harness.start()
    assert harness.groups.restored == {}


def test_group_whose_expiry_failed_is_kept(harness: StoreHarness) -> None:
    harness.commit("simple", (orders(0), 1))
    harness.replicas.failure = ErrorCode.KAFKA_STORAGE_ERROR

    assert harness.offsets.expire(NOW_MS + 8 * DAY_MS) == []

    assert harness.committed("simple") == {orders(0): 1}
    assert list(harness.groups.known) == ["simple"]


def test_offsets_of_subscribed_topics_do_not_expire(harness: StoreHarness) -> None:
    harness.commit("billing", (orders(0), 1), (clicks(0), 1))
    harness.groups.known["billing"] = GroupFacts("Stable", "consumer", frozenset({"orders"}), NOW_MS)

    assert harness.offsets.expire(NOW_MS + 30 * DAY_MS) == []

    assert harness.committed("billing") == {orders(0): 1}


def test_empty_group_without_offsets_is_deleted_at_the_next_check(harness: StoreHarness) -> None:
    harness.groups.known = {
        "empty": GroupFacts("Empty", "consumer", frozenset(), NOW_MS),
        "stable": GroupFacts("Stable", "consumer", frozenset(), NOW_MS),
        "joining": GroupFacts("PreparingRebalance", "consumer", None, NOW_MS),
    }

    assert harness.offsets.expire(NOW_MS) == ["empty"]
    assert sorted(harness.groups.known) == ["joining", "stable"]


def test_expiry_runs_at_the_configured_interval() -> None:
    harness = StoreHarness(offsets_retention_check_interval_ms=1000, offsets_retention_minutes=1)
    harness.commit("simple", (orders(0), 1))
    assert harness.offsets.tick(0, NOW_MS + DAY_MS) == 1000
    assert harness.offsets.tick(999, NOW_MS + DAY_MS) == 1000
    assert harness.committed("simple") == {orders(0): 1}

    assert harness.offsets.tick(1000, NOW_MS + 60_000) == 2000
    assert harness.committed("simple") == {}


def test_damaged_batch_is_reported_and_all_others_are_loaded(harness: StoreHarness) -> None:
    for offset in range(3):
        harness.commit("billing", (orders(offset), offset))
    log = harness.replicas.logs[TopicPartition(OFFSETS_TOPIC, harness.group_log.partition_for("billing"))]
    base, data = log.batches[1]
    log.batches[1] = base, data[:-3] + b"\xff" + data[-2:]

    harness.start()

    assert harness.committed("billing") == {orders(0): 0, orders(2): 2}
    (report,) = harness.offsets.reports
    assert report.startswith("__consumer_offsets-9: the batch at offset 1 was skipped: its checksum is wrong")


def test_batch_above_the_brokers_limit_is_reported_and_all_others_are_loaded() -> None:
    harness = StoreHarness(offsets_topic_compression_codec=1)
    harness.commit("billing", (orders(0), 0))
    harness.offsets.commit("billing", [NewOffset(orders(1), 1, metadata="m" * 1000)], NOW_MS)
    log = harness.replicas.logs[TopicPartition(OFFSETS_TOPIC, harness.group_log.partition_for("billing"))]
    log.max_decompressed_bytes = 1000

    harness.start()

    assert harness.committed("billing") == {orders(0): 0}
    (report,) = harness.offsets.reports
    assert "the batch at offset 1 was skipped: " in report
    assert "max.decompressed.batch.bytes (1000 bytes)" in report


def test_skipped_records_are_counted_by_kind(harness: StoreHarness) -> None:
    harness.commit("billing", (orders(0), 1))
    log = harness.replicas.logs[TopicPartition(OFFSETS_TOPIC, 0)]
    keys = [b"\0\x0b\0\1g", b"\0\x0c\0\1g", b"\0\1\0\x09too short"]
    log.append(build_batch([NewRecord(key, b"\0\0", NOW_MS) for key in keys]))

    harness.start()

    assert harness.committed("billing") == {orders(0): 1}
    assert harness.offsets.reports == [
        "__consumer_offsets: 2 records of unknown kinds were skipped",
        "__consumer_offsets: 1 records that cannot be decoded were skipped",
    ]


def test_missing_partition_is_reported(harness: StoreHarness) -> None:
    harness.commit("billing", (orders(0), 1))
    del harness.replicas.logs[TopicPartition(OFFSETS_TOPIC, 9)]

    harness.start()

    assert harness.offsets.reports == [
        "__consumer_offsets-9 is not on this broker: the groups and offsets stored there are unknown"
    ]
