"""`kcli group ...` on groups of foreign members, on our broker and on Apache's: the output is true."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from kcli.admin.offsets.commits import commit_offsets
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.cli.fake import Result, run_kcli
from tests.interop.clients.test_confluent_groups import fill
from tests.interop.groups.members import MAKERS, MemberProcess
from tests.interop.shapes import wait_until
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

PARTITIONS = 4


def kcli_group(kafka: Kafka, *words: str, state: Path | None = None) -> Result:
    environ = {"XDG_STATE_HOME": str(state)} if state is not None else None
    return run_kcli("group", *words, "-b", kafka.bootstrap_servers, "--timeout", "20", environ=environ)


def items(kafka: Kafka, *words: str) -> list[dict[str, Any]]:
    result = kcli_group(kafka, *words, "--output", "json")
    assert result.status == 0, result.err
    found: list[dict[str, Any]] = json.loads(result.out)["items"]
    return found


def owned(members: list[MemberProcess]) -> dict[TopicPartition, MemberProcess]:
    return {tp: member for member in members for tp in member.assigned()}


def a_group_is_shown_as_it_is(kafka: Kafka, makers: tuple[str, ...], how: dict[str, str], kind: str) -> None:
    """Members join, read all and commit; kcli shows for each partition what its owner reports itself."""
    topic, group = kafka.new_topic(partitions=PARTITIONS), kafka.new_name("group")
    fill(kafka, topic, range(40), PARTITIONS)
    with ExitStack() as stack:
        members = [
            stack.enter_context(MAKERS[maker](kafka, group, topic, client_id=f"by-{maker}", **how)) for maker in makers
        ]
        wait_until(lambda: len(owned(members)) == PARTITIONS and all(m.assigned() for m in members), f"{members}", 40)
        wait_until(lambda: kcli_group(kafka, "wait", group, "--until", "lag<=0 and state=stable").status == 0, "no lag")

        (described,) = items(kafka, "describe", group)
        assert (described["type"], described["state"], described["member_count"]) == (kind, "Stable", len(makers))
        assert described["total"]["lag"] == 0
        owners = owned(members)
        for partition in described["partitions"]:
            (owner,) = partition["owners"]
            assert owner["client_id"] == f"by-{owners[topic, partition['partition']].maker}"
            assert owner["host"] in ("127.0.0.1", "localhost")
            assert (partition["committed"], partition["start"], partition["end"]) == (10, 0, 10)
            assert (partition["lag"], partition["time_lag_ms"]) == (0, 0)

        (shown,) = items(kafka, "describe", group, "--members")
        result = {m["client_id"]: m["assignment"][topic] for m in shown["members"]}
        assert result == {f"by-{m.maker}": sorted(tp.partition for tp in m.assigned()) for m in members}
        assert [group, kind, "Stable", str(len(makers))] in listed(kafka, "--topic", topic)

        for one in members:
            one.leave()
    fill(kafka, topic, range(8), PARTITIONS)
    assert kcli_group(kafka, "wait", group, "--until", "empty").status == 0
    (left,) = items(kafka, "describe", group)
    assert (left["state"], left["total"]["lag"], left["member_count"]) == ("Empty", 8, 0)
    assert [p["owners"] for p in left["partitions"]] == [[]] * PARTITIONS
    assert 0 <= left["total"]["max_time_lag_ms"] < 60_000


def listed(kafka: Kafka, *words: str) -> list[list[str]]:
    """Return group, type, state and members of each row."""
    rows = [line.split() for line in kcli_group(kafka, "list", *words).text.splitlines()[1:]]
    return [[*row[:3], row[4]] for row in rows]


def test_a_classic_group_of_kcat_confluent_and_java_is_shown(any_kafka: Kafka) -> None:
    a_group_is_shown_as_it_is(any_kafka, ("kcat", "confluent", "java"), {"assignor": "range"}, "classic")


def test_a_kip848_group_is_shown(real_kafka: Kafka) -> None:
    """KIP-848, members of Java, confluent-kafka and kcli."""
    a_group_is_shown_as_it_is(real_kafka, ("confluent", "java", "kcli"), {"protocol": "consumer"}, "consumer")


def commit(kafka: Kafka, group: str, *offsets: tuple[str, int, int]) -> None:
    """Commit for a group without members."""
    with closing(connect(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers}))) as client:
        stored = {TopicPartition(topic, number): OffsetAndMetadata(offset) for topic, number, offset in offsets}
        codes = commit_offsets(client, group, stored, client.clock.now_ms() + 20_000)
    assert not any(codes.values()), codes


@pytest.fixture
def left_behind(any_kafka: Kafka) -> tuple[str, str]:
    """Create a topic with 10 records per partition, and a group without members that has read 25 of them."""
    topic, group = any_kafka.new_topic(partitions=PARTITIONS), any_kafka.new_name("group")
    fill(any_kafka, topic, range(40), PARTITIONS)
    commit(any_kafka, group, (topic, 0, 10), (topic, 1, 9), (topic, 2, 6))
    return topic, group


def test_scripts_can_sum_the_columns(any_kafka: Kafka, left_behind: tuple[str, str]) -> None:
    topic, group = left_behind
    heading, *rows = kcli_group(any_kafka, "describe", group).text.splitlines()
    at = heading.split().index("LAG")
    assert [row.split()[1:7] for row in rows] == [
        [topic, "0", "10", "0", "10", "0"],
        [topic, "1", "9", "0", "10", "1"],
        [topic, "2", "6", "0", "10", "4"],
    ]
    assert sum(int(row.split()[at]) for row in rows) == 5
    (line,) = [row.split() for row in kcli_group(any_kafka, "lag", group).text.splitlines()[1:]]
    assert line[:7] == [group, "classic", "Empty", "0", "3", "5", "4"]
    assert f"{group} (classic, Empty, 0 members): lag 5 in 3 partitions" in kcli_group(any_kafka, "describe", group).err


def test_lagging_rows_sorted_as_csv(any_kafka: Kafka, left_behind: tuple[str, str]) -> None:
    _, group = left_behind
    found = kcli_group(any_kafka, "describe", group, "--lagging", "--sort", "lag", "--output", "csv").text.splitlines()
    fields = [line.split(",") for line in found]
    assert fields[0][:8] == ["group", "topic", "partition", "committed", "start", "end", "lag", "time_lag_ms"]
    assert [(row[2], row[6]) for row in fields[1:]] == [("2", "4"), ("1", "1")]


@pytest.mark.parametrize(("condition", "status"), [("lag>4", 6), ("lag>5 or age>1h", 0), ("lag>=5 and members=0", 6)])
def test_fail_if_sets_the_exit_status(
    any_kafka: Kafka, left_behind: tuple[str, str], condition: str, status: int
) -> None:
    _, group = left_behind
    result = kcli_group(any_kafka, "lag", group, "--fail-if", condition)
    assert result.status == status
    assert (f"kcli: {group}: {condition}: " in result.err) is (status == 6)


def test_the_list_is_filtered_by_name_state_type_and_topic(any_kafka: Kafka, left_behind: tuple[str, str]) -> None:
    topic, group = left_behind
    other = any_kafka.new_name("other")
    commit(any_kafka, other, (any_kafka.new_topic(), 0, 0))
    both = f"^({group}|{other})$"
    assert listed(any_kafka, "--match", both) == sorted(
        [[group, "classic", "Empty", "0"], [other, "classic", "Empty", "0"]]
    )
    assert kcli_group(any_kafka, "list", "--match", both, "--topic", topic, "--names").text == f"{group}\n"
    assert kcli_group(any_kafka, "list", "--match", both, "--state", "empty", "--type", "Classic", "--names").text == (
        "".join(f"{name}\n" for name in sorted([group, other]))
    )
    assert kcli_group(any_kafka, "list", "--match", both, "--state", "Stable", "--names").text == ""


def test_an_unknown_group_is_a_row_beside_the_others(any_kafka: Kafka, left_behind: tuple[str, str]) -> None:
    _, group = left_behind
    result = kcli_group(any_kafka, "describe", "no-such-group", group, "--output", "json")
    assert result.status == 3
    missing, found = json.loads(result.out)["items"]
    assert missing["error"]["code"] == "GROUP_ID_NOT_FOUND"
    assert found["total"]["lag"] == 5
    assert kcli_group(any_kafka, "wait", "no-such-group", "--until", "empty").status == 3


def test_an_unfulfilled_wait_ends_at_its_timeout(any_kafka: Kafka, left_behind: tuple[str, str]) -> None:
    _, group = left_behind
    words = ("wait", group, "--until", "lag<=4", "--interval", "0.1", "-b", any_kafka.bootstrap_servers)
    result = run_kcli("group", *words, "--timeout", "0.5", "--output", "jsonl")
    assert result.status == 5
    item = json.loads(result.out)
    assert (item["reached"], item["lag"], item["state"]) == (False, 5, "Empty")
    assert 500 <= item["waited_ms"] < 2500
    assert f"{group} did not reach lag<=4 in 0.5 s: lag is 5" in result.err


def test_deleting_without_execute_changes_nothing(
    any_kafka: Kafka, left_behind: tuple[str, str], tmp_path: Path
) -> None:
    topic, group = left_behind
    planned = kcli_group(any_kafka, "delete", group, "--output", "json")
    assert planned.status == 0
    (item,) = json.loads(planned.out)["items"]
    assert (item["status"], item["partitions"], item["lag"]) == ("would-be-deleted", 3, 5)
    assert item["offsets"][1] == {"topic": topic, "partition": 1, "offset": 9}
    assert "use --execute" in planned.err

    refused = kcli_group(any_kafka, "delete", group, "no-such-group", "--execute")
    assert (refused.status, "nothing was deleted" in refused.err) == (3, True)
    assert len(items(any_kafka, "describe", group)) == 1
    done = kcli_group(any_kafka, "delete", group, "no-such-group", "--if-exists", "--execute", state=tmp_path)
    assert [line.split()[1] for line in done.text.splitlines()[1:]] == ["deleted", "missing"]
    assert done.status == 0
    assert kcli_group(any_kafka, "describe", group).status == 3


def test_a_dead_static_member_is_removed(any_kafka: Kafka) -> None:
    """After kill -9 its partitions would wait for the end of its session, here five minutes."""
    topic, group = any_kafka.new_topic(partitions=2), any_kafka.new_name("group")
    with MAKERS["confluent"](any_kafka, group, topic, instance_id="till-7", session_timeout_ms=300_000) as till:
        till.wait_assigned(2)
        till.kill()
    refused = kcli_group(any_kafka, "delete", group, "--execute")
    assert (refused.status, "the group has 1 member" in refused.text) == (4, True)

    plan = kcli_group(any_kafka, "remove-members", group, "--instance-id", "till-7")
    assert [line.split()[2:4] for line in plan.text.splitlines()[1:]] == [["would-be-removed", "till-7"]]
    assert kcli_group(any_kafka, "remove-members", group, "--instance-id", "till-8", "--all").status == 2
    unknown = kcli_group(any_kafka, "remove-members", group, "--instance-id", "till-7", "--member", "x", "--execute")
    assert (unknown.status, "nothing was removed" in unknown.err) == (1, True)
    assert items(any_kafka, "describe", group, "--members")[0]["member_count"] == 1

    done = kcli_group(any_kafka, "remove-members", group, "--instance-id", "till-7", "--reason", "sold", "--execute")
    assert done.status == 0, done.err
    assert kcli_group(any_kafka, "wait", group, "--until", "empty").status == 0
