"""Every program of the page "The library" and of README.md runs, on an embedded broker, as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition, total_lag
from kcli.broker.testing.embedded import EmbeddedBroker
from tests.fake_registry import FakeRegistry, fake_registry
from tests.needs import needs_package
from tests.snippets import ADDRESS, LIBRARY, ROOT, Snippet, programs, snippets

pytestmark = pytest.mark.slow

RECORDS = 30
TIMEOUT_S = 60


@pytest.fixture
def address() -> Iterator[str]:
    """A broker with the topics of the programs, and a group that has read a part of them."""
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        for name in ("orders", "invoices", "shipments", "mixed"):
            broker.create_topic(name, partitions=2)
        with Producer(bootstrap_servers=broker.address) as producer:
            for number in range(RECORDS):
                producer.send("orders", b"order %d" % number, key=b"c%d" % number)
            for value in (b"1", b"{not json", b"2"):
                producer.send("mixed", value, partition=1)
        with Consumer(bootstrap_servers=broker.address, group_id="mailing") as consumer:
            consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(2)})
        yield broker.address


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as registry:
        yield registry


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder), "PYTHONUNBUFFERED": "1"}


def command(snippet: Snippet, address: str, folder: Path, registry_url: str = "") -> list[str]:
    file = folder / ("test_snippet.py" if snippet.is_test else "snippet.py")
    file.write_text(snippet.at(address, registry_url), "utf-8")
    runner = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)] if snippet.is_test else []
    return [sys.executable, "-X", "dev", *runner, str(file)]


@pytest.mark.parametrize("snippet", [it for it in programs() if not it.ends_by_sigterm], ids=str)
def test_a_program_ends_by_itself(snippet: Snippet, address: str, registry: FakeRegistry, tmp_path: Path) -> None:
    if "import pandas" in snippet.source:
        needs_package("pandas", "pandas")
    done = subprocess.run(
        command(snippet, address, tmp_path, registry.url),
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stdout + done.stderr
    assert "Warning" not in done.stderr
    assert "not stored" not in done.stdout
    assert len(done.stdout.splitlines()) >= 1 or "print(" not in snippet.source


@pytest.mark.parametrize("snippet", [it for it in programs() if it.ends_by_sigterm], ids=str)
def test_a_loop_ends_by_sigterm(snippet: Snippet, address: str, tmp_path: Path) -> None:
    """It handles each record once, commits all of them, and leaves its group at once."""
    output = tmp_path / "output"
    with output.open("wb") as stdout:
        process = subprocess.Popen(
            command(snippet, address, tmp_path), cwd=tmp_path, env=environment(tmp_path), stdout=stdout, stderr=stdout
        )
    with process:
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while handled(output, address) < RECORDS and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            status = process.wait(TIMEOUT_S)
        finally:
            process.kill()
    assert status == 0, output.read_text()
    assert handled(output, address) == RECORDS
    with Admin(address) as admin:
        survey = admin.group_lag("billing")["billing"]
    assert (survey.group.state, total_lag(survey.partitions).known_lag) == ("Empty", 0)
    assert sum(row.committed.offset for row in survey.partitions if row.committed) == RECORDS


def handled(output: Path, address: str) -> int:
    """The records that a loop has printed or written to the topic `invoices`."""
    invoices = [TopicPartition("invoices", number) for number in (0, 1)]
    with Consumer(
        "invoices", bootstrap_servers=address, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        at_end = sum(consumer.end_offsets(invoices).values())
        written = sum(1 for _ in consumer.records(to_end=True)) if at_end else 0
    return written + output.read_text().count("handled ")


def test_the_page_has_the_three_loops_and_a_loop_of_asyncio() -> None:
    loops = {snippet.heading for snippet in snippets(LIBRARY) if snippet.ends_by_sigterm}
    assert {"At least once", "At most once", "Exactly once", "asyncio"} <= loops


@pytest.mark.parametrize("snippet", programs(), ids=str)
def test_a_program_names_its_address_once_where_it_is_replaced(snippet: Snippet) -> None:
    assert snippet.is_test or ADDRESS in snippet.source
    compile(snippet.source, str(snippet), "exec")
