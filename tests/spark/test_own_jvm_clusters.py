"""The source carries kcli to clusters without it: a standalone one, and Spark Connect. The requirements of kcli are
missing too: pyarrow and numpy replace its native decompression and checksums.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
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
from tests.spark.reading import rows_of_topic

pytestmark = [pytest.mark.spark_cluster, pytest.mark.usefixtures("java")]
JOB = Path(__file__).with_name("cluster_job.py")
HEADERS = [("a", b"1"), ("a", None)]


def codecs(kafka: OwnBroker, topic: str) -> set[str]:
    """Return the codecs of the batches of partition 0: a batch that compression would not shrink is sent
    uncompressed.
    """
    config = ConsumerConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers})
    with BatchHeaderReader(config, TopicPartition(topic, 0), 0, 300) as reader:
        return {CODEC_NAMES[codec] for batches in reader for codec in batches.codecs.tolist()}


@pytest.mark.parametrize("cluster", [standalone, connect_server])
def test_batch_and_stream_run_on_clusters_without_kcli(
    cluster: Callable[[Path], AbstractContextManager[str]], our_kafka: OwnBroker, tmp_path: Path
) -> None:
    topic, loaded = our_kafka.new_topic(partitions=2), our_kafka.new_topic(partitions=2)
    doubled, resumed = our_kafka.new_topic(), our_kafka.new_topic()
    for first, codec in enumerate(CODEC_NAMES):
        producer = our_kafka.ordered_producer(compression_type=codec, linger_ms=50)
        for number in range(60 * first, 60 * first + 60):
            producer.produce(topic, key=b"k%d" % (number % 100), value=b"v" * 10, headers=HEADERS, partition=0)
        assert producer.flush(120) == 0
    assert codecs(our_kafka, topic) == set(CODEC_NAMES)
    with cluster(tmp_path) as where:
        command = [sys.executable, str(JOB), where, our_kafka.bootstrap_servers, topic, str(tmp_path / "out")]
        command += [loaded, doubled, resumed]
        environment = {**bare_environment(tmp_path), "PYTHONPATH": "", "HOME": os.environ.get("HOME", "/")}
        environment.pop("SPARK_HOME")
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout.splitlines()[-1])
    found = result.pop("found")
    assert result == {"batch": 200, "stream": 200, "read_back": [200, 200]}
    assert found == {
        **dict.fromkeys(("throughput", "profile", "compare", "sql", "group-offsets"), 300),
        "skew": 100,
        "gaps": 2,
        "duplicates": 200,
        "lag-history": 2,
    }
    assert {number: at for number, (at, _) in committed(our_kafka, f"{topic}-shown").items()} == {0: 300, 1: 0}
    assert rows_of_topic(our_kafka, loaded) == rows_of_topic(our_kafka, topic)
    if cluster is standalone:
        check_failed_task(our_kafka, doubled, resumed)


def check_failed_task(kafka: OwnBroker, doubled: str, resumed: str) -> None:
    """A repeated task stores again what its first attempt has stored, and only that; with `resumeFrom` nothing."""
    counts = Counter(int((row[3] or b"").rstrip(b".")) for row in rows_of_topic(kafka, doubled))
    assert set(counts) == set(range(30_000))
    assert {number for number, count in counts.items() if count > 1} == set(range(counts.total() - 30_000))
    assert 10_000 <= counts.total() - 30_000 <= 20_000
    assert [int((row[3] or b"").rstrip(b".")) for row in rows_of_topic(kafka, resumed)] == list(range(30_000))
