"""Digest of byte columns for comparisons: short values unchanged, longer ones as SHA-256. Compare their sizes
as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

LONGEST_WHOLE = 32


def digest(name: str) -> Column:
    """Return the digest of the column called `name`; null stays null."""
    from pyspark.sql import functions as f

    return f.when(f.length(name) > LONGEST_WHOLE, f.unhex(f.sha2(name, 256))).otherwise(f.col(name))
