"""Settings of a session that apply to a block only, such as one write: Spark has no option of a writer for them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


@contextlib.contextmanager
def temporary_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set these settings in this context, and restore them after it."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


@contextlib.contextmanager
def parquet_timestamps(spark: SparkSession) -> Iterator[None]:
    """Write timestamps to Parquet as TIMESTAMP_MICROS in this context, unless the session has its own setting.

    Spark's default is INT96: it has no statistics, and readers of nanoseconds wrap it after the year 2262. A stream
    keeps the settings that the session has at its start.
    """
    own = spark.conf.get(_TIMESTAMPS, None)
    with temporary_settings(spark, {_TIMESTAMPS: own or "TIMESTAMP_MICROS"}):
        yield
