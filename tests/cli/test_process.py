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
# Containers often set PYTHONUNBUFFERED. Buffered text raises the error of a full disk at each flush.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


@pytest.mark.parametrize("line", ["--version", "--help", "topic list --help"])
def test_a_closed_pipe_is_a_success_without_a_message(line: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*KCLI, *line.split()], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pipe_closed_while_data_is_written_is_a_success_without_a_message() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with loopback_broker(topics={f"topic-{n:05}": 1 for n in range(20_000)}) as broker:
        done = subprocess.run(
            [*KCLI, "topic", "list", "-b", broker.address], stdout=writer, stderr=subprocess.PIPE, text=True
        )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_stderr_does_not_change_the_status() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*KCLI, "topic", "lst"], stdout=subprocess.PIPE, stderr=writer, text=True)
    os.close(writer)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("line", ["--version", "topic --help"])
def test_a_full_disk_is_one_line_and_status_1(line: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*KCLI, *line.split()], stdout=full, stderr=subprocess.PIPE, text=True, env=BUFFERED)
    assert (done.returncode, done.stderr) == (1, "kcli: standard output: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_for_stderr_does_not_change_data_and_status() -> None:
    with Path("/dev/full").open("w") as full, loopback_broker(topics={"orders": 1}) as broker:
        command = [*KCLI, "topic", "list", "-X", "unknown=1", "-b", broker.address]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, text=True)
    assert (done.returncode, done.stdout) == (0, "orders\n")


def test_an_interrupt_prints_nothing_and_returns_130() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            [*KCLI, "topic", "list", "-b", address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        connection, _ = silent.accept()  # it waits for an answer now
        with connection:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "")


def test_a_closed_standard_output_does_not_crash() -> None:
    done = subprocess.run(f"{sys.executable} -m kcli topic --help >&-", shell=True, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_names_beyond_the_locale_are_escaped() -> None:
    done = subprocess.run(
        [*KCLI, "topic", "größe"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(rb"kcli: there is no command 'kcli topic gr\xf6\xdfe'")
