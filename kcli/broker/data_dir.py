"""A data directory: its owner, its lock, and the names of the partitions' directories in it.

The files and formats are Apache Kafka's: `meta.properties` (version 1), `.lock`, `.kafka_cleanshutdown`,
`partition.metadata`.
"""

from __future__ import annotations

import json
import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from kcli.broker.files import reason_with_file
from kcli.errors import ConfigError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.files import Files

META = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
PARTITION_METADATA = "partition.metadata"

KAFKA_METADATA_LOG = "__cluster_metadata-0"
#: The topics and settings of a broker alone, in the versions that had no metadata log; see `earlier_files`.
EARLIER_TOPICS = "kcli-topics.json"

#: Directories of a real Kafka that are not partitions of this broker; they are left untouched.
FOREIGN = frozenset({KAFKA_METADATA_LOG, "remote-log-index-cache"})

_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_NOT_IN_USE = re.compile(r".+\.[0-9a-f]{32}-(delete|stray|future)")
_MOST_NAME_BYTES = 255


class DataDir:
    """A data directory that this process holds exclusively until `release`."""

    def __init__(
        self, path: str, files: Files, *, node_id: int, new_cluster_id: Callable[[], str] | None = None
    ) -> None:
        """Lock the directory, and read or write its identity. It is created if it does not exist.

        `new_cluster_id` returns the cluster id of a new directory; by default it is random.

        ConfigError if another broker uses it, if it belongs to another node, or if it cannot be read and written.
        """
        self.path = path
        self._files = files
        self._lock: Any = None
        try:
            if not files.exists(path):
                files.make_dir(path)
            self._lock = files.lock(self.join(LOCK))
            if self._lock is None:
                raise ConfigError(f"another broker uses the data directory {path}: its file {LOCK} is locked")
            self.cluster_id, self.directory_id = self._identify(node_id, new_cluster_id)
        except OSError as error:
            self.release()
            raise ConfigError(f"the data directory {path} cannot be used: {reason_with_file(error, path)}") from None
        except BaseException:
            self.release()
            raise

    def __repr__(self) -> str:
        return f"<DataDir {self.path} cluster={self.cluster_id}>"

    def join(self, *names: str) -> str:
        """Return a path below the directory."""
        return os.path.join(self.path, *names)

    def shared_with(self, files: Files) -> DataDir:
        """Return the directory for another part of this process. The lock remains with this object."""
        other = copy(self)
        other._files, other._lock = files, None
        return other

    def release(self) -> None:
        """Release the lock."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def _identify(self, node_id: int, new_cluster_id: Callable[[], str] | None) -> tuple[str, str]:
        path = self.join(META)
        stored: dict[str, str] = {}
        if self._files.exists(path):
            stored = parse_properties(self._files.read_bytes(path))
            if not stored:
                raise ConfigError(
                    f"{path} is empty; restore it, or remove it: the directory then gets a new cluster id"
                )
            if stored.get("version") != "1":
                raise ConfigError(f"{path} has version {stored.get('version')}; only version 1 (Kafka 4) is supported")
        if stored.get("node.id", str(node_id)) != str(node_id):
            raise ConfigError(
                f"{path}: the directory belongs to node {stored['node.id']}, not to node {node_id}; "
                "set node.id, or choose another directory"
            )
        if "directory.id" in stored and not _is_uuid(stored["directory.id"]):
            raise ConfigError(
                f"{path}: directory.id {stored['directory.id']!r} is not valid; restore the file, or remove this line: "
                "the directory then gets another id"
            )
        identity = {"node.id": str(node_id), "version": "1", **stored}
        identity.setdefault("directory.id", uuid_text(random_uuid()))
        if "cluster.id" not in identity:
            identity["cluster.id"] = new_cluster_id() if new_cluster_id is not None else uuid_text(random_uuid())
        if identity != stored:
            self._files.write_atomically(path, _properties(identity))
        return identity["cluster.id"], identity["directory.id"]

    # ---- clean shutdown ----

    @property
    def was_left_clean(self) -> bool:
        """True if the last broker flushed everything and left the marker of a clean shutdown."""
        return self._files.exists(self.join(CLEAN_SHUTDOWN))

    @property
    def clean_epoch(self) -> int:
        """The broker epoch in the marker of a clean shutdown, -1 without one (KIP-966)."""
        if not self.was_left_clean:
            return -1
        try:
            return int(json.loads(self._files.read_bytes(self.join(CLEAN_SHUTDOWN)))["brokerEpoch"])
        except (ValueError, KeyError, TypeError):  # older versions of Kafka write an empty file
            return -1

    def mark_clean(self, broker_epoch: int = -1) -> None:
        """Write the marker: everything is flushed, so the next start skips recovery."""
        marker = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self._files.write_atomically(self.join(CLEAN_SHUTDOWN), marker.encode())

    def mark_in_use(self) -> None:
        """Remove the marker. A later exit without `mark_clean` counts as a crash."""
        if self.was_left_clean:
            self._files.remove(self.join(CLEAN_SHUTDOWN))
            self._files.sync_dir(self.path)

    # ---- partitions ----

    def partitions(self) -> dict[TopicPartition, str]:
        """Return the directories of partitions. ConfigError names a directory that is not one."""
        return find_partitions(self.path, self._files)

    def deleted(self) -> list[str]:
        """Return the directories of deleted partitions that are not yet removed."""
        names = self._files.list(self.path)
        return [self.join(name) for name in names if name.endswith("-delete") and _NOT_IN_USE.fullmatch(name)]

    def name_stray(self, tp: TopicPartition) -> str:
        """Return a new path for the directory of a partition that the cluster does not know; it is kept."""
        return self._unused_name(tp, "stray")

    def name_deleted(self, tp: TopicPartition) -> str:
        """Return a new path for the directory of a deleted partition, under which no start opens it."""
        return self._unused_name(tp, "delete")

    def _unused_name(self, tp: TopicPartition, reason: str) -> str:
        suffix = f".{uuid4().hex}-{reason}"
        return self.join(str(tp)[: _MOST_NAME_BYTES - len(suffix)] + suffix)


def find_partitions(data_dir: str, files: Files) -> dict[TopicPartition, str]:
    """Return the directories of partitions. ConfigError names a directory that is not one."""
    directories = {}
    for name in sorted(files.list(data_dir)):
        path = os.path.join(data_dir, name)
        if not files.is_dir(path) or name in FOREIGN or _NOT_IN_USE.fullmatch(name):
            continue
        match = _PARTITION.fullmatch(name)
        if match is None:
            raise ConfigError(f"{path} is not a partition's directory; move it out of the data directory")
        directories[TopicPartition(match[1], int(match[2]))] = path
    return directories


def read_topic_id(files: Files, directory: str) -> UUID | None:
    """Return the topic id in `partition.metadata`. ConfigError if the file is damaged.

    None if the file is missing or empty; a power failure may leave it empty.
    """
    path = os.path.join(directory, PARTITION_METADATA)
    try:
        text = files.read_bytes(path).decode("latin-1")
    except FileNotFoundError:
        return None
    if not text.strip("\0"):
        return None
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        if lines["version"] != "0":
            raise ValueError
        return parse_uuid(lines["topic_id"])
    except (KeyError, ValueError):
        raise ConfigError(
            f"{path} is damaged: it must have the lines version: 0 and topic_id; restore or remove it"
        ) from None


def write_topic_id(files: Files, directory: str, topic_id: UUID) -> None:
    """Write `partition.metadata`, without fsync: the catalogue of topics has the ids, too."""
    file = files.open(os.path.join(directory, PARTITION_METADATA), create=True)
    try:
        if file.size:  # ext4 writes a file to the disk when it is closed after any truncation to 0, even of a new one
            file.truncate(0)
        file.append([f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()])
    finally:
        file.close()


def uuid_text(value: UUID) -> str:
    """Format an id as Kafka does: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(value.bytes)[:22].decode()


@lru_cache(1024)  # the partitions of a topic have the same one
def parse_uuid(text: str) -> UUID:
    """Parse an id in Kafka's format. ValueError for any other text."""
    if len(text) != 22:
        raise ValueError(f"{text!r} is not an id of 22 characters")
    return UUID(bytes=urlsafe_b64decode(text + "=="))


def _is_uuid(text: str) -> bool:
    try:
        parse_uuid(text)
    except ValueError:
        return False
    return True


def random_uuid() -> UUID:
    """Return a random id whose text does not start with a dash, because command lines take that for an option."""
    while True:
        value = uuid4()
        if not uuid_text(value).startswith("-"):
            return value


def parse_properties(data: bytes) -> dict[str, str]:
    """Parse the lines of a simple properties file."""
    properties = {}
    for line in data.decode("latin-1").splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            name, _, value = line.partition("=")
            properties[name.strip()] = value.strip()
    return properties


def _properties(values: dict[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in values.items()).encode()
