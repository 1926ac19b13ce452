"""Shipping of kcli to the machines where Spark runs Python.

| ship | for | effect |
|---|---|---|
| installed | local masters, prepared clusters | none, except that local workers find the running kcli |
| zip | classic clusters | a zip of kcli: by pyFiles for executors, and on the driver's PYTHONPATH for the planner |
|     |                  | of streams, which pyFiles do not reach |
| inline | Spark Connect | the source is pickled by value and carries the zip; the server needs nothing of kcli |
"""

from __future__ import annotations

import atexit
import io
import os
import shutil
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator, MutableMapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.errors import ConfigError
from kcli.text import format_alternatives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHIP_MODES = ("auto", "installed", "zip", "inline")
_NOT_SHIPPED = {"cli", "broker", "__pycache__"}
"""Packages that kcli.spark does not import."""
_DISCOVERED = "pyspark_kcli.py"
"""The module by which Spark finds the source, beside the package."""
_SAME_DATE = (2020, 1, 1, 0, 0, 0)


def resolve_ship(master: str, remote: str | None, ship: str) -> str:
    """Return `ship` with `auto` resolved. ConfigError for an unknown value, or one that does not fit master or
    remote.
    """
    if ship not in SHIP_MODES:
        raise ConfigError(f"--ship: {ship!r} is not valid; use {format_alternatives(SHIP_MODES)}")
    if remote is not None:
        if ship == "zip":
            raise ConfigError("--ship zip is for classic clusters; with --remote use inline or installed")
        return "inline" if ship == "auto" else ship
    if ship == "inline":
        raise ConfigError("--ship inline is for --remote; with --master use zip or installed")
    if ship == "auto":
        return "installed" if master.startswith("local") else "zip"
    return ship


def shipping_conf(master: str, ship: str, environ: MutableMapping[str, str]) -> dict[str, str]:
    """Return the Spark settings that ship kcli. Adds to PYTHONPATH in `environ`, which is the JVM's, where
    necessary.
    """
    if resolve_ship(master, None, ship) == "zip":
        path = _zip_file()
        prepend_python_path(environ, path)
        return {"spark.submit.pyFiles": path}
    if master.startswith("local"):
        prepend_python_path(environ, _own_folder())
    return {}


def prepend_python_path(environ: MutableMapping[str, str], path: str) -> None:
    """Add a path to the front of PYTHONPATH; an empty path changes nothing."""
    paths = [part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if path and path not in paths:
        environ["PYTHONPATH"] = os.pathsep.join([path, *paths])


def register_inline(session: SparkSession) -> None:
    """Register a source that carries kcli with it, for servers that do not have it."""
    from kcli.spark.inline_source import carrying

    payload = zip_kcli()
    session.dataSource.register(carrying(payload, sha256(payload).hexdigest()[:16]))


@cache
def zip_kcli() -> bytes:
    """Return a zip of the parts of kcli that kcli.spark imports. The same code gives the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted(_sources()):
            entry = zipfile.ZipInfo(name, _SAME_DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, source)
    return packed.getvalue()


def is_archived() -> bool:
    """Return whether kcli runs from a zip, as from `--py-files`: Spark's planner of streams does not find it there."""
    return _archive() is not None


def _archive() -> str | None:
    import kcli

    return getattr(kcli.__loader__, "archive", None)


def _sources() -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the modules to ship, from a folder or from the zip that kcli runs from."""
    archive = _archive()
    if archive is not None:
        with zipfile.ZipFile(archive) as packed:
            yield from ((name, packed.read(name)) for name in packed.namelist() if _is_shipped(name))
        return
    folder = _package().parent
    for path in [*_package().rglob("*.py"), *folder.glob(_DISCOVERED)]:
        name = path.relative_to(folder).as_posix()
        if _is_shipped(name):
            yield name, path.read_bytes()


def _is_shipped(name: str) -> bool:
    package, _, path = name.partition("/")
    return name == _DISCOVERED or (
        package == "kcli" and name.endswith(".py") and path.split("/")[0] not in _NOT_SHIPPED
    )


_zip_folders: list[str] = []


def remove_zips() -> None:
    """Delete the zips of this process. Executors fetch them from here, so call it after the session has ended."""
    while _zip_folders:
        shutil.rmtree(_zip_folders.pop(), ignore_errors=True)


def _zip_file() -> str:
    """Return the path of a new zip."""
    folder = tempfile.mkdtemp(prefix="kcli-ship-")
    _zip_folders.append(folder)
    atexit.register(remove_zips)
    path = Path(folder, "kcli.zip")
    path.write_bytes(zip_kcli())
    return str(path)


def _package() -> Path:
    import kcli

    return Path(kcli.__file__).resolve().parent


def _own_folder() -> str:
    """Return the folder of the running kcli; empty if the interpreter searches it by default."""
    folder = str(_package().parent)
    return "" if folder in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) else folder
