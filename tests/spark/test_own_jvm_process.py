"""`kcli spark export` as a separate process: signals end it with one line, and no process remains after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real_kafka import Kafka
from tests.spark.clusters import QUICK_JVM
from tests.spark.export_topics import RECORDS, fill, read_back

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("java"),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
]
MARK = "KCLI_TEST_RUN"
# Seconds from the start of kcli: imports, checks, the launcher, the JVM, the session, the first batches.
MOMENTS = (0.4, 0.8, 1.2, 1.6, 2.0, 2.5, 3.0, 4.0, 5.5, 8.0)


def programs_of(run: str) -> list[str]:
    """Return the running programs that have inherited this mark in their environment: JVMs leave the process group and
    the session.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={run}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "comm").read_text().strip())
        except OSError:  # ended meanwhile, or of another user
            continue
    return found


@contextmanager
def following_export(kafka: Kafka, topic: str, out: Path) -> Iterator[subprocess.Popen[str]]:
    """Run an export that does not end by itself, marked with the path of its target."""
    command = [sys.executable, "-m", "kcli", "spark", "export", topic, "--to", str(out), "--follow", "--every", "200ms"]
    command += ["-b", kafka.bootstrap_servers, "--conf", "spark.driver.memory=512m"]
    command += ["--conf", f"spark.driver.extraJavaOptions={QUICK_JVM}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env={**os.environ, MARK: str(out)}
    ) as process:
        try:
            yield process
        finally:
            process.kill()
    until = time.monotonic() + 15
    while (left := programs_of(str(out))) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == []


def test_ctrl_c_ends_a_following_export_with_130_and_stops_the_jvm(our_kafka: Kafka, tmp_path: Path) -> None:
    topic, out = fill(our_kafka, RECORDS), tmp_path / "out"
    with following_export(our_kafka, topic, out) as process:
        until = time.monotonic() + 300
        while not any(out.glob("_checkpoint/commits/[1-9]*")) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        assert process.poll() is None, process.communicate(timeout=60)[1]
        assert "java" in programs_of(str(out))
        time.sleep(4)  # progress is read once a second
        os.killpg(process.pid, signal.SIGINT)
        message, complained = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (message, complained) == ("", f"{len(RECORDS)} records written to {out}; the next run continues there\n")
    assert len(read_back(out)) == len(RECORDS)


def test_a_jvm_that_dies_during_an_export_is_reported_in_one_sentence(our_kafka: Kafka, tmp_path: Path) -> None:
    topic, out = fill(our_kafka, RECORDS), tmp_path / "out"
    with following_export(our_kafka, topic, out) as process:
        until = time.monotonic() + 300
        while not any(out.glob("_checkpoint/commits/[1-9]*")) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        [jvm] = [int(child) for child in children if Path(f"/proc/{child}/comm").read_text() == "java\n"]
        os.kill(jvm, signal.SIGKILL)
        message, complained = process.communicate(timeout=60)
    assert (process.returncode, message) == (1, "")
    assert complained == (
        "kcli: the JVM of Spark has ended unexpectedly (killed by SIGKILL); if memory was short, increase it with "
        "--conf spark.driver.memory=4g; -v shows the output of Spark\n"
    )


@pytest.mark.parametrize("after_s", MOMENTS)
def test_a_signal_at_any_moment_ends_everything_with_one_line(our_kafka: Kafka, tmp_path: Path, after_s: float) -> None:
    """Every second moment has a SIGTERM for kcli alone instead of a Ctrl-C for its process group."""
    topic, out = fill(our_kafka, RECORDS), tmp_path / "out"
    with following_export(our_kafka, topic, out) as process:
        time.sleep(after_s)
        had_started = len(programs_of(str(out))) > 1
        if MOMENTS.index(after_s) % 2:
            os.kill(process.pid, signal.SIGTERM)
        else:
            os.killpg(process.pid, signal.SIGINT)
        message, complained = process.communicate(timeout=30)
        assert process.returncode in (130, -signal.SIGTERM)
        assert message == ""
        if had_started:
            assert process.returncode == 130
            assert complained in (
                "kcli: interrupted\n",
                f"0 records written to {out}; the next run continues there\n",
                f"{len(RECORDS)} records written to {out}; the next run continues there\n",
            )
        else:
            assert complained in ("", "kcli: interrupted\n")
