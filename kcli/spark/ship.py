"""How kcli gets to where Spark runs its Python.

| ship | for | what is done |
|---|---|---|
| installed | local masters, prepared clusters | nothing, but that local workers find the kcli that runs |
| zip | classic clusters | a zip of kcli: by pyFiles for executors, and on the driver's PYTHONPATH for the planner |
|     |                  | of streams, which pyFiles do not reach |
| inline | Spark Connect | the source is pickled by value and carries the zip; nothing of kcli is on the server |
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS = ("auto", "installed", "zip", "inline")


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
    way = choose_way(master, None, ship)
    if way == "installed" and master.startswith("local"):
        _prepend(environ, _own_folder())
        return {}
    if way == "zip":
        raise ConfigError("--ship zip is not made yet")
    return {}


def _own_folder() -> str:
    """Where the running kcli lies, if the interpreter does not look there of itself; else nothing."""
    import kcli

    folder = str(Path(kcli.__file__).resolve().parent.parent)
    return "" if folder in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) else folder


def _prepend(environ: MutableMapping[str, str], path: str) -> None:
    paths = [part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if path and path not in paths:
        environ["PYTHONPATH"] = os.pathsep.join([path, *paths])


def register_inline(session: SparkSession) -> None:
    """Register a source that carries kcli with it."""
    raise ConfigError("--ship inline is not made yet")
