"""Which topics there are, and what was set by hand while the broker ran: one file in the data directory.

Real Kafka keeps this in its metadata log. Ours is JSON, replaced as a whole: after a crash the old or the new one is
there. A deleted topic stays in it as a tombstone until its directories are known to be gone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from kcli.broker.data_dir import parse_uuid, uuid_text
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.broker.files import Files

FILE_NAME = "kcli-topics.json"
_VERSION = 1

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_GROUPS_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_GROUPS_TOPIC})


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
