"""Failures of one partition, group or broker: a row with its error beside the others; invalid options."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from kcli.admin.offsets.commits import commit_offsets
from kcli.broker.testing.control import SILENCE
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.cli.options import Common
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.error_codes import ErrorCode
from kcli.protocol.messages import list_offsets as offsets
from kcli.protocol.messages import offset_fetch as fetch
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.cli.fake import Result, run_kcli


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """`billing` has committed in `orders` and in `secret`, `mailing` in `orders`; nothing is left to read."""
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as serving:
        serving.create_topic("orders", 2)
        serving.create_topic("secret", 1)
        both = {TopicPartition(*at): OffsetAndMetadata(0) for at in (("orders", 0), ("orders", 1), ("secret", 0))}
        with closing(connect(ClientConfig.from_properties({"bootstrap.servers": serving.address}))) as client:
            deadline_ms = client.clock.now_ms() + 10_000
            commit_offsets(client, "billing", both, deadline_ms)
            commit_offsets(client, "mailing", {TopicPartition("orders", 0): OffsetAndMetadata(0)}, deadline_ms)
        yield serving


def group(broker: EmbeddedBroker, *words: str, timeout: str = "10") -> Result:
    return run_kcli("group", *words, "-b", broker.address, "--timeout", timeout)


def items(result: Result) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.document["items"]
    return found


def one_topic_is_refused(request: offsets.ListOffsetsRequest, _: object) -> offsets.ListOffsetsResponse:
    def answer(topic: str, partition: int) -> offsets.ListOffsetsPartitionResponse:
        if topic == "secret":
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return offsets.ListOffsetsPartitionResponse(partition_index=partition, error_code=code)
        return offsets.ListOffsetsPartitionResponse(partition_index=partition, offset=7)

    return offsets.ListOffsetsResponse(
        topics=[
            offsets.ListOffsetsTopicResponse(
                name=topic.name, partitions=[answer(topic.name, p.partition_index) for p in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def test_a_failed_partition_is_a_row_with_an_error(broker: EmbeddedBroker) -> None:
    broker.intercept("ListOffsets", one_topic_is_refused)
    described = group(broker, "describe", "billing", "--no-time-lag")
    assert described.status == 1
    heading, *rows = [line.split() for line in described.text.splitlines()]
    assert heading[-1] == "ERROR"
    assert [row[1:7] for row in rows] == [
        ["orders", "0", "0", "7", "7", "7"],
        ["orders", "1", "0", "7", "7", "7"],
        ["secret", "0", "0", "-", "-", "-"],
    ]
    assert "TOPIC_AUTHORIZATION_FAILED" in described.text
    assert "  secret: lag unknown in 1 partition" in described.err

    (item,) = items(group(broker, "describe", "billing", "--no-time-lag", "--output", "json"))
    assert [p.get("error", {}).get("code") for p in item["partitions"]] == [None, None, "TOPIC_AUTHORIZATION_FAILED"]
    lag = group(broker, "lag", "billing", "mailing", "--no-time-lag", "--output", "json")
    assert lag.status == 1
    billing, mailing = items(lag)
    assert (billing["lag"], mailing["lag"]) == (14, 7)
    assert billing["error"]["message"].startswith("the sums are incomplete: ")
    assert "error" not in mailing


@pytest.mark.parametrize(("condition", "status"), [("lag>10", 6), ("lag>1000", 1), ("members>0", 1)])
def test_an_incomplete_sum_does_not_satisfy_the_condition(broker: EmbeddedBroker, condition: str, status: int) -> None:
    broker.intercept("ListOffsets", one_topic_is_refused)
    result = group(broker, "lag", "billing", "--no-time-lag", "--fail-if", condition)
    assert result.status == status
    assert ("unknown whether lag>1000: lag is 14 or more" in result.err) is (condition == "lag>1000")


def test_a_group_with_refused_offsets_is_a_row_beside_the_others(broker: EmbeddedBroker) -> None:
    def refuse_one(request: fetch.OffsetFetchRequest, _: object) -> fetch.OffsetFetchResponse:
        topic = fetch.OffsetFetchResponseTopics(
            name="orders", partitions=[fetch.OffsetFetchResponsePartitions(partition_index=0, committed_offset=0)]
        )
        return fetch.OffsetFetchResponse(
            groups=[
                fetch.OffsetFetchResponseGroup(group_id=g.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
                if g.group_id == "mailing"
                else fetch.OffsetFetchResponseGroup(group_id=g.group_id, topics=[topic])
                for g in request.groups
            ]
        )

    broker.intercept("OffsetFetch", refuse_one)
    described = group(broker, "describe", "--all", "--output", "json")
    assert described.status == 1
    billing, mailing = items(described)
    assert len(billing["partitions"]) == 1
    assert (mailing["partitions"], mailing["error"]["code"]) == ([], "GROUP_AUTHORIZATION_FAILED")
    assert "GROUP_AUTHORIZATION_FAILED" in group(broker, "describe", "--all").text


def test_the_timeout_limits_the_wait_for_a_silent_coordinator(broker: EmbeddedBroker) -> None:
    broker.intercept("DescribeGroups", lambda *_: SILENCE)
    for words in (("describe", "billing"), ("lag", "--all"), ("wait", "billing", "--until", "stable")):
        result = group(broker, *words, timeout="0.6")
        assert result.status == 5, result
        assert "internal error" not in result.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("describe", "group names, --all, or --match REGEX"),
        ("describe billing --all", "in exactly one form"),
        ("describe --match [", "--match: '[' is not a valid regular expression"),
        ("describe billing --members --state", "--members and --state cannot be combined"),
        ("describe billing --members --lagging", "--lagging cannot be combined with --members"),
        ("describe billing --state --sort lag", "--sort cannot be combined with --state"),
        ("describe billing --sort size", "--sort: 'size' is not valid; use topic, lag, time-lag or member"),
        ("describe billing --isolation-level serializable", "--isolation-level: 'serializable' is not valid"),
        ("lag", "group names, --all"),
        ("lag billing --fail-if lag>", "is not a valid condition"),
        ("lag billing --fail-if age>1m --no-time-lag", "--fail-if with time-lag or age cannot be combined with"),
        ("wait billing --until full", "--until: use empty, stable"),
        ("wait billing --until empty --interval 0", "--interval: 0 is not valid; use a number of seconds above 0"),
        ("list --state Fine", "--state: 'Fine' is not valid; use Stable, Empty"),
        ("list --type modern", "--type: 'modern' is not valid; use classic, consumer, share, streams"),
        ("delete", "in exactly one form: group names or --match REGEX"),
        ("remove-members billing", "select members with --member, --instance-id and --client-id"),
    ],
)
def test_invalid_options_are_one_line_before_any_request(words: str, says: str) -> None:
    result = run_kcli("group", *words.split(), "-b", "127.0.0.1:1", "--timeout", "0.1")
    assert result.status == 2, result
    assert says in result.err
    assert len(result.err.splitlines()) == 1


def test_wait_uses_the_field_names_of_the_other_commands(broker: EmbeddedBroker) -> None:
    waited = group(broker, "wait", "billing", "--until", "lag>=0", "--output", "json")
    listed = group(broker, "lag", "billing", "--output", "json")
    assert items(waited)[0]["member_count"] == items(listed)[0]["member_count"] == 0
    assert "MEMBERS" in group(broker, "wait", "billing", "--until", "empty").text


def test_a_wait_that_times_out_has_waited_for_at_least_the_timeout(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect_slowly(common: Common) -> ConsumerNetworkClient:
        time.sleep(0.1)  # a real delay: the wait and its deadline use the system's clock
        return connect_at_once(common)

    connect_at_once = Common.connect
    monkeypatch.setattr(Common, "connect", connect_slowly)
    result = group(broker, "wait", "billing", "--until", "lag>5", "--output", "json", timeout="0.3")
    assert result.status == 5
    assert items(result)[0]["waited_ms"] >= 300
