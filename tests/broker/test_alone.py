"""Topics across restarts, crashes and disk errors, and the adoption of unknown directories."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from kcli.broker.data_dir import uuid_text
from kcli.broker.testing.memory_files import Fault, MemoryFiles
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.metadata_records import PartitionChangeRecord, RegisterBrokerRecord
from kcli.structs import TopicPartition
from tests.broker.log.logs import batch
from tests.broker.single_broker import DATA, Node

LOG = "__cluster_metadata-0/00000000000000000000.log"
WALL = 1_500_000_000_000


def refused(code: ErrorCode, act: Callable[[], Any]) -> str:
    """Return the message of the BrokerError that `act` raises."""
    with pytest.raises(BrokerError) as caught:
        act()
    assert caught.value.code is code
    return caught.value.message


def topics_of(node: Node) -> dict[str, tuple[UUID, int, dict[str, str]]]:
    """Return id, partition count and overrides of every topic."""
    cluster = node.cluster
    return {
        name: (topic.topic_id, len(topic.partitions), cluster.topic_configs(name))
        for name, topic in cluster.topics.items()
    }


# ---- restarts ----


def test_topics_keep_ids_partitions_and_settings_across_a_restart() -> None:
    node = Node()
    created = node.cluster.create_topic("orders", 3, configs={"retention.ms": "5000"})

    node.restart()

    assert topics_of(node) == {"orders": (created.topic_id, 3, {"retention.ms": "5000"})}
    assert node.cluster.topic_by_id(created.topic_id) is node.cluster.topics["orders"]
    assert node.log_of("orders", 2).config.retention_ms == 5000
    assert node.log_of("orders", 2).topic_id == created.topic_id


def test_runtime_changes_survive_a_restart() -> None:
    node = Node()
    node.cluster.create_topic("orders")
    node.cluster.create_partitions("orders", 4)
    node.cluster.set_topic_configs("orders", {"cleanup.policy": "compact"})
    node.cluster.set_broker_configs("1", {"log.retention.ms": "7000"})
    node.cluster.set_resource_configs(32, "readers", {"consumer.session.timeout.ms": "46000"})
    node.cluster.set_resource_configs(32, "others", {"consumer.session.timeout.ms": "46000"})
    node.cluster.set_resource_configs(32, "others", {})

    node.restart()

    assert len(node.cluster.topics["orders"].partitions) == 4
    assert node.log_of("orders", 3).config.is_compacted
    assert node.log_of("orders", 3).config.retention_ms == 7000
    assert node.cluster.image.resource_configs(32) == {"readers": {"consumer.session.timeout.ms": "46000"}}


def test_new_directory_finalizes_the_levels_that_the_broker_serves() -> None:
    cluster = Node().cluster
    assert cluster.features == {
        "metadata.version": 30,
        "kraft.version": 1,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 2,
        "group.version": 1,
    }
    supported = cluster.supported_features
    assert all(supported[name][0] <= level <= supported[name][1] for name, level in cluster.features.items())


def test_deleted_topic_frees_its_name() -> None:
    node = Node()
    first = node.cluster.create_topic("orders", 2)

    assert node.cluster.delete_topic("orders").topic_id == first.topic_id
    assert node.replica_manager.partitions == {}
    assert node.directories() == set()
    again = node.cluster.create_topic("orders", 1)
    node.restart()

    assert again.topic_id != first.topic_id
    assert topics_of(node) == {"orders": (again.topic_id, 1, {})}
    assert node.directories() == {"orders-0"}


def test_delete_topic_by_id() -> None:
    node = Node()
    topic = node.cluster.create_topic("orders")

    node.cluster.delete_topic(topic.topic_id)

    assert node.cluster.topics == {}
    refused(ErrorCode.UNKNOWN_TOPIC_ID, lambda: node.cluster.delete_topic(topic.topic_id))


def test_topic_deletion_runs_the_callbacks() -> None:
    node = Node()
    deleted: list[tuple[str, int]] = []
    node.cluster.on_topic_deleted.append(lambda name, now: deleted.append((name, now)))
    node.cluster.create_topic("orders")

    node.cluster.delete_topic("orders")

    assert deleted == [("orders", WALL)]


def test_validate_only_changes_nothing() -> None:
    node = Node()
    node.cluster.create_topic("orders")
    before = bytes(node.files.data(f"{DATA}/{LOG}"))

    node.cluster.create_topic("invoices", 2, validate_only=True)
    node.cluster.create_partitions("orders", 5, validate_only=True)
    node.cluster.set_topic_configs("orders", {"retention.ms": "1"}, validate_only=True)
    node.cluster.set_broker_configs("1", {"log.retention.ms": "1"}, validate_only=True)

    assert bytes(node.files.data(f"{DATA}/{LOG}")) == before
    assert list(node.cluster.topics) == ["orders"]
    assert len(node.cluster.topics["orders"].partitions) == 1
    assert node.log_of("orders").config.retention_ms == 604_800_000


def test_topic_ids_never_start_with_a_dash() -> None:
    node = Node()
    ids = [uuid_text(node.cluster.create_topic(f"t{n}", validate_only=True).topic_id) for n in range(200)]
    assert not [id for id in ids if id.startswith("-")]
    assert len(set(ids)) == 200


# ---- settings ----


def test_topic_override_precedes_broker_override_precedes_cluster_override() -> None:
    node = Node(log_retention_hours=1)
    node.cluster.create_topic("plain")
    node.cluster.create_topic("special", configs={"retention.ms": "10"})

    def retention_ms() -> tuple[int, int]:
        return node.log_of("plain").config.retention_ms, node.log_of("special").config.retention_ms

    assert retention_ms() == (3_600_000, 10)
    node.cluster.set_broker_configs("", {"log.retention.ms": "20", "min.insync.replicas": "1"})
    assert retention_ms() == (20, 10)
    node.cluster.set_broker_configs("1", {"log.retention.ms": "30"})
    assert retention_ms() == (30, 10)
    node.cluster.set_topic_configs("special", {})
    assert retention_ms() == (30, 30)
    node.cluster.set_broker_configs("1", {})
    assert retention_ms() == (20, 20)


def test_offsets_topic_has_its_partition_count_and_compaction() -> None:
    node = Node(offsets_topic_num_partitions=7, offsets_topic_segment_bytes=2_000_000)

    topic = node.cluster.ensure_internal("__consumer_offsets")

    assert (len(topic.partitions), topic.is_internal) == (7, True)
    assert node.log_of("__consumer_offsets", 6).config.is_compacted
    assert node.log_of("__consumer_offsets", 6).config.segment_bytes == 2_000_000
    assert node.cluster.ensure_internal("__consumer_offsets") is topic


def test_auto_created_topic_has_the_default_partition_count() -> None:
    node = Node(num_partitions=3)
    assert len(node.cluster.auto_create("orders").partitions) == 3
    assert len(node.cluster.auto_create("__consumer_offsets").partitions) == 50


# ---- disk errors and crashes ----


CHANGES: dict[str, Callable[[Any], Any]] = {
    "create": lambda cluster: cluster.create_topic("invoices", 3),
    "grow": lambda cluster: cluster.create_partitions("orders", 4),
    "topic settings": lambda cluster: cluster.set_topic_configs("orders", {"retention.ms": "1"}),
    "broker settings": lambda cluster: cluster.set_broker_configs("1", {"log.retention.ms": "1"}),
    "delete": lambda cluster: cluster.delete_topic("orders"),
}


def state_of(node: Node) -> Any:
    """Return all that the changes change, in memory and as directories."""
    led = sorted(node.replica_manager.partitions)
    assert sorted(node.log_manager.logs) == led
    settings = {broker: changed for broker, changed in node.cluster.dynamic.changed.items() if changed}
    return topics_of(node), settings, led, node.directories()


@pytest.mark.parametrize("is_lasting", [False, True])
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC])
@pytest.mark.parametrize("name", CHANGES)
def test_change_without_descriptors_or_space_is_refused_whole(name: str, code: int, is_lasting: bool) -> None:
    """The shortage starts at each step of the change, and ends after one step or after the answer."""
    for step in range(1000):
        disk = MemoryFiles()
        node = Node(disk)
        node.cluster.create_topic("orders", 2)
        before = state_of(node)
        node.restart(files=(scarce := DyingFiles(disk, 10**9, lambda: OSError(code, os.strerror(code)))))
        scarce.changes -= {"rename", "remove"}  # these need neither descriptors nor space
        scarce.lasts = is_lasting
        scarce.remaining_changes = step
        try:
            CHANGES[name](node.cluster)
            is_refused = False
        except BrokerError as error:
            is_refused = error.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert is_refused
        has_failed, scarce.remaining_changes = scarce.remaining_changes < 0, 10**9
        assert node.log_manager.failed is None
        node.log_manager.tick(node.clock.now_ms(), WALL)
        if is_refused:
            assert state_of(node) == before
            node.restart(clean=False)
            assert state_of(node) == before
            CHANGES[name](node.cluster)
        after = state_of(node)
        node.restart()
        assert state_of(node) == after != before
        if not has_failed:
            return
    raise AssertionError("the change never completed")


@pytest.mark.parametrize("operation", ["append", "sync", "make_dir"])
def test_disk_error_takes_the_directory_offline(operation: str) -> None:
    node = Node()
    node.files.faults.append(Fault(operation))

    sentence = refused(ErrorCode.KAFKA_STORAGE_ERROR, lambda: node.cluster.create_topic("orders"))

    assert "while changing the topics in /data" in sentence
    assert node.log_manager.failed


@pytest.mark.parametrize(
    "change",
    [
        lambda cluster: cluster.create_topic("invoices"),
        lambda cluster: cluster.create_partitions("orders", 9),
        lambda cluster: cluster.set_topic_configs("orders", {"retention.ms": "1"}),
        lambda cluster: cluster.set_broker_configs("1", {"log.retention.ms": "1"}),
        lambda cluster: cluster.delete_topic("orders"),
    ],
)
def test_change_that_cannot_be_saved_is_undone(change: Callable[[Any], Any]) -> None:
    node = Node()
    node.cluster.create_topic("orders", 2)
    node.files.faults.append(Fault("append", LOG))

    refused(ErrorCode.KAFKA_STORAGE_ERROR, lambda: change(node.cluster))

    assert list(node.cluster.topics) == ["orders"]
    topic = node.cluster.topics["orders"]
    assert (len(topic.partitions), node.cluster.topic_configs("orders")) == (2, {})
    assert node.cluster.topic_by_id(topic.topic_id) is topic
    assert node.cluster.log_config("orders").retention_ms == 604_800_000
    assert len(node.replica_manager.partitions) == 2


def create_together(node: Node, **partitions: int) -> dict[str, int]:
    """Create topics with one request; return the error of each by name."""
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in partitions.items()
    ]
    return {row.name: row.error_code for row in node.ask(CreateTopicsRequest(topics=topics), 7).topics}


def test_topics_created_together_are_saved_with_one_write() -> None:
    node = Node()
    node.cluster.create_topic("first")
    node.files.faults.append(Fault("append", LOG, skip=1))  # only the first write succeeds

    errors = create_together(node, **{f"orders{number}": 2 for number in range(20)})

    assert set(errors.values()) == {0}
    node.files.faults.clear()
    node.restart(clean=False)
    assert len(node.cluster.topics) == 21
    assert len(node.replica_manager.partitions) == 41


def test_topics_created_together_that_cannot_be_saved_are_all_undone() -> None:
    node = Node()
    node.cluster.create_topic("orders")
    node.files.faults.append(Fault("append", LOG, errno.ENOSPC))

    errors = create_together(node, invoices=2, refunds=2)

    assert errors == dict.fromkeys(("invoices", "refunds"), ErrorCode.KAFKA_STORAGE_ERROR)
    assert list(node.cluster.topics) == ["orders"]
    node.restart(clean=False)
    assert list(node.cluster.topics) == ["orders"]
    assert len(node.directories()) == 1


def test_only_the_topic_whose_directories_cannot_be_created_is_undone() -> None:
    node = Node()
    node.files.faults.append(Fault("make_dir", "refunds-1", errno.ENOSPC))

    errors = create_together(node, orders=2, refunds=2, invoices=2)

    assert errors == {"orders": 0, "refunds": ErrorCode.KAFKA_STORAGE_ERROR, "invoices": 0}
    assert list(node.cluster.topics) == ["orders", "invoices"]
    node.restart(clean=False)
    assert list(node.cluster.topics) == ["orders", "invoices"]
    assert len(node.directories()) == 4


def test_topic_survives_a_failed_deletion() -> None:
    node = Node()
    topic = node.cluster.create_topic("orders")
    node.files.faults.append(Fault("append", LOG))
    refused(ErrorCode.KAFKA_STORAGE_ERROR, lambda: node.cluster.delete_topic("orders"))

    node.cluster.create_topic("invoices")
    node.restart(clean=False)

    assert topics_of(node)["orders"] == (topic.topic_id, 1, {})
    assert node.log_of("orders").topic_id == topic.topic_id


class Killed(BaseException):
    """The simulated death of the process."""


class DyingFiles:
    """Files of a process that dies before its n-th change to them; or each change from then on raises `failure`."""

    CHANGES = frozenset({"make_dir", "rename", "remove", "remove_tree", "write_atomically", "sync_dir"})

    def __init__(
        self, files: MemoryFiles, remaining_changes: int, failure: Callable[[], BaseException] = lambda: Killed()
    ) -> None:
        self._files = files
        self._failure = failure
        self.remaining_changes = remaining_changes
        self.lasts = True
        self.changes = self.CHANGES

    def count(self) -> None:
        """Count a change, and fail if it is due."""
        self.remaining_changes -= 1
        if self.remaining_changes < 0 and (self.lasts or self.remaining_changes == -1):
            raise self._failure()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._files, name)
        if name not in self.changes and name != "open":
            return method

        def change(*args: Any, **options: Any) -> Any:
            if name in self.changes or options.get("create"):
                self.count()
            found = method(*args, **options)
            return DyingFile(found, self) if name == "open" else found

        return change


class DyingFile:
    """A file of `DyingFiles`: an append is one of the changes."""

    def __init__(self, file: Any, files: DyingFiles) -> None:
        self._file = file
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def append(self, parts: Any) -> None:
        self._files.count()
        self._file.append(parts)


def killed_at_every_change(
    before: Callable[[Any], Any], change: Callable[[Any], Any], power_loss: bool, *, of_node: bool = False
) -> list[Node]:
    """Return restarted nodes, each after `change` was interrupted before another step; the last one after all."""
    nodes = []
    for remaining_changes in range(1000):
        disk = MemoryFiles()
        node = Node(disk)
        before(node.cluster)
        node.close()
        node.files = dying = DyingFiles(disk, 10**9)
        node.start()
        dying.remaining_changes = remaining_changes
        try:
            change(node if of_node else node.cluster)
            ended = True
        except Killed:
            ended = False
        dying.remaining_changes = 10**9
        node.restart(clean=False, files=disk.after_power_loss() if power_loss else disk)
        nodes.append(node)
        if ended:
            return nodes
    raise AssertionError("the change never completed")


@pytest.mark.parametrize("power_loss", [False, True])
def test_interrupted_creation_leaves_a_complete_topic_or_none(power_loss: bool) -> None:
    nodes = killed_at_every_change(lambda _: None, lambda c: c.create_topic("orders", 3), power_loss)

    outcomes = [len(node.replica_manager.partitions) for node in nodes]

    assert set(outcomes) == {0, 3}
    assert outcomes == sorted(outcomes)
    for node in nodes:
        assert len(node.directories()) == len(node.replica_manager.partitions)
        assert {log.topic_id for log in node.log_manager.logs.values()} == {
            topic.topic_id for topic in node.cluster.topics.values()
        }


@pytest.mark.parametrize("power_loss", [False, True])
def test_interrupted_creation_of_topics_together_leaves_all_of_them_or_none(power_loss: bool) -> None:
    nodes = killed_at_every_change(
        lambda _: None, lambda node: create_together(node, orders=3, invoices=2), power_loss, of_node=True
    )

    outcomes = [len(node.replica_manager.partitions) for node in nodes]

    assert set(outcomes) == {0, 5}
    assert outcomes == sorted(outcomes)
    assert all(len(node.directories()) == len(node.replica_manager.partitions) for node in nodes)


@pytest.mark.parametrize("power_loss", [False, True])
def test_interrupted_deletion_leaves_a_complete_topic_or_none(power_loss: bool) -> None:
    nodes = killed_at_every_change(
        lambda c: c.create_topic("orders", 3), lambda c: c.delete_topic("orders"), power_loss
    )

    outcomes = [len(node.replica_manager.partitions) for node in nodes]

    assert set(outcomes) == {0, 3}
    assert outcomes == sorted(outcomes, reverse=True)
    for node in nodes:
        node.restart()
        assert len(node.directories()) == len(node.replica_manager.partitions) in (0, 3)


@pytest.mark.parametrize("power_loss", [False, True])
def test_recreated_topic_has_no_records_of_the_deleted_one(power_loss: bool) -> None:
    old: list[UUID] = []

    def before(cluster: Any) -> None:
        old.append(cluster.create_topic("orders", 3).topic_id)

    def change(cluster: Any) -> None:
        cluster.delete_topic("orders")
        cluster.create_topic("orders", 1)

    nodes = killed_at_every_change(before, change, power_loss)

    for node, old_id in zip(nodes, old, strict=True):
        ids = {log.topic_id for log in node.log_manager.logs.values()}
        assert ids <= {topic.topic_id for topic in node.cluster.topics.values()}
        assert len(node.log_manager.logs) == (3 if old_id in ids else len(node.cluster.topics))
    assert [len(node.log_manager.logs) for node in (nodes[0], nodes[-1])] == [3, 1]


@pytest.mark.parametrize("power_loss", [False, True])
def test_interrupted_partition_increase_adds_all_partitions_or_none(power_loss: bool) -> None:
    nodes = killed_at_every_change(
        lambda c: c.create_topic("orders", 1), lambda c: c.create_partitions("orders", 4), power_loss
    )

    assert {len(node.replica_manager.partitions) for node in nodes} == {1, 4}


# ---- directories from elsewhere ----


def copy_directory(node: Node, name: str, topic_id: UUID | None = None) -> None:
    """Create a partition directory with a record, as a real Kafka leaves it."""
    directory = f"{DATA}/{name}"
    node.files.make_dir(directory)
    if topic_id is not None:
        text = f"version: 0\ntopic_id: {uuid_text(topic_id)}"
        node.files.write_atomically(f"{directory}/partition.metadata", text.encode())
    file = node.files.open(f"{directory}/00000000000000000000.log", create=True)
    file.append([batch(b"a", time_ms=WALL)])


def test_unknown_directories_are_adopted_with_their_topic_id() -> None:
    node = Node()
    topic_id = uuid4()
    copy_directory(node, "orders-0", topic_id)
    copy_directory(node, "orders-2", topic_id)

    node.restart()

    topic = node.cluster.topics["orders"]
    assert (topic.topic_id, len(topic.partitions)) == (topic_id, 3)
    assert sorted(node.replica_manager.partitions) == [TopicPartition("orders", n) for n in range(3)]
    assert node.cluster.reports == ["adopted orders with partition 0, 2 from its directories in /data"]
    node.restart()
    assert node.cluster.reports == []
    assert node.cluster.topics["orders"].topic_id == topic_id


def test_directory_without_topic_id_gets_a_new_id() -> None:
    node = Node()
    copy_directory(node, "orders-0")

    node.restart()

    topic_id = node.cluster.topics["orders"].topic_id
    assert node.log_of("orders").topic_id == topic_id
    assert uuid_text(topic_id).encode() in node.files.read_bytes(f"{DATA}/orders-0/partition.metadata")


def test_additional_partition_of_a_known_topic_is_adopted() -> None:
    node = Node()
    topic = node.cluster.create_topic("orders", 1)
    copy_directory(node, "orders-1", topic.topic_id)

    node.restart()

    assert len(node.cluster.topics["orders"].partitions) == 2


def test_missing_partition_directory_is_reported_as_data_loss() -> None:
    node = Node()
    node.cluster.create_topic("orders", 2)
    node.cluster.create_topic("gone", 1)
    for name, number in (("orders", 1), ("gone", 0)):
        node.log_of(name, number).append(batch(b"a", b"b", time_ms=WALL), leader_epoch=0, now_wall_ms=WALL)
    node.cluster.delete_topic("gone")
    node.close()
    for name in ("orders-0", "orders-1"):
        node.files.remove_tree(f"{DATA}/{name}")
    node.start()

    assert node.cluster.reports == [
        "DATA WAS LOST: the directory of orders-1 is missing, with its records up to offset 2; it starts empty"
    ]
    node.restart()
    assert node.cluster.reports == []


def test_adopted_offsets_topic_is_compacted() -> None:
    node = Node()
    copy_directory(node, "__consumer_offsets-0", uuid4())

    node.restart()

    assert node.log_of("__consumer_offsets").config.is_compacted


def test_directory_with_a_different_topic_id_is_refused() -> None:
    node = Node()
    node.cluster.create_topic("orders", 1)
    copy_directory(node, "orders-1", uuid4())

    with pytest.raises(ConfigError, match="/data/orders-1 belongs to another topic named orders"):
        node.restart()


def test_an_empty_unknown_directory_is_what_an_interrupted_creation_leaves() -> None:
    node = Node()
    node.files.make_dir(f"{DATA}/orders-0")
    node.restart()
    assert not node.cluster.topics
    assert not node.directories()


def test_missing_metadata_log_adopts_all_directories() -> None:
    node = Node()
    topic = node.cluster.create_topic("orders", 2, configs={"retention.ms": "1"})
    node.log_of("orders", 1).append(batch(b"a", time_ms=WALL), leader_epoch=3, now_wall_ms=WALL)
    node.close()
    node.files.remove_tree(f"{DATA}/__cluster_metadata-0")

    node.start()

    assert topics_of(node) == {"orders": (topic.topic_id, 2, {})}
    assert node.replica_manager.partitions[TopicPartition("orders", 1)].leader_epoch == 4


# ---- the metadata log ----


def test_a_snapshot_has_everything_and_the_broker_as_stopped() -> None:
    node = Node(metadata_log_max_record_bytes_between_snapshots=2000)
    for number in range(40):
        node.cluster.create_topic(f"topic-{number}", configs={"retention.ms": "5000"})
    node.cluster.delete_topic("topic-7")
    before = topics_of(node)
    names = [name for name in node.files.list(f"{DATA}/__cluster_metadata-0") if name.endswith(".checkpoint")]
    assert len(names) == 2

    node.restart(clean=False)

    assert topics_of(node) == before
    seen: dict[int, bool] = {}

    def apply(record: Any, _offset: int) -> None:
        if isinstance(record, RegisterBrokerRecord):
            seen[record.broker_id] = record.fenced

    node.alone._journal.log.replay(apply)
    assert seen == {1: True}  # a controller that goes on with this log waits for no session


def test_no_snapshot_is_written_while_directories_of_a_removed_topic_are_left() -> None:
    node = Node(metadata_log_max_record_bytes_between_snapshots=1)
    node.cluster.create_topic("gone")
    node.files.faults.append(Fault("rename", "gone-0", errno.EMFILE, times=2))
    count = len(node.alone._journal.log.snapshots)
    node.cluster.delete_topic("gone")
    node.cluster.create_topic("orders")
    assert len(node.alone._journal.log.snapshots) == count
    node.restart()
    assert node.directories() == {"orders-0"}


def test_the_directory_of_a_cluster_with_other_brokers_is_refused() -> None:
    node = Node()
    node.cluster.create_topic("orders")
    node.alone._journal.append([RegisterBrokerRecord(broker_id=2, broker_epoch=99)])

    with pytest.raises(ConfigError, match=r"/data is the directory of a cluster with other brokers \(2\)"):
        node.restart()


def test_a_start_after_writes_leads_in_a_new_epoch_and_one_without_writes_changes_nothing() -> None:
    node = Node()
    node.cluster.create_topic("orders", 2)
    node.log_of("orders", 1).append(batch(b"a", time_ms=WALL), leader_epoch=0, now_wall_ms=WALL)

    node.restart()

    states = node.cluster.partition_state
    assert [states(TopicPartition("orders", n)).leader_epoch for n in (0, 1)] == [0, 1]
    assert node.replica_manager.partitions[TopicPartition("orders", 1)].leader_epoch == 1
    end = node.alone.image.offset
    node.restart()
    assert node.alone.image.offset == end


def test_an_interrupted_first_start_is_completed_by_the_next() -> None:
    for step in range(1000):
        disk = MemoryFiles()
        dying = DyingFiles(disk, step)
        try:
            Node(dying)
            has_ended = True
        except Killed:
            has_ended = False
        disk._locked.clear()
        node = Node(disk)
        assert node.cluster.features["metadata.version"] == 30
        assert node.cluster.dynamic.changed == {"": {"min.insync.replicas": "1"}}
        if has_ended:
            assert step > 5
            return


def test_a_partition_that_a_controller_has_left_without_a_leader_is_led_again() -> None:
    """Apache Kafka's controller moves the only replica to the eligible leader replicas when its broker stops."""
    node = Node()
    topic = node.cluster.create_topic("orders")
    node.alone._journal.append(
        [
            PartitionChangeRecord(
                partition_id=0,
                topic_id=topic.topic_id,
                leader=-1,
                isr=[],
                eligible_leader_replicas=[1],
                last_known_elr=[1],
                leader_recovery_state=1,
            )
        ]
    )

    node.restart()

    state = node.cluster.partition_state(TopicPartition("orders", 0))
    assert (state.leader, state.isr, state.elr, state.last_known_elr, state.is_recovering) == (1, (1,), (), (), False)
