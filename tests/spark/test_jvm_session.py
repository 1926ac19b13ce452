"""The session of pipelines: quiet, with the same interpreter, stopped together with its JVM."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_workers_run_the_interpreter_of_kcli(spark: SparkSession) -> None:
    def interpreter(_: int) -> str:
        return sys.executable

    found = spark.sparkContext.parallelize([0], 1).map(interpreter).collect()
    assert found == [sys.executable]


def test_times_are_shown_in_utc(spark: SparkSession) -> None:
    assert spark.sql("select string(timestamp_millis(0))").first()[0] == "1970-01-01 00:00:00"
