"""`kcli spark export` as a separate process: its output, and that no process remains after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.real_kafka import Kafka
from tests.spark.clusters import QUICK_JVM
from tests.spark.export_topics import RECORDS, fill, read_back

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("java")]


def alive_in_session(session: int) -> list[str]:
    """Return the programs of this session: JVM and Python workers leave the process group, but not the session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition(")")
        except OSError:  # ended meanwhile
            continue
        state, _, _, of_session, *_ = rest.split()
        if int(of_session) == session and state != "Z":
            found.append(name)
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_ctrl_c_ends_a_following_export_with_130_and_stops_the_jvm(our_kafka: Kafka, tmp_path: Path) -> None:
    topic, out = fill(our_kafka, RECORDS), tmp_path / "out"
    command = [sys.executable, "-m", "kcli", "spark", "export", topic, "--to", str(out), "--follow", "--every", "200ms"]
    command += ["-b", our_kafka.bootstrap_servers, "--conf", "spark.driver.memory=512m"]
    command += ["--conf", f"spark.driver.extraJavaOptions={QUICK_JVM}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        until = time.monotonic() + 300
        while not any(out.glob("_checkpoint/commits/[1-9]*")) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        assert process.poll() is None, process.communicate()[1]
        time.sleep(4)  # progress is read once a second
        os.killpg(process.pid, signal.SIGINT)
        try:
            message, complained = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert (message, complained) == ("", f"{len(RECORDS)} records written to {out}; the next run continues there\n")
    until = time.monotonic() + 15
    while (left := alive_in_session(process.pid)) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == []
    assert len(read_back(out)) == len(RECORDS)
