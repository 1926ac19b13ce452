"""How kcli gets to where Spark runs its Python.

| ship | for | what is done |
|---|---|---|
| installed | local masters, prepared clusters | nothing, but that local workers find the kcli that runs |
| zip | classic clusters | a zip of kcli: by pyFiles for executors, and on the driver's PYTHONPATH for the planner |
|     |                  | of streams, which pyFiles do not reach |
| inline | Spark Connect | the source is pickled by value and carries the zip; nothing of kcli is on the server |
"""

from __future__ import annotations

import atexit
import io
import os
import shutil
import sysconfig
import tempfile
import zipfile
from collections.abc import MutableMapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS = ("auto", "installed", "zip", "inline")
_LEFT_OUT = {"cli", "broker", "producer", "__pycache__"}
"""Parts of kcli that nothing in kcli.spark imports."""
_SAME_DATE = (2020, 1, 1, 0, 0, 0)


def choose_way(master: str, remote: str | None, ship: str) -> str:
    """`auto` resolved for a master or a Connect server; `ConfigError` for a way that nobody knows, or not there."""
    if ship not in WAYS:
        raise ConfigError(f"--ship must be one of {', '.join(WAYS)}, not {ship}")
    if remote is not None:
        if ship == "zip":
            raise ConfigError("--ship zip is for classic clusters: with --remote it is inline or installed")
        return "inline" if ship == "auto" else ship
    if ship == "inline":
        raise ConfigError("--ship inline is for --remote: with --master it is zip or installed")
    if ship == "auto":
        return "installed" if master.startswith("local") else "zip"
    return ship


def shipping_conf(master: str, ship: str, environ: MutableMapping[str, str]) -> dict[str, str]:
    """The Spark settings that ship kcli; `environ`, the future JVM's, gets a PYTHONPATH where that is a part of it."""
    if choose_way(master, None, ship) == "zip":
        path = _zip_file()
        prepend_path(environ, path)
        return {"spark.submit.pyFiles": path}
    if master.startswith("local"):
        prepend_path(environ, _own_folder())
    return {}


def prepend_path(environ: MutableMapping[str, str], path: str) -> None:
    """Have the processes to come look there first for modules; an empty path changes nothing."""
    paths = [part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if path and path not in paths:
        environ["PYTHONPATH"] = os.pathsep.join([path, *paths])


def register_inline(session: SparkSession) -> None:
    """Register a source that carries kcli with it, for servers that have nothing of it."""
    from kcli.spark.inline_source import carrying

    payload = zipped_kcli()
    session.dataSource.register(carrying(payload, sha256(payload).hexdigest()[:16]))


@cache
def zipped_kcli() -> bytes:
    """All that kcli.spark imports of kcli, as a zip. The same code makes the same bytes."""
    root = _package()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).parts
            if parts[0] not in _LEFT_OUT:
                entry = zipfile.ZipInfo("/".join(("kcli", *parts)), _SAME_DATE)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes())
    return packed.getvalue()


def _zip_file() -> str:
    """The zip in a folder that is gone with this process: executors fetch it from here while it lives."""
    folder = tempfile.mkdtemp(prefix="kcli-ship-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "kcli.zip")
    path.write_bytes(zipped_kcli())
    return str(path)


def _package() -> Path:
    import kcli

    return Path(kcli.__file__).resolve().parent


def _own_folder() -> str:
    """Where the running kcli lies, if the interpreter does not look there of itself; else nothing."""
    folder = str(_package().parent)
    return "" if folder in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) else folder
