"""Requests of `kcli offsets` in the request log of the embedded broker: few, and no writes without --execute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.cli.fake import run_kcli
from tests.cli.offsets.scene import Scene
from tests.real_kafka import Kafka

WRITES = {"OffsetCommit", "OffsetDelete"}
MANY = 200


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as it:
        yield it


def asked(broker: EmbeddedBroker, folder: Path, *words: str, stdin: bytes = b"") -> Counter[str]:
    """The requests of one command line that succeeds, by API."""
    name = f"kcli-{len(broker.requests)}"
    where = ("-b", broker.address, "-X", f"client.id={name}")
    result = run_kcli("offsets", *words, *where, stdin=stdin, environ={"XDG_STATE_HOME": str(folder)})
    assert result.status == 0, result.err
    return Counter(request.api for request in broker.requests if request.client_id == name)


def test_without_execute_nothing_is_written(broker: EmbeddedBroker, tmp_path: Path) -> None:
    scene = Scene(Kafka(broker.address, None), tmp_path)
    lines = f"{scene.group},{scene.topic},0,1\n".encode()
    for words in (
        ("show", scene.group),
        ("export", "--all"),
        ("reset", scene.group, "--to-earliest", "--all-topics"),
        ("apply", "-"),
        ("copy", scene.group, "--to-group", "other"),
        ("delete", scene.group, "--topic", scene.topic),
    ):
        assert not WRITES & set(asked(broker, tmp_path, *words, stdin=lines)), words
    assert WRITES & set(asked(broker, tmp_path, "apply", "-", "--execute", stdin=lines)) == {"OffsetCommit"}


def test_the_number_of_requests_does_not_grow_with_partitions(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A reset and its execution over two partitions and over many ask the same number of times."""
    scene = Scene(Kafka(broker.address, None), tmp_path)
    broker.create_topic("wide", MANY)
    scene.commit({TopicPartition("wide", number): OffsetAndMetadata(0) for number in range(MANY)}, "wide-group")
    producer = scene.kafka.ordered_producer()
    for number in range(MANY):
        producer.produce("wide", b"v", partition=number)
    assert producer.flush(30) == 0
    how = ("--to-latest", "--all-topics", "--execute")
    few, many = (asked(broker, tmp_path, "reset", group, *how) for group in (scene.group, "wide-group"))
    assert many["OffsetCommit"] == few["OffsetCommit"] == 1
    assert many.total() <= few.total() + 2, (few, many)
    assert many.total() <= 40, many
