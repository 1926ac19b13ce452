"""Names of other clients: each error says what to write instead, and each name that it says exists."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import kcli
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from kcli.client.librdkafka import KAFKA_NAMES, OWN_NAMES
from kcli.client.request_future import RequestFuture
from kcli.errors import ConfigError
from kcli.log_place import LOG_START
from kcli.other_clients import METHODS, PARAMETERS, SETTINGS
from kcli.structs import TopicPartition

PARTITIONS = 'a list of TopicPartition, such as [TopicPartition("orders", 0)]'
OFFSETS = (
    'a dict from a TopicPartition to an OffsetAndMetadata, or None, such as {TopicPartition("orders", 0): '
    "OffsetAndMetadata(100)}"
)
SCOPE = 'a dict from a str to a list of int or None, or None, such as {"orders": [0]}'
TARGET = "a Place, a ToCurrent, a ShiftBy or a FromOffsets, such as kcli.LOG_START"
TOPICS = 'a list of NewTopic, such as [NewTopic("orders", partitions=3)]'
#: Names in the texts that are no members of kcli: variables of an example.
EXAMPLES = {
    "read_committed",
    "consumer",
    "next",
    "anext",
    "name",
    "offset",
    "partition",
    "topic",
    "offsets",
    "names",
    "NewTopic",
}


def parameters_of(cls: type) -> set[str]:
    """The parameters of all public methods of a class, and of its constructor."""
    members = [
        cls.__init__,
        *(getattr(cls, name) for name in dir(cls) if not name.startswith("_") and hasattr(cls, name)),
    ]
    return {name for member in members if callable(member) for name in inspect.signature(member).parameters}


def names_in(advice: str) -> set[str]:
    """The names that an advice says: calls, keywords, and words that are not English ones."""
    calls = re.findall(r"[\w.]+(?=\()", advice)
    keywords = re.findall(r"\w+(?==)", advice)
    snakes = re.findall(r"(?<![\w.])[a-z]+(?:_[a-z]+)+\b", advice)
    return {*calls, *keywords, *snakes} - EXAMPLES


def exists(name: str, cls: type) -> bool:
    """Return whether a name is one of a class, of another public class, of a parameter, or of a setting."""
    owner, _, member = name.rpartition(".")
    if owner == "consumer":
        owner = "Consumer"
    settings = {*ConsumerConfig.SETTINGS, *ProducerConfig.SETTINGS, *KAFKA_NAMES, *OWN_NAMES}
    return (
        hasattr(getattr(kcli, owner) if owner else cls, member)
        or hasattr(kcli, name)
        or hasattr(RequestFuture, name)
        or name in parameters_of(cls)
        or name.replace("_", ".") in settings
    )


@pytest.mark.parametrize("owner", sorted(METHODS))
def test_each_method_of_another_client_has_an_advice_whose_names_exist(owner: str) -> None:
    cls = getattr(kcli, owner)
    for name, advice in METHODS[owner].items():
        unknown = {word for word in names_in(advice) if not exists(word, cls)}
        assert names_in(advice) or name == "start", (name, advice)
        assert not unknown, (name, advice)


def test_each_parameter_of_another_client_has_an_advice_whose_names_exist() -> None:
    for name, (required, advice) in PARAMETERS.items():
        classes = [cls for cls in (kcli.Admin, kcli.Consumer, kcli.Producer) if required in parameters_of(cls)]
        assert classes, (name, required)
        for cls in classes:
            assert name not in parameters_of(cls)
        assert any(all(exists(word, cls) for word in names_in(advice)) for cls in classes), (name, advice)


def test_each_setting_of_another_client_has_an_advice_whose_names_exist() -> None:
    classes = (kcli.Admin, kcli.Consumer, kcli.Producer, RequestFuture)
    for name, advice in SETTINGS.items():
        assert name not in {*ConsumerConfig.SETTINGS, *ProducerConfig.SETTINGS, *KAFKA_NAMES}
        for word in names_in(advice):
            assert any(exists(word, cls) for cls in classes), (name, word)


def test_each_setting_of_another_client_is_refused_with_its_advice() -> None:
    for name, advice in SETTINGS.items():
        for cls in (ClientConfig, ConsumerConfig, ProducerConfig):
            with pytest.raises(ConfigError) as caught:
                cls.from_keywords({name.replace(".", "_"): "x"})
            assert str(caught.value).startswith(f"there is no setting {name.replace('.', '_')} in kcli; ")
            assert advice in str(caught.value)


@pytest.mark.parametrize(
    ("cls", "settings", "sentence"),
    [
        ("Consumer", {"ssl_cafile": "ca.pem"}, "there is no setting ssl_cafile in kcli; use ssl_ca_location"),
        (
            "Consumer",
            {"bootstrap.servers": "a:1", "ssl.cafile": 1},
            "there is no setting ssl_cafile in kcli; use ssl_ca_",
        ),
        (
            "Producer",
            {"security_protocol": "SASL_SSL", "sasl_plain_username": "me", "sasl_plain_password": "secret"},
            "there is no setting sasl_plain_username in kcli; use sasl_username",
        ),
        (
            "Consumer",
            {"consumer_timeout_ms": 1000},
            "there is no setting consumer_timeout_ms in kcli; use poll(timeout_ms), or records(to_end=True), ",
        ),
        (
            "Admin",
            {"api_version": (2, 8)},
            "there is no setting api_version in kcli; remove it, because the client and ",
        ),
        (
            "Admin",
            {"timeout_s": 10},
            "there is no setting timeout_s in kcli; use Admin(timeout_ms=...), in milliseconds",
        ),
        ("Producer", {"error_cb": print}, 'there is no setting error_cb in kcli; use the logger "kcli"'),
        (
            "Producer",
            {"on_delivery": print},
            "there is no setting on_delivery in kcli; use add_done_callback() of the ",
        ),
        (
            "Producer",
            {"queue.buffering.max.messages": 10},
            "there is no setting queue_buffering_max_messages in kcli; use buffer_memory, in bytes",
        ),
        (
            "Consumer",
            {"max_poll_interval": 1},
            "there is no setting max_poll_interval; did you mean max_poll_interval_ms?",
        ),
        (
            "Producer",
            {"value_deserializer": str},
            "value_deserializer is for Consumer, not for Producer; use value_serializer",
        ),
        (
            "Consumer",
            {"value_serializer": str},
            "value_serializer is for Producer, not for Consumer; use value_deserializer",
        ),
        ("Producer", {"group_id": "billing"}, "group_id is for Consumer, not for Producer; remove it"),
        ("Consumer", {"linger_ms": 5}, "linger_ms is for Producer, not for Consumer; remove it"),
        ("Consumer", {"on_send": str}, "there is no setting on_send in kcli; use Producer(on_send=...)"),
    ],
)
def test_a_setting_of_another_client_is_refused(cls: str, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        getattr(kcli, cls)(**settings)
    assert str(caught.value).startswith(sentence)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"partition_assignment_strategy": [dict]}, "partition_assignment_strategy must be {}; got a list with a type"),
        ({"client_id": print}, "client_id must be {}; got a builtin_function_or_method"),
        ({"sasl_username": b"me"}, "sasl_username must be {}; got a bytes"),
        ({"default_api_timeout_ms": {}}, "default_api_timeout_ms must be {}; got a dict"),
    ],
)
def test_a_setting_of_a_wrong_type_is_a_type_error(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TypeError) as caught:
        kcli.Consumer(**settings)
    allowed = "text, a number, True, False or a list of str"
    assert str(caught.value) == f"Consumer: {sentence.format(allowed)}"


def test_what_other_clients_write_for_a_value_is_accepted() -> None:
    """The strings 'true' and 'smallest', None for no group, a list of servers, a path, librdkafka's names."""
    config = ConsumerConfig.from_keywords(
        {"group_id": "g", "enable_auto_commit": "true", "auto_offset_reset": "smallest"}
    )
    assert (config.enable_auto_commit, config.auto_offset_reset) == (True, "earliest")
    config = ConsumerConfig.from_keywords({"group_id": None, "auto_offset_reset": "beginning"})
    assert (config.group_id, config.auto_offset_reset) == (None, "earliest")
    config = ConsumerConfig.from_keywords({"bootstrap_servers": ["a:1", "b:2"], "fetch_wait_max_ms": 7})
    assert (config.bootstrap_servers, config.fetch_max_wait_ms) == ("a:1,b:2", 7)
    given: dict[str, Any] = {"security_protocol": "SSL", "ssl_ca_location": Path("ca.pem")}
    assert ConsumerConfig.from_keywords(given).ssl_truststore_location == "ca.pem"


@pytest.fixture(scope="module")
def broker() -> Any:
    with EmbeddedBroker() as serving:
        serving.create_topic("orders")
        yield serving


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda c: c.consume(500),
            "Consumer has no consume; use poll(timeout_ms), which returns at most max_poll_records records",
        ),
        (
            lambda c: c.getmany(timeout_ms=5),
            "Consumer has no getmany; use poll(timeout_ms), which returns at most max_poll_records records",
        ),
        (lambda c: c.store_offsets(None), "Consumer has no store_offsets; use commit(offsets)"),
        (lambda c: c.nothing, "'Consumer' object has no attribute 'nothing'"),
    ],
)
def test_a_method_of_another_client_is_an_attribute_error(broker: EmbeddedBroker, call: Any, sentence: str) -> None:
    with kcli.Consumer(bootstrap_servers=broker.address) as consumer, pytest.raises(AttributeError) as caught:
        call(consumer)
    assert str(caught.value) == sentence


def test_names_of_aiokafka_are_known_in_asyncio() -> None:
    async def use() -> None:
        async with kcli.AsyncAdmin("127.0.0.1:1") as admin:
            with pytest.raises(AttributeError, match=r"^AsyncAdmin has no start; use `async with`, or the first call"):
                admin.start()  # type: ignore[attr-defined]

    asyncio.run(use())
    with pytest.raises(AttributeError, match=r"^AsyncConsumer has no getmany; use poll"):
        _ = kcli.AsyncConsumer.getmany  # type: ignore[attr-defined]


def test_names_of_other_clients_are_no_members() -> None:
    """`hasattr`, completion and type checkers see the methods that exist."""
    for owner, names in METHODS.items():
        cls = getattr(kcli, owner)
        assert not [name for name in names if hasattr(cls, name)]
    with kcli.Admin("127.0.0.1:1") as admin:
        assert "list_groups" in dir(admin)
        assert not METHODS["Admin"].keys() & {*dir(admin)}
    assert "list_consumer_groups" in repr(vars(kcli.Admin)["list_consumer_groups"])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda c: c.poll(timeout=1.0), "Consumer.poll has no parameter timeout; use timeout_ms, in milliseconds"),
        (
            lambda c: c.poll(max_records=5, timeout_ms=1),
            "Consumer.poll has no parameter max_records; use the setting max_poll_records",
        ),
        (
            lambda c: c.commit(message=object()),
            "Consumer.commit has no parameter message; use "
            "offsets={TopicPartition(topic, partition): OffsetAndMetadata(offset + 1)}",
        ),
        (
            lambda c: c.commit(asynchronous=False),
            "Consumer.commit has no parameter asynchronous; use commit_async(), which returns at once",
        ),
        (
            lambda c: c.subscribe(["a"], listener=1),
            "Consumer.subscribe has no parameter listener; use on_assigned, on_revoked and on_lost",
        ),
        (
            lambda c: c.seek(partition=TopicPartition("orders", 0), offset=5),
            "Consumer.seek has no parameter partition; use tp=TopicPartition(topic, partition)",
        ),
        (
            lambda c: c.offsets_for_times(timestamps={}),
            "Consumer.offsets_for_times has no parameter timestamps; use times_ms, in milliseconds since the epoch",
        ),
        (lambda c: c.subscribe(["a"], on_assign=1), "Consumer.subscribe has no parameter on_assign; use on_assigned"),
        (lambda c: c.close(timeout_s=1), "Consumer.close has no parameter timeout_s; use timeout_ms, in milliseconds"),
        (
            lambda c: c.assign(["orders"]),
            f"Consumer.assign: partitions must be {PARTITIONS}; got a list with a str",
        ),
        (
            lambda c: c.assign([("orders", 0)]),
            f"Consumer.assign: partitions must be {PARTITIONS}; got a list with a tuple",
        ),
        (
            lambda c: c.subscribe("orders"),
            'Consumer.subscribe: topics must be a list of str, such as ["orders"]; got a str',
        ),
        (
            lambda c: c.seek("orders", 0, 5),
            'Consumer.seek: tp must be a TopicPartition, such as TopicPartition("orders", 0); got a str',
        ),
        (
            lambda c: c.pause("orders"),
            f"Consumer.pause: partitions must be {PARTITIONS}; got a str",
        ),
        (
            lambda c: c.commit({("orders", 0): 5}),
            f"Consumer.commit: offsets must be {OFFSETS}; got a dict with a tuple as a key",
        ),
        (
            lambda c: c.commit_async(callback="f"),
            "Consumer.commit_async: callback must be a function or None; got a str",
        ),
        (
            lambda c: c.committed("orders"),
            f"Consumer.committed: partitions must be {PARTITIONS}; got a str",
        ),
        (lambda c: c.poll("5"), "Consumer.poll: timeout_ms must be a number of milliseconds; got a str"),
        (lambda c: c.records(to_end="no"), "Consumer.records: to_end must be True or False; got a str"),
        (lambda c: kcli.Consumer.from_config({}), "Consumer.from_config: config must be a ConsumerConfig; got a dict"),
    ],
)
def test_a_wrong_argument_of_a_consumer_is_one_sentence(broker: EmbeddedBroker, call: Any, sentence: str) -> None:
    settings = {"bootstrap_servers": broker.address, "group_id": "billing"}
    with kcli.Consumer(**settings) as consumer, pytest.raises(TypeError) as caught:
        call(consumer)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda a: a.list_topics(timeout=10),
            "Admin.list_topics has no parameter timeout; use Admin(timeout_ms=...), which limits each call",
        ),
        (
            lambda a: a.wait_for_group("g", "empty", interval_s=1),
            "Admin.wait_for_group has no parameter interval_s; use interval_ms, in milliseconds",
        ),
        (
            lambda a: a.wait_for_group("g", "empty", timeout_s=1),
            "Admin.wait_for_group has no parameter timeout_s; use timeout_ms, in milliseconds",
        ),
        (
            lambda a: a.plan_reset("billing", LOG_START),
            'Admin.plan_reset: groups must be a list of str, such as ["name"]; got a str',
        ),
        (
            lambda a: a.plan_reset(["billing"], "start"),
            f"Admin.plan_reset: target must be {TARGET}; got a str",
        ),
        (
            lambda a: a.plan_reset(["billing"], LOG_START, topics=["orders"]),
            f"Admin.plan_reset: topics must be {SCOPE}; got a list",
        ),
        (
            lambda a: a.plan_reset(["billing"], LOG_START, if_no_record="start"),
            'Admin.plan_reset: if_no_record must be "refuse", "end" or "skip"; got \'start\'',
        ),
        (
            lambda a: a.create_topics(["orders"]),
            f"Admin.create_topics: topics must be {TOPICS}; got a list with a str",
        ),
        (
            lambda a: a.create_topics(new_topics=[]),
            "Admin.create_topics has no parameter new_topics; use topics=[NewTopic(name, partitions)]",
        ),
        (lambda a: a.describe_topics(topics=["a"]), "Admin.describe_topics has no parameter topics; it has *names"),
        (
            lambda a: a.group_lag(group_id="billing"),
            "Admin.group_lag has no parameter group_id; it has *names, time_lag or isolation_level",
        ),
        (lambda a: a.create_topic("orders", "3"), "Admin.create_topic: partitions must be an int; got a str"),
        (
            lambda a: a.create_topic("orders", num_partitions=3),
            "Admin.create_topic has no parameter num_partitions; use partitions",
        ),
        (
            lambda a: a.describe_topics(["orders"]),
            "Admin.describe_topics: names must be a str, such as describe_topics(*names); got a list",
        ),
        (lambda a: a.apply("plan"), "Admin.apply: plan must be an OffsetPlan; got a str"),
        (
            lambda a: a.snapshots(folder="snapshots"),
            'Admin.snapshots: folder must be a Path or None, such as Path("snapshots"); got a str',
        ),
        (lambda a: a.delete_topics(["orders"]), "Admin.delete_topics: plan must be a Plan; got a list"),
        (lambda a: a.group_lag("g", time_lag=1), "Admin.group_lag: time_lag must be True or False; got an int"),
        (lambda a: kcli.Admin(timeout_ms="5"), "Admin: timeout_ms must be a number of milliseconds or None; got a str"),
    ],
)
def test_a_wrong_argument_of_an_admin_is_one_sentence(call: Any, sentence: str) -> None:
    """Before anything is sent: no broker is needed."""
    with kcli.Admin("127.0.0.1:1") as admin, pytest.raises(TypeError) as caught:
        call(admin)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda p: p.flush(timeout=10), "Producer.flush has no parameter timeout; use timeout_ms, in milliseconds"),
        (
            lambda p: p.flush(deadline_ms=10),
            "Producer.flush has no parameter deadline_ms; use timeout_ms, in milliseconds",
        ),
        (lambda p: p.flush("10"), "Producer.flush: timeout_ms must be a number of milliseconds or None; got a str"),
        (lambda p: p.close(timeout_s=1), "Producer.close has no parameter timeout_s; use timeout_ms, in milliseconds"),
        (lambda p: p.close(flush=0), "Producer.close: flush must be True or False; got an int"),
        (
            lambda p: p.send_offsets({("orders", 0): 5}, "billing"),
            f"Producer.send_offsets: offsets must be {OFFSETS.replace(', or None', '')}; "
            "got a dict with a tuple as a key",
        ),
        (
            lambda p: p.send_offsets({}, None),
            "Producer.send_offsets: group must be a GroupMetadata or a str, such as consumer.group_metadata() or "
            '"name"; got None',
        ),
        (lambda p: p.send(5, b"x"), "the topic of a record is a str, not int"),
        (lambda p: p.send("orders", b"x", partition="0"), "the partition of a record is an int or None, not str"),
        (lambda p: kcli.Producer.from_config({}), "Producer.from_config: config must be a ProducerConfig; got a dict"),
    ],
)
def test_a_wrong_argument_of_a_producer_is_one_sentence(broker: EmbeddedBroker, call: Any, sentence: str) -> None:
    with kcli.Producer(bootstrap_servers=broker.address) as producer, pytest.raises(TypeError) as caught:
        call(producer)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("produce", "send()"),
        ("send_and_wait", "result() of the future that send() returns"),
        ("purge", "close(flush=False)"),
    ],
)
def test_a_method_of_another_producer_is_an_attribute_error(broker: EmbeddedBroker, name: str, advice: str) -> None:
    with kcli.Producer(bootstrap_servers=broker.address) as producer, pytest.raises(AttributeError) as caught:
        getattr(producer, name)
    assert str(caught.value) == f"Producer has no {name}; use {advice}"


def test_the_name_of_a_partitioner_says_which_one_is_the_default() -> None:
    sentence = (
        "partitioner: a str is not valid; use a function, because Java classes are not; without it, the hash of the "
        "key selects the partition as in Java (murmur2_random of librdkafka)"
    )
    with pytest.raises(ConfigError) as caught:
        kcli.Producer(partitioner="murmur2_random")  # type: ignore[arg-type]
    assert str(caught.value) == sentence


def test_a_future_takes_milliseconds() -> None:
    future: Any = RequestFuture.success(5)
    assert (future.result(), future.result(timeout_ms=5), future.exception(5)) == (5, 5, None)
    for call in (future.result, future.exception):
        with pytest.raises(TypeError, match=r"has no parameter timeout; use timeout_ms, in milliseconds$"):
            call(timeout=5)
        with pytest.raises(TypeError, match=r"timeout_ms must be a number of milliseconds or None; got a str$"):
            call("5")
    with pytest.raises(AttributeError, match=r"^RequestFuture has no get; use result\(timeout_ms\)$"):
        future.get(timeout=10)


def test_a_negative_timeout_of_an_admin_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Admin: timeout_ms must not be negative; got nan$"):
        kcli.Admin(timeout_ms=float("nan"))
    with kcli.Admin("127.0.0.1:1") as admin, pytest.raises(ValueError, match="timeout_ms must not be negative; got -5"):
        admin.wait_for_group("billing", "empty", timeout_ms=-5)
