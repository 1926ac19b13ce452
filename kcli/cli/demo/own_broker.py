"""A broker or a cluster in processes of its own, during a block or longer, and the configuration of its clients."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kcli.errors import KcliError
from kcli.private_files import write_text

_RUN = (sys.executable, "-m", "kcli", "broker", "run")
COMMAND = (
    *(*_RUN, "--ephemeral"),
    *("-c", "group.initial.rebalance.delay.ms=0"),  # a group's first member does not wait for more members
)
# A dead node is noticed after 2 seconds, not after 9 as by default, and few partitions are shown.
_CLUSTER = (
    *("-c", "broker.session.timeout.ms=2000", "-c", "broker.heartbeat.interval.ms=200"),
    *("-c", "offsets.topic.num.partitions=3"),
)
#: The user of a secured broker.
USER = "demo"
CLIENT_FILE, KCAT_FILE = "client.properties", "kcat.properties"
_STOP_WAIT_S = 25


class OwnBroker(NamedTuple):
    """A running broker. `files` is None without security, else the folder with the clients' configuration."""

    pid: int
    address: str
    properties: dict[str, str]
    files: Path | None = None

    @property
    def client_file(self) -> Path | None:
        """The properties file of kcli and Java's clients."""
        return self.files and self.files / CLIENT_FILE

    @property
    def kcat_file(self) -> Path | None:
        return self.files and self.files / KCAT_FILE


class OwnCluster:
    """A running cluster: the process that supervises it, the processes of the nodes by id, and their directory."""

    def __init__(self, undo: ExitStack, nodes: int) -> None:
        self._undo = undo
        self._process = _spawn(undo, *COMMAND, "--nodes", str(nodes), "--port", "0", *_CLUSTER)
        self.pid = self._process.pid
        self.address = _address(self._process)
        self.pids = {number: int(self._line(rf"node {number} \(process (\d+)\)")) for number in range(1, nodes + 1)}
        self._directory = self._line("data directory: (.*)")
        self.restarted: list[int] = []

    def _line(self, pattern: str) -> str:
        """Return the group of the next line on the supervisor's stderr that matches. KcliError if it ends before."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if match := re.search(pattern, line):
                return match[1]
        raise KcliError("the cluster has ended")

    def kill(self, node: int) -> str:
        """Kill the process of a node with SIGKILL; return the line that the supervisor prints then."""
        os.kill(self.pids[node], signal.SIGKILL)
        return self._line("kcli: (node .*)")

    def start(self, node: int) -> None:
        """Start a killed node in a process of its own; it serves clients when this returns."""
        process = _spawn(self._undo, *_RUN, "--node", str(node), "--data-dir", self._directory)
        _address(process)
        self.pids[node] = process.pid
        self.restarted.append(process.pid)


@contextmanager
def own_cluster(nodes: int, *, keep: bool) -> Iterator[OwnCluster]:
    """Start a cluster of so many nodes and yield it, as `own_broker` does with a broker."""
    with _until_the_end(keep=keep) as undo:
        yield OwnCluster(undo, nodes)


@contextmanager
def own_broker(*, keep: bool, secure: bool = False) -> Iterator[OwnBroker]:
    """Start a broker and yield it. It ends with the block, and also when this process is terminated.

    With `keep` it continues after a block that ends normally, and its files remain. `secure`: with TLS and SCRAM.
    `KcliError` if it does not start.
    """
    with _until_the_end(keep=keep) as undo:
        yield _start_secured(undo) if secure else _start(undo)


@contextmanager
def _until_the_end(*, keep: bool) -> Iterator[ExitStack]:
    """Undo what the block has started, unless it is to be kept and the block ends normally."""
    handlers = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    leave = False
    undo = ExitStack()
    try:
        yield undo
        leave = keep
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if not leave:
            undo.close()


def _start(undo: ExitStack) -> OwnBroker:
    pid, address = _run(undo, "--port", "0")
    return OwnBroker(pid, address, {"bootstrap.servers": address})


def _start_secured(undo: ExitStack) -> OwnBroker:
    from secrets import token_urlsafe
    from shutil import rmtree
    from tempfile import mkdtemp

    from kcli.broker.security.own_certificates import authority
    from kcli.broker.security.ready_made import ReadyMade, properties_text

    security = ReadyMade.checked("SASL_SSL", {USER: token_urlsafe(12)})
    files = Path(mkdtemp(prefix="kcli-demo-"))
    undo.callback(rmtree, files, ignore_errors=True)
    server_file = files / "server.properties"
    listener = {"listeners": "SASL_SSL://127.0.0.1:0"}
    write_text(server_file, properties_text({**listener, **security.broker_properties()}))
    pid, address = _run(undo, "--properties", str(server_file))
    server_file.unlink()  # it has the broker's private key

    write_text(files / "ca.pem", authority().certificate_pem)
    of_kcli = security.client_properties("kcli", address)
    of_kcat = security.client_properties("librdkafka", address)
    del of_kcli["ssl.truststore.certificates"], of_kcat["ssl.ca.pem"]
    of_kcli["ssl.truststore.location"] = of_kcat["ssl.ca.location"] = str(files / "ca.pem")
    broker = OwnBroker(pid, address, of_kcli, files)
    write_text(files / CLIENT_FILE, properties_text(of_kcli))
    write_text(files / KCAT_FILE, properties_text(of_kcat))
    return broker


def _run(undo: ExitStack, *options: str) -> tuple[int, str]:
    """Run a broker; return its process id and address. `undo` stops it."""
    process = _spawn(undo, *COMMAND, *options)
    return process.pid, _address(process)


def _spawn(undo: ExitStack, *command: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,  # read only if it does not start; it prints little and tolerates a closed pipe
        text=True,
        start_new_session=True,  # Ctrl-C must reach the demo only, which then stops the broker
    )
    undo.callback(_stop, process)
    return process


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"\S+:\d+", line)
    if found is None:
        assert process.stderr is not None
        lines = process.stderr.read().strip().splitlines()
        raise KcliError(
            f"the broker did not start: {lines[-1].removeprefix('kcli: ') if lines else 'it printed no error'}"
        )
    return found[0]


def _end(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
