"""`kcli topic ...` against a broker that answers from a script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import UUID

import pytest

from kcli.error_codes import ErrorCode
from kcli.protocol.messages import create_topics as create
from kcli.protocol.messages import delete_topics as delete
from kcli.protocol.messages import describe_configs as configs
from kcli.protocol.messages import list_offsets as offsets
from kcli.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.cli.fake import Result, run_kcli
from tests.cli.loopback import LoopbackBroker, loopback_broker

TOPICS = {"orders": 3, "bills": 1, "__consumer_offsets": 2}
STARTS = {("orders", 0): 10, ("orders", 1): 0, ("orders", 2): 0, ("bills", 0): 0}
ENDS = {("orders", 0): 110, ("orders", 1): 50, ("orders", 2): 0, ("bills", 0): 7}
MADE = UUID(int=7)


def _list_offsets(request: offsets.ListOffsetsRequest) -> offsets.ListOffsetsResponse:
    def answer(topic: str, asked: offsets.ListOffsetsPartition) -> offsets.ListOffsetsPartitionResponse:
        known = STARTS if asked.timestamp == -2 else ENDS
        return offsets.ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, offset=known.get((topic, asked.partition_index), 0), leader_epoch=4
        )

    return offsets.ListOffsetsResponse(
        topics=[
            offsets.ListOffsetsTopicResponse(name=t.name, partitions=[answer(t.name, p) for p in t.partitions])
            for t in request.topics
        ]
    )


def _create(request: create.CreateTopicsRequest) -> create.CreateTopicsResponse:
    def result(topic: create.CreatableTopic) -> create.CreatableTopicResult:
        if topic.name in TOPICS:
            return create.CreatableTopicResult(
                name=topic.name,
                error_code=ErrorCode.TOPIC_ALREADY_EXISTS,
                error_message=f"Topic '{topic.name}' already exists.",
            )
        if topic.name == "forbidden":
            return create.CreatableTopicResult(
                name=topic.name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="no"
            )
        return create.CreatableTopicResult(name=topic.name, topic_id=MADE, num_partitions=5, replication_factor=1)

    return create.CreateTopicsResponse(topics=[result(topic) for topic in request.topics])


def _delete(request: delete.DeleteTopicsRequest) -> delete.DeleteTopicsResponse:
    return delete.DeleteTopicsResponse(
        responses=[
            delete.DeletableTopicResult(
                name=t.name,
                topic_id=t.topic_id,
                error_code=ErrorCode.TOPIC_DELETION_DISABLED if t.name == "__consumer_offsets" else 0,
            )
            for t in request.topics
        ]
    )


def _configs(request: configs.DescribeConfigsRequest) -> configs.DescribeConfigsResponse:
    settings = [
        configs.DescribeConfigsResourceResult(name="retention.ms", value="60000", config_source=1),
        configs.DescribeConfigsResourceResult(name="cleanup.policy", value="delete", config_source=5),
    ]
    return configs.DescribeConfigsResponse(
        results=[
            configs.DescribeConfigsResult(resource_type=2, resource_name=r.resource_name, configs=settings)
            for r in request.resources
        ]
    )


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    answers = {
        offsets.ListOffsetsRequest: _list_offsets,
        create.CreateTopicsRequest: _create,
        delete.DeleteTopicsRequest: _delete,
        configs.DescribeConfigsRequest: _configs,
    }
    with loopback_broker(answers, topics=TOPICS) as serving:
        yield serving


def topic(broker: LoopbackBroker, *argv: str, terminal: bool = False, stdin: bytes = b"") -> Result:
    return run_kcli("topic", *argv, "-b", broker.address, "--timeout", "10", terminal=terminal, stdin=stdin)


def changes(broker: LoopbackBroker) -> list[object]:
    changing = (create.CreateTopicsRequest, delete.DeleteTopicsRequest)
    return [request for request in broker.requests if isinstance(request, changing)]


def items(result: Result) -> list[dict[str, object]]:
    document = result.document
    assert document["kcli"] == 1
    return document["items"]  # type: ignore[no-any-return]


def test_list_prints_bare_names_sorted_without_internal_ones(broker: LoopbackBroker) -> None:
    assert topic(broker, "list") == (0, b"bills\norders\n", "")
    assert topic(broker, "list", "--internal").out == b"__consumer_offsets\nbills\norders\n"


def test_control_characters_in_topic_names_are_escaped() -> None:
    with loopback_broker(topics={"a\x1b[31m": 1}) as hostile:
        assert run_kcli("topic", "list", "-b", hostile.address, terminal=True).text == "a\\x1b[31m\n"
        assert run_kcli("topic", "list", "-b", hostile.address).text == "a\x1b[31m\n"


def test_list_long_has_columns(broker: LoopbackBroker) -> None:
    header, first, _ = topic(broker, "list", "--long").text.splitlines()
    assert header.split() == ["TOPIC", "PARTITIONS", "REPLICATION", "INTERNAL", "TOPIC-ID"]
    assert first.split() == ["bills", "1", "1", "no", "-"]


def test_list_never_asks_a_broker_to_create_anything(broker: LoopbackBroker) -> None:
    topic(broker, "list")
    topic(broker, "describe", "orders")
    assert not [request for request in broker.requests if request.allow_auto_topic_creation]


def test_describe_shows_a_row_per_partition(broker: LoopbackBroker) -> None:
    header, *rows = topic(broker, "describe", "orders").text.splitlines()
    assert header.split() == ["TOPIC", "PARTITION", "LEADER", "LEADER-EPOCH", "REPLICAS", "ISR", "OFFLINE", "FAULTS"]
    assert [row.split() for row in rows] == [["orders", str(n), "1", "4", "1", "1", "-", "-"] for n in range(3)]


def test_describe_with_offsets_estimates_the_records(broker: LoopbackBroker) -> None:
    rows = [row.split()[-3:] for row in topic(broker, "describe", "orders", "--offsets").text.splitlines()]
    assert rows == [["START-OFFSET", "END-OFFSET", "RECORDS"], ["10", "110", "100"], ["0", "50", "50"], ["0", "0", "0"]]


def test_configs_shows_settings_of_the_topic_only(broker: LoopbackBroker) -> None:
    partitions, settings = topic(broker, "describe", "bills", "--configs").text.split("\n\n")
    assert len(partitions.splitlines()) == 2
    assert [line.split() for line in settings.splitlines()] == [
        ["TOPIC", "NAME", "VALUE", "SOURCE"],
        ["bills", "retention.ms", "60000", "topic"],
    ]
    in_csv = topic(broker, "describe", "bills", "--all-configs", "--output", "csv").text.splitlines()
    assert in_csv == [
        "topic,name,value,source,error",
        "bills,cleanup.policy,delete,default,",
        "bills,retention.ms,60000,topic,",
    ]


def test_describe_reports_a_missing_topic_beside_the_others(broker: LoopbackBroker) -> None:
    result = topic(broker, "describe", "bills", "oders", "--output", "json")
    assert result.status == 3
    bills, missing = items(result)
    assert len(bills["partitions"]) == 1  # type: ignore[arg-type]
    assert missing["error"]["code"] == "UNKNOWN_TOPIC_OR_PARTITION"  # type: ignore[index]
    assert topic(broker, "describe", "oders").text.splitlines()[0].endswith("ERROR")


def test_describe_as_jsonl_is_one_topic_per_line(broker: LoopbackBroker) -> None:
    lines = topic(broker, "describe", "bills", "orders", "--offsets", "--output", "jsonl").text.splitlines()
    bills, orders = map(json.loads, lines)
    assert bills["partitions"][0]["records"] == 7
    assert [p["partition"] for p in orders["partitions"]] == [0, 1, 2]


def test_create_reports_what_the_broker_made(broker: LoopbackBroker) -> None:
    result = topic(broker, "create", "new", "-p", "5", "-r", "1", "-c", "cleanup.policy=compact", "-c", "x=a=b")
    assert result.status == 0
    assert result.text.splitlines()[1].split() == ["new", "created", "5", "1", "AAAAAAAAAAAAAAAAAAAABw"]
    [request] = changes(broker)
    [asked] = request.topics  # type: ignore[attr-defined]
    assert (asked.name, asked.num_partitions, asked.replication_factor) == ("new", 5, 1)
    assert {c.name: c.value for c in asked.configs} == {"cleanup.policy": "compact", "x": "a=b"}


def test_create_uses_the_brokers_defaults_without_counts(broker: LoopbackBroker) -> None:
    topic(broker, "create", "new")
    [request] = changes(broker)
    assert (request.topics[0].num_partitions, request.topics[0].replication_factor) == (-1, -1)  # type: ignore[attr-defined]
    assert not request.validate_only  # type: ignore[attr-defined]


def test_a_dry_run_of_create_creates_nothing(broker: LoopbackBroker) -> None:
    assert "would-be-created" in topic(broker, "create", "new", "--dry-run").text
    [request] = changes(broker)
    assert request.validate_only  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("argv", "status", "statuses"),
    [
        (["new", "orders"], 1, ["created", "failed"]),
        (["new", "orders", "--if-not-exists"], 0, ["created", "exists"]),
        (["forbidden"], 4, ["failed"]),
        (["forbidden", "orders"], 1, ["failed", "failed"]),
        (["forbidden", "orders", "--if-not-exists"], 4, ["failed", "exists"]),
    ],
)
def test_create_reports_each_failure_and_creates_the_others(
    broker: LoopbackBroker, argv: list[str], status: int, statuses: list[str]
) -> None:
    result = topic(broker, "create", *argv, "--output", "json")
    assert result.status == status
    assert [item["status"] for item in items(result)] == statuses


@pytest.mark.parametrize("terminal", [False, True])
def test_delete_shows_the_plan_and_deletes_nothing_without_execute(broker: LoopbackBroker, terminal: bool) -> None:
    result = topic(broker, "delete", "orders", terminal=terminal, stdin=b"y\n")
    assert result.status == 0
    assert result.text.splitlines()[1].split() == ["orders", "would-be-deleted", "3", "150", "-"]
    assert result.err == (
        "deleted topics and their records cannot be restored\nnothing was deleted; use --execute to apply the plan\n"
    )
    assert changes(broker) == []


@pytest.mark.parametrize("option", ["--execute", "--yes", "-y"])
def test_delete_deletes_with_execute_and_its_hidden_synonyms(broker: LoopbackBroker, option: str) -> None:
    result = topic(broker, "delete", "orders", option)
    assert result.status == 0
    assert result.text.splitlines()[1].split() == ["orders", "deleted", "3", "150", "-"]
    [request] = changes(broker)
    assert [state.name for state in request.topics] == ["orders"]  # type: ignore[attr-defined]


def test_the_help_of_delete_has_execute_and_no_synonyms() -> None:
    text = run_kcli("topic", "delete", "--help").text
    assert "--execute" in text
    assert "--yes" not in text
    assert "--dry-run" not in text


def test_delete_deletes_nothing_if_a_topic_does_not_exist(broker: LoopbackBroker) -> None:
    result = topic(broker, "delete", "orders", "bils", "--execute", "--output", "json")
    assert result.status == 3
    assert [item["status"] for item in items(result)] == ["not-deleted", "failed"]
    assert changes(broker) == []


def test_delete_skips_missing_topics_with_if_exists(broker: LoopbackBroker) -> None:
    result = topic(broker, "delete", "orders", "bils", "--execute", "--if-exists", "--output", "json")
    assert result.status == 0
    assert [item["status"] for item in items(result)] == ["deleted", "missing"]
    only_missing = topic(broker, "delete", "bils", "--execute", "--if-exists")
    assert only_missing.status == 0
    assert len(changes(broker)) == 1


def test_delete_refuses_internal_topics_without_an_extra_option(broker: LoopbackBroker) -> None:
    """Kafka 4.3.1 deletes __consumer_offsets without a question, and all groups lose their offsets."""
    result = topic(broker, "delete", "orders", "__consumer_offsets", "--execute")
    assert result.status == 4
    assert "this is an internal topic; its deletion loses the committed offsets of all groups" in result.text
    assert "nothing was deleted" in result.err
    assert changes(broker) == []
    topic(broker, "delete", "__consumer_offsets", "--internal", "--execute")
    assert len(changes(broker)) == 1


def test_delete_with_dry_run_deletes_nothing(broker: LoopbackBroker) -> None:
    result = topic(broker, "delete", "orders", "--yes", "--dry-run")
    assert result.status == 0
    assert "would-be-deleted" in result.text
    assert changes(broker) == []


def test_delete_reports_what_the_broker_refused(broker: LoopbackBroker) -> None:
    answers = {**broker.answers}
    broker.answers[delete.DeleteTopicsRequest] = lambda r: delete.DeleteTopicsResponse(
        responses=[
            delete.DeletableTopicResult(name=t.name, error_code=ErrorCode.TOPIC_DELETION_DISABLED) for t in r.topics
        ]
    )
    result = topic(broker, "delete", "orders", "--execute")
    assert result.status == 4
    assert "TOPIC_DELETION_DISABLED" in result.text
    assert answers.keys() == broker.answers.keys()


def test_an_unreachable_broker_is_one_line_and_status_5() -> None:
    result = run_kcli("topic", "list", "-b", "127.0.0.1:1", "--timeout", "0.3")
    assert (result.status, result.out) == (5, b"")
    assert result.err.count("\n") == 1
    assert "127.0.0.1:1" in result.err


@pytest.mark.parametrize("address", ["nonsense", "host:port", "h:99999", "[::1"])
def test_a_malformed_address_is_a_usage_error(address: str) -> None:
    result = run_kcli("topic", "list", "-b", address)
    assert (result.status, result.out) == (2, b"")
    assert address in result.err


def test_a_host_that_does_not_resolve_is_named() -> None:
    result = run_kcli("topic", "list", "-b", "no-such-host.invalid:9092", "--timeout", "1")
    assert (result.status, result.out) == (5, b"")
    assert "no-such-host.invalid" in result.err
    assert result.err.count("\n") == 1


def test_describe_on_a_terminal_of_80_columns_has_a_table_for_each_topic() -> None:
    name = "a.topic.with.a.rather.long.name.of.the.payment.service.v1"
    nodes = [1001, 1002, 1003]

    def metadata(request: MetadataRequest) -> MetadataResponse:
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1001, host="127.0.0.1", port=broker.port)],
            cluster_id="loopback",
            controller_id=1001,
            topics=[
                MetadataResponseTopic(
                    name=name,
                    topic_id=MADE,
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=number,
                            leader_id=1001,
                            leader_epoch=12,
                            replica_nodes=nodes,
                            isr_nodes=nodes[:isr],
                            offline_replicas=nodes[isr:],
                        )
                        for number, isr in ((0, 3), (1, 2))
                    ],
                ),
                MetadataResponseTopic(name="oders", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ],
        )

    answers = {offsets.ListOffsetsRequest: _list_offsets, configs.DescribeConfigsRequest: _configs}
    with loopback_broker({**answers, MetadataRequest: metadata}) as broker:
        argv = ("topic", "describe", name, "oders", "--offsets", "--configs", "-b", broker.address, "--timeout", "10")
        narrow = run_kcli(*argv, terminal=True, environ={"COLUMNS": "80", "NO_COLOR": "1"})
        wide = run_kcli(*argv, "--wide", terminal=True, environ={"COLUMNS": "80", "NO_COLOR": "1"})

    lines = narrow.text.splitlines()
    assert max(map(len, lines[1:8])) <= 80
    assert lines[0] == f"{name}: 2 partitions, 3 replicas, id AAAAAAAAAAAAAAAAAAAABw"
    assert lines[1].split() == ["PARTITION", "LEADER", "REPLICAS", "ISR", "FAULTS", "END-OFFSET"]
    assert lines[3].split() == ["1", "1001", "1001,1002,1003", "1001,1002", "under-replicated", "0"]
    assert lines[5].split() == ["NAME", "VALUE", "SOURCE"]
    assert lines[6].split() == ["retention.ms", "60000", "topic"]
    assert lines[8] == "oders"
    assert lines[9].startswith("  UNKNOWN_TOPIC_OR_PARTITION: ")
    hidden = "LEADER-EPOCH, OFFLINE, START-OFFSET, RECORDS"
    assert narrow.err.count(f"the terminal is too narrow for {hidden}; --wide shows all columns") == 1
    assert "START-OFFSET" in wide.text
    assert narrow.status == 3


def unhealthy(request: MetadataRequest) -> MetadataResponse:
    """Return one healthy topic, and one with each fault, in a cluster whose node 3 is down."""

    def partition(number: int, leader: int, replicas: list[int], isr: list[int]) -> MetadataResponsePartition:
        return MetadataResponsePartition(
            partition_index=number,
            leader_id=leader,
            leader_epoch=4,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=[node for node in replicas if node == 3],
        )

    orders = [
        partition(0, 1, [1, 2], [1, 2]),
        partition(1, 1, [1, 2, 3], [1, 2]),
        partition(2, 1, [1, 2, 3], [1]),
        partition(3, -1, [3, 1], [3]),
        partition(4, -1, [3], [3]),
    ]
    topics = {"bills": [partition(0, 2, [2, 1], [1, 2])], "orders": orders}
    asked = list(topics) if request.topics is None else [it.name for it in request.topics]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host="127.0.0.1", port=PORT[0]) for n in (1, 2)],
        cluster_id="loopback",
        controller_id=1,
        topics=[MetadataResponseTopic(name=name, partitions=topics[name]) for name in asked],
    )


PORT = [0]
FAULTS = [
    ["orders", "1", "under-replicated"],
    ["orders", "2", "under-min-isr,under-replicated"],
    ["orders", "3", "leaderless"],
    ["orders", "4", "offline"],
]


def _min_isr(request: configs.DescribeConfigsRequest) -> configs.DescribeConfigsResponse:
    setting = configs.DescribeConfigsResourceResult(name="min.insync.replicas", value="2", config_source=5)
    assert [it.resource_name for it in request.resources] == ["orders"]
    assert request.resources[0].configuration_keys == ["min.insync.replicas"]
    result = configs.DescribeConfigsResult(resource_type=2, resource_name="orders", configs=[setting])
    return configs.DescribeConfigsResponse(results=[result])


@pytest.fixture
def faulty() -> Iterator[LoopbackBroker]:
    with loopback_broker({MetadataRequest: unhealthy, configs.DescribeConfigsRequest: _min_isr}) as serving:
        PORT[0] = serving.port
        yield serving


def test_unhealthy_shows_the_faulty_partitions_of_all_topics(faulty: LoopbackBroker) -> None:
    _, *rows = topic(faulty, "describe", "--unhealthy").text.splitlines()
    assert [[*row.split()[:2], row.split()[-1]] for row in rows] == FAULTS
    [orders] = items(topic(faulty, "describe", "--unhealthy", "-O", "json"))
    assert (orders["topic"], orders["partition_count"], len(orders["partitions"])) == ("orders", 5, 4)  # type: ignore[arg-type]
    page = topic(faulty, "describe", "--unhealthy", terminal=True).text
    assert page.startswith("orders: 4 of 5 partitions, 1 to 3 replicas\n")
    assert "bills" not in page


def test_describe_shows_the_faults_among_all_partitions(faulty: LoopbackBroker) -> None:
    rows = [row.split() for row in topic(faulty, "describe", "bills", "orders").text.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["bills", "0"], *(["orders", str(n)] for n in range(5))]
    assert [[*row[:2], row[-1]] for row in rows if row[-1] != "-"] == FAULTS


def test_unhealthy_of_healthy_topics_shows_nothing(broker: LoopbackBroker) -> None:
    result = topic(broker, "describe", "--unhealthy", "-O", "json")
    assert (result.status, items(result), result.err) == (0, [], "")
    result = topic(broker, "describe", "bills", "--unhealthy", terminal=True)
    assert (result.status, result.text) == (0, "")
    assert result.err == "kcli: no partition has a fault; partitions checked: 1\n"
    assert topic(broker, "describe").status == 2


def test_faults_are_shown_without_the_right_to_read_settings(faulty: LoopbackBroker) -> None:
    def refuse(request: configs.DescribeConfigsRequest) -> configs.DescribeConfigsResponse:
        result = configs.DescribeConfigsResult(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, resource_type=2, resource_name="orders"
        )
        return configs.DescribeConfigsResponse(results=[result])

    faulty.answers[configs.DescribeConfigsRequest] = refuse
    result = topic(faulty, "describe", "--unhealthy", "-O", "csv")
    assert [row.split(",")[-2] for row in result.text.splitlines()[2:4]] == ["under-replicated", "leaderless"]
    assert "kcli: note: orders: min.insync.replicas is unknown, so under-min-isr is not shown: TOPIC_AUTH" in result.err
    assert result.status == 0
    summary = run_kcli("cluster", "describe", "-b", faulty.address)
    assert "min.insync.replicas is unknown" in summary.err


def test_cluster_describe_counts_the_partitions_with_a_fault(faulty: LoopbackBroker) -> None:
    _, faults = run_kcli("cluster", "describe", "-b", faulty.address).text.split("\n\n")
    assert [line.split(maxsplit=2) for line in faults.splitlines()] == [
        ["FAULT", "PARTITIONS", "NAMES"],
        ["offline", "1", "orders-4"],
        ["leaderless", "1", "orders-3"],
        ["under-min-isr", "1", "orders-2"],
        ["under-replicated", "2", "orders-1, orders-2"],
    ]
    [item] = items(run_kcli("cluster", "describe", "-b", faulty.address, "-O", "json"))
    assert (item["topics"], item["partitions"]) == (2, 6)
    assert item["faults"][3] == {"fault": "under-replicated", "partitions": 2, "names": ["orders-1", "orders-2"]}  # type: ignore[index]
    in_csv = run_kcli("cluster", "describe", "-b", faulty.address, "-O", "csv")
    assert len(in_csv.text.splitlines()) == 3
    assert "1 offline, 1 leaderless, 1 under-min-isr, 2 under-replicated" in in_csv.err
