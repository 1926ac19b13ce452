"""A temporary directory that a fork of this process does not remove."""

from __future__ import annotations

import shutil
import tempfile
from weakref import finalize

from kcli import forks


class TemporaryFolder:
    """A new directory. `remove` removes it, or else the end of the process that made it."""

    def __init__(self, prefix: str) -> None:
        self.name = tempfile.mkdtemp(prefix=prefix)
        self._remove = finalize(self, shutil.rmtree, self.name, ignore_errors=True)
        forks.call_in_child(self._leave)

    def remove(self) -> None:
        """Remove the directory with its content. No-op in a fork of the process that made it."""
        self._remove()

    def _leave(self) -> None:
        """Leave the directory to the parent, also at the end of this process."""
        self._remove.detach()
