"""Source for Spark Connect that carries kcli with it: it is unpacked on each machine before kcli is imported.

Spark pickles a source's class, and later its reader, for other processes (planner, tasks). Functions and classes that
are defined in a function are pickled by value (cloudpickle), so nothing is imported by name on the other machine.
"""

from __future__ import annotations

from typing import Any


def carrying(payload: bytes, digest: str) -> type[Any]:
    """Return `KcliDataSource` as a class that carries `payload`, a zip of kcli; `digest` identifies its content."""
    from pyspark.sql.datasource import DataSource

    def unpack() -> None:
        """Unpack into a folder of this user, once per machine and payload. The rename is atomic."""
        import io
        import os
        import shutil
        import sys
        import tempfile
        import zipfile

        folder = os.path.join(tempfile.gettempdir(), f"kcli-{os.getuid()}-{digest}")
        if not os.path.isdir(folder):
            scratch = tempfile.mkdtemp(prefix="kcli-")
            with zipfile.ZipFile(io.BytesIO(payload)) as archive:
                archive.extractall(scratch)
            try:
                os.rename(scratch, folder)
            except OSError:
                shutil.rmtree(scratch, ignore_errors=True)
        if os.lstat(folder).st_uid != os.getuid():
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
