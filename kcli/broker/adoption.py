"""The start of a broker alone: the directories of partitions and the metadata log are brought together.

A crash leaves each topic complete or absent. New partitions get their directories before their records are in the log:
empty directories that the log does not know are removed. Removed topics lose their directories after the record of that
is in the log: what is left of them is removed. Other directories were copied there by hand, and are adopted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from kcli.broker.cluster.features import FEATURES_OF_SINGLE
from kcli.broker.cluster.image import TOPIC_CONFIG
from kcli.broker.cluster.metadata_log import has_records
from kcli.broker.data_dir import EARLIER_TOPICS, KAFKA_METADATA_LOG, random_uuid
from kcli.errors import ConfigError
from kcli.protocol import metadata_records as records
from kcli.protocol.metadata_records import METADATA_TOPIC
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.cluster.cluster_values import Listener
    from kcli.broker.cluster.image import MetadataImage
    from kcli.broker.files import Files
    from kcli.broker.log.log import Log
    from kcli.broker.log_manager import LogManager


class NewPartition(Protocol):
    """Makes the record of a partition that this broker leads."""

    def __call__(self, topic_id: UUID, number: int, leader_epoch: int = 0) -> records.PartitionRecord:
        """Return the record."""


def earlier_records(files: Files, logs: LogManager, new_partition: NewPartition) -> list[Any]:
    """Return the records that stand for the files of an earlier version, [] without such files.

    A metadata log beside them is renamed: that version did not read it, or a conversion was interrupted.
    """
    if not files.exists(logs.dir.join(EARLIER_TOPICS)):
        return []
    from kcli.broker.earlier_files import read_earlier

    earlier = read_earlier(files, logs.data_dir, new_partition)
    if has_records(logs.data_dir, files):
        files.rename(logs.dir.join(KAFKA_METADATA_LOG), logs.dir.name_stray(TopicPartition(METADATA_TOPIC, 0)))
    return earlier


def check_brokers(image: MetadataImage, logs: LogManager, node_id: int) -> None:
    """Raise ConfigError if the log is that of a cluster with other brokers."""
    others = {*image.brokers, *(replica for _, state in image.partitions() for replica in state.replicas)} - {node_id}
    if others:
        raise ConfigError(
            f"{logs.data_dir} is the directory of a cluster with other brokers "
            f"({', '.join(map(str, sorted(others)))}); start it with its controller, or choose another directory"
        )


def registration(
    image: MetadataImage, node_id: int, listeners: Iterable[Listener], directory_id: UUID
) -> records.RegisterBrokerRecord:
    """Return the record that registers this broker, as one that was stopped."""
    return records.RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=random_uuid(),
        broker_epoch=image.offset + 1,
        end_points=[records.BrokerEndpoint(**listener._asdict()) for listener in listeners],
        features=[
            records.BrokerFeature(name=name, min_supported_version=first, max_supported_version=last)
            for name, (first, last) in FEATURES_OF_SINGLE.items()
        ],
        log_dirs=[directory_id],
    )


def remove_leftovers(image: MetadataImage, logs: LogManager, removed: Mapping[UUID, str]) -> None:
    """Remove the directories of `removed` topics, by id and name, and empty ones that the log does not know."""
    unknown: dict[str, list[TopicPartition]] = {}
    for tp, log in list(logs.logs.items()):
        # A power failure may leave partition.metadata empty; then only the topic's name identifies it.
        is_nameless = log.topic_id is None and tp.topic not in image.topics
        if log.topic_id in removed or (is_nameless and tp.topic in removed.values()):
            logs.delete(tp)
        elif image.partition(tp) is None:
            unknown.setdefault(tp.topic, []).append(tp)
    for partitions in unknown.values():
        if not any(logs.logs[tp].log_end_offset for tp in partitions):
            for tp in partitions:
                logs.delete(tp)


def adopted(
    image: MetadataImage,
    logs: LogManager,
    new_partition: NewPartition,
    internal_configs: Callable[[str], dict[str, str]],
) -> tuple[list[Any], list[str]]:
    """Return the records of directories that the log does not know, and messages to log, also of missing ones.

    Their topics are adopted with the id in partition.metadata and default settings. ConfigError if a directory has
    another topic id than its topic.
    """
    batch: list[Any] = []
    ids = {name: topic.topic_id for name, topic in image.topics.items()}
    counts = {name: len(topic.partitions) for name, topic in image.topics.items()}
    found: dict[str, list[int]] = {}
    for tp, log in sorted(logs.logs.items()):
        name = tp.topic
        if name not in ids:
            ids[name], counts[name] = log.topic_id or random_uuid(), 0
            batch.append(records.TopicRecord(name=name, topic_id=ids[name]))
            for key, value in internal_configs(name).items():
                batch.append(
                    records.ConfigRecord(resource_type=TOPIC_CONFIG, resource_name=name, name=key, value=value)
                )
        _check_id(tp, log, ids[name])
        if image.partition(tp) is None:
            found.setdefault(name, []).append(tp.partition)
            batch += [new_partition(ids[name], number) for number in range(counts[name], tp.partition)]
            batch.append(new_partition(ids[name], tp.partition, log.epochs.latest_epoch + 1))
            counts[name] = tp.partition + 1
    reports = [
        f"DATA WAS LOST: the directory of {tp} is missing, with its records up to offset {offset}; it starts empty"
        for tp, offset in sorted(logs.missing.items())
        if image.partition(tp) is not None
    ]
    return batch, reports + [
        f"adopted {name} with partition {', '.join(map(str, numbers))} from its directories in {logs.data_dir}"
        for name, numbers in found.items()
    ]


def led(image: MetadataImage, logs: LogManager, new_partition: NewPartition, node_id: int) -> list[Any]:
    """Return the records by which this broker leads its partitions: in a new epoch if the last one has records.

    Each new leader has a new epoch, so that readers can distinguish its records from earlier ones (KIP-101).
    """
    batch: list[Any] = []
    for tp, state in image.partitions():
        topic_id, log = image.topics[tp.topic].topic_id, logs.logs.get(tp)
        epoch = state.leader_epoch if log is None else max(log.epochs.latest_epoch + 1, state.leader_epoch)
        if epoch > state.leader_epoch + 1:  # it was copied there
            record = new_partition(topic_id, tp.partition, epoch)
            record.partition_epoch = state.partition_epoch + 1
            batch.append(record)
        elif state.leader != node_id or epoch > state.leader_epoch:
            batch.append(
                records.PartitionChangeRecord(
                    partition_id=tp.partition,
                    topic_id=topic_id,
                    leader=node_id,
                    isr=[node_id],
                    eligible_leader_replicas=[] if state.elr else None,  # none of them is in sync (KIP-966)
                    last_known_elr=[] if state.last_known_elr else None,
                    leader_recovery_state=0 if state.is_recovering else -1,
                )
            )
    return batch


def _check_id(tp: TopicPartition, log: Log, topic_id: UUID) -> None:
    if log.topic_id is not None and log.topic_id != topic_id:
        raise ConfigError(
            f"{log.directory} belongs to another topic named {tp.topic} (id {log.topic_id}, not {topic_id}); "
            "move it out of the data directory"
        )
