"""The catalogue of topics and dynamic settings: one JSON file in the data directory.

Apache Kafka keeps this in its metadata log. Here the file is replaced as a whole, so that after a crash either the old
or the new catalogue is there. A deleted topic remains in it as a tombstone until its directories are removed.

`adopt_partitions` reconciles the catalogue with the partitions' directories when the broker starts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kcli.broker.data_dir import parse_uuid, random_uuid, uuid_text
from kcli.errors import ConfigError
from kcli.structs import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.files import Files
    from kcli.broker.log_manager import LogManager

FILE_NAME = "kcli-topics.json"
_VERSION = 1


class Topic:
    """A topic: partitions are 0 to `partitions` - 1; `configs` holds its overrides as text."""

    def __init__(self, name: str, topic_id: UUID, partitions: int, configs: dict[str, str] | None = None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions
        self.configs = configs or {}

    def __repr__(self) -> str:
        return f"<Topic {self.name} {uuid_text(self.topic_id)} partitions={self.partitions} {self.configs}>"

    @property
    def is_internal(self) -> bool:
        """True if brokers keep their own state in it."""
        return self.name in INTERNAL_TOPICS


class Catalogue:
    """Topics by name, names of deleted topics by id, and settings by broker id as text ("": all brokers)."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.deleted: dict[UUID, str] = {}
        self.broker_configs: dict[str, dict[str, str]] = {}


class TopicStore:
    """Reads and writes the file in `data_dir`. Saving may raise OSError."""

    def __init__(self, files: Files, data_dir: str) -> None:
        self._files = files
        self.path = f"{data_dir}/{FILE_NAME}"
        self._saved = b""

    def __repr__(self) -> str:
        return f"<TopicStore {self.path}>"

    def load(self) -> Catalogue | None:
        """Return the saved catalogue, None if there is no file. ConfigError with the path if the file is damaged."""
        if not self._files.exists(self.path):
            return None
        try:
            self._saved = self._files.read_bytes(self.path)
            return _catalogue(json.loads(self._saved))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{self.path} is damaged ({error}); restore it, or remove it: the topics are then adopted from their "
                "directories, without their settings"
            ) from None

    def save(self, catalogue: Catalogue) -> None:
        """Replace the file, unless the catalogue is unchanged."""
        data = json.dumps(_document(catalogue), indent=1).encode()
        if data != self._saved:
            self._saved = b""  # after an error the file may have either contents
            self._files.write_atomically(self.path, data)
            self._saved = data


def _document(catalogue: Catalogue) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "topics": [
            {"name": t.name, "id": uuid_text(t.topic_id), "partitions": t.partitions, "configs": t.configs}
            for t in catalogue.topics.values()
        ],
        "deleted": {uuid_text(topic_id): name for topic_id, name in catalogue.deleted.items()},
        "broker_configs": catalogue.broker_configs,
    }


def _catalogue(document: Any) -> Catalogue:
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']} is not {_VERSION}")
    catalogue = Catalogue()
    for topic in document["topics"]:
        name, topic_id = topic["name"], parse_uuid(topic["id"])
        catalogue.topics[name] = Topic(name, topic_id, _partition_count(topic["partitions"]), _texts(topic["configs"]))
    catalogue.deleted = {parse_uuid(topic_id): name for topic_id, name in document["deleted"].items()}
    catalogue.broker_configs = {broker: _texts(configs) for broker, configs in document["broker_configs"].items()}
    return catalogue


def _partition_count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{value!r} is not a number of partitions")
    return value


def _texts(value: Any) -> dict[str, str]:
    if not all(isinstance(text, str) for text in value.values()):
        raise ValueError(f"{value!r} has values that are not text")
    return dict(value)


def adopt_partitions(
    catalogue: Catalogue, log_manager: LogManager, internal_configs: Callable[[str], dict[str, str]]
) -> list[str]:
    """Bring the catalogue in line with the directories, and finish interrupted deletions. Return messages to log.

    Directories without a topic in the catalogue were copied there by hand, or belong to a real Kafka: their topics are
    adopted with the id in partition.metadata and default settings. Missing directories are reported. ConfigError if a
    directory has another topic id than its topic.
    """
    _finish_deletions(catalogue, log_manager)
    adopted: dict[str, list[int]] = {}
    for tp, log in sorted(log_manager.logs.items()):
        topic = catalogue.topics.get(tp.topic)
        if topic is None:
            topic_id = log.topic_id or random_uuid()
            topic = catalogue.topics[tp.topic] = Topic(tp.topic, topic_id, 1, internal_configs(tp.topic))
            adopted[tp.topic] = []
        _check_id(tp, log, topic)
        if tp.partition >= topic.partitions or tp.topic in adopted:
            topic.partitions = max(topic.partitions, tp.partition + 1)
            adopted.setdefault(tp.topic, []).append(tp.partition)
    return _missing_messages(catalogue, log_manager) + [
        f"adopted {name} with partition {', '.join(map(str, numbers))} from its directories in {log_manager.data_dir}"
        for name, numbers in adopted.items()
    ]


def _finish_deletions(catalogue: Catalogue, log_manager: LogManager) -> None:
    for tp, log in list(log_manager.logs.items()):
        # A power failure may leave partition.metadata empty; then only the topic's name identifies it.
        without_id = log.topic_id is None and tp.topic not in catalogue.topics
        if log.topic_id in catalogue.deleted or (without_id and tp.topic in catalogue.deleted.values()):
            log_manager.delete(tp)
    catalogue.deleted.clear()


def _missing_messages(catalogue: Catalogue, log_manager: LogManager) -> list[str]:
    return [
        f"DATA WAS LOST: the directory of {tp} is missing, with its records up to offset {offset}; it starts empty"
        for tp, offset in sorted(log_manager.missing.items())
        if (topic := catalogue.topics.get(tp.topic)) is not None and tp.partition < topic.partitions
    ]


def _check_id(tp: TopicPartition, log: Any, topic: Topic) -> None:
    topic_id: UUID | None = log.topic_id
    if topic_id is not None and topic_id != topic.topic_id:
        raise ConfigError(
            f"{log.directory} belongs to another topic named {tp.topic} (id {topic_id}, not {topic.topic_id}); "
            "move it out of the data directory"
        )
