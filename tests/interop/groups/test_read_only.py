"""Reading about a group changes nothing: the APIs of each command, from the request log of our broker."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from tests.cli.fake import run_kcli
from tests.interop.clients.test_confluent_groups import fill
from tests.interop.groups.members import MAKERS, MemberProcess
from tests.interop.groups.test_group_reads import commit
from tests.limits import killed_after
from tests.real_kafka import Kafka

CONNECT = {"ApiVersions", "Metadata"}
FIND = {"FindCoordinator"}
DESCRIBE = FIND | {"DescribeGroups"}
OFFSETS = DESCRIBE | {"OffsetFetch", "ListOffsets"}
RECORDS = OFFSETS | {"Fetch"}  # the time lag: the record at each committed offset

# A group whose type is not known is described as each type in turn.
OF_OTHER_TYPES = {"ConsumerGroupDescribe"}
#: The APIs of commands on the group `billing`, which has a lag and a member, and on `old`, which has no members.
LOOKING = {
    "list": {"ListGroups"} | DESCRIBE,
    "list --names": {"ListGroups"},
    "list --topic orders": {"ListGroups", "OffsetFetch"} | DESCRIBE,
    "describe billing": RECORDS,
    "describe billing --no-time-lag": OFFSETS,
    "describe --all --lagging --isolation-level read_committed": {"ListGroups"} | RECORDS,
    "describe billing --members": DESCRIBE,
    "describe billing old --state": DESCRIBE,
    "describe no-such-group": DESCRIBE | {"ListGroups"},  # similar names
    "lag --match b": {"ListGroups"} | RECORDS,
    "lag billing --no-time-lag --fail-if lag>100": OFFSETS,
    "wait billing --until stable": DESCRIBE,
    "wait billing --until lag<=100": OFFSETS,
    "watch billing -n 2 --interval 0.1": OFFSETS,
    "explain billing --interval 0.1": RECORDS | {"DescribeConfigs"},  # retention
    "delete old": OFFSETS,  # without --execute
    "delete billing": OFFSETS,
    "remove-members billing --all": DESCRIBE,
}


class Scene(NamedTuple):
    broker: EmbeddedBroker
    member: MemberProcess


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        broker.create_topic("orders", 2)
        kafka = Kafka(broker.address, None)
        fill(kafka, "orders", range(20), 2)
        commit(kafka, "billing", ("orders", 0, 3), ("orders", 1, 10))
        commit(kafka, "old", ("orders", 0, 1))
        with MAKERS["confluent"](kafka, "billing", "orders", commit="none") as member:
            member.wait_assigned(2)
            yield Scene(broker, member)


def written(broker: EmbeddedBroker) -> dict[str, int]:
    """Return the size of every log: a join, a commit or a new topic would be written to one of them."""
    return {str(log): log.stat().st_size for log in broker.data_dir.rglob("*.log")}


@pytest.mark.parametrize("line", LOOKING)
def test_each_command_sends_only_read_requests(scene: Scene, line: str) -> None:
    before = written(scene.broker)
    client_id = f"looker {line}"
    words = (*line.split(), "-b", scene.broker.address, "-X", f"client.id={client_id}", "--timeout", "20")
    result = run_kcli("group", *words)
    asked = {request.api for request in scene.broker.requests if request.client_id == client_id}
    assert asked - CONNECT - OF_OTHER_TYPES == LOOKING[line], result
    assert "internal error" not in result.err
    assert written(scene.broker) == before
    assert len(scene.member.events_of("assigned")) == 1, "the read caused a rebalance"


def test_serving_metrics_sends_only_read_requests(scene: Scene) -> None:
    before, client_id = written(scene.broker), "looker metrics"
    words = ("group", "metrics", "--all", "-b", scene.broker.address, "-X", f"client.id={client_id}")
    with subprocess.Popen(
        [sys.executable, "-m", "kcli", *words, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            with killed_after(process, "the address of the exporter"):
                url = re.search(r"http://\S+", process.stderr.readline())
            assert url is not None
            with urllib.request.urlopen(url[0], timeout=30) as page:
                assert 'group="billing"' in page.read().decode()
        finally:
            process.kill()
    asked = {request.api for request in scene.broker.requests if request.client_id == client_id}
    assert asked - CONNECT == {"ListGroups"} | RECORDS
    assert written(scene.broker) == before
