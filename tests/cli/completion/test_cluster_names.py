"""Names of the cluster in the answer to a TAB: the cache on disk, clusters that do not answer, and passwords."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kcli import Consumer
from kcli.cli.completion import cluster_names
from kcli.cli.completion.cached_names import FRESH_S, LIMIT_S, STALE_S
from tests.cli.loopback import loopback_broker
from tests.limits import Limit
from tests.real_kafka import Kafka

SECRET = "hunter2"


# The entry point, with a wait that is long enough on a busy machine.
PATIENT = """
import sys
from kcli.__main__ import main
from kcli.cli.completion import cluster_names
cluster_names.WAIT_S = 20
sys.exit(main())
"""


class Keyboard:
    """`press_tab` runs what the script of bash runs, in a home folder of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environ = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
        self.environ.pop("XDG_CACHE_HOME", None)

    def press_tab(self, line: str, *program: str) -> list[str]:
        """Return the candidates."""
        command = [sys.executable, *(program or ("-c", PATIENT)), "__complete", "bash"]
        done = subprocess.run(
            command, input=line, env=self.environ, capture_output=True, text=True, timeout=60, check=True
        )
        assert not done.stderr
        return done.stdout.split("\n")[1:-1]

    def press_tab_impatiently(self, line: str) -> list[str]:
        """Return the candidates that are there within the usual wait."""
        return self.press_tab(line, "-m", "kcli")

    @property
    def cache(self) -> Path:
        return self.home / ".cache" / "kcli" / "completion"

    def grow_older(self, seconds: float) -> None:
        """Let the cache be older by this time."""
        for path in self.cache.iterdir():
            key, found, *names = path.read_text().split("\n")
            mode, changed = path.stat().st_mode, path.stat().st_mtime - seconds
            path.write_text("\n".join((key, str(float(found) - seconds), *names)))
            path.chmod(mode)
            os.utime(path, (changed, changed))


@pytest.fixture
def keyboard(tmp_path: Path) -> Keyboard:
    return Keyboard(tmp_path)


@pytest.fixture
def silent_server() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_topics_are_asked_once_in_a_while(keyboard: Keyboard) -> None:
    with loopback_broker(topics={"orders": 1, "payments": 1}) as broker:
        line = f"kcli topic describe -b {broker.address} "
        assert keyboard.press_tab(line) == ["orders", "payments"]
        asked = len(broker.requests)
        assert keyboard.press_tab(line + "p") == ["payments"]
        assert len(broker.requests) == asked
        broker.topics["refunds"] = 1
        keyboard.grow_older(FRESH_S)
        assert keyboard.press_tab(line) == ["orders", "payments", "refunds"]
        assert len(broker.requests) > asked


def test_names_of_a_cluster_that_has_gone_are_shown_for_a_while(keyboard: Keyboard) -> None:
    with loopback_broker(topics={"orders": 1}) as broker:
        line = f"kcli topic describe -b {broker.address} "
        keyboard.press_tab(line)
    keyboard.grow_older(FRESH_S)
    assert keyboard.press_tab_impatiently(line) == ["orders"]
    keyboard.grow_older(STALE_S)
    assert keyboard.press_tab_impatiently(line) == []


def test_groups_members_and_brokers_are_found(keyboard: Keyboard, our_kafka: Kafka) -> None:
    topic, at = our_kafka.new_topic(), f"-b {our_kafka.bootstrap_servers}"
    group = f"{topic}-billing"
    with Consumer(topic, bootstrap_servers=our_kafka.bootstrap_servers, group_id=group, client_id="till-7") as consumer:
        limit = Limit("the assignment of the member")
        while not consumer.assignment:
            limit.check()
            consumer.poll(1000)
        assert keyboard.press_tab(f"kcli group describe {at} {group[:-3]}") == [group]
        assert keyboard.press_tab(f"kcli offsets reset {at} {group} --topic {topic}") == [topic]
        remove = f"kcli group remove-members {at} {group}"
        assert keyboard.press_tab(f"{remove} --client-id ") == ["till-7"]
        assert keyboard.press_tab(f"{remove} --member till")[0].startswith("till-7-")
        assert keyboard.press_tab(f"kcli cluster api-versions {at} --node ") == ["1"]


class Subjects(BaseHTTPRequestHandler):
    """A registry that knows the names of two subjects."""

    def do_GET(self) -> None:
        body = b'["orders-key", "orders-value"]'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        pass


def test_subjects_of_the_registry_are_found(keyboard: Keyboard) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Subjects) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        line = "kcli schema show --schema-registry http://{}127.0.0.1:{} orders-v"
        assert keyboard.press_tab(line.format("", server.server_port)) == ["orders-value"]
        assert keyboard.press_tab(line.format(f"alice:{SECRET}@", server.server_port)) in ([], ["orders-value"])
        server.shutdown()
    assert SECRET not in "".join(path.read_text() for path in keyboard.cache.iterdir())


def test_each_cluster_and_user_has_names_of_its_own(keyboard: Keyboard) -> None:
    with loopback_broker(topics={"orders": 1}) as one, loopback_broker(topics={"lamps": 1}) as other:
        assert keyboard.press_tab(f"kcli consume -b {one.address} o") == ["orders"]
        assert keyboard.press_tab(f"kcli consume -b {other.address} l") == ["lamps"]
        keyboard.environ["KCLI_BOOTSTRAP_SERVER"] = other.address
        assert keyboard.press_tab("kcli consume l") == ["lamps"]
        keyboard.environ["OTHER"] = one.address
        assert keyboard.press_tab("kcli consume -b $OTHER o") == ["orders"]
        properties = keyboard.home / "client.properties"
        properties.write_text(f"bootstrap.servers={one.address}\n")
        del keyboard.environ["KCLI_BOOTSTRAP_SERVER"]
        assert keyboard.press_tab(f"kcli consume --command-config={properties} o") == ["orders"]
        properties.write_text(f"bootstrap.servers={other.address}\n#\n")
        assert keyboard.press_tab(f"kcli consume --command-config={properties} l") == ["lamps"]


def test_a_profile_names_the_cluster(keyboard: Keyboard) -> None:
    with loopback_broker(topics={"orders": 1}) as broker:
        folder = keyboard.home / ".config" / "kcli"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(
            f'[profile.dev]\nbootstrap-servers = "{broker.address}"\n'
            f'[profile.asks]\nbootstrap-servers = "{broker.address}"\n'
            f'password-command = ["touch", "{keyboard.home}/asked"]\n'
        )
        assert keyboard.press_tab("kcli topic delete -P dev o") == ["orders"]
        asked = len(broker.requests)
        assert keyboard.press_tab("kcli topic delete -P asks o") == []
        assert not (keyboard.home / "asked").exists()
        assert len(broker.requests) == asked


def test_only_the_user_can_read_the_cache(keyboard: Keyboard) -> None:
    with loopback_broker(topics={"orders": 1}) as broker:
        keyboard.press_tab(f"kcli consume -b {broker.address} o")
        assert stat.S_IMODE(keyboard.cache.stat().st_mode) == 0o700
        assert [stat.S_IMODE(path.stat().st_mode) for path in keyboard.cache.iterdir()] == [0o600]
        assert not [path for path in keyboard.cache.iterdir() if path.name.endswith(".part")]


@pytest.mark.parametrize("fault", ["open to others", "a link", "a file"])
def test_a_folder_that_is_not_safe_is_not_used(keyboard: Keyboard, fault: str) -> None:
    keyboard.cache.parent.mkdir(parents=True)
    elsewhere = keyboard.home / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if fault == "a link":
        keyboard.cache.symlink_to(elsewhere)
    elif fault == "a file":
        keyboard.cache.touch()
    else:
        keyboard.cache.mkdir()
        keyboard.cache.chmod(0o777)
    with loopback_broker(topics={"orders": 1}) as broker:
        assert keyboard.press_tab(f"kcli consume -b {broker.address} o") == ["orders"]
    assert not list(elsewhere.iterdir())
    assert not keyboard.cache.is_dir() or not list(keyboard.cache.iterdir())


def test_no_file_has_a_password(keyboard: Keyboard) -> None:
    with loopback_broker(topics={"orders": 1}) as broker:
        secrets = f"-X ssl.key.password={SECRET} -X sasl.password={SECRET}"
        keyboard.environ["KCLI_PROPERTY"] = f"ssl.keystore.password={SECRET}\nsasl.username=alice"
        keyboard.press_tab(f"kcli consume -b {broker.address} {secrets} o")
    files = [path for path in keyboard.home.rglob("*") if path.is_file()]
    assert files
    assert all(SECRET not in path.read_text() + path.name for path in files)
    assert "alice" in "".join(path.read_text() for path in keyboard.cache.iterdir())


def test_a_cluster_that_does_not_answer_is_not_waited_for(keyboard: Keyboard, silent_server: str) -> None:
    """The wait is bounded by a constant; the process ends although its question is still open."""
    assert cluster_names.WAIT_S < 0.2
    line = f"kcli consume -b {silent_server} o"
    began = time.monotonic()
    assert keyboard.press_tab_impatiently(line) == []
    assert time.monotonic() - began < LIMIT_S
    assert keyboard.press_tab_impatiently(line) == []


def test_the_process_that_asks_ends_soon(keyboard: Keyboard) -> None:
    """A silent server sees that its client closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        keyboard.press_tab_impatiently(f"kcli consume -b 127.0.0.1:{server.getsockname()[1]} o")
        connection, _ = server.accept()
        with connection:
            connection.settimeout(20)
            while connection.recv(1 << 16):
                pass


@pytest.mark.parametrize("address", ["127.0.0.1:1", "not an address", ""])
def test_an_address_that_fails_is_silent(keyboard: Keyboard, address: str) -> None:
    assert keyboard.press_tab_impatiently(f"kcli consume -b '{address}' o") == []


@pytest.mark.parametrize("line", ["-X sasl.password=prompt", "-P missing", "--command-config missing", "-X nonsense"])
def test_settings_that_fail_are_silent(keyboard: Keyboard, line: str) -> None:
    assert keyboard.press_tab_impatiently(f"kcli consume {line} -b 127.0.0.1:1 o") == []


def test_without_a_home_folder_nothing_is_stored(keyboard: Keyboard) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME"):
        keyboard.environ.pop(name, None)
    with loopback_broker(topics={"orders": 1}) as broker:
        assert keyboard.press_tab(f"kcli consume -b {broker.address} o") == ["orders"]
    assert list(keyboard.home.iterdir()) == []
