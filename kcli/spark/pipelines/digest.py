"""Bytes as what tells them apart: short ones whole, of long ones the SHA-256. Their size has to go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

LONGEST_WHOLE = 32


def digest(name: str) -> Column:
    """Of the column of bytes called `name`; null stays null."""
    from pyspark.sql import functions as f

    return f.when(f.length(name) > LONGEST_WHOLE, f.unhex(f.sha2(name, 256))).otherwise(f.col(name))
