"""The security of a client: its transports and how it describes a connection."""

from __future__ import annotations

import socket
import threading

import pytest

from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.connection.security import ClientSecurity
from kcli.errors import ConfigError
from kcli.network.tls_transport import TlsTransport
from kcli.network.transport import PlainTransport
from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kcli.protocol.registry import ApiKey
from kcli.secret import Secret
from kcli.security.sasl.aws_msk_iam import Credentials
from kcli.structs import Node
from tests.client.fake_cluster import FakeCluster
from tests.client.sasl_gate import ALICE, PASSWORD, SaslGate

SASL_VERSIONS = {ApiKey.SASL_HANDSHAKE: (0, 1), ApiKey.SASL_AUTHENTICATE: (0, 2)}
AWS = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "AWS_MSK_IAM",
    "sasl_jaas_config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
}


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


def test_a_ticket_is_waited_for_beside_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS or a KDC may take its time, and the loop of the client must go on."""
    has_answered, notified = threading.Event(), threading.Event()

    def slow_credentials(*_: object) -> Credentials:
        assert has_answered.wait(10)
        return Credentials("key", Secret("x"))

    monkeypatch.setattr("kcli.security.sasl.aws_msk_iam.find_credentials", slow_credentials)
    secured = security(**AWS)
    secured.on_progress(notified.set)
    steps = secured.authentication("b-1.x.kafka.eu-west-1.amazonaws.com", SASL_VERSIONS)
    assert next(steps) is None
    assert next(steps) is None
    has_answered.set()
    assert notified.wait(10)
    step = next(steps)
    assert step is not None
    assert step[0].mechanism == "AWS_MSK_IAM"
    message, _ = steps.send(SaslHandshakeResponse()) or (None, 0)
    assert b'"x-amz-credential": "key/' in message.auth_bytes
    with pytest.raises(StopIteration):
        steps.send(SaslAuthenticateResponse(auth_bytes=b'{"version": "2020_10_22", "request-id": "1"}'))


def test_the_error_of_the_thread_ends_the_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    secured, notified = security(**AWS), threading.Event()
    secured.on_progress(notified.set)
    steps = secured.authentication("localhost", SASL_VERSIONS)
    while next(steps) is None:  # the thread may have ended already
        assert notified.wait(10)
    with pytest.raises(ConfigError, match="has no AWS region"):
        steps.send(SaslHandshakeResponse())
