"""`kcli spark export` as a process of its own: what a person sees, and that nothing is left when it ends."""

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

pytestmark = pytest.mark.slow


def alive_in_session(session: int) -> list[str]:
    """The programs whose session this is: JVM and Python workers leave their parent's group, but not its session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition(")")
        except OSError:  # gone since
            continue
        state, _, _, of_session, *_ = rest.split()
        if int(of_session) == session and state != "Z":
            found.append(name)
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_ctrl_c_ends_a_following_export_with_130_and_no_jvm_is_left(our_kafka: Kafka, tmp_path: Path) -> None:
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
        time.sleep(4)  # it looks each second at what is written
        os.killpg(process.pid, signal.SIGINT)
        try:
            said, complained = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert (said, complained) == ("", f"{len(RECORDS)} records written to {out}; the next run goes on there\n")
    until = time.monotonic() + 15
    while (left := alive_in_session(process.pid)) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == []
    assert len(read_back(out)) == len(RECORDS)
