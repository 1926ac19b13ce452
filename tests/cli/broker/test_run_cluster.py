"""`kcli broker run --nodes` and `--node` as processes: what they print, what survives kill -9, and how they stop."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.testing.cluster_directory import ClusterDirectory, node_name, node_properties
from kcli.cli.broker.run_cluster import first_port
from tests.cli.fake import run_kcli
from tests.limits import killed_after, read_line

pytestmark = pytest.mark.slow

KCLI = [sys.executable, "-m", "kcli", "broker", "run"]
FAST = ("-c", "broker.session.timeout.ms=2000", "-c", "broker.heartbeat.interval.ms=200")


class Run:
    """A running command: its line on standard output, and its lines on standard error so far."""

    def __init__(self, *options: str, **popen: Any) -> None:
        self.process = subprocess.Popen(
            [*KCLI, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **popen
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.addresses = read_line(self.process, "the addresses of the brokers").rstrip("\n")

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))

    def pid(self, node: int) -> int:
        return int(self.line_with(rf"^kcli: node {node} \(process (\d+)\)"))

    def line_with(self, pattern: str) -> str:
        """Wait for a line, and return its first group."""
        found: list[str] = []

        def is_there() -> bool:
            found.extend(
                match[match.lastindex or 0] for line in list(self.lines) if (match := re.search(pattern, line))
            )
            return bool(found)

        wait_until(is_there, pattern)
        return found[0]

    def end(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        status = self.process.wait(40)
        self._reader.join(10)
        return status


def wait_until(is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@pytest.fixture
def start() -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start_one(*options: str, **popen: Any) -> Run:
        runs.append(Run(*options, **popen))
        return runs[-1]

    yield start_one
    for one in runs:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def refused(*options: str) -> tuple[int, str]:
    done = subprocess.run([*KCLI, *options], capture_output=True, text=True, timeout=60)
    assert done.stdout == ""
    return done.returncode, done.stderr


def kcli(addresses: str, *argv: str, stdin: bytes = b"") -> str:
    result = run_kcli(*argv, "-b", addresses, stdin=stdin)
    assert result.status == 0, result.err
    return result.text


def unhealthy(addresses: str) -> int:
    return len(kcli(addresses, "topic", "describe", "--unhealthy").splitlines()) - 1


def test_processes_that_are_killed_are_reported_and_started_again(start: Callable[..., Run], tmp_path: Path) -> None:
    directory = str(tmp_path / "with space")
    cluster = start("--nodes", "3", "--port", "0", "--data-dir", directory, "-t", "orders:3", *FAST)
    addresses = cluster.addresses
    assert re.fullmatch(r"127\.0\.0\.1:\d+(,127\.0\.0\.1:\d+){2}", addresses)
    kcli(addresses, "produce", "orders", stdin=b"one\ntwo\nthree\n")
    assert unhealthy(addresses) == 0

    os.kill(cluster.pid(2), signal.SIGKILL)
    command = f"kcli broker run --node 2 --data-dir '{directory}'"
    cluster.line_with(f"^kcli: node 2 was killed by SIGKILL; start it again: {re.escape(command)}$")
    wait_until(lambda: unhealthy(addresses) == 3, "no partition has lost a replica")
    kcli(addresses, "produce", "orders", stdin=b"four\n")
    second = start("--node", "2", "--data-dir", directory)
    assert second.addresses == addresses.split(",")[1]
    again = refused("--node", "2", "--data-dir", directory)
    assert again == (1, f"kcli: node 2 is running already: {second.addresses}\n")
    wait_until(lambda: unhealthy(addresses) == 0, "node 2 is not in sync")

    # The same command starts only what is missing: here the controller.
    os.kill(int(cluster.line_with(r"^kcli: controller \(process (\d+)\)")), signal.SIGKILL)
    cluster.line_with(r"^kcli: controller was killed by SIGKILL: until it is back, no leader is elected .* --nodes 3 ")
    third = start("--nodes", "3", "--data-dir", directory)
    assert third.addresses == addresses
    assert third.line_with("node 2 is running already: (.*)") == second.addresses
    status, error = refused("--nodes", "3", "--data-dir", directory)
    assert (status, error.splitlines()[-1]) == (1, f"kcli: the cluster in {directory} is running already")

    assert second.end() == 0
    assert cluster.end() == 0
    assert third.end() == 0
    assert all((Path(directory) / f"node-{number}" / ".kafka_cleanshutdown").exists() for number in (1, 2, 3))

    again = start("--nodes", "3", "--data-dir", directory)
    assert again.addresses == addresses
    records = kcli(addresses, "consume", "orders", "-o", "start", "-e", "-f", "%s\\n").splitlines()
    assert sorted(records) == ["four", "one", "three", "two"]
    assert again.end(signal.SIGTERM) == 0


def children(pid: int) -> list[str]:
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, timeout=120)
    return done.stdout.split()


def test_three_nodes_are_small_and_end_with_the_process_that_started_them(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    cluster = start("--nodes", "3", "--port", "0", "--ephemeral", env={**os.environ, "TMPDIR": str(tmp_path)})
    pids = [*children(cluster.process.pid), str(cluster.process.pid)]
    assert len(pids) == 5
    rollups = [Path(f"/proc/{pid}/smaps_rollup") for pid in pids]
    if all(path.exists() for path in rollups):
        sizes = [int(re.findall(r"^Pss: +(\d+) kB", path.read_text(), re.MULTILINE)[0]) for path in rollups]
        assert sum(sizes) < 100 * 1024
    assert cluster.end(signal.SIGTERM) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_node_that_cannot_start_stops_the_others(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, error = refused("--nodes", "2", "--port", str(port), "--data-dir", str(tmp_path))
    assert status == 1
    assert f"kcli: node 1: cannot listen on 127.0.0.1:{port}: Address already in use\n" in error
    assert error.splitlines()[-1] == "kcli: node 1 did not start: it ended with status 1"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--nodes", "0"], "--nodes: 0 is out of range; use 1 to 50"),
        (["--nodes", "3", "--node", "2"], "--node and --nodes cannot be combined"),
        (["--node", "2", "--port", "1"], "--node and --port cannot be combined"),
        (["--node", "2"], "--node 2: there is no node 2 in DIR; it has no cluster"),
        (["--nodes", "3", "-c", "node.id=4"], "node.id cannot be combined with --nodes"),
        (["--nodes", "3", "-c", "listeners=PLAINTEXT://:1"], "listeners cannot be combined with --nodes"),
        (["--nodes", "3", "-c", "ssl.key.password=geheim"], "ssl.key.password cannot be combined with --nodes"),
        (["--nodes", "3", "--port", "65534"], "--port: 3 nodes need the ports 65534 to 65536"),
        (["--nodes", "3", "-c", "num.partitions=many"], "num.partitions"),
        (["--nodes", "3", "-t", "a:3", "-t", "a:4"], "--topic a is given more than once; give it once"),
        (["--nodes", "3", "-c", "num.partition=1"], "did you mean num.partitions?"),
    ],
)
def test_wrong_usage_starts_nothing(options: list[str], sentence: str, tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    status, error = refused(*options, "--data-dir", str(directory))
    assert status == 2, error
    assert sentence.replace("DIR", str(directory)) in error
    assert "geheim" not in error
    assert not directory.exists()


def test_directories_of_other_clusters_are_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    status, error = refused("--nodes", "3", "--data-dir", str(tmp_path))
    assert (status, error) == (2, f"kcli: {tmp_path} has the data of a single broker; choose another directory\n")
    (tmp_path / "meta.properties").unlink()
    (tmp_path / "node-3.properties").write_text("node.id=3\n")
    status, error = refused("--nodes", "2", "--data-dir", str(tmp_path))
    assert (status, error) == (2, f"kcli: --nodes 2: the cluster in {tmp_path} has 3 nodes; use --nodes 3\n")


def test_a_single_broker_does_not_start_in_the_directory_of_a_cluster(tmp_path: Path) -> None:
    """It would write its identity there, and then the cluster would not start any more."""
    (tmp_path / "node-3.properties").write_text("node.id=3\n")
    status, error = refused("--data-dir", str(tmp_path))
    sentence = f"{tmp_path} has a cluster of kcli; start it with --nodes 3, or choose another directory"
    assert (status, error) == (2, f"kcli: {sentence}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["node-3.properties"]


def test_a_new_node_has_the_port_after_the_others(tmp_path: Path) -> None:
    directory = ClusterDirectory(str(tmp_path))
    assert first_port(directory) == 9092
    for number, port in ((1, 30_001), (2, 30_007), (3, 30_002), (4, 0)):
        name = node_name(number)
        directory.write(name, node_properties(number, str(tmp_path), ("127.0.0.1", port), "127.0.0.1:1", {}))
    assert first_port(directory) == 30_006


def test_a_node_without_its_controller_says_how_to_start_it(tmp_path: Path) -> None:
    directory = ClusterDirectory(str(tmp_path))
    for number in (1, 2):
        name = node_name(number)
        directory.write(name, node_properties(number, str(tmp_path), ("127.0.0.1", 0), "127.0.0.1:1", {}))
    command = [*KCLI, "--node", "2", "--data-dir", str(tmp_path)]
    alone = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert alone.stderr is not None
    with killed_after(alone, "the message of the node"):
        line = alone.stderr.readline()
    alone.terminate()
    alone.communicate(timeout=30)
    assert line == (
        "kcli: the controller of this cluster is not running, and node 2 waits for it; start it: "
        f"kcli broker run --nodes 2 --data-dir {tmp_path}\n"
    )


@pytest.mark.parametrize("option", ["--nodes", "--node"])
def test_a_damaged_file_of_a_node_is_named(option: str, tmp_path: Path) -> None:
    for name in ("controller", "node-1"):
        (tmp_path / f"{name}.properties").write_text("node.id=1\n")
    status, error = refused(option, "1", "--data-dir", str(tmp_path))
    assert status == 2
    assert re.fullmatch(rf"kcli: {tmp_path}/\S+: process\.roles is missing; restore the file, or remove it\n", error)


def test_an_error_in_the_file_of_a_node_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "node-1.properties"
    settings = node_properties(1, "node-1", ("127.0.0.1", 9), "127.0.0.1:9", {"num.partitions": "many"})
    ClusterDirectory(str(tmp_path)).write("node-1", settings)
    status, error = refused("--node", "1", "--data-dir", str(tmp_path))
    assert status == 2
    assert error.splitlines()[-1].startswith(f"kcli: {file}: num.partitions: the value is not valid")


def test_a_signal_during_the_start_stops_what_has_been_started(start: Callable[..., Run], tmp_path: Path) -> None:
    """The directory of the controller appears when its process has been forked."""
    command = [*KCLI, "--nodes", "3", "--port", "0", "--data-dir", str(tmp_path / "cluster")]
    early = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until((tmp_path / "cluster" / "controller").exists, "the controller has no directory")
    early.terminate()
    out, error = early.communicate(timeout=60)
    assert "error" not in error
    assert early.returncode == 0, error
    assert start("--nodes", "3", "--port", "0", "--data-dir", str(tmp_path / "cluster")).end() == 0, out
