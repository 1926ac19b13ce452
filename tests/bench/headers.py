"""The cost of reading batch headers beside reading records: `python -m tests.bench.headers [--records N] [--rounds N]`.

A partition of Apache's broker, with 16-byte keys and 100-byte values in batches of 16 KB as producers make them by
default, uncompressed and lz4. In turn: records counted by `PartitionReader`, batches by `BatchHeaderReader`, and the
bytes alone (Fetch requests on a bare socket), which is the minimum for any reader of whole batches. It prints medians
of CPU and of wall time after a warm-up round.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from kcli.client.config import ConsumerConfig
from kcli.protocol.headers import encode_request
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.batch import HEADER, walk_batches
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.structs import TopicPartition
from tests.broker.wire import Wire
from tests.consumer.header_reader import BatchHeaderReader
from tests.consumer.partition_reader import PartitionReader
from tests.real_kafka import KafkaNode, fetch_jars

PER_BATCH = 125
FETCH_BYTES = 4 << 20
FETCH_VERSION = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        node = KafkaNode(Path(name) / "kafka", fetch_jars())
        node.start()
        try:
            for codec in ("none", "lz4"):
                measure(node, codec, options.records // PER_BATCH, options.rounds)
        finally:
            node.kill()


def measure(node: KafkaNode, codec: str, batches: int, rounds: int) -> None:
    tp = TopicPartition(node.new_topic(), 0)
    size = fill(node, tp, codec, batches)
    config = ConsumerConfig.from_properties({"bootstrap.servers": node.bootstrap_servers})
    end = batches * PER_BATCH
    ways: dict[str, Callable[[], int]] = {
        "records": lambda: count_records(config, tp, end),
        "headers": lambda: count_in_headers(config, tp, end),
        "bytes alone": lambda: receive(node.bootstrap_servers, tp, end),
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            wall, cpu = time.perf_counter(), time.process_time()
            assert way() == end
            if number:
                taken[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    print(f"{codec}: {batches} batches of {PER_BATCH} records, {size * batches / 1e6:.0f} MB")
    base = [median(it[n] for it in taken["records"]) for n in (0, 1)]
    for name, runs in taken.items():
        cpu, wall = (median(it[n] for it in runs) for n in (0, 1))
        print(
            f"  {name:<12} CPU {cpu:6.3f} s, {end / cpu / 1e6:6.2f} M records/s, {batches / cpu / 1e6:.3f} M batches/s,"
            f" {base[0] / cpu:4.1f}x;  wall {wall:6.3f} s, {end / wall / 1e6:6.2f} M records/s, {base[1] / wall:4.1f}x"
        )


def fill(node: KafkaNode, tp: TopicPartition, codec: str, batches: int) -> int:
    """Write the same batch repeatedly; return its size."""
    random.seed(1)
    now_ms = int(time.time() * 1000)  # old records a broker might take away
    words = [os.urandom(10) for _ in range(64)]
    rows = [
        NewRecord(b"key-%012d" % (7919 * number), b"".join(random.choices(words, k=10)), now_ms + number)
        for number in range(PER_BATCH)
    ]
    data = build_batch(rows, compression=codec)
    topic = TopicProduceData(name=tp.topic, partition_data=[PartitionProduceData(records=data)])
    wire = Wire(node.bootstrap_servers)
    for _ in range(batches):
        answer = wire.ask(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic]), 9)
        assert not answer.responses[0].partition_responses[0].error_code
    return len(data)


def count_records(config: ConsumerConfig, tp: TopicPartition, end: int) -> int:
    with PartitionReader(config, tp, 0, end) as reader:
        return sum(map(len, reader))


def count_in_headers(config: ConsumerConfig, tp: TopicPartition, end: int) -> int:
    with BatchHeaderReader(config, tp, 0, end) as reader:
        return sum(int(batches.counts.sum()) for batches in reader)


def receive(bootstrap: str, tp: TopicPartition, end: int) -> int:
    """Receive one answer; only its last batch header is read, for the next fetch offset."""
    host, port = bootstrap.rsplit(":", 1)
    # Length, correlation, throttle, topics, name, partitions, index, error, two offsets, aborted, size of the records.
    head = 4 + 4 + 4 + 4 + 2 + len(tp.topic) + 4 + 4 + 2 + 8 + 8 + 4 + 4
    buffer = bytearray(head + 2 * FETCH_BYTES)
    view, offset = memoryview(buffer), 0
    with socket.create_connection((host, int(port))) as connection:
        while offset < end:
            asked = FetchPartition(partition=tp.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            request = FetchRequest(
                min_bytes=1, max_bytes=50 << 20, topics=[FetchTopic(topic=tp.topic, partitions=[asked])]
            )
            frame = encode_request(request, FETCH_VERSION, 0, "bench")
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            connection.recv_into(view, head, socket.MSG_WAITALL)
            [size] = struct.unpack_from(">i", buffer, head - 4)
            connection.recv_into(view, size, socket.MSG_WAITALL)
            header = HEADER.unpack_from(buffer, walk_batches(buffer, 0, size).starts[-1])
            offset = header[0] + header[6] + 1
    return offset


if __name__ == "__main__":
    main()
