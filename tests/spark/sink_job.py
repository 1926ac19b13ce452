"""Job for the tests of the sink: copy a topic as a stream. It uses the format "kcli" as users do, in their own session.

`register`: kcli comes with `--py-files`; otherwise Spark must find the format by itself.
"""

from __future__ import annotations

import json
import sys


def main(how: str, bootstrap: str, source: str, target: str, checkpoint: str) -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()
    )
    if how == "register":
        from kcli.spark import register

        register(spark)
    options = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest"}
    records = spark.readStream.format("kcli").options(**options, maxOffsetsPerTrigger=200).load(source)
    written = records.select("key", "value", "timestamp").writeStream.format("kcli").option("topic", target)
    written = written.option("kafka.bootstrap.servers", bootstrap).option("checkpointLocation", checkpoint)
    query = written.trigger(availableNow=True).start()
    query.awaitTermination()
    if how == "register":
        count = spark.read.format("kcli").options(**options).load(target).count()
        import kcli
        from kcli.spark import source_metrics

        behind = [source_metrics(progress)[0].get("sumOffsetsBehindLatest") for progress in query.recentProgress]
        print(json.dumps({"records": count, "kcli": kcli.__file__, "behind": behind}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
