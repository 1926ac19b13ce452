"""Producer ids that are unique across crashes and restarts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.broker.files import Files
    from kcli.broker.log.log import Log

#: Ids are reserved on the disk in blocks of this size, as by Kafka's controller; a restart skips the rest of a block.
BLOCK_SIZE = 1000
FILE_NAME = "producer-ids.json"
# No broker has assigned so many. A client may write any id, and one near the last int64 would leave none to assign.
_NEVER_ASSIGNED = 1 << 62


def highest_in(logs: Iterable[Log]) -> int:
    """Return the highest producer id in these logs that a broker may have assigned, -1 without any."""
    return max((id for log in logs for id in log.producers.producers if id < _NEVER_ASSIGNED), default=-1)


class ProducerIds:
    """Assigns ids from blocks that are stored on the disk before their first id is used."""

    def __init__(self, data_dir: str, files: Files, *, highest_seen: int = -1) -> None:
        """`highest_seen` is the highest id in any log, in case the file was lost or logs were copied from elsewhere.

        ConfigError for a damaged file.
        """
        self._files = files
        self._path = f"{data_dir}/{FILE_NAME}"
        self._next = max(self._stored(), highest_seen + 1)
        self._end = self._next

    def __repr__(self) -> str:
        return f"<ProducerIds next={self._next} reserved below {self._end}>"

    def next(self) -> int:
        """Return a new id. OSError if the next block cannot be reserved."""
        if self._next == self._end:
            self._reserve()
        self._next += 1
        return self._next - 1

    def _reserve(self) -> None:
        end = self._end + BLOCK_SIZE
        self._files.write_atomically(self._path, json.dumps({"version": 1, "next_producer_id": end}).encode())
        self._end = end

    def _stored(self) -> int:
        if not self._files.exists(self._path):
            return 0
        try:
            document = json.loads(self._files.read_bytes(self._path))
            stored = document["next_producer_id"]
            if document["version"] == 1 and isinstance(stored, int) and stored >= 0:
                return stored
        except (ValueError, KeyError, TypeError):
            pass
        raise ConfigError(f"{self._path} is damaged, so producer ids could be assigned twice; restore the file")
