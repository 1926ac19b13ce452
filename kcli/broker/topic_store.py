"""Which topics there are, and what was set by hand while the broker ran: one file in the data directory.

Real Kafka keeps this in its metadata log. Ours is JSON, replaced as a whole: after a crash the old or the new one is
there. A deleted topic stays in it as a tombstone until its directories are known to be gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from kcli.broker.data_dir import parse_uuid, uuid_text
from kcli.errors import ConfigError
from kcli.structs import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.files import Files
    from kcli.broker.log_manager import LogManager

FILE_NAME = "kcli-topics.json"
_VERSION = 1


class Topic:
    """A topic: partitions are 0 to `partitions` - 1; `configs` holds what was set for it, as it was written."""

    def __init__(self, name: str, topic_id: UUID, partitions: int, configs: dict[str, str] | None = None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions
        self.configs = configs or {}

    def __repr__(self) -> str:
        return f"<Topic {self.name} {uuid_text(self.topic_id)} partitions={self.partitions} {self.configs}>"

    @property
    def is_internal(self) -> bool:
        """Whether the broker keeps its own records in it."""
        return self.name in INTERNAL_TOPICS


class Catalogue:
    """What the file holds: topics by name, names of deleted ones by id, settings by broker id as text ("": of all)."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.deleted: dict[UUID, str] = {}
        self.broker_configs: dict[str, dict[str, str]] = {}


def new_topic_id() -> UUID:
    """A random id whose text does not begin with a dash, which command lines take for an option."""
    while True:
        value = uuid4()
        if not uuid_text(value).startswith("-"):
            return value


class TopicStore:
    """The file, in `data_dir`. Saving may raise OSError."""

    def __init__(self, files: Files, data_dir: str) -> None:
        self._files = files
        self.path = f"{data_dir}/{FILE_NAME}"
        self._saved = b""

    def __repr__(self) -> str:
        return f"<TopicStore {self.path}>"

    def load(self) -> Catalogue | None:
        """What was saved last; None if nothing ever was. ConfigError naming the file if it is damaged."""
        if not self._files.exists(self.path):
            return None
        try:
            self._saved = self._files.read_bytes(self.path)
            return _catalogue(json.loads(self._saved))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{self.path} is damaged ({error}); restore it, or remove it to adopt the topics from their "
                "directories without their settings"
            ) from None

    def save(self, catalogue: Catalogue) -> None:
        """Replace what was saved, if it differs."""
        data = json.dumps(_document(catalogue), indent=1).encode()
        if data != self._saved:
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
    found = Catalogue()
    for one in document["topics"]:
        name, topic_id = one["name"], parse_uuid(one["id"])
        found.topics[name] = Topic(name, topic_id, _positive(one["partitions"]), _texts(one["configs"]))
    found.deleted = {parse_uuid(topic_id): name for topic_id, name in document["deleted"].items()}
    found.broker_configs = {broker: _texts(configs) for broker, configs in document["broker_configs"].items()}
    return found


def _positive(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{value!r} partitions")
    return value


def _texts(value: Any) -> dict[str, str]:
    if not all(isinstance(text, str) for text in value.values()):
        raise ValueError(f"{value!r} are not texts")
    return dict(value)


def adopt_partitions(
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
