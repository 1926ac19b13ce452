"""The public face of the library: its names, their docstrings, and the examples in them on an embedded broker."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import kcli
from kcli import arguments
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.client.config import ConsumerConfig, ProducerConfig

PUBLIC = sorted(kcli._HOME)
TAUGHT = ("Admin", "AsyncAdmin", "AsyncConsumer", "AsyncProducer", "Consumer", "Producer")
#: Classes of the library that `kcli` does not name, and what programs of its users call.
ALSO_PUBLIC = (
    "kcli.broker.testing.control.Control",
    "kcli.broker.testing.embedded.EmbeddedBroker",
    "kcli.broker.testing.embedded_cluster.EmbeddedCluster",
    "kcli.broker.testing.process_cluster.ProcessCluster",
    "kcli.client.request_future.RequestFuture",
    "kcli.consumer.share.share_consumer.ShareConsumer",
    "kcli.admin.snapshots.SnapshotStore",
    "kcli.protocol.records.columns.RecordColumns",
    "kcli.schemas.registry_client.SchemaRegistry",
    "kcli.schemas.serializers.SchemaDeserializer",
    "kcli.schemas.serializers.SchemaSerializer",
    "kcli.spark.commit_listener.commit_to_group",
    "kcli.spark.register",
)
#: They run for each record, and check what they get without a wrapper.
UNCHECKED = {"Producer": ("partitions", "send", "send_many")}
#: Words of a name that mean a time or a duration. Its unit is milliseconds, and the name says so.
TIME_WORDS = re.compile(
    "(^|_)(age|backoff|deadline|delay|duration|elapsed|idle|interval|lag|linger|patience|pause|period|s|secs?|seconds|"
    "since|sleep|time|timeouts?|timestamps?|ttl|until|wait)(_|$)"
)
#: They take no time but a condition, a place in a log, a kind, or a yes and a no.
NO_TIMES = {
    ("wait_for_group", "until"),
    ("group_lag", "time_lag"),
    ("flush", "deadline_ms"),
    ("RecordColumns", "timestamp_types"),
}


@pytest.fixture
def bootstrap(name: str) -> Iterator[str]:
    """The address of a broker with the topic that the examples use; for those of the admins also with a group."""
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        broker.create_topic("orders", partitions=2)
        with kcli.Producer(bootstrap_servers=broker.address) as producer:
            for partition, key, value in ((0, b"a", b"1"), (1, b"b", b"2"), (0, b"c", b"3")):
                producer.send("orders", value, key=key, partition=partition)
            producer.flush()
        if name.endswith("Admin"):
            with kcli.Consumer(bootstrap_servers=broker.address, group_id="billing") as consumer:
                consumer.assign([kcli.TopicPartition("orders", 0)])
                consumer.commit({kcli.TopicPartition("orders", 0): kcli.OffsetAndMetadata(1)})
        yield broker.address


def public_members(cls: type) -> list[tuple[str, Any]]:
    """The methods and properties that a class offers to its users."""
    return [
        (name, inspect.getattr_static(cls, name))
        for name, member in inspect.getmembers(cls)
        if not name.startswith("_") and (callable(member) or isinstance(member, property))
    ]


def test_the_public_names_exist() -> None:
    assert sorted(kcli.__all__) == sorted([*PUBLIC, "__version__"])
    for name in PUBLIC:
        assert getattr(getattr(kcli, name), "__name__", name) == name


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_a_docstring(name: str) -> None:
    assert inspect.getdoc(getattr(kcli, name))


@pytest.mark.parametrize("name", TAUGHT)
def test_each_public_method_has_a_docstring(name: str) -> None:
    members = public_members(getattr(kcli, name))
    assert members
    assert [member for member, value in members if not inspect.getdoc(value)] == []


@pytest.mark.parametrize("name", TAUGHT)
def test_the_examples_in_the_docstrings_run(name: str, bootstrap: str) -> None:
    cls = getattr(kcli, name)
    module = importlib.import_module(cls.__module__)
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [test for test in finder.find(cls, name, module=module) if test.examples]
    assert name in [test.name for test in examples], f"the docstring of {name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in examples:
        test.globs = {"bootstrap": bootstrap}
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("Producer", {"sasl.password": "secret"}, "dict is not a keyword; use .*ProducerConfig.from_properties"),
        ("Producer", "localhost:9092", "str is not a keyword; use keywords"),
        ("Producer", ConsumerConfig.from_properties({}), "ConsumerConfig is not a keyword; use "),
        ("Consumer", {"sasl.password": "secret"}, "dict is not .* topic; use .*ConsumerConfig.from_properties"),
        ("Consumer", ConsumerConfig.from_properties({}), "ConsumerConfig is not .* topic; use Consumer.from_config"),
        ("Consumer", ["orders"], r"list is not the name of a topic; use Consumer\(\*topics\)"),
        ("Admin", {"sasl.password": "secret"}, r"dict is not an address; use .*Admin\(\*\*properties\)"),
        ("Admin", ProducerConfig.from_properties({}), "ProducerConfig is not an address; use keywords"),
    ],
)
def test_settings_that_are_not_keywords_are_a_type_error(name: str, given: object, text: str) -> None:
    with pytest.raises(TypeError, match=text) as caught:
        getattr(kcli, name)(given)
    assert "secret" not in str(caught.value)


def test_the_ways_that_the_errors_name_accept_properties() -> None:
    properties = {"bootstrap.servers": "kafka:1", "client.id": "me"}
    with kcli.Producer.from_config(ProducerConfig.from_properties(properties)), kcli.Producer(**properties):  # type: ignore[arg-type]
        pass
    with kcli.Consumer.from_config(ConsumerConfig.from_properties(properties)), kcli.Consumer(**properties):
        pass
    with kcli.Admin(**properties) as admin:  # type: ignore[arg-type]
        assert "kafka:1" in repr(admin)


def public_callables() -> Iterator[tuple[str, Any]]:
    """The functions, constructors and methods that the users of the library call."""
    objects = {name: getattr(kcli, name) for name in kcli.__all__ if name != "__version__"}
    for path in ALSO_PUBLIC:
        module, _, name = path.rpartition(".")
        objects[name] = getattr(importlib.import_module(module), name)
    for name, value in objects.items():
        if not inspect.isclass(value):
            yield name, value
        elif not issubclass(value, BaseException):
            yield name, value.__init__
            yield from ((f"{name}.{method}", member) for method, member in public_members(value))


def is_time_in_another_unit(name: str) -> bool:
    """Return whether a parameter is a time without `_ms`, or a time of an internal clock."""
    return bool(TIME_WORDS.search(name)) and (not name.endswith("_ms") or "deadline" in name)


def test_times_have_one_unit_in_all_public_calls() -> None:
    found, seen = [], 0
    for name, call in public_callables():
        function = call.__func__ if isinstance(call, classmethod) else call
        for parameter in inspect.signature(function).parameters if inspect.isfunction(function) else ():
            seen += 1
            if is_time_in_another_unit(parameter) and (name.rpartition(".")[2], parameter) not in NO_TIMES:
                found.append(f"{name}({parameter})")
    assert seen > 150
    assert found == [], "name it ..._ms, in milliseconds"


@pytest.mark.parametrize("name", ["timeout", "timeout_s", "interval_s", "deadline_ms", "idle_s", "wait", "max_age"])
def test_the_rule_for_times_finds_other_units(name: str) -> None:
    assert is_time_in_another_unit(name)
    assert not is_time_in_another_unit("timeout_ms")
    assert not is_time_in_another_unit("partitions")


@pytest.mark.parametrize("name", ["Admin", "Consumer", "Producer"])
def test_each_annotation_of_a_checked_class_is_understood(name: str) -> None:
    """Every name in it is a type of the table, an alias with its meaning, or a class that the module imports."""
    cls = getattr(kcli, name)
    module = ast.parse(inspect.getsource(importlib.import_module(cls.__module__)))
    origins = {
        alias.asname or alias.name: node.module
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    checked_methods = 0
    for method, member in public_members(cls):
        function = member.__func__ if isinstance(member, classmethod) else member
        if isinstance(member, property) or method in UNCHECKED.get(name, ()):
            continue
        aliases: dict[str, str] = inspect.getclosurevars(function).nonlocals["aliases"]
        checked_methods += 1
        for alias, meaning in aliases.items():
            assert definition_of(origins[alias], alias).startswith(meaning.replace('"', ""))
        for parameter in list(inspect.signature(function).parameters.values())[1:]:
            for word in set(re.findall(r"[A-Za-z_]\w*", str(parameter.annotation))) - aliases.keys():
                known = word in arguments.KNOWN_NAMES
                assert known or inspect.isclass(getattr(importlib.import_module(str(origins[word])), word)), (
                    method,
                    word,
                )
    assert checked_methods > 10


@pytest.mark.parametrize("name", ["Admin", "Consumer", "Producer"])
def test_each_parameter_of_each_method_refuses_a_wrong_type(name: str) -> None:
    """Before anything is sent: no broker listens at the address."""
    client = getattr(kcli, name)(bootstrap_servers="127.0.0.1:1", **({"group_id": "g"} if name == "Consumer" else {}))
    checked = 0
    with client:
        for method, member in public_members(type(client)):
            if isinstance(member, property) or method in UNCHECKED.get(name, ()):
                continue
            for parameter in inspect.signature(getattr(client, method)).parameters.values():
                given = [object()] if parameter.kind is parameter.VAR_POSITIONAL else []
                named = {} if given else {parameter.name: object()}
                with pytest.raises(TypeError, match=rf"^{name}\.{method}: {parameter.name} must be .*; got an object$"):
                    getattr(client, method)(*given, **named)
                checked += 1
    assert checked > (10 if name == "Producer" else 25)


def definition_of(module: str, alias: str) -> str:
    """The meaning of a type alias in the source of its module, without quotes."""
    for node in ast.walk(ast.parse(inspect.getsource(importlib.import_module(module)))):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == alias for target in targets):
            return re.sub("['\"]", "", ast.unparse(node.value))  # type: ignore[attr-defined]
    raise AssertionError(f"{module} does not define {alias}")


def test_importing_kcli_imports_nothing_else() -> None:
    script = "import sys; before = set(sys.modules); import kcli; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "['kcli']"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Broker'"):
        _ = kcli.Broker  # type: ignore[attr-defined]
