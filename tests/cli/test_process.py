"""kcli as a process: signals, closed pipes, full disks, and closed streams."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.loopback import loopback_broker

KCLI = [sys.executable, "-m", "kcli"]

SHOW = "assignor show -s range -t orders=6 -m a -m b"
CLOSED = "kcli: standard output is closed; redirect it to a file or to /dev/null\n"


def test_the_tests_run_without_variables_of_python() -> None:
    """They would hide what a user's machine does: PYTHONUNBUFFERED hid tracebacks about a full disk."""
    assert {name for name in os.environ if name.startswith("PYTHON")} <= {"PYTHONPATH", "PYTHONPYCACHEPREFIX"}


@pytest.mark.parametrize("line", ["--version", "--help", "topic list --help"])
def test_a_closed_pipe_is_a_success_without_a_message(line: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*KCLI, *line.split()], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pipe_closed_while_data_is_written_is_a_success_without_a_message() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with loopback_broker(topics={f"topic-{n:05}": 1 for n in range(20_000)}) as broker:
        done = subprocess.run(
            [*KCLI, "topic", "list", "-b", broker.address],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_stderr_does_not_change_the_status() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*KCLI, "topic", "lst"], stdout=subprocess.PIPE, stderr=writer, text=True, timeout=120)
    os.close(writer)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("line", ["--version", "topic --help", SHOW, f"{SHOW} --output json"])
@pytest.mark.parametrize("debug", ["", "1"], ids=["", "python-ends-itself"])
def test_a_full_disk_is_one_line_and_status_1(line: str, debug: str) -> None:
    """Buffered text raises the error at each flush, last when Python ends. `assignor show` reports after its table."""
    with Path("/dev/full").open("w") as full:
        environ = {**os.environ, "KCLI_DEBUG": debug}
        done = subprocess.run(
            [*KCLI, *line.split()], stdout=full, stderr=subprocess.PIPE, text=True, env=environ, timeout=120
        )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "kcli: standard output: No space left on device")
    assert debug or done.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_for_stderr_does_not_change_data_and_status() -> None:
    with Path("/dev/full").open("w") as full, loopback_broker(topics={"orders": 1}) as broker:
        command = [*KCLI, "topic", "list", "-X", "unknown=1", "-b", broker.address]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "orders\n")


def test_an_interrupt_prints_nothing_and_returns_130() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            [*KCLI, "topic", "list", "-b", address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        connection, _ = silent.accept()  # it waits for an answer now
        with connection:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "")


DROPPING = """
import signal, sys, time, weakref
from kcli import __main__
from kcli.cli import app

def run_process(_argv):
    class Collected: pass
    collected = Collected()
    watched = weakref.ref(collected, lambda _: signal.raise_signal(signal.SIGINT))
    del collected
    time.sleep(60)

app.run_process = run_process
sys.exit(__main__.main())
"""


def test_an_interrupt_that_python_drops_in_a_callback_is_repeated() -> None:
    """It came in the weak reference of an import's lock: the command went on, after a trace on stderr."""
    done = subprocess.run([sys.executable, "-c", DROPPING], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def in_shell(words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        f"exec {sys.executable} -m kcli {words}", shell=True, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("line", ["--version", "topic --help", "topic lst"])
@pytest.mark.parametrize(
    ("closed", "message"),
    [(">&-", CLOSED), ("<&- >&-", CLOSED), (">&- 2>&-", "")],
)
def test_a_closed_output_is_status_1_before_the_command_is_looked_up(line: str, closed: str, message: str) -> None:
    done = in_shell(f"{line} {closed}")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_an_output_that_is_open_for_reading_only_counts_as_closed() -> None:
    done = in_shell("topic lst 1</dev/null")
    assert (done.returncode, done.stderr) == (1, CLOSED)


@pytest.mark.parametrize("closed", ["2>&-", "2</dev/null", "<&- 2>&-"])
def test_without_stderr_a_command_does_the_same_and_its_messages_are_lost(closed: str) -> None:
    with loopback_broker(topics={"orders": 1}) as broker:
        done = in_shell(f"topic list -X unknown=1 -b {broker.address} {closed}")
        assert (done.returncode, done.stdout) == (0, "orders\n")
    assert in_shell(f"--version {closed}").stdout.startswith("kcli ")
    done = in_shell(f"topic lst {closed}")
    assert (done.returncode, done.stdout) == (2, "")


def test_a_child_process_has_a_stderr_although_kcli_has_none(tmp_path: Path) -> None:
    """Otherwise the first file that the child opens would be its standard error."""
    (tmp_path / "kcli").mkdir()
    seen = tmp_path / "seen"
    script = f"readlink /proc/self/fd/2 > {seen}; echo secret"
    (tmp_path / "kcli" / "config.toml").write_text(
        f"""[profile.dev]
bootstrap-servers = "127.0.0.1:1"
password-command = ["sh", "-c", "{script}"]
properties = {{ "security.protocol" = "SASL_PLAINTEXT", "sasl.mechanism" = "PLAIN", "sasl.username" = "a" }}
"""
    )
    words = f"XDG_CONFIG_HOME={tmp_path} exec {sys.executable} -m kcli topic list -P dev --timeout 1 2>&-"
    subprocess.run(words, shell=True, stdout=subprocess.DEVNULL, timeout=120)
    assert seen.read_text() == "/dev/null\n"


def test_a_closed_input_is_an_error_of_the_commands_that_read_it() -> None:
    with loopback_broker(topics={"orders": 1}) as broker:
        done = in_shell(f"produce orders -b {broker.address} <&-")
        assert (done.returncode, done.stderr) == (1, "kcli: cannot read the input: Bad file descriptor\n")
        done = in_shell(f"topic list -b {broker.address} <&-")
        assert (done.returncode, done.stdout, done.stderr) == (0, "orders\n", "")


def test_names_beyond_the_locale_are_escaped() -> None:
    done = subprocess.run(
        [*KCLI, "topic", "größe"], env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, timeout=120
    )
    assert done.returncode == 2
    assert done.stderr.startswith(rb"kcli: there is no command 'kcli topic gr\xf6\xdfe'")
