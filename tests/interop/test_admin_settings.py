"""`Admin` reads and alters settings of topics, brokers, groups and client metrics, and undoes its changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcli import Admin, BrokerError, ConfigError, NotFound, PlanRefused, Refused, Wanted
from kcli.structs import ResourceKind
from tests.cli.fake import run_kcli
from tests.interop.shapes import wait_until
from tests.real_kafka import OwnBroker

#: Kind, name, setting, a new value, one that is refused, and the source of the new one.
CASES: list[tuple[ResourceKind, str, str, str, str, str]] = [
    ("topic", "orders", "max.message.bytes", "9000", "x", "topic"),
    ("broker", "1", "message.max.bytes", "9000", "x", "dynamic-broker"),
    ("broker", "", "log.retention.ms", "9000", "x", "dynamic-default-broker"),
    ("group", "billing", "consumer.session.timeout.ms", "50000", "1", "group"),
    ("client-metrics", "all", "interval.ms", "60000", "1", "client-metrics"),
]


@pytest.fixture
def kafka(any_own_kafka: Callable[..., OwnBroker]) -> OwnBroker:
    return any_own_kafka()


@pytest.fixture
def admin(kafka: OwnBroker, tmp_path: Path) -> Iterator[Admin]:
    with Admin(kafka.bootstrap_servers, timeout_ms=30_000) as admin:
        admin.create_topic("orders", 1)
        yield admin


def test_settings_of_each_kind_are_read_altered_and_restored(admin: Admin, tmp_path: Path) -> None:
    for case in CASES:
        alter_and_restore(admin, tmp_path, *case)


def alter_and_restore(
    admin: Admin, folder: Path, kind: ResourceKind, name: str, key: str, value: str, invalid: str, source: str
) -> None:
    def setting() -> tuple[str | None, str]:
        found = admin.describe_configs(name, kind=kind, keys=[key])[name].get(key)
        return ("", "not set") if found is None else (found.value, found.source)

    before = setting()
    assert before[1] in ("default", "static-broker", "not set"), kind
    refused = admin.plan_alterations({name: Wanted(settings={key: invalid})}, kind=kind)
    assert [type(row.error) for row in refused.rows] == [BrokerError], kind
    plan = admin.plan_alterations({name: Wanted(settings={key: value})}, kind=kind)
    old = before[0] or None
    assert [(*row.key, row.old, row.new, row.error) for row in plan.rows] == [(name, key, old, value, None)]
    assert setting() == before
    assert admin.alter(plan, folder=folder)[name, key] == value
    wait_until(lambda: setting() == (value, source), "the new value")  # Kafka's broker returns the source before it
    with pytest.raises(Refused, match=f"of {kind} {name} has changed since the plan"):
        admin.alter(plan, folder=folder)
    assert admin.plan_alterations({name: Wanted(settings={key: value})}, kind=kind).changes == []
    undo = admin.plan_setting_undo(kind=kind, folder=folder)
    inherited = None if kind == "client-metrics" else old  # brokers do not return the default of a set one
    assert [(row.action, row.old, row.new) for row in undo.changes] == [("delete", value, inherited)]
    assert admin.alter(undo, folder=folder).errors == {}
    wait_until(lambda: setting() == before, "the old value")
    assert admin.plan_alterations({name: Wanted(deleted=[key])}, kind=kind).changes == []


def test_the_command_restores_what_the_library_changed(admin: Admin, kafka: OwnBroker, tmp_path: Path) -> None:
    plan = admin.plan_alterations({"billing": Wanted(settings={"consumer.session.timeout.ms": "50000"})}, kind="group")
    admin.alter(plan, folder=tmp_path / "kcli" / "snapshots")
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    shown = run_kcli("undo", "--last", "-b", kafka.bootstrap_servers, environ=environ)
    assert shown.out.split()[:8] == [
        b"GROUP",
        b"STATUS",
        b"NAME",
        b"OLD",
        b"NEW",
        b"WHY",
        b"billing",
        b"would-be-restored",
    ]
    done = run_kcli("undo", "--last", "--execute", "-b", kafka.bootstrap_servers, environ=environ)
    assert (done.status, "to restore the settings: kcli undo " in done.err) == (0, True), done.err
    assert admin.describe_configs("billing", kind="group")["billing"]["consumer.session.timeout.ms"].source != "group"
    of_topics = run_kcli("topic", "undo", "--last", "-b", kafka.bootstrap_servers, environ=environ)
    assert of_topics.status == 3, "there is no snapshot of topic settings"


def test_secrets_are_neither_shown_nor_changed(admin: Admin) -> None:
    settings = admin.describe_configs("1", kind="broker")["1"]
    assert len(settings) > 100
    assert {setting.value for setting in settings.values() if setting.sensitive} == {None}
    keys = ["ssl.keystore.password", "listener.name.internal.ssl.key.password"]
    plan = admin.plan_alterations({"1": Wanted(settings=dict.fromkeys(keys, "hunter2"))}, kind="broker")
    assert [type(row.error) for row in plan.rows] == [Refused, Refused]
    assert "hunter2" not in repr(plan)
    with pytest.raises(PlanRefused, match="is a secret"):
        admin.alter(plan)


def test_names_that_do_not_exist_are_errors_under_their_names(admin: Admin) -> None:
    found = admin.describe_configs("1", "7", "orders", kind="broker")
    assert list(found.values) == ["1"]
    with pytest.raises(NotFound, match="there is no broker '7'; the ids are 1"):
        found["7"]
    plan = admin.plan_alterations({"7": Wanted(settings={"log.retention.ms": "9"})}, kind="broker")
    assert [type(row.error) for row in plan.rows] == [NotFound]
    assert isinstance(admin.describe_configs("none").errors["none"], BrokerError)
    with pytest.raises(ConfigError, match="only topics have partitions"):
        admin.plan_alterations({"1": Wanted(partitions=3)}, kind="broker")
