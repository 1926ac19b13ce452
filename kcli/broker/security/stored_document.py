"""A JSON document in the data directory that is replaced as a whole, for credentials, delegation tokens and ACLs.

Apache Kafka keeps these in its metadata log.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.broker.files import is_exhausted
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError

if TYPE_CHECKING:
    from kcli.broker.files import Files

T = TypeVar("T")
VERSION = 1


class StoredDocument:
    """One file of the data directory. `noun` names its contents in errors."""

    def __init__(self, files: Files, path: str, noun: str, fail: Callable[[str], None]) -> None:
        """`fail` takes the data directory offline, with the reason."""
        self._files = files
        self._path = path
        self._noun = noun
        self._fail = fail

    def __repr__(self) -> str:
        return f"<StoredDocument {self._path}>"

    def load(self, read: Callable[[Any], T], default: T) -> T:
        """Return `read(document)`; without a file, the default. ConfigError for a damaged file."""
        if not self._files.exists(self._path):
            return default
        try:
            document = json.loads(self._files.read_bytes(self._path))
            if document["version"] == VERSION:
                return read(document)
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        raise ConfigError(f"{self._path} is damaged; restore it, or remove it: the broker then has no {self._noun}")

    def save(self, document: dict[str, Any]) -> None:
        """Replace the file. BrokerError KAFKA_STORAGE_ERROR if that fails; then undo the change."""
        try:
            data = json.dumps({"version": VERSION, **document}, indent=1).encode()
            self._files.write_atomically(self._path, data)
        except OSError as error:
            reason = f"{error.strerror or error} while changing the {self._noun} in {self._path}"
            if not is_exhausted(error):
                self._fail(reason)
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, reason) from error
