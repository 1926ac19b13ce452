"""A password is in no output and no file: every command through every fault, with -v and KCLI_DEBUG=1."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ConfigError
from kcli.spark.deploy import session
from tests.cli.command_lines import ARGUMENTS, words_of
from tests.cli.fake import Result, run_kcli
from tests.cli.leaks import FAULTS, MARK, Fault, Scene, echoing_provider
from tests.secured_kafka import SecuredKafka

FORMS = tuple(
    form.rstrip(b"=")
    for form in (
        MARK.encode(),
        *(base64.b64encode(before + MARK.encode()) for before in (b"", b"admin:", b"\0admin\0", b"marked:")),
    )
)
WORKS = "none: the password is right"
SECONDS = "1"


@pytest.fixture(scope="module")
def echo_url() -> Iterator[str]:
    server = echoing_provider()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://localhost:{server.server_port}/token"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, our_secured: SecuredKafka) -> Path:
    """The working directory and the home of a user, with a topic and a group on the broker, and a plan for it."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    at = ("-b", our_secured.bootstrap_servers)
    run_kcli("topic", "create", "orders", "doomed", "-p", "1", "--if-not-exists", *at)
    assert run_kcli("produce", "orders", *at, stdin=b"a record\n").status == 0
    to_start = ("offsets", "reset", "billing", "--topic", "orders", "--to-earliest")
    assert run_kcli(*to_start, "--execute", *at).status == 0
    (folder / "plan.json").write_bytes(run_kcli(*to_start, "--output", "json", *at).out)
    return folder


@pytest.fixture
def run(home: Path, our_secured: SecuredKafka) -> Callable[[Fault, tuple[str, ...]], Result]:
    """A function that runs one command with a fault."""
    files = home.parent / "inputs"

    def one(fault: Fault, command: tuple[str, ...]) -> Result:
        files.mkdir(exist_ok=True)
        properties, profiles = files / "client.properties", files / "kcli" / "config.toml"
        properties.write_text("".join(f"{line}\n" for line in fault.lines))
        environ = {"KCLI_DEBUG": "1", "HOME": str(home), "PATH": "/usr/bin:/bin", **fault.environ}
        words = ["--command-config", str(properties)]
        if fault.profile is not None:
            profiles.parent.mkdir(exist_ok=True)
            profiles.write_text(fault.profile)
            profiles.chmod(0o600)
            environ |= {"XDG_CONFIG_HOME": str(files), "KCLI_PROFILE": "p"}
        if command[0] == "compat":  # has options of its own
            words += ["--bootstrap-server", our_secured.servers(fault.listener or "SASL")]
        else:
            words += ["-v", "--timeout", SECONDS, *fault.words]
            words += ["-b", our_secured.servers(fault.listener)] if fault.listener else []
        return run_kcli(*words_of(command), *words, stdin=b"a record\n", environ=environ)

    return one


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_no_command_shows_a_password(
    name: str,
    run: Callable[[Fault, tuple[str, ...]], Result],
    our_secured: SecuredKafka,
    home: Path,
    echo_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def no_spark(**_: Any) -> None:
        raise ConfigError("there is no Spark in this test")

    monkeypatch.setattr(session, "open_session", no_spark)
    folder = home.parent / "files"
    folder.mkdir()
    fault = FAULTS[name](Scene(our_secured, folder, echo_url))
    statuses = {}
    for command in ARGUMENTS:
        done = run(fault, command)
        statuses[command] = done.status
        printed = done.out + done.err.encode()
        assert not [form for form in FORMS if form in printed], (command, printed.decode())
    assert (statuses["topic", "list"] == 0) is (name == WORKS), statuses
    written = [path for path in home.rglob("*") if path.is_file()]
    assert not [path for path in written for form in FORMS if form in path.read_bytes()]
    captured = capfd.readouterr()
    assert MARK not in captured.out + captured.err
