"""All logs of a data directory: opened, created, deleted, and looked after."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kcli.broker.log.config import LogConfig
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.files import Files
    from kcli.broker.log.log import Log


class LogManager:
    """`logs` by partition. `failed` says why the directory is offline (None: it is not); `reports` what recovery did."""

    def __init__(self, data_dir: str, files: Files, config: Any) -> None:
        """Locks the directory (made when it is not there) and reads or writes its meta.properties.

        `ConfigError` for a directory that another broker uses or that belongs to another node or cluster.
        """
        self.data_dir = data_dir
        self.logs: dict[TopicPartition, Log] = {}
        self.failed: str | None = None
        self.reports: list[str] = []
        self.cluster_id = ""
        self.directory_id: UUID | str = ""

    def open(self, config_for: Callable[[str], LogConfig], now_wall_ms: int) -> None:
        """Open every partition directory; `config_for(topic)` gives the topics' configs."""
        raise NotImplementedError

    def create(self, tp: TopicPartition, topic_id: UUID, config: LogConfig, now_wall_ms: int = 0) -> Log:
        """The log of a new partition (or the one that there is)."""
        raise NotImplementedError

    def delete(self, tp: TopicPartition, now_ms: float = 0.0) -> None:
        """Take a partition away: renamed at once, its files removed a while later."""
        raise NotImplementedError

    def tick(self, now_ms: float, now_wall_ms: int) -> float:
        """Do what is due (retention, flush.ms, checkpoints, a step of cleaning); when to come again, steady ms."""
        raise NotImplementedError

    def fail(self, why: str) -> None:
        """The directory cannot be written to any more."""
        self.failed = self.failed or why

    def close(self, *, clean: bool = True) -> None:
        """Close all logs and release the lock; cleanly: flushed, checkpoints and marker written."""
        raise NotImplementedError
