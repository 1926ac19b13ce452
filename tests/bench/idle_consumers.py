"""The CPU that a broker spends on consumers that have nothing to read.

    python -m tests.bench.idle_consumers [--consumers 500] [--wait-ms 500] [--seconds 10] [--runs 3] [--apache]
                                         [--profile FILE]

Each consumer is a connection that keeps one Fetch waiting at the end of an empty partition, and sends the next one
after each answer. Two kinds of requests are measured: "session" as the Java client and kcli send them (an incremental
Fetch that names no partition, KIP-227), and "whole" as librdkafka sends them (no session, the partition in each Fetch).

- kcli broker: the broker of this checkout, as a process.
- floor: a Python server that only receives each frame and returns fixed bytes at the deadline. It shows how much of the
  cost is in Python's own sockets.
- Apache Kafka (`--apache`): a real Kafka 4.3.1, after a warm-up.

`--profile FILE` runs kcli's broker under cProfile, which slows it down by about two, and prints where the time goes.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import os
import pstats
import resource
import selectors
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from tabulate import tabulate

from kcli.protocol.headers import decode_response, encode_request
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kcli.protocol.wire import Message
from tests.real_kafka import KafkaNode, fetch_jars, free_ports

ROOT = Path(__file__).parent.parent.parent
REAL_JVM = ("-Xms512m", "-Xmx1g")
KINDS = ("session", "whole")
OURS, FLOOR, REAL = "kcli broker", "floor", "Apache Kafka"
TOPIC = "quiet"
SESSION_VERSION, WHOLE_VERSION, METADATA_VERSION = 17, 11, 12
TARGET_PERCENT = 5.0
_MARK = 0x01020304  # a session epoch whose bytes occur once in a request
_WARM_UP_S = 3.0
_JAVA_WARM_UP_S = 30.0


class Cost(NamedTuple):
    """Answers per second and CPU of the broker for one kind of request."""

    answers_per_s: float
    percent: float

    @property
    def us_per_answer(self) -> float:
        return self.percent * 1e4 / self.answers_per_s


class IdleConsumers:
    """All connections of the load in one loop."""

    def __init__(self, port: int, kind: str, count: int, wait_ms: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._sockets: list[socket.socket] = []
        topic_id = _topic_id(port) if kind == "session" else None
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", port))
            self._sockets.append(sock)
            requests = _session_requests(sock, topic_id, wait_ms) if topic_id else _whole_requests(wait_ms)
            self._selector.register(sock, selectors.EVENT_READ, requests)
            sock.sendall(next(requests))
            time.sleep(wait_ms / 1000 / count)  # spread, as consumers' polls are

    def run(self, seconds: float) -> int:
        """Serve the connections for this time; return the number of answers."""
        answered, end = 0, time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                assert sock.recv(65536), "the broker closed a connection"
                sock.sendall(next(key.data))
                answered += 1
        return answered

    def close(self) -> None:
        self._selector.close()
        for sock in self._sockets:
            sock.close()


def _session_requests(sock: socket.socket, topic_id: UUID, wait_ms: int) -> Iterator[bytes]:
    """Open a fetch session, and yield its incremental requests."""
    partitions = [FetchPartition(partition=0, partition_max_bytes=1 << 20)]
    opening = FetchRequest(min_bytes=1, session_epoch=0, topics=[FetchTopic(topic_id=topic_id, partitions=partitions)])
    session_id = _ask(sock, opening, SESSION_VERSION, FetchResponse).session_id
    assert session_id, "the broker opened no session"
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, session_id=session_id, session_epoch=_MARK)
    frame = _framed(request, SESSION_VERSION)
    epoch_at = frame.index(struct.pack(">i", _MARK))
    return _numbered(frame, epoch_at)


def _whole_requests(wait_ms: int) -> Iterator[bytes]:
    partitions = [FetchPartition(partition=0, partition_max_bytes=1 << 20)]
    topics = [FetchTopic(topic=TOPIC, partitions=partitions)]
    return _numbered(_framed(FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=topics), WHOLE_VERSION), None)


def _numbered(frame: bytes, epoch_at: int | None) -> Iterator[bytes]:
    """Yield the frame with the next correlation id and session epoch each time."""
    request, number = bytearray(frame), 0
    while True:
        number += 1
        struct.pack_into(">i", request, 8, number)
        if epoch_at is not None:
            struct.pack_into(">i", request, epoch_at, number)
        yield bytes(request)


def _topic_id(port: int) -> UUID:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        return _ask(sock, request, METADATA_VERSION, MetadataResponse).topics[0].topic_id


def _ask(sock: socket.socket, request: Message, version: int, response: type) -> object:
    sock.sendall(_framed(request, version))
    stream = sock.makefile("rb")
    (size,) = struct.unpack(">i", stream.read(4))
    return decode_response(response, version, stream.read(size))[1]


def _framed(request: Message, version: int) -> bytes:
    frame = encode_request(request, version, 0, "idle")
    return struct.pack(">i", len(frame)) + frame


# ---- the brokers ----


@contextlib.contextmanager
def our_broker(scratch: Path, profile: Path | None = None) -> Iterator[tuple[int, int]]:
    """Run kcli's broker as a process; yield its port and pid."""
    command = [sys.executable, *(("-m", "cProfile", "-o", str(profile)) if profile else ()), "-m", "kcli"]
    command += ["broker", "run", "--ephemeral", "--port", "0", "--topic", TOPIC]
    environment = {**os.environ, "KCLI_DEBUG": "1"}  # a normal end of Python, which writes the profile
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().rpartition(":")[2]), process.pid
        finally:
            process.terminate()


@contextlib.contextmanager
def floor_server(scratch: Path, profile: Path | None = None) -> Iterator[tuple[int, int]]:
    """Run the minimal Python server as a process; yield its port and pid."""
    port = free_ports(1)[0]
    command = [sys.executable, "-m", "tests.bench.idle_consumers", "--serve-floor", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield port, process.pid
        finally:
            process.kill()


@contextlib.contextmanager
def apache_kafka(scratch: Path, profile: Path | None = None) -> Iterator[tuple[int, int]]:
    node = KafkaNode(scratch / "real", fetch_jars(), jvm=REAL_JVM)
    node.start()
    try:
        node.create_topic(TOPIC)
        assert node.pid is not None
        yield node.port, node.pid
    finally:
        node.kill()


def serve_floor(port: int, wait_ms: int = 500, grain_ms: int = 5) -> None:
    """Answer each frame with fixed bytes after `wait_ms`; deadlines are rounded up as in kcli's broker."""
    selector, listener, due = selectors.DefaultSelector(), socket.create_server(("127.0.0.1", port), backlog=1024), []
    selector.register(listener, selectors.EVENT_READ)
    print("ready", flush=True)
    count, frame = 0, bytearray(4096)
    while True:
        timeout = due[0][0] - time.monotonic() if due else None
        for key, _ in selector.select(timeout):
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            if sock is listener:
                sock = listener.accept()[0]
                selector.register(sock, selectors.EVENT_READ)
            elif not sock.recv_into(frame):
                selector.unregister(sock)
                sock.close()
            else:
                count += 1
                deadline = -(-(time.monotonic() * 1000 + wait_ms) // grain_ms) * grain_ms / 1000
                heapq.heappush(due, (deadline, count, sock, frame[8:12]))
        while due and due[0][0] <= time.monotonic():
            _, _, sock, correlation_id = heapq.heappop(due)
            with contextlib.suppress(OSError):
                sock.send(b"\0\0\0\x11" + correlation_id + b"\0\0\0\0\0\0\0\0\0\0\0\x01\0")


# ---- the measurement ----


def cost(port: int, pid: int, kind: str, options: argparse.Namespace, warm_up_s: float) -> Cost:
    """Return the median cost of several runs."""
    consumers = IdleConsumers(port, kind, options.consumers, options.wait_ms)
    try:
        consumers.run(warm_up_s)
        costs = [_one_run(consumers, pid, options.seconds) for _ in range(options.runs)]
    finally:
        consumers.close()
    return Cost(statistics.median(one[0] for one in costs), statistics.median(one[1] for one in costs))


def _one_run(consumers: IdleConsumers, pid: int, seconds: float) -> Cost:
    before, began = _cpu_seconds(pid), time.perf_counter()
    answered = consumers.run(seconds)
    took = time.perf_counter() - began
    return Cost(answered / took, (_cpu_seconds(pid) - before) / took * 100)


def _cpu_seconds(pid: int) -> float:
    """Return user and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def print_profile(options: argparse.Namespace, scratch: Path, file: Path) -> None:
    with our_broker(scratch, file) as (port, _):
        for kind in KINDS:
            consumers = IdleConsumers(port, kind, options.consumers, options.wait_ms)
            consumers.run(options.seconds)
            consumers.close()
    pstats.Stats(str(file)).strip_dirs().sort_stats("tottime").print_stats(40)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.idle_consumers", description=__doc__.splitlines()[0])
    parser.add_argument("--consumers", type=int, default=500)
    parser.add_argument("--wait-ms", type=int, default=500, help="fetch.max.wait.ms of each consumer")
    parser.add_argument("--seconds", type=float, default=10, help="of each run")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--apache", action="store_true", help="measure a real Kafka, too")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="only profile kcli's broker, into FILE")
    parser.add_argument("--serve-floor", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve_floor:
        serve_floor(options.serve_floor)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # end the brokers and remove files
    files = 2 * options.consumers + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, max(files, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    scratch = Path(tempfile.mkdtemp(prefix="kcli-bench-"))
    try:
        if options.profile:
            print_profile(options, scratch, options.profile)
            return 0
        return print_costs(options, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def print_costs(options: argparse.Namespace, scratch: Path) -> int:
    servers: dict[str, Callable[[Path], contextlib.AbstractContextManager[tuple[int, int]]]]
    servers = {OURS: our_broker, FLOOR: floor_server}
    if options.apache:
        servers[REAL] = apache_kafka
    rows, ours = [], []
    for name, serve in servers.items():
        with serve(scratch) as (port, pid):
            for kind in ("whole",) if name == FLOOR else KINDS:
                got = cost(port, pid, kind, options, _JAVA_WARM_UP_S if name == REAL else _WARM_UP_S)
                rows.append((name, kind, f"{got.answers_per_s:.0f}", f"{got.us_per_answer:.0f}", f"{got.percent:.1f}"))
                if name == OURS:
                    ours.append(got.percent)
    headers = ("broker", "requests", "answers per s", "CPU us per answer", "% of one core")
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True), end="\n\n")
    reached = max(ours) < TARGET_PERCENT
    print(f"- {'reached' if reached else 'MISSED '}: kcli's broker under {TARGET_PERCENT:g}% of one core")
    return 0 if reached else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
