"""A data directory: whose it is, who uses it now, and how partitions' directories in it are named.

Kafka's own files and formats: `meta.properties` (version 1), `.lock`, `.kafka_cleanshutdown`, `partition.metadata`.
"""

from __future__ import annotations

import json
import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from kcli.errors import ConfigError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.files import Files

META = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
PARTITION_METADATA = "partition.metadata"

KAFKAS_METADATA = "__cluster_metadata-0"

#: Directories of a real Kafka that are no partitions of ours: they stay as they are.
FOREIGN = frozenset({KAFKAS_METADATA, "remote-log-index-cache"})

_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_LEFT_BEHIND = re.compile(r".+\.[0-9a-f]{32}-(delete|stray|future)")
_MOST_NAME_BYTES = 255


class DataDir:
    """A directory that this process has to itself, until `release`."""

    def __init__(self, path: str, files: Files, *, node_id: int) -> None:
        """Lock it, and find out or write down whose it is. It is made when there is none.

        `ConfigError` when another broker uses it, it belongs to another node, or it cannot be read and written.
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
            self.cluster_id, self.directory_id = self._identify(node_id)
        except OSError as problem:
            self.release()
            why = problem.strerror or problem
            raise ConfigError(f"the data directory {path} cannot be used: {why}") from None
        except BaseException:
            self.release()
            raise

    def __repr__(self) -> str:
        return f"<DataDir {self.path} cluster={self.cluster_id}>"

    def join(self, *names: str) -> str:
        """A path below the directory."""
        return os.path.join(self.path, *names)

    def release(self) -> None:
        """Let others use it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def _identify(self, node_id: int) -> tuple[str, str]:
        path = self.join(META)
        found = parse_properties(self._files.read_bytes(path)) if self._files.exists(path) else {}
        if found and found.get("version") != "1":
            raise ConfigError(f"{path} has version {found.get('version')}; version 1 is the one of Kafka 4")
        if found.get("node.id", str(node_id)) != str(node_id):
            raise ConfigError(f"{path} says that the directory belongs to node {found['node.id']}, not to {node_id}")
        whole = {"node.id": str(node_id), "version": "1", **found}
        whole.setdefault("directory.id", uuid_text(_new_uuid()))
        whole.setdefault("cluster.id", uuid_text(_new_uuid()))
        if whole != found:
            self._files.write_atomically(path, _properties(whole))
        return whole["cluster.id"], whole["directory.id"]

    @property
    def was_kafkas(self) -> bool:
        """Whether a real Kafka has its metadata here."""
        return self._files.exists(self.join(KAFKAS_METADATA))

    # ---- was the last end a clean one? ----

    @property
    def was_left_clean(self) -> bool:
        """Whether the last broker flushed everything and said so."""
        return self._files.exists(self.join(CLEAN_SHUTDOWN))

    def mark_clean(self) -> None:
        """Everything is flushed: the next start need not look for damage."""
        marker = json.dumps({"version": 0, "brokerEpoch": -1}, separators=(",", ":"))
        self._files.write_atomically(self.join(CLEAN_SHUTDOWN), marker.encode())

    def mark_in_use(self) -> None:
        """From now on an end that does not `mark_clean` is a crash."""
        if self.was_left_clean:
            self._files.remove(self.join(CLEAN_SHUTDOWN))
            self._files.sync_dir(self.path)

    # ---- partitions ----

    def partitions(self) -> dict[TopicPartition, str]:
        """The directories of partitions. `ConfigError` names a directory that should not be here."""
        found = {}
        for name in sorted(self._files.list(self.path)):
            path = self.join(name)
            if not self._files.is_dir(path) or name in FOREIGN or _LEFT_BEHIND.fullmatch(name):
                continue
            match = _PARTITION.fullmatch(name)
            if match is None:
                raise ConfigError(f"{path} is no partition's directory; a data directory is the broker's alone")
            found[TopicPartition(match[1], int(match[2]))] = path
        return found

    def deleted(self) -> list[str]:
        """The directories of partitions that were deleted and whose files are still there."""
        names = self._files.list(self.path)
        return [self.join(name) for name in names if name.endswith("-delete") and _LEFT_BEHIND.fullmatch(name)]

    def name_deleted(self, tp: TopicPartition) -> str:
        """A path to which the directory of a deleted partition can be renamed; no start takes it for a partition."""
        suffix = f".{uuid4().hex}-delete"
        return self.join(str(tp)[: _MOST_NAME_BYTES - len(suffix)] + suffix)


def read_topic_id(files: Files, directory: str) -> UUID | None:
    """The topic id that `partition.metadata` names. `ConfigError` for garbage.

    None when there is no such file, or an empty one, as a power failure may leave it.
    """
    path = os.path.join(directory, PARTITION_METADATA)
    text = files.read_bytes(path).decode("latin-1") if files.exists(path) else ""
    if not text.strip("\0"):
        return None
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        if lines["version"] != "0":
            raise ValueError
        return parse_uuid(lines["topic_id"])
    except (KeyError, ValueError):
        raise ConfigError(f"{path} is damaged: it should name a version of 0 and a topic id") from None


def write_topic_id(files: Files, directory: str, topic_id: UUID) -> None:
    """Write `partition.metadata`. It is not forced to the disk: who creates topics knows their ids."""
    file = files.open(os.path.join(directory, PARTITION_METADATA), create=True)
    try:
        file.truncate(0)
        file.append([f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()])
    finally:
        file.close()


def uuid_text(value: UUID) -> str:
    """An id as Kafka prints it: 22 letters of base 64."""
    return urlsafe_b64encode(value.bytes)[:22].decode()


def parse_uuid(text: str) -> UUID:
    """The id that Kafka prints so; ValueError for anything else."""
    if len(text) != 22:
        raise ValueError(f"{text!r} is not an id of 22 letters")
    return UUID(bytes=urlsafe_b64decode(text + "=="))


def _new_uuid() -> UUID:
    """A random id. Kafka makes none whose text begins with a dash: command lines take it for an option."""
    while True:
        value = uuid4()
        if not uuid_text(value).startswith("-"):
            return value


def parse_properties(data: bytes) -> dict[str, str]:
    """The lines of a simple properties file."""
    found = {}
    for line in data.decode("latin-1").splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            name, _, value = line.partition("=")
            found[name.strip()] = value.strip()
    return found


def _properties(values: dict[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in values.items()).encode()
