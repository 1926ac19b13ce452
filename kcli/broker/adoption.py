"""At start: bring the list of topics and the partitions' directories in line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kcli.broker.topic_store import Catalogue, Topic, new_topic_id
from kcli.errors import ConfigError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.log_manager import LogManager


def adopt(
    catalogue: Catalogue, log_manager: LogManager, internal_configs: Callable[[str], dict[str, str]]
) -> list[str]:
    """Change the catalogue to what is on the disk, and delete what a tombstone is there for. Sentences on what was new.

    Directories that nobody knows were dropped in by hand, or come from a real Kafka: their topics are taken over with
    the id in partition.metadata and default settings. A directory that is gone is told. ConfigError when one has
    another id than its topic.
    """
    _finish_deletions(catalogue, log_manager)
    adopted: dict[str, list[int]] = {}
    for tp, log in sorted(log_manager.logs.items()):
        topic = catalogue.topics.get(tp.topic)
        if topic is None:
            topic_id = log.topic_id or new_topic_id()
            topic = catalogue.topics[tp.topic] = Topic(tp.topic, topic_id, 1, internal_configs(tp.topic))
            adopted[tp.topic] = []
        _check_id(tp, log, topic)
        if tp.partition >= topic.partitions or tp.topic in adopted:
            topic.partitions = max(topic.partitions, tp.partition + 1)
            adopted.setdefault(tp.topic, []).append(tp.partition)
    return _tell_missing(catalogue, log_manager) + [
        f"adopted {name} with partition {', '.join(map(str, numbers))} from its directories in {log_manager.data_dir}"
        for name, numbers in adopted.items()
    ]


def _finish_deletions(catalogue: Catalogue, log_manager: LogManager) -> None:
    for tp, log in list(log_manager.logs.items()):
        # A power failure may leave partition.metadata empty; then the name has to do.
        nameless = log.topic_id is None and tp.topic not in catalogue.topics
        if log.topic_id in catalogue.deleted or (nameless and tp.topic in catalogue.deleted.values()):
            log_manager.delete(tp)
    catalogue.deleted.clear()


def _tell_missing(catalogue: Catalogue, log_manager: LogManager) -> list[str]:
    return [
        f"DATA WAS LOST: the directory of {tp} is gone, and with it what it had up to offset {offset}; it begins anew"
        for tp, offset in sorted(log_manager.missing.items())
        if (topic := catalogue.topics.get(tp.topic)) is not None and tp.partition < topic.partitions
    ]


def _check_id(tp: TopicPartition, log: Any, topic: Topic) -> None:
    found: UUID | None = log.topic_id
    if found is not None and found != topic.topic_id:
        raise ConfigError(
            f"{log.directory} belongs to another topic named {tp.topic} (id {found}, not {topic.topic_id}): "
            "move it elsewhere"
        )
