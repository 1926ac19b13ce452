"""Schemas of one registry in a folder on disk: one file for each id or GUID, with the JSON of its answer.

An id belongs to one registry, so each URL has its own folder. A registry on this machine has none, because its ids
begin at 1 again when it is made anew. A file is replaced after a week, and dropped when its schema does not decode a
payload. All failures of the disk are ignored: the folder only saves time.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import quote

from kcli.errors import KcliError
from kcli.private_files import make_folder
from kcli.schemas.schema import Schema, body_of, schema_of
from kcli.whole_files import replacing

_MAX_AGE_S = 7 * 86_400
_MAX_BYTES = 16 << 20
_LOOPBACK = ("localhost", "127.", "::1", "0.0.0.0")

Key: TypeAlias = "int | str | tuple[str, int]"


def cache_folder(environ: Mapping[str, str]) -> str | None:
    """Return $XDG_CACHE_HOME/kcli/schemas, by default under ~/.cache; None without a home."""
    base = environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        home = environ.get("HOME", "")
        base = os.path.join(home, ".cache") if os.path.isabs(home) else ""
    return os.path.join(base, "kcli", "schemas") if base else None


class DiskCache:
    """The files of one registry. Keys are ids and GUIDs; schemas with other keys are not kept."""

    def __init__(self, folder: str | None, url: str) -> None:
        """`folder` has the folders of all registries; None keeps nothing."""
        address = url.partition("://")[2]
        is_local = address.lstrip("[").startswith(_LOOPBACK)
        self._folder = None if folder is None or is_local else os.path.join(folder, quote(address, safe=""))

    def __repr__(self) -> str:
        return f"<DiskCache {self._folder}>"

    def load(self, key: Key) -> Schema | None:
        """Return the schema of a key; None if there is no usable file."""
        path = self._path(key)
        if path is None:
            return None
        try:
            if time.time() - os.stat(path).st_mtime > _MAX_AGE_S:
                return None
            with open(path, "rb") as file:
                answer = json.loads(file.read(_MAX_BYTES))
            return schema_of(answer, id=key) if isinstance(key, int) else schema_of(answer, guid=str(key))
        except (OSError, ValueError, RecursionError, KcliError):
            return None

    def save(self, key: Key, schema: Schema) -> None:
        """Write the file of a key: at once whole, also if several processes write it."""
        path = self._path(key)
        if path is None:
            return
        try:
            make_folder(os.path.dirname(path))
            with replacing(path) as file:
                file.write(json.dumps(body_of(schema)).encode())
        except OSError:
            return

    def drop(self, key: Key) -> None:
        """Remove the file of a key."""
        path = self._path(key)
        if path is not None:
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _path(self, key: Key) -> str | None:
        if self._folder is None or not isinstance(key, (int, str)):
            return None
        return os.path.join(self._folder, f"{quote(str(key), safe='')}.json")
