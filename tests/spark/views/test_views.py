"""The views without a JVM, on the embedded broker and on Apache Kafka: rows agree with kcli's commands and other
clients.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from kcli.admin.offsets.commits import commit_offsets
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.errors import ConfigError, CorruptRecords, NotFound
from kcli.spark.arrow import arrow_schema
from kcli.spark.batch_plan import plan_batch
from kcli.spark.broker_lookup import Lookup
from kcli.spark.loss import DataLoss
from kcli.spark.options import SourceOptions, parse_options
from kcli.spark.task_ranges import TaskRange
from kcli.spark.views import commits
from kcli.spark.views.registry import VIEWS, read_task
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.cli.consume.data import columns, record
from tests.cli.fake import run_kcli
from tests.interop.shapes import wait_until_decided
from tests.real_kafka import Kafka

Row = dict[str, Any]
PATIENCE_S = 20


def options_for(kafka: Kafka, view: str, **more: str) -> SourceOptions:
    return parse_options({"kafka.bootstrap.servers": kafka.bootstrap_servers, "view": view, **more})


def rows_of(options: SourceOptions, ranges: Iterable[TaskRange] | None = None) -> list[Row]:
    """Return all rows of a view, read by its tasks; checks the schema."""
    view = VIEWS[options.view]
    tasks: list[Any] = [None]
    if view.ranged:
        with Lookup(options) as lookup:
            tasks = [[it] for it in (plan_batch(options, lookup).ranges if ranges is None else ranges)]
    batches = [batch for task in tasks for batch in read_task(options, task)]
    columns = [it for it in view.columns if options.columns is None or it[0] in options.columns]
    for batch in batches:
        assert batch.schema == arrow_schema(columns)
        assert 0 < batch.num_rows <= options.batch_rows
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


def view(kafka: Kafka, name: str, **more: str) -> list[Row]:
    return rows_of(options_for(kafka, name, **more))


def kcli_items(kafka: Kafka, *words: str) -> list[Row]:
    result = run_kcli(*words, "-b", kafka.bootstrap_servers, "--output", "json")
    assert result.status == 0, result.err
    items: list[Row] = json.loads(result.out)["items"]
    return items


def produce(kafka: Kafka, topic: str, partition: int, count: int, codec: str = "none", size: int = 20) -> None:
    """Write one batch for each ten records, flushing between them."""
    producer = kafka.ordered_producer(topic, compression_type=codec, linger_ms=1000)
    for number in range(count):
        producer.produce(topic, b"v" * size, f"k{number}", partition, timestamp=1000 + number)
        if number % 10 == 9:
            producer.flush()
    producer.flush()


def consumer(kafka: Kafka, group: str, **settings: Any) -> Any:
    from confluent_kafka import Consumer

    named = {name.replace("_", "."): value for name, value in settings.items()}
    common = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    return Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, **common, **named})


def commit(kafka: Kafka, group: str, topic: str, offsets: dict[int, int], metadata: str = "") -> None:
    """Commit without being a member: the group has no members."""
    with connect(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers})) as client:
        places = {TopicPartition(topic, number): OffsetAndMetadata(it, -1, metadata) for number, it in offsets.items()}
        assert not any(commit_offsets(client, group, places, client.clock.now_ms() + PATIENCE_S * 1000).values())


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# --- batches


def test_batch_rows_agree_with_their_records(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(2)
    produce(any_kafka, topic, 0, 35)
    produce(any_kafka, topic, 1, 20, "gzip", 500)
    found = view(any_kafka, "batches", subscribe=topic)
    assert [(r["partition"], r["base_offset"], r["last_offset"], r["count"]) for r in found] == [
        *[(0, 0, 9, 10), (0, 10, 19, 10), (0, 20, 29, 10), (0, 30, 34, 5)],
        *[(1, 0, 9, 10), (1, 10, 19, 10)],
    ]
    assert {(r["topic"], r["partition"], r["compression"]) for r in found} == {(topic, 0, "none"), (topic, 1, "gzip")}
    assert [r["first_timestamp"].timestamp() for r in found[:2]] == [1.0, 1.01]
    assert [r["max_timestamp"].timestamp() for r in found[:2]] == [1.009, 1.019]
    assert all(r["bytes"] < 1000 for r in found), "20 records of 500 bytes compressed are far less"
    assert {(r["producer_id"], r["base_sequence"], r["is_aborted"], r["is_control"]) for r in found} == {
        (None, None, None, False)
    }
    assert {(r["timestamp_type"], r["magic"], r["leader_epoch"]) for r in found} == {(0, 2, 0)}


def test_a_batch_split_by_ranges_is_one_row(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    produce(any_kafka, topic, 0, 50)
    options = options_for(any_kafka, "batches", subscribe=topic)
    pieces = [TaskRange(topic, 0, start, start + 7) for start in range(0, 49, 7)] + [TaskRange(topic, 0, 49, 50)]
    assert rows_of(options, pieces) == rows_of(options)
    assert [r["last_offset"] for r in rows_of(options, [TaskRange(topic, 0, 5, 25)])] == [9, 19]


def test_column_selection_and_batch_size_of_views(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    produce(any_kafka, topic, 0, 50)
    options = options_for(any_kafka, "batches", subscribe=topic, columns="partition,count")._replace(batch_rows=2)
    assert rows_of(options) == [{"partition": 0, "count": 10}] * 5


def test_the_row_limit_applies_to_each_range(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    produce(any_kafka, topic, 0, 50)
    options = options_for(any_kafka, "batches", subscribe=topic, columns="last_offset", rowLimitPerPartition="3")
    for rows in (2, 3, 100):
        assert rows_of(options._replace(batch_rows=rows)) == [{"last_offset": n} for n in (9, 19, 29)]


def test_deleted_batches_are_loss_like_deleted_records(any_kafka: Kafka, capfd: pytest.CaptureFixture[str]) -> None:
    from confluent_kafka import TopicPartition as Place
    from confluent_kafka.admin import AdminClient

    topic = any_kafka.new_topic()
    produce(any_kafka, topic, 0, 50)
    admin = AdminClient({"bootstrap.servers": any_kafka.bootstrap_servers})
    for answer in admin.delete_records([Place(topic, 0, 20)]).values():
        answer.result(20)
    planned = [TaskRange(topic, 0, 5, 50)]
    with pytest.raises(DataLoss, match="failOnDataLoss"):
        rows_of(options_for(any_kafka, "batches", subscribe=topic), planned)
    lenient = options_for(any_kafka, "batches", subscribe=topic, failOnDataLoss="false")
    assert [r["last_offset"] for r in rows_of(lenient, planned)] == [29, 39, 49]
    assert "offsets 5 to 19 were deleted" in capfd.readouterr().err


@pytest.mark.real_kafka
def test_transactional_batches_are_marked(real_kafka: Kafka) -> None:
    from confluent_kafka import Producer

    topic = real_kafka.new_topic()
    producer = Producer({"bootstrap.servers": real_kafka.bootstrap_servers, "transactional.id": real_kafka.new_name()})
    producer.init_transactions()
    for aborts in (True, False):
        producer.begin_transaction()
        producer.produce(topic, b"value")
        producer.flush()
        (producer.abort_transaction if aborts else producer.commit_transaction)()
    wait_until_decided(real_kafka, topic, 4)
    names = ("base_offset", "is_transactional", "is_control", "is_aborted")
    expected = view(real_kafka, "batches", subscribe=topic, **{"kafka.isolation.level": "read_committed"})
    assert [tuple(r[name] for name in names) for r in expected] == [
        (0, True, False, True),
        (1, True, True, False),
        (2, True, False, False),
        (3, True, True, False),
    ]
    assert len({r["producer_id"] for r in expected}) == 1
    assert [r["base_sequence"] for r in expected] == [0, None, expected[2]["base_sequence"], None]
    assert {r["is_aborted"] for r in view(real_kafka, "batches", subscribe=topic)} == {None}


# --- offsets


def test_offsets_have_log_bounds_and_replicas(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(2)
    produce(any_kafka, topic, 1, 30)
    found = view(any_kafka, "offsets", subscribe=topic)
    [described] = kcli_items(any_kafka, "topic", "describe", topic)
    assert [(r["topic"], r["partition"], r["earliest"], r["latest"], r["last_stable_offset"]) for r in found] == [
        (topic, 0, 0, 0, 0),
        (topic, 1, 0, 30, 30),
    ]
    assert [(r["leader"], r["replicas"], r["isr"]) for r in found] == [
        (p["leader"], p["replicas"], p["isr"]) for p in described["partitions"]
    ]
    assert [(r["leader_epoch"], r["error"]) for r in found] == [(0, None)] * 2


def test_offsets_without_a_selection_exclude_internal_topics(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    topics = {r["topic"] for r in view(any_kafka, "offsets")}
    assert topic in topics
    assert not any(name.startswith("__") for name in topics)


def test_offsets_of_a_missing_topic_are_an_error(any_kafka: Kafka) -> None:
    topic, missing = any_kafka.new_topic(), any_kafka.new_name("missing")
    with pytest.raises(NotFound, match=f"topic {missing} does not exist"):
        view(any_kafka, "offsets", subscribe=f"{topic},{missing}")
    with pytest.raises(NotFound, match=f"partition {topic}-7 does not exist"):
        view(any_kafka, "offsets", assign=json.dumps({topic: [0, 7]}))
    assert view(any_kafka, "offsets", subscribePattern=f"{missing}.*") == []


# --- groups, members, lag


def test_lag_of_an_empty_group_agrees_with_other_clients(any_kafka: Kafka) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions
    from confluent_kafka.admin import AdminClient

    topic, group = any_kafka.new_topic(3), any_kafka.new_name("g")
    for partition in (0, 2):
        produce(any_kafka, topic, partition, 20)
    commit(any_kafka, group, topic, {0: 5, 2: 20}, "note")
    found = view(any_kafka, "lag", groups=group)
    assert [(r["partition"], r["committed"], r["start"], r["end"], r["lag"], r["metadata"]) for r in found] == [
        (0, 5, 0, 20, 15, "note"),
        (2, 20, 0, 20, 0, "note"),
    ]
    shown = kcli_items(any_kafka, "group", "describe", group)[0]["partitions"]
    for row, item in zip(found, shown, strict=True):
        assert {key: item[key] for key in ("topic", "partition", "committed", "end", "lag", "metadata")}.items() <= (
            row.items()
        )
    admin = AdminClient({"bootstrap.servers": any_kafka.bootstrap_servers})
    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(20)
    theirs = {(p.topic, p.partition): p.offset for p in answer.topic_partitions if p.offset >= 0}
    assert theirs == {(r["topic"], r["partition"]): r["committed"] for r in found}
    [state] = view(any_kafka, "groups", groups=group)
    assert (state["state"], state["members"], state["type"], state["error"]) == ("Empty", 0, "classic", None)
    assert view(any_kafka, "members", groups=group) == []


def test_a_live_member_appears_in_groups_members_and_lag(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(2), any_kafka.new_name("g")
    produce(any_kafka, topic, 0, 10)
    member = consumer(any_kafka, group, client_id="billing")
    member.subscribe([topic])
    try:
        until(lambda: member.poll(0.1) is None and len(member.assignment()) == 2)
        [row] = view(any_kafka, "members", groups=group)
        [state] = view(any_kafka, "groups", groups=group)
        lag = view(any_kafka, "lag", groups=group)
        [item] = kcli_items(any_kafka, "group", "describe", group, "--members")
        [listed] = [it for it in view(any_kafka, "groups") if it["group"] == group]
    finally:
        member.close()
    both = [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 1}]
    assert (row["group"], row["client_id"], row["subscribed"], row["assignment"]) == (group, "billing", [topic], both)
    [shown] = item["members"]
    assert {name: row[name] for name in ("member", "instance_id", "host", "rack", "member_type", "epoch")} == {
        name: shown[name] for name in ("member", "instance_id", "host", "rack", "member_type", "epoch")
    }
    assert (state["state"], state["members"], state["protocol_type"], state["assignor"]) == (
        *("Stable", 1, "consumer"),
        item["assignor"],
    )
    assert state["coordinator"] == item["coordinator"]["node"]
    assert listed == state
    assert [(r["partition"], r["committed"], r["end"], r["lag"], r["client_id"], r["member"]) for r in lag] == [
        (0, None, 10, None, "billing", row["member"]),
        (1, None, 0, None, "billing", row["member"]),
    ]


def test_a_missing_group_is_a_row_with_an_error(any_kafka: Kafka) -> None:
    for name in ("groups", "members", "lag"):
        [row] = view(any_kafka, name, groups="nobody-knows-it")
        assert row.pop("group") == "nobody-knows-it"
        assert "nobody-knows-it" in row.pop("error")
        assert set(row.values()) == {None}


# --- commits


def test_commits_have_times_and_tombstones(any_kafka: Kafka) -> None:
    from confluent_kafka.admin import AdminClient

    topic, group = any_kafka.new_topic(2), any_kafka.new_name("g")
    before = time.time()
    commit(any_kafka, group, topic, {0: 5, 1: 6}, "first")
    commit(any_kafka, group, topic, {0: 7})
    after = time.time()
    found = view(any_kafka, "commits", groups=group)
    assert [(r["topic"], r["partition"], r["offset"], r["metadata"]) for r in found] == [
        *[(topic, 0, 5, "first"), (topic, 1, 6, "first"), (topic, 0, 7, "")]
    ]
    assert all(before - 2 <= r["commit_timestamp"].timestamp() <= after + 2 for r in found)
    assert {(r["group"], r["is_tombstone"], r["expire_timestamp"]) for r in found} == {(group, False, None)}
    offsets = [r["log_offset"] for r in found]
    assert offsets == sorted(set(offsets)), "one group's commits are in one partition, in order"
    admin = AdminClient({"bootstrap.servers": any_kafka.bootstrap_servers})
    admin.delete_consumer_groups([group])[group].result(20)
    later = view(any_kafka, "commits", groups=group)
    assert later[:3] == found
    assert {(r["topic"], r["partition"], r["offset"], r["is_tombstone"], r["metadata"]) for r in later[3:]} == {
        (topic, 0, None, True, None),
        (topic, 1, None, True, None),
    }


def test_commits_of_all_groups_skip_other_records(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("g")
    member = consumer(any_kafka, group)
    member.subscribe([topic])
    until(lambda: member.poll(0.1) is None and len(member.assignment()) == 1)  # its group is in the log as well
    member.close()
    commit(any_kafka, group, topic, {0: 3})
    found = view(any_kafka, "commits")
    assert [(r["topic"], r["offset"]) for r in found if r["group"] == group] == [(topic, 3)]
    assert all(r["topic"] and r["partition"] is not None for r in found)


@pytest.mark.parametrize(("key", "value"), [(b"\0\1\0\7ab", b"x"), (b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\7"), (b"k", b"x")])
def test_commits_of_another_topic_name_it_and_the_offset(key: bytes, value: bytes) -> None:
    records = columns(record(value, key))
    message = r"reads __consumer_offsets or a copy of it, and no record of it is at offset 0 of orders-3: "
    with pytest.raises(CorruptRecords, match=message):
        list(commits._rows(TaskRange("orders", 3, 0, 9), records, commits._Keys(None)))


# --- what all views share


def test_every_view_column_has_an_arrow_type() -> None:
    import pyarrow as pa

    for name, it in VIEWS.items():
        assert name == it.name
        assert isinstance(arrow_schema(it.columns), pa.Schema)
        assert len(dict(it.columns)) == len(it.columns)


def test_an_unknown_view_column_is_an_error_before_any_request() -> None:
    options = parse_options({"kafka.bootstrap.servers": "127.0.0.1:1", "view": "lag", "columns": "group,lagg"})
    with pytest.raises(ConfigError, match="did you mean lag"):
        rows_of(options)
