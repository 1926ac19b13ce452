"""A broker in a process of its own, for the duration of a block or longer, and the configuration of its clients."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kcli.errors import KcliError

COMMAND = (
    *(sys.executable, "-m", "kcli", "broker", "run", "--ephemeral"),
    *("-c", "group.initial.rebalance.delay.ms=0"),  # a group's first member does not wait for more members
)
#: The user of a secured broker.
USER = "demo"
CLIENT_FILE, KCAT_FILE = "client.properties", "kcat.properties"
_STOP_WAIT_S = 10


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


@contextmanager
def own_broker(*, keep: bool, secure: bool = False) -> Iterator[OwnBroker]:
    """Start a broker and yield it. It ends with the block, and also when this process is terminated.

    With `keep` it continues after a block that ends normally, and its files remain. `secure`: with TLS and SCRAM.
    `KcliError` if it does not start.
    """
    handlers = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    leave = False
    undo = ExitStack()
    try:
        yield _start_secured(undo) if secure else _start(undo)
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
    _write(server_file, properties_text({**listener, **security.broker_properties()}))
    pid, address = _run(undo, "--properties", str(server_file))
    server_file.unlink()  # it has the broker's private key

    _write(files / "ca.pem", authority().certificate_pem)
    of_kcli = security.client_properties("kcli", address)
    of_kcat = security.client_properties("librdkafka", address)
    del of_kcli["ssl.truststore.certificates"], of_kcat["ssl.ca.pem"]
    of_kcli["ssl.truststore.location"] = of_kcat["ssl.ca.location"] = str(files / "ca.pem")
    broker = OwnBroker(pid, address, of_kcli, files)
    _write(files / CLIENT_FILE, properties_text(of_kcli))
    _write(files / KCAT_FILE, properties_text(of_kcat))
    return broker


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, "utf-8")


def _run(undo: ExitStack, *options: str) -> tuple[int, str]:
    """Run a broker; return its process id and address. `undo` stops it."""
    process = subprocess.Popen(
        (*COMMAND, *options),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,  # read only if it does not start; it prints little and tolerates a closed pipe
        text=True,
        start_new_session=True,  # Ctrl-C must reach the demo only, which then stops the broker
    )
    undo.callback(_stop, process)
    return process.pid, _address(process)


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
