"""The sink in jobs of users: found by Spark itself, and from the archive for `--py-files`; and with a killed driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kcli.spark.stream_checkpoint import newest_batch
from tests.cli.fake import run_kcli
from tests.real_kafka import OwnBroker
from tests.spark.clusters import QUICK_JVM, spark_home
from tests.spark.reading import rows_of_topic

pytestmark = [pytest.mark.spark_cluster, pytest.mark.usefixtures("java")]
JOB = Path(__file__).with_name("sink_job.py")
ROOT = JOB.parents[2]
RECORDS = 2400


def log_end(consumer: Consumer, topic: str) -> int:
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    return int(end)


def batch_end(checkpoint: Path, batch: int) -> int:
    """Return the end offset of a batch of the stream, from its checkpoint."""
    (offsets,) = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[2]).values()
    return int(offsets["0"])


def test_a_killed_driver_loses_nothing_and_doubles_only_the_batch_that_was_not_committed(
    our_kafka: OwnBroker, tmp_path: Path
) -> None:
    source, target = our_kafka.new_topic(), our_kafka.new_topic()
    producer = our_kafka.ordered_producer()
    for number in range(RECORDS):
        producer.produce(source, b"%d" % number, key=b"k")
    assert producer.flush(120) == 0
    checkpoint, archive = tmp_path / "checkpoint", tmp_path / "kcli-spark.zip"
    words = [our_kafka.bootstrap_servers, source, target, str(checkpoint)]

    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home()),
    }
    environment["PYSPARK_SUBMIT_ARGS"] = f"--master local[2] --driver-java-options '{QUICK_JVM}' pyspark-shell"
    settings = {"bootstrap.servers": our_kafka.bootstrap_servers, "group.id": "nobody"}
    with (tmp_path / "found.log").open("wb") as log, closing(Consumer(settings)) as consumer:
        found = subprocess.Popen(
            [sys.executable, str(JOB), "found", *words],
            stdout=log,
            stderr=log,
            env=environment,
            cwd=tmp_path,
            start_new_session=True,
        )
        until = time.monotonic() + 300
        while log_end(consumer, target) < 400 and found.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        assert found.poll() is None, (tmp_path / "found.log").read_text()[-3000:]
        os.killpg(found.pid, signal.SIGKILL)
        found.wait()
    committed, planned = newest_batch(checkpoint / "commits"), newest_batch(checkpoint / "offsets")
    assert planned in (committed, committed + 1)
    first, last = batch_end(checkpoint, committed), batch_end(checkpoint, planned)

    assert run_kcli("spark", "archive", str(archive)).status == 0
    submit = [str(spark_home() / "bin" / "spark-submit"), "--master", "local[2]", "--py-files", str(archive)]
    submit += ["--driver-java-options", QUICK_JVM, str(JOB), "register", *words]
    environment.pop("PYTHONPATH")
    environment.pop("PYSPARK_SUBMIT_ARGS")
    done = subprocess.run(submit, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    counts = Counter(int(row[3] or b"") for row in rows_of_topic(our_kafka, target))
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["records"] == counts.total()
    assert Path(result["kcli"]).parts[-3:] == ("kcli-spark.zip", "kcli", "__init__.py")
    assert result["behind"][-1] == 0
    assert max(behind or 0 for behind in result["behind"]) > 0  # None: the repeated batch has no log ends
    assert set(counts) == set(range(RECORDS))
    assert {number for number, count in counts.items() if count > 1} <= set(range(first, last))
    assert max(counts.values()) <= 2
