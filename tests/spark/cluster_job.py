"""A driver for tests of clusters: export a topic once as a batch and once as a stream, and print what was written.

Run by its path, from anywhere: kcli comes from this checkout, and the environment does not tell anybody where that is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def main(where: str, bootstrap: str, topic: str, out: str) -> None:
    from pyarrow.parquet import read_table

    from kcli.spark.pipelines.export import Export, export_batch, export_stream
    from kcli.spark.pipelines.shape import Shape
    from kcli.spark.pipelines.source import KafkaSource
    from kcli.spark.session import close_session, open_session

    place = {"remote": where} if where.startswith("sc://") else {"master": where}
    conf = {"spark.executor.memory": "512m", "spark.driver.memory": "512m", "spark.cores.max": "2"}
    conf |= {"spark.driver.extraJavaOptions": QUICK_JVM, "spark.executor.extraJavaOptions": QUICK_JVM}
    spark = open_session(**place, conf={} if "remote" in place else conf, app_name="kcli-tests")  # type: ignore[arg-type]
    source = KafkaSource(kafka={"bootstrap.servers": bootstrap}, topics={topic: None})
    batch = export_batch(spark, source, Export(f"{out}/batch", Shape()))
    shown = Export(f"{out}/stream", Shape(), commit_group=f"{topic}-shown")
    stream = export_stream(spark, source, shown, every_s=None, look_s=0.2)
    close_session(spark)
    read_back = [len(set(read_table(f"{out}/{name}")["offset"].to_pylist())) for name in ("batch", "stream")]
    print(json.dumps({"batch": batch.records, "stream": stream.records, "read_back": read_back}))


if __name__ == "__main__":
    main(*sys.argv[1:])
