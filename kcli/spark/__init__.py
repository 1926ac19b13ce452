"""Kafka in Apache Spark through PySpark, without a connector jar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.spark.source import KcliDataSource as KcliDataSource

__all__ = ["KcliDataSource", "commit_to_group", "register"]


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("kcli")` and `spark.readStream.format("kcli")` known; again does no harm.

    The option `commitGroup` of streams works from then on, but not over Spark Connect: there, `commit_to_group` does.
    """
    from kcli.spark.commit_option import follow_option
    from kcli.spark.source import KcliDataSource

    spark.dataSource.register(KcliDataSource)
    follow_option(spark)


def __getattr__(name: str) -> Any:
    """PySpark and pyarrow are imported with the first use, not with this package."""
    if name == "KcliDataSource":
        from kcli.spark.source import KcliDataSource

        return KcliDataSource
    if name == "commit_to_group":
        from kcli.spark.commit_listener import commit_to_group

        return commit_to_group
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
