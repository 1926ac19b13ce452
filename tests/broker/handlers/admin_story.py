"""A story of administrators' requests, for a single broker and for a single node of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcli.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kcli.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kcli.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kcli.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionRequest, TopicRequest
from kcli.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from kcli.protocol.messages.describe_topic_partitions import TopicRequest as PagedTopic
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kcli.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcli.protocol.wire import Request

UPGRADE, SAFE, UNSAFE = 1, 2, 3
Told = tuple[str, Request[Any], int]


def elections(topic: str) -> Iterator[Told]:
    known = TopicPartitions(topic=topic, partitions=[1, 0, 7])
    for version in (0, 1, 2):
        for kind in (0, 1) if version else (0,):
            request = ElectLeadersRequest(election_type=kind, topic_partitions=[known])
            yield f"elect {kind} v{version}", request, version
    both = [known, TopicPartitions(topic="no.such", partitions=[0])]
    yield "elect unknown", ElectLeadersRequest(topic_partitions=both), 2
    yield "elect none", ElectLeadersRequest(topic_partitions=[]), 2
    yield "elect none, bad type", ElectLeadersRequest(topic_partitions=[], election_type=5), 2
    yield "elect bad type", ElectLeadersRequest(topic_partitions=[known], election_type=5), 2
    yield "elect bad type v1", ElectLeadersRequest(topic_partitions=[known], election_type=5), 1


def reassignments(topic: str, node_id: int) -> Iterator[Told]:
    def move(name: str, *partitions: tuple[int, list[int] | None], version: int = 1, may_resize: bool = True) -> Told:
        rows = [ReassignablePartition(partition_index=number, replicas=replicas) for number, replicas in partitions]
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=rows)])
        if version:
            request.allow_replication_factor_change = may_resize
        return f"reassign {name} {partitions} {may_resize} v{version}", request, version

    for version in (0, 1):
        yield move(topic, (0, [node_id]), (1, None), (9, [node_id]), version=version)
    yield move("no.such", (0, [node_id]), (0, None))
    yield move(topic, (0, []), (1, [node_id, node_id]))
    yield move(topic, (0, [node_id + 1]), (1, [node_id, node_id + 1]), (0, [-1]))
    yield move(topic, (0, [node_id]), (1, []), may_resize=False)
    yield "reassign nothing", AlterPartitionReassignmentsRequest(topics=[]), 1


def quotas() -> Iterator[Told]:
    def alter(
        entity: dict[str, str | None], *ops: tuple[str, float | None], version: int = 1, validate_only: bool = False
    ) -> Told:
        entry = EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
            ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
        )
        request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
        return f"quota {entity} {ops} v{version}", request, version

    def describe(*components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Told:
        rows = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
        request = DescribeClientQuotasRequest(components=rows, strict=strict)
        return f"described {components} {strict} v{version}", request, version

    everything = describe(("user", 2, None))
    yield alter({"user": "story"}, ("producer_byte_rate", 1e9), version=0)
    yield alter({"user": "story", "client-id": None}, ("consumer_byte_rate", 1e9), ("request_percentage", 200.5))
    yield alter({"user": "story", "client-id": "c"}, ("controller_mutation_rate", 10.5), validate_only=True)
    yield everything
    yield describe(("user", 0, "story"), ("client-id", 1, None), strict=True, version=0)
    yield describe(("user", 0, "story"), strict=True)
    yield alter({"ip": "127.0.0.9"}, ("connection_creation_rate", 1000.0))
    yield alter({"ip": "127.0.0.9", "user": "story"}, ("connection_creation_rate", 1000.0))
    yield alter({"ip": "not an address"}, ("connection_creation_rate", 1000.0))
    yield alter({"ip": "127.0.0.9"}, ("producer_byte_rate", 1000.0))
    yield describe(("ip", 0, "127.0.0.9"))
    yield alter({"ip": "127.0.0.9"}, ("connection_creation_rate", None))
    yield alter({}, ("producer_byte_rate", 1.0))
    yield alter({"user": ""}, ("producer_byte_rate", 1.0))
    yield alter({"group": "g"}, ("producer_byte_rate", 1.0))
    yield alter({"user": "story"}, ("no_such_rate", 1.0))
    yield alter({"user": "story"}, ("no_such_rate", None))
    yield alter({"user": "story"}, ("producer_byte_rate", 0.0))
    yield alter({"user": "story"}, ("producer_byte_rate", -1.0))
    yield alter({"user": "story"}, ("producer_byte_rate", 1.5))
    yield alter({"user": "story"}, ("producer_byte_rate", 1e30))
    yield alter({"user": "story"}, ("request_percentage", float("inf")))
    yield alter({"user": "story"}, ("consumer_byte_rate", 5.0), ("consumer_byte_rate", 6.0))
    yield alter({"user": "story"}, ("consumer_byte_rate", 5.0), ("no_such_rate", 6.0))
    yield everything
    yield alter({"user": "story"}, ("producer_byte_rate", None), ("request_percentage", None))
    yield alter({"user": "story", "client-id": None}, ("consumer_byte_rate", None), ("request_percentage", None))
    yield everything
    twice = EntryData(
        entity=[EntityData(entity_type="user", entity_name="twice")],
        ops=[OpData(key="producer_byte_rate", value=1e9)],
    )
    yield "quota twice", AlterClientQuotasRequest(entries=[twice, twice], validate_only=True), 1
    yield "no quotas", AlterClientQuotasRequest(entries=[]), 1


def features() -> Iterator[Told]:
    def update(
        *updates: tuple[str, int, int], version: int = 2, validate_only: bool = True, timeout_ms: int = 1000
    ) -> Told:
        rows = []
        for name, level, kind in updates:
            row = FeatureUpdateKey(feature=name, max_version_level=level)
            if version:
                row.upgrade_type = kind
            else:
                row.allow_downgrade = kind != UPGRADE
            rows.append(row)
        request = UpdateFeaturesRequest(feature_updates=rows, timeout_ms=timeout_ms)
        if version:
            request.validate_only = validate_only
        return f"features {updates} v{version}", request, version

    for version in (0, 1, 2):
        yield update(("transaction.version", 2, UPGRADE), ("group.version", 1, UPGRADE), version=version)
        yield update(("group.version", 7, UPGRADE), version=version)
    for kind in (UPGRADE, SAFE, UNSAFE, 0, 4):
        for level in (-1, 0, 1, 2, 3):
            yield update(("transaction.version", level, kind))
    for level in (0, 6, 7, 29, 30, 31):
        for kind in (UPGRADE, SAFE, UNSAFE):
            yield update(("metadata.version", level, kind))
    for level in (0, 1, 2):
        for kind in (UPGRADE, SAFE):
            yield update(("kraft.version", level, kind))
    yield update(("eligible.leader.replicas.version", 0, SAFE), ("group.version", 0, SAFE))
    yield update(("group.version", 1, UPGRADE), ("no.such", 1, UPGRADE))
    yield update(("no.such", 0, SAFE))
    yield update(("", 1, UPGRADE))
    yield update(("group.version", 0, SAFE), ("group.version", 1, UPGRADE))
    yield update()
    yield update(("group.version", 1, SAFE), validate_only=False)


def quorum() -> Iterator[Told]:
    for version in (0, 1, 2):
        for name, numbers in (("__cluster_metadata", [0]), ("__cluster_metadata", [1]), ("other", [0])):
            rows = [PartitionRequest(partition_index=number) for number in numbers]
            topic = TopicRequest(topic_name=name, partitions=rows)
            yield f"quorum {name} {numbers} v{version}", DescribeQuorumRequest(topics=[topic]), version
    yield "quorum of nothing", DescribeQuorumRequest(topics=[]), 2


def log_dirs(topic: str, directory: str) -> Iterator[Told]:
    def move(path: str, name: str, *numbers: int, version: int = 2) -> Told:
        topics = [AlterReplicaLogDirTopic(name=name, partitions=list(numbers))]
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
        return f"move {name} {numbers} v{version} to {path == directory}", request, version

    for version in (1, 2):
        yield move(directory, topic, 0, 1, 9, version=version)
    yield move(directory, "no.such", 0)
    yield move(directory + "/", topic, 0)
    yield move("/no/such", topic, 0)
    yield move("/no/such", "no.such", 0)
    yield move(directory, "x" * 240, 0)
    yield "move nothing", AlterReplicaLogDirsRequest(dirs=[]), 2


# Ids, and of the metadata log and its voters offsets, times and addresses, that each broker has of its own.
_OWN = {
    "high_watermark",
    "log_end_offset",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "replica_directory_id",
    "topic_id",
    "listeners",
}


def pages(topic: str) -> Iterator[Told]:
    """Describe topics in pages: the topic and names around it, with cursors that are there, absent and invalid."""
    around = [f"{topic}-after", "!invalid", topic, topic, f"{topic}.absent"]
    cursors = [None, ("", 0), ("zzz", 0), ("!invalid", 0), ("!invalid", 3)]
    cursors += [(name, number) for name in (topic, f"{topic}.absent") for number in (-1, 0, 1, 2, 7)]
    for names in (around, [topic], [f"{topic}.absent"]):
        for cursor in cursors:
            for limit in (2000, 3, 1, 0, -1) if cursor in (None, (topic, 1)) else (1,):
                request = DescribeTopicPartitionsRequest(
                    topics=[PagedTopic(name=name) for name in names],
                    cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
                    response_partition_limit=limit,
                )
                yield f"page of {len(names)} {cursor} {limit}", request, 0
    for number in (-1, 0):  # a later one leads to a topic of another test
        cursor = Cursor(topic_name=topic, partition_index=number)
        yield f"page of all {number}", DescribeTopicPartitionsRequest(cursor=cursor, response_partition_limit=1), 0
    end = Cursor(topic_name="~~~", partition_index=5)
    yield "page after all", DescribeTopicPartitionsRequest(cursor=end), 0


def told(topic: str, directory: str) -> Iterator[Told]:
    """Return the name, the request and the version of each step, for the broker 1 with a topic of two partitions."""
    yield from elections(topic)
    yield from reassignments(topic, 1)
    yield from quotas()
    yield from features()
    yield from quorum()
    yield from log_dirs(topic, directory)
    yield from pages(topic)


def shown(value: Any) -> Any:
    """Return a response to compare: of messages only whether there is one, and lists in a fixed order."""
    if isinstance(value, list):
        return sorted((shown(one) for one in value if not _is_foreign(one)), key=repr)
    if not hasattr(value, "__dict__"):
        return value
    return {
        key: (one if one is None else bool(one)) if key == "error_message" else shown(one)
        for key, one in vars(value).items()
        if key not in _OWN
    }


def _is_foreign(row: Any) -> bool:
    """Return whether a row has quotas of the test of Kafka's tools, which uses the same broker."""
    entity = getattr(row, "entity", ())
    return any((part.entity_name or "").startswith("tools-") for part in entity)
