"""Clients from ::1: rules for their host, and their host in the description of a group, as Apache Kafka has them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from kcli.broker.testing.embedded import EmbeddedBroker
from tests.conftest import BOTH
from tests.real_kafka import KafkaNode

HOST = "0:0:0:0:0:0:0:1"  # as Java writes ::1
SETTINGS = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SIX:PLAINTEXT",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


class Listeners(NamedTuple):
    """The addresses of a broker."""

    four: str
    six: str


@pytest.fixture(params=BOTH)
def listeners(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Listeners]:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    if request.param == "kcli":
        own = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
        with EmbeddedBroker(listeners="PLAINTEXT://127.0.0.1:0,SIX://[::1]:0", **own) as broker:
            yield Listeners(broker.addresses["PLAINTEXT"], broker.addresses["SIX"])
        return
    (folder := tmp_path / "kafka").mkdir()
    node = KafkaNode(folder, request.getfixturevalue("kafka_jars"), settings=SETTINGS, more_listeners=["SIX"])
    properties = node.config_file.read_text()
    node.config_file.write_text(properties.replace("SIX://127.0.0.1:", "SIX://[::1]:"))
    try:
        node.start()
        node.wait_for_coordinators()
        yield Listeners(node.bootstrap_servers, f"[::1]:{node.ports['SIX']}")
    finally:
        node.kill()


def test_a_client_from_ipv6_is_denied_and_described_by_its_host(listeners: Listeners) -> None:
    admin = AdminClient({"bootstrap.servers": listeners.four})
    for created in admin.create_topics([NewTopic("orders", 1, 1), NewTopic("others", 1, 1)]).values():
        created.result()

    def rule(host: str, permission: AclPermissionType) -> AclBinding:
        return AclBinding(
            ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:*", host, AclOperation.ALL, permission
        )

    rules = [rule("*", AclPermissionType.ALLOW), rule(HOST, AclPermissionType.DENY)]
    for added in admin.create_acls(rules).values():
        added.result()
    seen = AdminClient({"bootstrap.servers": listeners.six}).list_topics(timeout=10).topics
    assert {"orders", "others"} & set(seen) == {"others"}
    assert {"orders", "others"} <= set(admin.list_topics(timeout=10).topics)

    consumers = []
    for group, protocol in (("old", "classic"), ("new", "consumer")):
        consumer = Consumer({"bootstrap.servers": listeners.six, "group.id": group, "group.protocol": protocol})
        consumer.subscribe(["others"])
        while not consumer.assignment():
            consumer.poll(1.0)
        consumers.append(consumer)
    described = admin.describe_consumer_groups(["old", "new"])
    assert [member.host for group in described.values() for member in group.result().members] == [f"/{HOST}"] * 2
    for consumer in consumers:
        consumer.close()
