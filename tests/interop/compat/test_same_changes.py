"""`kcli compat consumer-groups` and Apache's tool (4.3.1) make the same changes, each in a group of its own."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from kcli.admin.groups.committed_offsets import committed_offsets
from kcli.admin.offsets.commits import commit_offsets
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.routing import ask_coordinator
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.cli.fake import run_kcli
from tests.interop.clients.test_confluent_groups import fill
from tests.interop.compat.both_tools import GroupTool, Said, normalised, run_ours
from tests.interop.groups.members import MAKERS
from tests.interop.groups.test_group_reads import commit
from tests.interop.shapes import wait_until
from tests.real_kafka import Kafka

NOT_FOUND, REFUSED = 3, 4
PARTITIONS = 3


class Twins(NamedTuple):
    """A topic of 3 x 10 records, and two group names."""

    kafka: Kafka
    tool: GroupTool
    topic: str
    theirs: str
    ours: str
    state: Path

    def commit(self, *offsets: tuple[int, int]) -> None:
        """Commit the same offsets for both groups."""
        for group in (self.theirs, self.ours):
            commit(self.kafka, group, *((self.topic, partition, offset) for partition, offset in offsets))

    def both(self, *words: str) -> tuple[Said, Said]:
        """Run Apache's tool and ours; each gets the name of its own group."""
        servers = ("--bootstrap-server", self.kafka.bootstrap_servers)
        theirs = self.tool.run([*servers, *(word.format(group=self.theirs) for word in words)])
        state = {"XDG_STATE_HOME": str(self.state)}
        ours = run_ours([*servers, *(word.format(group=self.ours) for word in words)], **state)
        said = ours.stdout.replace(self.ours, self.theirs), ours.stderr.replace(self.ours, self.theirs)
        return theirs, Said(*said, ours.status)

    def same(self, *words: str, status: int = 0) -> Said:
        theirs, ours = self.both(*words)
        kept = ours._replace(stderr="".join(it for it in ours.stderr.splitlines(True) if "offsets undo" not in it))
        assert normalised(kept) == normalised(theirs)
        assert (theirs.status, ours.status) == (0, status)
        return ours

    def committed(self) -> list[dict[int, int]]:
        """Return by partition what both groups have committed."""
        return [
            {tp.partition: it.offset for tp, it in read(self.kafka, group).items()}
            for group in (self.theirs, self.ours)
        ]


def read(kafka: Kafka, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    with closing(connect(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers}))) as client:
        found = committed_offsets(client, [group], client.clock.now_ms() + 20_000).values[group]
    return {tp: it for tp, it in found.items() if isinstance(it, OffsetAndMetadata)}


@pytest.fixture
def twins(any_kafka: Kafka, tool: GroupTool, tmp_path: Path) -> Twins:
    topic = any_kafka.new_topic(partitions=PARTITIONS)
    fill(any_kafka, topic, range(30), PARTITIONS)
    name = any_kafka.new_name("group")
    return Twins(any_kafka, tool, topic, f"{name}-theirs", f"{name}--ours-", tmp_path)


@pytest.mark.parametrize(
    "how",
    [
        *("--to-earliest", "--to-latest", "--to-current", "--to-offset 5", "--to-offset 50", "--shift-by -2"),
        *("--by-duration PT1H", "--to-datetime 2020-01-01T00:00:00.000", "--to-datetime 2040-01-01T00:00:00.000"),
    ],
)
def test_an_executed_reset_is_equal(twins: Twins, how: str) -> None:
    twins.commit((0, 4), (1, 10), (2, 0))
    twins.same("--reset-offsets", "--group", "{group}", "--topic", twins.topic, *how.split(), "--execute")
    theirs, ours = twins.committed()
    assert len(ours) == PARTITIONS
    assert ours == theirs


def test_exported_offsets_are_restored(twins: Twins) -> None:
    twins.commit((0, 4), (1, 10))
    how = ("--reset-offsets", "--group", "{group}", "--all-topics", "--to-current", "--export")
    exported = twins.same(*how, "--dry-run")
    file = twins.state / "positions.csv"
    file.write_text(exported.stdout)
    twins.commit((0, 9), (1, 1))
    twins.same("--reset-offsets", "--group", "{group}", "--from-file", str(file), "--execute")
    assert twins.committed() == [{0: 4, 1: 10}] * 2


def test_a_reset_creates_an_unknown_group(twins: Twins) -> None:
    twins.same("--reset-offsets", "--group", "{group}", "--topic", f"{twins.topic}:1", "--to-latest", "--execute")
    assert twins.committed() == [{1: 10}] * 2


def test_a_live_group_is_refused(twins: Twins) -> None:
    twins.commit((0, 4))
    with (
        MAKERS["confluent"](twins.kafka, twins.theirs, twins.topic, commit="none") as one,
        MAKERS["confluent"](twins.kafka, twins.ours, twins.topic, commit="none") as two,
    ):
        wait_until(lambda: len(one.assigned()) == len(two.assigned()) == PARTITIONS, "members", 40)
        topic = ("--topic", twins.topic)
        twins.same("--reset-offsets", "--group", "{group}", *topic, "--to-latest", "--execute", status=REFUSED)
        twins.same("--delete-offsets", "--group", "{group}", *topic, status=REFUSED)
        twins.same("--delete", "--group", "{group}", status=REFUSED)
        assert twins.committed() == [{0: 4}] * 2
    assert not list(twins.state.glob("**/*.json")), "nothing was done, so there is nothing to undo"


def test_offsets_are_deleted(twins: Twins) -> None:
    twins.commit((0, 4), (1, 10), (2, 3))
    twins.same("--delete-offsets", "--group", "{group}", "--topic", f"{twins.topic}:1,2")
    assert twins.committed() == [{0: 4}] * 2
    twins.same("--delete-offsets", "--group", "{group}", "--topic", f"{twins.topic}:0,9", status=NOT_FOUND)
    twins.same("--delete-offsets", "--group", "{group}", "--topic", "there-is-none", status=NOT_FOUND)


def test_offsets_of_an_unknown_group_are_an_error(twins: Twins) -> None:
    twins.same("--delete-offsets", "--group", "{group}", "--topic", twins.topic, status=NOT_FOUND)


def test_groups_are_deleted(twins: Twins) -> None:
    twins.commit((0, 4))
    twins.same("--delete", "--group", "{group}")
    assert twins.committed() == [{}] * 2
    twins.same("--delete", "--group", "{group}", status=NOT_FOUND)


def test_the_deletable_groups_of_several_are_deleted(twins: Twins) -> None:
    twins.commit((0, 4))
    twins.same("--delete", "--group", "{group}", "--group", "there-is-none", status=NOT_FOUND)
    assert twins.committed() == [{}] * 2


# ---- what is wanted to differ ----


def test_undo_restores_the_offsets_of_a_reset(twins: Twins) -> None:
    """Offsets, leader epochs and metadata, which Apache's tool drops."""
    before = {
        TopicPartition(twins.topic, 0): OffsetAndMetadata(4, 0, "from the night's run"),
        TopicPartition(twins.topic, 1): OffsetAndMetadata(10, -1, ""),
    }
    properties = {"bootstrap.servers": twins.kafka.bootstrap_servers}
    with closing(connect(ClientConfig.from_properties(properties))) as client:
        commit_offsets(client, twins.ours, before, client.clock.now_ms() + 20_000)
    _, ours = twins.both("--reset-offsets", "--group", "{group}", "--topic", twins.topic, "--to-earliest", "--execute")
    assert ours.status == 0
    after = read(twins.kafka, twins.ours)
    assert {tp.partition: it.offset for tp, it in after.items()} == {0: 0, 1: 0, 2: 0}
    assert after[TopicPartition(twins.topic, 0)].metadata == "from the night's run"
    undo = ours.stderr.strip().rpartition("kcli ")[2].split()
    servers = ("-b", twins.kafka.bootstrap_servers)
    done = run_kcli(*undo, "--execute", *servers, environ={"XDG_STATE_HOME": str(twins.state)})
    assert done.status == 0, done.err
    assert read(twins.kafka, twins.ours) == before


def test_nothing_is_committed_when_one_group_cannot_be_planned(twins: Twins) -> None:
    """Apache's tool may have moved the other group by then."""
    twins.commit((0, 4), (1, 4))
    commit(twins.kafka, f"{twins.ours}-2", (twins.topic, 0, 4))
    groups = ("--group", twins.ours, "--group", f"{twins.ours}-2")
    words = ("--bootstrap-server", twins.kafka.bootstrap_servers, "--reset-offsets", *groups)
    done = run_ours([*words, "--topic", f"{twins.topic}:0,1", "--shift-by", "1", "--execute"])
    assert done.status == 2
    assert read(twins.kafka, twins.ours)[TopicPartition(twins.topic, 0)].offset == 4


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("{topic},0\n", "line 1"),
        ("{topic},0,4\n{topic},1\n", "line 2"),
        ("topic,partition,offset\n{topic},0,4\n", "'partition' is not a valid partition"),
        ("{topic},0,4\n{topic},0,5\n", "a second, different offset"),
        ("", "is empty"),
    ],
)
def test_an_invalid_file_is_refused(twins: Twins, text: str, result: str) -> None:
    twins.commit((0, 4))
    file = twins.state / "positions.csv"
    file.write_text(text.format(topic=twins.topic))
    words = ("--reset-offsets", "--group", twins.ours, "--from-file", str(file), "--execute")
    done = run_ours(["--bootstrap-server", twins.kafka.bootstrap_servers, *words])
    assert done.status == 2
    assert result in done.stdout
    assert read(twins.kafka, twins.ours)[TopicPartition(twins.topic, 0)].offset == 4


def test_apache_exit_codes_are_available(twins: Twins) -> None:
    servers = ("--bootstrap-server", twins.kafka.bootstrap_servers)
    for words, ours, theirs in (
        ((*servers, "--describe", "--group", "there-is-none"), 3, 0),
        (("--list",), 2, 1),
        (("--bootstrap-server", "127.0.0.1:1", "--list", "--timeout", "300"), 5, 0),
        (("--version",), 0, 0),
    ):
        assert run_ours(words).status == ours
        assert run_ours([*words, "--apache-exit-codes"]).status == theirs


def test_groups_of_other_protocol_types_are_ignored(real_kafka: Kafka, tool: GroupTool) -> None:
    """Kafka Connect's worker groups: not listed, not described, and not reset."""
    group = real_kafka.new_name("workers")
    topic = real_kafka.new_topic()
    with closing(connect(ClientConfig.from_properties({"bootstrap.servers": real_kafka.bootstrap_servers}))) as client:
        protocols = [JoinGroupRequestProtocol(name="v0", metadata=b"")]
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="connect",
            protocols=protocols,
        )
        for _ in range(2):  # the first answer only gives a member id
            request.member_id = ask_coordinator(client, group, request, client.clock.now_ms() + 20_000).member_id
    servers = ("--bootstrap-server", real_kafka.bootstrap_servers)
    for words, status in (
        (("--describe", "--group", group), REFUSED),
        (("--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--dry-run"), REFUSED),
        (("--delete", "--group", group), REFUSED),
    ):
        theirs, ours = tool.run([*servers, *words]), run_ours([*servers, *words])
        assert normalised(ours) == normalised(theirs)
        assert ours.status == status
    assert group not in run_ours([*servers, "--list"]).stdout


def test_an_unreachable_cluster_is_reported(tool: GroupTool) -> None:
    words = ["--bootstrap-server", "127.0.0.1:1", "--describe", "--group", "g", "--timeout", "300"]
    theirs, ours = tool.run(words), run_ours(words)
    begin = "\nError: Executing consumer group command failed due to org.apache.kafka.common.errors.TimeoutException: "
    assert theirs.stdout.startswith(begin)
    assert ours.stdout.startswith(begin)
    assert ours.status == 5
