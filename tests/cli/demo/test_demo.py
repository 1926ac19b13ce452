"""`kcli demo`: it prints the output of each step and leaves no process and no file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kcli.cli.demo.demo import tour
from tests.interop.process import KCLI, ROOT
from tests.limits import killed_after
from tests.real_kafka import answers
from tests.slowness import slowness

pytestmark = pytest.mark.slow

LIMIT_S = 15  # with a core for it; tests have to share theirs


def demo(tmp_path: Path, *options: str) -> tuple[str, float]:
    """Return the output and the duration; the run has a temporary directory of its own."""
    began = time.monotonic()
    done = subprocess.run(
        [*KCLI, "demo", *options],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout, time.monotonic() - began


def read(answer: str) -> set[str]:
    """Return the lines `partition:offset key`."""
    return set(re.findall(r"^\d:\d+ c\d{3}$", answer, re.MULTILINE))


def address_in(out: str) -> tuple[str, int]:
    found = re.search(r"export KCLI_BOOTSTRAP_SERVER=(\S+):(\d+)", out)
    assert found is not None
    return found[1], int(found[2])


def without_numbers(text: str) -> str:
    return re.sub(r" +", " ", re.sub(r"\d+", "0", text))


def test_the_example_in_the_readme_is_output_of_the_demo(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = readme.split("```console\n")[1].split("\n```")[0]
    out, _ = demo(tmp_path)
    for block in example.split("\n\n"):
        assert f"{without_numbers(block)}\n" in without_numbers(out)


def test_the_demo_prints_each_steps_output_and_leaves_nothing(tmp_path: Path) -> None:
    slow = slowness()
    out, took_s = demo(tmp_path)
    slow = max(slow, slowness())
    assert "Group billing: has read all records." in out
    assert re.search(r"Group mailing: \d{3} records behind\.", out)
    shown = re.split(r"^\$ ", out, flags=re.MULTILINE)[2:]
    assert [block.splitlines()[0] for block in shown] == [step.shown for step in tour("orders")]
    answered = [block.split("\n", 1)[1].split("\n\n# ")[0].strip() for block in shown]
    cluster, topics, described, last, refunds, _produced, found, groups, mailing, three, two, lags = answered
    assert "127.0.0.1" in cluster
    assert "orders" in topics
    assert "orders" in described
    assert sum('"order":' in line for line in last.splitlines()) == 6
    assert refunds.count("refunded") == 3
    assert "c007 at " in found
    assert "99999" in found
    assert [line.split()[:3] for line in groups.splitlines()[1:]] == [
        ["billing", "classic", "Empty"],
        ["mailing", "classic", "Empty"],
    ]
    assert [line.split()[2] for line in mailing.splitlines()[1:4]] == ["0", "1", "2"]
    assert (len(read(three)), len(read(two))) == (3, 2)
    assert not read(three) & read(two), "printed records are not printed again"
    assert [line.split()[0] for line in lags.splitlines()[1:4]] == ["billing", "mailing", "newsletter"]
    assert lags.splitlines()[3].split()[5] == str(3001 - 5)
    assert took_s < LIMIT_S * slow
    assert not answers(address_in(out)[1])
    assert list(tmp_path.iterdir()) == []


def test_the_secured_demo_shows_the_configuration_of_its_clients(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    out, _ = demo(tmp_path, "--secure", "--keep")
    found = re.search(r"`kill (\d+)`", out)
    assert found is not None
    try:
        assert re.search(r"^sasl\.mechanism=SCRAM-SHA-256$", out, re.MULTILINE)
        assert "Group mailing: 6" in out
        [file] = re.findall(r"export KCLI_COMMAND_CONFIG=(\S+)", out)[:1]
        assert Path(file).stat().st_mode & 0o777 == 0o600
        assert sorted(path.name for path in Path(file).parent.iterdir()) == [
            "ca.pem",
            "client.properties",
            "kcat.properties",
        ]
        listed = [*KCLI, "topic", "list", "--command-config", file]
        assert "orders" in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, timeout=120).stdout
        assert f"kcat -F {Path(file).parent}/kcat.properties -C" in out
    finally:
        os.kill(int(found[1]), signal.SIGTERM)


def test_with_keep_the_broker_runs_until_it_is_killed(tmp_path: Path) -> None:
    out, _ = demo(tmp_path, "--keep")
    host, port = address_in(out)
    found = re.search(r"`kill (\d+)`", out)
    assert found is not None
    try:
        assert answers(port)
        listed = subprocess.run(
            [*KCLI, "topic", "list", "-b", f"{host}:{port}"], cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        assert "orders" in listed.stdout
    finally:
        os.kill(int(found[1]), signal.SIGTERM)
    deadline = time.monotonic() + 10
    while answers(port) or list(tmp_path.iterdir()):
        assert time.monotonic() < deadline, f"left behind: {list(tmp_path.iterdir())}"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_stopped_stops_its_broker(number: signal.Signals, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*KCLI, "demo"], cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    out = ""
    with killed_after(process, "the address and the end of the demo"):
        while "KCLI_BOOTSTRAP_SERVER" not in out:
            line = process.stdout.readline()
            assert line, out
            out += line
        process.send_signal(number)
        out += process.stdout.read()
    assert process.wait(20) in (128 + number, -number, 130), out
    process.stdout.close()
    assert not answers(address_in(out)[1])
    assert list(tmp_path.iterdir()) == []


def test_the_demo_of_a_cluster_kills_a_leader_and_loses_nothing(tmp_path: Path) -> None:
    out, _ = demo(tmp_path, "--nodes", "3")
    [leader] = re.findall(r"# Broker (\d) leads partition 0\. Kill its process\.\n\$ kill -9 \d+\n", out)
    assert f"\nnode {leader} was killed by SIGKILL; start it again: kcli broker run --node {leader} --data-dir " in out
    [successor] = re.findall(r"# Broker (\d) leads now", out)
    assert successor != leader
    faulty, healthy = re.findall(r"\$ kcli topic describe --unhealthy\n((?:.+\n)+)", out)
    assert len(faulty.splitlines()) == 1 + 2 * 3
    assert len(healthy.splitlines()) == 1
    assert re.search(r"^0:\d+ an order before the kill\n0:\d+ an order after the kill$", out, re.MULTILINE)
    assert out.rstrip().splitlines()[-1].startswith("The demo is complete: the brokers are stopped")
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_that_is_kept_ends_with_its_processes(tmp_path: Path) -> None:
    out, _ = demo(tmp_path, "--nodes", "2", "--keep")
    found = re.search(r"`kill (\d+) (\d+)`", out)
    assert found is not None
    _, port = address_in(out)
    assert answers(port)
    for pid in found.groups():
        os.kill(int(pid), signal.SIGTERM)
    deadline = time.monotonic() + 30
    while answers(port) or list(tmp_path.iterdir()):
        assert time.monotonic() < deadline, f"left behind: {list(tmp_path.iterdir())}"
        time.sleep(0.05)
