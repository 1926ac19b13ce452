"""`kcli topic truncate` on the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kcli.broker.testing.embedded import EmbeddedBroker
from tests.cli.fake import Result, run_kcli

FIRST_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as embedded:
        yield embedded


def filled(broker: EmbeddedBroker, topic: str) -> str:
    """Create a topic of two partitions with 10 records each, one a second; `billing` has read 2 and 10 of them."""
    broker.create_topic(topic, partitions=2)
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(20):
        producer.produce(topic, b"x", partition=number % 2, timestamp=FIRST_MS + number // 2 * 1000)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 2), TopicPartition(topic, 1, 10)], asynchronous=False)
    consumer.close()
    return topic


def truncate(broker: EmbeddedBroker, *argv: str) -> Result:
    return run_kcli("topic", "truncate", *argv, "-b", broker.address, "--output", "json")


def shown(result: Result) -> list[tuple[Any, ...]]:
    fields = ("partition", "status", "start_offset", "new_start", "end_offset", "records", "unread_by")
    return [tuple(item[field] for field in fields) for item in result.document["items"]]


def starts(broker: EmbeddedBroker, topic: str) -> list[int]:
    result = run_kcli("topic", "describe", topic, "--offsets", "-b", broker.address, "--output", "json")
    return [it["start_offset"] for it in result.document["items"][0]["partitions"]]


def test_the_plan_says_what_is_lost_and_who_has_not_read_it(broker: EmbeddedBroker) -> None:
    topic = filled(broker, "orders")

    plan = truncate(broker, topic, "--before", "6")

    assert plan.status == 0
    assert shown(plan) == [
        (0, "would-be-truncated", 0, 6, 10, 6, {"billing": 4}),
        (1, "would-be-truncated", 0, 6, 10, 6, {}),
    ]
    assert plan.err == (
        "12 records of 2 partitions to delete; not read by: billing (4)\n"
        "deleted records cannot be restored\n"
        "nothing was truncated; use --execute to apply the plan\n"
    )
    assert starts(broker, topic) == [0, 0]

    done = truncate(broker, topic, "--before", "6", "--execute")

    assert (done.status, [row[1] for row in shown(done)]) == (0, ["truncated", "truncated"])
    assert starts(broker, topic) == [6, 6]
    again = truncate(broker, topic, "--before", "6", "--execute")
    assert (again.status, [row[1] for row in shown(again)]) == (0, ["unchanged", "unchanged"])


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        *(("end", 10), ("latest", 10), ("-3", 7), ("+4", 4)),
        *((f"@{(FIRST_MS + 2500) / 1000}", 3), ("@2023-11-15", 10), ("2023-11-15", 10)),
    ],
)
def test_the_first_record_to_keep(broker: EmbeddedBroker, spec: str, expected: int) -> None:
    topic = filled(broker, f"kept-{expected}-{len(spec)}")
    assert truncate(broker, f"{topic}:1", "--before", spec, "--execute").status == 0
    assert starts(broker, topic) == [0, expected]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        *((spec, "; use one of end, 100, +100, -100, @TIME") for spec in ("10:20", "0=3", ":end", "10:", "")),
        ("x" * 100, "; use one of end, 100, +100, -100, @TIME"),
        ("start", ": it deletes nothing; use one of end, 100, +100, -100, @TIME"),
        ("@-1h:", "; '-1h:' is not a valid time; use seconds (9 or 10 digits)"),
        ("@-2h:-1h", "; '-2h:-1h' is not a valid time; use seconds (9 or 10 digits)"),
        ("1h", "; a time in the past begins with '-' or '@-', like @-1h"),
    ],
)
def test_other_ranges_are_not_valid(broker: EmbeddedBroker, spec: str, reason: str) -> None:
    result = truncate(broker, "orders", "--before", spec)
    assert (result.status, f"--before: '{spec[:40]}' is not valid{reason}" in result.err) == (2, True), result.err


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("@20261128120000", "'20261128120000' is not a valid time; write the date as 2026-11-28T12:00:00"),
        ("@20261128", "write the date as 2026-11-28"),
        ("@1700000000000000", "seconds since 1970 have 9 or 10 digits, milliseconds 12 or 13"),
        ("@1700000000000000000", "seconds since 1970 have 9 or 10 digits, milliseconds 12 or 13"),
        ("@2024-02-30", "'2024-02-30' is not on the calendar"),
    ],
)
def test_a_time_of_an_unknown_unit_deletes_nothing(broker: EmbeddedBroker, spec: str, reason: str) -> None:
    topic = filled(broker, f"unit-{len(reason)}-{len(spec)}")
    result = truncate(broker, topic, "--before", spec, "--execute")
    assert (result.status, reason in result.err) == (2, True), result.err
    assert starts(broker, topic) == [0, 0]


@pytest.mark.parametrize("spec", ["@2030-01-01", "@2026112812"])
def test_a_time_after_now_is_refused_unless_it_is_allowed(broker: EmbeddedBroker, spec: str) -> None:
    topic = filled(broker, f"future-{spec[1:]}")
    for more in ([], ["--execute"]):
        refused = truncate(broker, topic, "--before", spec, *more)
        assert (refused.status, "is after now, " in refused.err) == (4, True), refused.err
        assert "use --before end to delete all present records, or --allow-future" in refused.err
    assert starts(broker, topic) == [0, 0]

    allowed = truncate(broker, topic, "--before", spec, "--allow-future", "--execute")
    assert (allowed.status, starts(broker, topic)) == (0, [10, 10])


def test_the_plan_has_the_time_and_its_place_in_each_log(broker: EmbeddedBroker) -> None:
    topic = filled(broker, "times")

    def plan(spec: str) -> tuple[list[tuple[object, ...]], str]:
        result = truncate(broker, topic, "--before", spec)
        items = result.document["items"]
        return [(item["status"], item["new_start"], item["why"]) for item in items], result.err.splitlines()[0]

    assert plan("@1700000004.5") == (
        [("would-be-truncated", 5, "first record at or after 2023-11-14T22:13:24.500Z")] * 2,
        "before 2023-11-14T22:13:24.500Z: 10 records of 2 partitions to delete; not read by: billing (3)",
    )
    assert plan("@2020-01-01") == (
        [("unchanged", 0, "first record at or after 2020-01-01T00:00:00.000Z; log start")] * 2,
        "before 2020-01-01T00:00:00.000Z: 0 records of 0 partitions to delete",
    )
    assert plan("@2024-01-01") == (
        [("would-be-truncated", 10, "no record at or after 2024-01-01T00:00:00.000Z; log end")] * 2,
        "before 2024-01-01T00:00:00.000Z: 20 records of 2 partitions to delete; not read by: billing (8)",
    )
    assert plan("5")[0] == [("would-be-truncated", 5, None)] * 2


def test_a_range_is_required(broker: EmbeddedBroker) -> None:
    assert truncate(broker, "orders").err == "kcli: give --before, such as --before end or --before @-7d\n"


def test_what_brokers_refuse_is_refused_in_the_plan(broker: EmbeddedBroker) -> None:
    topic = filled(broker, "mixed")
    broker.create_topic("compacted", configs={"cleanup.policy": "compact"})
    for other, reason in (("compacted", "cleanup.policy=compact"), ("__consumer_offsets:0", "internal topic")):
        result = truncate(broker, topic, other, "--before", "end", "--execute")
        assert result.status == 4
        assert reason in result.err
    assert "ends at offset 10, before 11" in truncate(broker, topic, "--before", "11", "--execute").err
    assert starts(broker, topic) == [0, 0]


def test_a_missing_topic_or_partition_has_the_status_of_what_does_not_exist(broker: EmbeddedBroker) -> None:
    assert truncate(broker, "nothing", "--before", "end").status == 3
    assert truncate(broker, "compacted:7", "--before", "end").status == 3
