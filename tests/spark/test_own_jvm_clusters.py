"""The source unchanged on clusters whose machines have nothing of kcli: standalone (T4: pyFiles alone would fail the
stream's planner), and Spark Connect with a source that carries kcli itself. What kcli requires is not there either:
pyarrow and numpy unpack and check what Python alone cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kcli.client.config import ConsumerConfig
from kcli.protocol.records.compression import CODEC_NAMES
from kcli.structs import TopicPartition
from tests.consumer.header_reader import BatchHeaderReader
from tests.real_kafka import OwnBroker
from tests.spark.clusters import bare_environment, connect_server, standalone
from tests.spark.groups import committed

pytestmark = pytest.mark.spark_cluster
JOB = Path(__file__).with_name("cluster_job.py")


def codecs(kafka: OwnBroker, topic: str) -> set[str]:
    """Those that the batches of partition 0 really have: a batch that would not get smaller is sent as it is."""
    config = ConsumerConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers})
    with BatchHeaderReader(config, TopicPartition(topic, 0), 0, 300) as reader:
        return {CODEC_NAMES[codec] for batches in reader for codec in batches.codecs.tolist()}


@pytest.mark.parametrize("cluster", [standalone, connect_server])
def test_batch_and_stream_run_where_nothing_of_kcli_is(
    cluster: Callable[[Path], AbstractContextManager[str]], our_kafka: OwnBroker, tmp_path: Path
) -> None:
    topic = our_kafka.new_topic(partitions=2)
    for first, codec in enumerate(CODEC_NAMES):
        producer = our_kafka.ordered_producer(compression_type=codec, linger_ms=50)
        for number in range(60 * first, 60 * first + 60):
            producer.produce(topic, key=b"k%d" % (number % 100), value=b"v" * 10, partition=0)
        producer.flush()
    assert codecs(our_kafka, topic) == set(CODEC_NAMES)
    with cluster(tmp_path) as where:
        command = [sys.executable, str(JOB), where, our_kafka.bootstrap_servers, topic, str(tmp_path / "out")]
        environment = {**bare_environment(tmp_path), "PYTHONPATH": "", "HOME": os.environ.get("HOME", "/")}
        environment.pop("SPARK_HOME")
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    found = told.pop("found")
    assert told == {"batch": 200, "stream": 200, "read_back": [200, 200]}
    assert found == {
        **dict.fromkeys(("throughput", "profile", "compare", "sql", "group-offsets"), 300),
        "skew": 100,
        "gaps": 2,
        "duplicates": 200,
        "lag-history": 2,
    }
    assert {number: at for number, (at, _) in committed(our_kafka, f"{topic}-shown").items()} == {0: 300, 1: 0}
