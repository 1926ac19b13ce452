"""Fixtures that many tests share: a real Kafka, one of its own for tests that break it, and kcat.

What a machine lacks skips its tests with a reason. With CI=true nothing may be lacking: there it is a failure.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real_kafka import Kafka, KafkaNode, KafkaUnavailable, fetch_jars, locked

NEEDS_KAFKA = {"real_kafka", "own_kafka"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if NEEDS_KAFKA & set(getattr(item, "fixturenames", ())):
            item.add_marker("real_kafka")


def lacking(reason: str) -> None:
    """Skip the test that asked, or fail it where the machine promised to have everything."""
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"{reason}; with CI=true that is a failure", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    try:
        return fetch_jars()
    except KafkaUnavailable as missing:
        lacking(str(missing))
        raise


@pytest.fixture(scope="session")
def real_kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """One single-node Kafka for the whole run, shared by all xdist workers: name topics with `new_topic`.

    The worker that needs it first starts it. Everyone who uses it holds a shared lock; the one who started it
    waits for the lock alone before stopping it, so it outlives its last user and no one needs to count.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    address = shared / "kafka.address"
    node = None
    with (shared / "kafka.users").open("w") as users:
        with locked(shared / "kafka.start"):
            fcntl.flock(users, fcntl.LOCK_SH)
            if not address.exists():
                node = KafkaNode(shared / "kafka", kafka_jars)
                node.start()
                address.write_text(node.bootstrap_servers)
        try:
            yield Kafka(address.read_text(), kafka_jars)
        finally:
            if node is not None:
                fcntl.flock(users, fcntl.LOCK_UN)
                fcntl.flock(users, fcntl.LOCK_EX)
                address.unlink()
                node.kill()  # its data goes with it
                shutil.rmtree(node.folder, ignore_errors=True)


@pytest.fixture
def own_kafka(kafka_jars: Path, tmp_path: Path) -> Iterator[Callable[..., KafkaNode]]:
    """`own_kafka(**settings)` starts a Kafka that the test may stop, kill and restart; gone when the test ends."""
    nodes: list[KafkaNode] = []

    def start(**settings: str) -> KafkaNode:
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        node = KafkaNode(tmp_path / f"kafka-{len(nodes)}", kafka_jars, settings=properties)
        nodes.append(node)
        node.start()
        return node

    yield start
    for node in nodes:
        node.kill()
        shutil.rmtree(node.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def kcat() -> str:
    """The path of kcat, the foreign client that speaks old versions."""
    path = shutil.which("kcat") or shutil.which("kafkacat")
    if path is None:
        lacking("there is no `kcat` on the PATH")
    assert path is not None
    return path
