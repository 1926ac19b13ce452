"""Shipping of kcli to the machines where Spark runs Python.

| ship | for | effect |
|---|---|---|
| installed | local masters, prepared machines | none, except that local workers find the running kcli |
| inline | all others | the source is pickled by value and carries a zip of kcli |

The functions of pipelines that run in tasks are pickled `by_value` in any case.
"""

from __future__ import annotations

import io
import os
import sysconfig
import zipfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kcli.errors import ConfigError
from kcli.text import format_alternatives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHIP_MODES = ("auto", "installed", "inline")
_ALSO_INLINE = ("auto", "zip")  # zip is the old name on classic clusters
_NOT_SHIPPED = {"cli", "broker", "__pycache__"}
"""Packages that kcli.spark does not import."""
_DISCOVERED = "pyspark_kcli.py"
"""The module by which Spark finds the source, beside the package."""
_SAME_DATE = (2020, 1, 1, 0, 0, 0)


def resolve_ship(master: str, remote: str | None, ship: str) -> str:
    """Return `ship` with `auto` resolved: installed or inline. ConfigError for an unknown value."""
    if ship == "auto" and remote is None and master.startswith("local"):
        return "installed"
    if ship in _ALSO_INLINE:
        return "inline"
    if ship not in SHIP_MODES:
        raise ConfigError(f"--ship: {ship!r} is not valid; use {format_alternatives(SHIP_MODES)}")
    return ship


def prepend_python_path(environ: MutableMapping[str, str], path: str) -> None:
    """Add a path to the front of PYTHONPATH; an empty path changes nothing."""
    paths = [part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if path and path not in paths:
        environ["PYTHONPATH"] = os.pathsep.join([path, *paths])


def register_inline(session: SparkSession) -> None:
    """Register a source that carries kcli with it, for machines that do not have it."""
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


def _package() -> Path:
    import kcli

    return Path(kcli.__file__).resolve().parent


def own_folder() -> str:
    """Return the folder of the running kcli; empty if the interpreter searches it by default."""
    folder = str(_package().parent)
    return "" if folder in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) else folder


def carrying(payload: bytes, digest: str) -> type[Any]:
    """Return `KcliDataSource` as a class that carries `payload`, a zip of kcli; `digest` identifies its content.

    Each machine unpacks it before it imports kcli. Spark pickles a source's class, and later its reader, for other
    processes (planner, tasks). Functions and classes that are defined in a function are pickled by value (cloudpickle),
    so nothing is imported by name there.
    """
    from pyspark.sql.datasource import DataSource

    def unpack() -> None:
        """Unpack into a folder of this user, once per machine and payload. The rename is atomic."""
        import io
        import os
        import shutil
        import sys
        import tempfile
        import zipfile

        user = getattr(os, "getuid", int)()  # Windows has no such ids, and shows 0 as the owner of files
        folder = os.path.join(tempfile.gettempdir(), f"kcli-{user}-{digest}")
        if not os.path.isdir(folder):
            scratch = tempfile.mkdtemp(prefix="kcli-")
            with zipfile.ZipFile(io.BytesIO(payload)) as archive:
                archive.extractall(scratch)
            try:
                os.rename(scratch, folder)
            except OSError:
                shutil.rmtree(scratch, ignore_errors=True)
        if os.lstat(folder).st_uid != user:
            raise PermissionError(f"{folder} belongs to another user")
        if folder not in sys.path:
            sys.path.insert(0, folder)

    def revive(pickled: bytes) -> Any:
        import pickle

        unpack()
        kind, state = pickle.loads(pickled)
        reader = kind.__new__(kind)
        reader.__dict__.update(state)
        return reader

    def carried(reader: Any) -> Any:
        """Make the reader carry kcli to the process that unpickles it."""
        kind = type(reader)

        class CarriedReader(kind):  # type: ignore[misc,valid-type]
            def __reduce_ex__(self, _protocol: Any) -> Any:
                import pickle

                own = getattr(kind, "__getstate__", None)
                state = own(self) if own is not None else self.__dict__
                return revive, (pickle.dumps((kind, state)),)

        reader.__class__ = CarriedReader
        return reader

    class CarriedSource(DataSource):  # type: ignore[misc,unused-ignore]
        @classmethod
        def name(cls) -> str:
            return "kcli"

        def _real(self) -> Any:
            unpack()
            from kcli.spark.source import KcliDataSource

            return KcliDataSource(self.options)

        def schema(self) -> Any:
            return self._real().schema()

        def reader(self, schema: Any) -> Any:
            return carried(self._real().reader(schema))

        def streamReader(self, schema: Any) -> Any:
            return carried(self._real().streamReader(schema))

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return carried(self._real().writer(schema, overwrite))

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return carried(self._real().streamWriter(schema, overwrite))

    return CarriedSource


@contextmanager
def by_value(*modules: ModuleType) -> Iterator[None]:
    """Pickle these modules whole instead of by name, while the context is entered.

    The modules must not import kcli, not even in functions. Pickling happens when the job starts: call the action in
    the context, not only the transformation.
    """
    from pyspark import cloudpickle

    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
