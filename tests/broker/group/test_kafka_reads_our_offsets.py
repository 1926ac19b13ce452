"""Apache Kafka on our __consumer_offsets: its console formatters read it, and its broker starts with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.broker.group.harness import ask
from tests.broker.group.kafka_history import TOPIC, describe_all_groups, fetch_all_offsets, write_history
from tests.broker.group.offsets_harness import OffsetsSocketHarness, commit, delete, fetch
from tests.broker.group.requests import form_group_of_one, leave, subscribed_to
from tests.broker_process import BrokerProcess
from tests.real_kafka import Kafka, KafkaNode, OwnBroker

pytestmark = pytest.mark.slow

FORMATTERS = "org.apache.kafka.tools.consumer."
_MEMBER_ID = re.compile(r"reader-[0-9a-f-]{36}")


TIMEOUTS_MS = (5_000, 20_000, 60_000)


def console_reads(kafka: Kafka, formatter: str, *groups: str) -> list[Any]:
    """Return the records of these groups as the console consumer prints them, from the beginning of the topic.

    The tool ends after a time without records, which may elapse before its first record; then it is run again.
    """
    arguments = ["--bootstrap-server", kafka.bootstrap_servers, "--topic", "__consumer_offsets", "--from-beginning"]
    arguments += ["--formatter", FORMATTERS + formatter, "--command-property", "enable.auto.commit=false"]
    for timeout_ms in TIMEOUTS_MS:
        printed = kafka.tool("ConsoleConsumer", *arguments, "--timeout-ms", str(timeout_ms), timeout_s=300).stdout
        if "{" in printed:
            break
    records, at, decoder = [], printed.find("{"), json.JSONDecoder()
    while at >= 0:  # the records have no separator
        record, end = decoder.raw_decode(printed, at)
        records.append(record)
        at = printed.find("{", end)
    return [record for record in records if record["key"]["data"]["group"] in groups]


def test_kafkas_console_formatters_read_offsets_and_groups(any_own_kafka: Callable[..., OwnBroker]) -> None:
    kafka = any_own_kafka()
    harness = OffsetsSocketHarness(kafka.bootstrap_servers)
    topic_id = harness.create_topic("orders", 4)
    client, member = harness.connect(), harness.connect("reader")
    commit(client, "simple", {"orders": [(0, 5, 3, "näme"), (1, 6)]})
    commit(client, "simple", {topic_id: [(1, 7)]}, 10)
    commit(client, "simple", {"orders": [(2, 8)]}, 2, retention_ms=60_000)
    delete(client, "simple", {"orders": [0]})
    reader, generation = form_group_of_one(member, "readers", protocols=(("range", subscribed_to("orders")),))
    commit(client, "readers", {"orders": [(0, 9)]}, generation=generation, member=reader)
    ask(member, leave("readers", reader))
    harness.close()

    offsets = console_reads(kafka, "OffsetsMessageFormatter", "simple", "readers")
    by_group = {
        name: [_offset(r) for r in offsets if r["key"]["data"]["group"] == name] for name in ("simple", "readers")
    }
    assert by_group == {
        "simple": [
            (0, 4, 5, 3, "näme", True, False),
            (1, 4, 6, -1, "", True, False),
            (1, 4, 7, -1, "", True, False),
            (2, 1, 8, None, "", False, True),
            (0, None),
        ],
        "readers": [(0, 4, 9, -1, "", True, False)],
    }
    groups = console_reads(kafka, "GroupMetadataMessageFormatter", "simple", "readers")
    assert [_group(record) for record in groups] == [
        ("", 0, None, None, []),
        ("consumer", 1, "range", "reader", [("reader", "reader", "/127.0.0.1", 20_000, 20_000, "YWxs")]),
        ("consumer", 2, None, None, []),
    ]


def _offset(record: Any) -> tuple[Any, ...]:
    key, value = record["key"]["data"], record["value"]
    assert (record["key"]["type"], key["topic"]) == (1, "orders")
    if value is None:
        return key["partition"], None
    data = value["data"]
    known = (key["partition"], value["version"], data["offset"], data.get("leaderEpoch"), data["metadata"])
    return (*known, "topicId" in data, "expireTimestamp" in data)


def _group(record: Any) -> tuple[Any, ...]:
    value, data = record["value"], record["value"]["data"]
    assert (record["key"]["type"], value["version"]) == (2, 3)
    assert data["currentStateTimestamp"] > 1_700_000_000_000
    leader = data["leader"] and _MEMBER_ID.sub("reader", data["leader"])
    fields = ("clientId", "clientHost", "rebalanceTimeout", "sessionTimeout", "assignment")
    members = [(_MEMBER_ID.sub("reader", m["memberId"]), *(m[name] for name in fields)) for m in data["members"]]
    return data["protocolType"], data["generation"], data["protocol"], leader, members


def test_directory_of_apache_kafka_is_served_by_our_broker_and_by_kafka_again(
    own_kafka: Callable[..., KafkaNode],
) -> None:
    real = own_kafka()
    harness, transactions = write_history(real)
    offsets, groups = fetch_all_offsets(harness.connect()), describe_all_groups(harness.connect())
    real.stop()
    harness.close()
    del transactions

    ours = BrokerProcess(real.folder)
    ours.start()
    try:
        harness = OffsetsSocketHarness(ours.bootstrap_servers)
        client = harness.connect()
        assert fetch_all_offsets(client) == offsets
        assert describe_all_groups(client) == groups
        assert [row[4] for row in fetch(client, "open", {TOPIC: [0, 1]}, stable=True)[1][0][1]] == [88, 0]

        commit(client, "simple", {TOPIC: [(0, 1000, 3, "by ours"), (2, 5)]})
        commit(client, "new", {TOPIC: [(0, 1)]})
        delete(client, "mixed", {TOPIC: [3]})
        after = fetch_all_offsets(client)
        harness.close()
        assert ours.stop() == 0
    finally:
        ours.kill()

    real.start()
    harness = OffsetsSocketHarness(real.bootstrap_servers)
    assert fetch_all_offsets(harness.connect()) == after
    assert dict(after["simple"])[TOPIC] == [[0, 1000, 3, "by ours", 0], [2, 5, -1, "", 0]]
    assert fetch(harness.connect(), "new", {TOPIC: [0]}) == (0, [(TOPIC, [(0, 1, -1, "", 0)])])
    harness.close()


def test_acknowledged_offsets_survive_kill_9(any_own_kafka: Callable[..., OwnBroker]) -> None:
    kafka = any_own_kafka()
    harness = OffsetsSocketHarness(kafka.bootstrap_servers)
    harness.create_topic("orders", 4)
    client = harness.connect()
    for offset in range(200):
        assert commit(client, f"group {offset % 5}", {"orders": [(offset % 4, offset)]})[0][1][0][1] == 0
    before = {n: fetch(client, f"group {n}", {"orders": [0, 1, 2, 3]}) for n in range(5)}
    harness.close()

    kafka.kill()
    kafka.start()

    client = OffsetsSocketHarness(kafka.bootstrap_servers).connect()
    assert {n: fetch(client, f"group {n}", {"orders": [0, 1, 2, 3]}) for n in range(5)} == before
    assert before[4][1][0][1][3] == (3, 199, -1, "", 0)
