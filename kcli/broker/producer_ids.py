"""Producer ids that are never given twice, whatever happens in between."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.broker.files import Files
    from kcli.broker.log.log import Log

#: Ids are reserved on the disk by this many, as Kafka's controller does; a restart loses what is left of a block.
BLOCK_SIZE = 1000
FILE_NAME = "producer-ids.json"


def highest_in(logs: Iterable[Log]) -> int:
    """The highest id that any of these logs remembers; -1 when there is none."""
    return max((id for log in logs for id in log.producers.producers), default=-1)


class ProducerIds:
    """Hands out ids of blocks that are on the disk before the first of them is used."""

    def __init__(self, data_dir: str, files: Files, *, highest_seen: int = -1) -> None:
        """`highest_seen`: an id that some log holds already, for one whose file was lost or whose logs came from
        elsewhere. `ConfigError` for a file that is not ours."""
        self._files = files
        self._path = f"{data_dir}/{FILE_NAME}"
        self._next = max(self._stored(), highest_seen + 1)
        self._end = self._next

    def __repr__(self) -> str:
        return f"<ProducerIds next={self._next} reserved up to {self._end}>"

    def next(self) -> int:
        """A new id. `OSError` when the next block cannot be reserved."""
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
            found = json.loads(self._files.read_bytes(self._path))
            stored = found["next_producer_id"]
            if found["version"] == 1 and isinstance(stored, int) and stored >= 0:
                return stored
        except (ValueError, KeyError, TypeError):
            pass
        raise ConfigError(f"{self._path} does not hold what kcli wrote: producer ids could be given twice")
