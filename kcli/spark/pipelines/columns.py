"""Functions of Spark's columns, as `pyspark.sql.functions`, imported on first use (PEP 562): `columns as f`.

Commands check their options before they import PySpark, so pipelines must not import it with themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column

_LONGEST_WHOLE = 32


def __getattr__(name: str) -> Any:
    """Return a function of Spark, which is an attribute of this module from then on."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyspark.sql import functions

    return globals().setdefault(name, getattr(functions, name))


def digest(name: str) -> Column:
    """Return the digest of the column of bytes called `name`: short values unchanged, longer ones as SHA-256.

    Null stays null. Compare the sizes of the values as well.
    """
    from pyspark.sql import functions as f

    return f.when(f.length(name) > _LONGEST_WHOLE, f.unhex(f.sha2(name, 256))).otherwise(f.col(name))
