"""The security of a client: its transports and how it describes a connection."""

from __future__ import annotations

import socket

import pytest

from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.security import ClientSecurity
from kcli.errors import ConfigError
from kcli.network.tls import TlsTransport
from kcli.network.transport import PlainTransport
from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kcli.protocol.registry import ApiKey
from kcli.structs import Node
from tests.client.fake_cluster import FakeCluster
from tests.client.sasl_gate import ALICE, PASSWORD, SaslGate


def security(**properties: str) -> ClientSecurity:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return ClientSecurity(ClientConfig.from_properties(named))


def test_tls_compares_the_host_name_of_the_node_with_the_certificate() -> None:
    secured = security(security_protocol="SSL", ssl_truststore_type="PEM")
    near, far = socket.socketpair()
    with near, far:
        transport = secured.transport("kafka-1.example.com")(near)
        assert isinstance(transport, TlsTransport)
        near.setblocking(False)
        transport.handshake()
        assert b"kafka-1.example.com" in far.recv(10_000)


def test_sasl_without_tls_has_a_plain_transport() -> None:
    assert security(**ALICE).transport("a") is PlainTransport


def test_an_unusable_login_is_an_error_before_any_connection() -> None:
    given = {**ALICE, "sasl_jaas_config": 'some.LoginModule required username="alice";'}
    config = ClientConfig.from_properties({name.replace("_", "."): value for name, value in given.items()})
    with pytest.raises(ConfigError, match="password"):
        connect(config)


def test_each_new_connection_is_described_once_without_secrets() -> None:
    cluster = FakeCluster("a:9093", "b:9093")
    cluster.answers[ApiKey.LIST_GROUPS] = lambda peer, request, version: ListGroupsResponse()
    SaslGate(cluster.selector, cluster.versions, cluster.clock, lifetime_ms=3_000)
    client = cluster.connect("a:9093", **ALICE)
    said: list[str] = []
    client.report_secured(said.append)
    for _ in range(3):
        for node in (Node(1, "a", 9093), Node(2, "b", 9093)):
            client.wait(client.send(node, ListGroupsRequest()), client.clock.now_ms() + 1_000)
        cluster.clock.advance(2_900)
    assert said == ["a:9093: no TLS, SASL PLAIN as User:alice", "b:9093: no TLS, SASL PLAIN as User:alice"]


def test_the_repr_has_no_secret() -> None:
    assert repr(security(**ALICE)) == "<ClientSecurity SASL_PLAINTEXT PLAIN>"
    assert PASSWORD not in str(vars(security(**ALICE)))
