"""Driver for tests on clusters: export a topic as a batch and as a stream, run each pipeline, and print the results.

Run by its path from any folder: kcli is imported from this checkout, and the environment has no path to it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.spark.pipelines.source import KafkaSource

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def main(where: str, bootstrap: str, topic: str, out: str, loaded: str, doubled: str, resumed: str) -> None:
    from pyarrow.parquet import read_table

    from kcli.spark.deploy.session import close_session, open_session
    from kcli.spark.pipelines.files.export import Export, export_batch, export_stream
    from kcli.spark.pipelines.files.shape import Shape
    from kcli.spark.pipelines.source import KafkaSource
    from tests.spark.clusters import QUICK_JVM

    place = {"remote": where} if where.startswith("sc://") else {"master": where}
    conf = {"spark.executor.memory": "512m", "spark.driver.memory": "512m", "spark.cores.max": "2"}
    conf |= {"spark.driver.extraJavaOptions": QUICK_JVM, "spark.executor.extraJavaOptions": QUICK_JVM}
    spark = open_session(**place, conf={} if "remote" in place else conf, app_name="kcli-tests")  # type: ignore[arg-type]
    source = KafkaSource(kafka={"bootstrap.servers": bootstrap}, topics={topic: None})
    some = source._replace(where="partition = 0 and offset < 200")
    batch = export_batch(spark, some, Export(f"{out}/batch", Shape()))
    shown = Export(f"{out}/stream", Shape(), commit_group=f"{topic}-shown")
    stream = export_stream(spark, some, shown, every_s=None, poll_s=0.2)
    found = look(spark, source, f"{topic}-shown")
    export_and_load(spark, source, f"{out}/whole", loaded)
    if "master" in place:  # a local Connect server does not repeat tasks
        write_with_a_failing_task(spark, bootstrap, doubled, f"{out}/fuse-0")
        write_with_a_failing_task(
            spark, bootstrap, resumed, f"{out}/fuse-1", resumeFrom=json.dumps({resumed: {"0": 0}})
        )
    close_session(spark)
    read_back = [len(set(read_table(f"{out}/{name}")["offset"].to_pylist())) for name in ("batch", "stream")]
    print(json.dumps({"batch": batch.records, "stream": stream.records, "read_back": read_back, "found": found}))


def export_and_load(spark: SparkSession, source: KafkaSource, folder: str, to: str) -> None:
    """Export the topic and load it into another one, as `kcli spark load` does."""
    from kcli.spark.pipelines.files.export import Export, export_batch
    from kcli.spark.pipelines.files.load import (
        Load,
        outcome,
        plan_load,
        read_files,
        survey_files,
        target_bounds,
        write_load,
    )
    from kcli.spark.pipelines.files.shape import Shape

    export_batch(spark, source, Export(folder, Shape()))
    load = Load(folder, source._replace(topics={to: None}))
    frame = read_files(spark, load)
    plan, errors = plan_load(load, survey_files(frame), target_bounds(spark, load.target))
    assert errors == []
    write_load(spark, frame, load, plan)
    assert [error for _, _, error in outcome(load, plan, target_bounds(spark, load.target))] == [None] * len(plan)


def write_with_a_failing_task(spark: SparkSession, bootstrap: str, topic: str, fuse: str, **options: str) -> None:
    """Write 30,000 rows by one task. Its first attempt fails when the sink has a part of them."""

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import time

        for number, batch in enumerate(batches):
            if number == 2 and not os.path.exists(fuse):
                time.sleep(2)  # the sink sends what it has
                open(fuse, "w").close()
                raise RuntimeError("injected")
            yield batch

    rows = spark.range(0, 30_000, 1, 1).selectExpr("rpad(string(id), 50, '.') value", "0 partition")
    frame = rows.mapInArrow(fail_once, "value string, partition int")
    given = {"kafka.bootstrap.servers": bootstrap, "kafka.linger.ms": "0", "topic": topic, **options}
    frame.write.format("kcli").options(**given).mode("append").save()


def look(spark: SparkSession, source: KafkaSource, group: str) -> dict[str, Any]:
    """Return a number from each pipeline."""
    from kcli.spark.pipelines import (
        compare,
        duplicates,
        gaps,
        group_offsets,
        lag_history,
        profile,
        skew,
        sql,
        throughput,
    )
    from kcli.spark.pipelines.sql_text import split_statements

    [counted] = sql.run(spark, split_statements("select count(*) n from topic('it')"), lambda _: source)
    found = {
        "throughput": sum(
            row["records"] for row in throughput.run(spark, source, throughput.ThroughputOptions()).windows.rows
        ),
        "skew": skew.run(spark, source).topics.rows[0]["keys"],
        "profile": profile.run(spark, source, fields=True).topics.rows[0]["records"],
        "gaps": len(gaps.run(spark, source).partitions.rows),
        "duplicates": duplicates.run(spark, source, duplicates.DuplicateOptions()).topics.rows[0]["repeats"],
        "compare": compare.run(spark, source, source).summary.rows[0]["second"],
        "group-offsets": group_offsets.run(spark, source, [group]).rows[0]["committed"],
        "sql": counted.result.rows[0]["n"],
    }
    now_ms = int(time.time() * 1000)
    grid = lag_history.make_grid(now_ms - 2_000, now_ms, 1_000)
    lags = lag_history.run(spark, source, lag_history.LagHistoryOptions(grid, (group,))).lags
    return {**found, "lag-history": lags.rows[-1]["partitions"]}


if __name__ == "__main__":
    main(*sys.argv[1:])
