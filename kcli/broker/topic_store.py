"""The catalogue of topics, dynamic settings and features: one JSON file in the data directory.

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
from kcli.broker.metadata.features import FIRST_FEATURES_OF_SINGLE
from kcli.errors import ConfigError
from kcli.structs import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.files import Files
    from kcli.broker.log_manager import LogManager
    from kcli.broker.quotas import Entity

FILE_NAME = "kcli-topics.json"
_VERSION = 1


class Topic:
    """A topic: partitions are 0 to `partitions` - 1; `configs` holds its overrides as text."""

    def __init__(
        self,
        name: str,
        topic_id: UUID,
        partitions: int,
        configs: dict[str, str] | None = None,
        *,
        replication_factor: int = 1,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions
        self.configs = configs or {}
        self.replication_factor = replication_factor

    def __repr__(self) -> str:
        return f"<Topic {self.name} {uuid_text(self.topic_id)} partitions={self.partitions} {self.configs}>"

    @property
    def is_internal(self) -> bool:
        """True if brokers keep their own state in it."""
        return self.name in INTERNAL_TOPICS


class Catalogue:
    """Topics by name, names of deleted topics by id, settings by broker id as text ("": all brokers), quotas, features.

    `features` are the finalized levels, and `features_epoch` is the number of their changes.
    """

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.deleted: dict[UUID, str] = {}
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.features = dict(FIRST_FEATURES_OF_SINGLE)
        self.features_epoch = 0
        self.quotas: dict[Entity, dict[str, float]] = {}
        #: Settings of groups (32) and client metrics (16), by number of the type and by name.
        self.resource_configs: dict[int, dict[str, dict[str, str]]] = {}


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
        data = _encode(catalogue)
        if data != self._saved:
            self._saved = b""  # after an error the file may have either contents
            self._files.write_atomically(self.path, data)
            self._saved = data


def _encode(catalogue: Catalogue) -> bytes:
    """Return the JSON text with a line per topic. `json` with an indent would be ten times slower."""
    topics = [
        json.dumps({"name": t.name, "id": uuid_text(t.topic_id), "partitions": t.partitions, "configs": t.configs})
        for t in catalogue.topics.values()
    ]
    members = ['"topics": [\n' + ",\n".join(topics) + "\n]"]
    members += [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in _settings(catalogue).items()]
    return ("{\n" + ",\n".join(members) + "\n}").encode()


def _settings(catalogue: Catalogue) -> dict[str, Any]:
    """Return the members of the JSON object besides the topics."""
    return {
        "version": _VERSION,
        "deleted": {uuid_text(topic_id): name for topic_id, name in catalogue.deleted.items()},
        "broker_configs": catalogue.broker_configs,
        "features": catalogue.features,
        "features_epoch": catalogue.features_epoch,
        "quotas": [{"entity": entity, "limits": limits} for entity, limits in catalogue.quotas.items()],
        "resource_configs": {str(kind): configs for kind, configs in catalogue.resource_configs.items() if configs},
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
    if "features" in document:  # files of earlier versions have none: nothing in those directories depends on a level
        catalogue.features = {str(name): _level(level) for name, level in document["features"].items()}
        catalogue.features_epoch = _level(document["features_epoch"])
    for quota in document.get("quotas", ()):  # files of earlier versions have none
        entity = tuple((str(kind), None if name is None else str(name)) for kind, name in quota["entity"])
        catalogue.quotas[entity] = {str(key): float(value) for key, value in quota["limits"].items()}
    catalogue.resource_configs = {  # files of earlier versions have none
        int(kind): {name: _texts(configs) for name, configs in by_name.items()}
        for kind, by_name in document.get("resource_configs", {}).items()
    }
    return catalogue


def _partition_count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{value!r} is not a number of partitions")
    return value


def _level(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a level of a feature")
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
