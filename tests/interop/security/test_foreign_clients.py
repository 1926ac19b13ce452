"""Foreign clients on the secured listeners of our broker and of Apache's: each writes a record and reads it back."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.certificates import PASSWORD
from tests.foreign import go_program, node_script, python_script
from tests.interop.shapes import wait_until
from tests.secured_kafka import USERS, SecuredKafka

USER, SECRET = "admin", USERS["admin"]
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# Listener and mechanism; None: no SASL.
CASES = [("SSL", None), ("MTLS", None), *(("SASLS", name) for name in PASSWORD_MECHANISMS), ("REAUTH", "SCRAM-SHA-256")]


def librdkafka(kafka: SecuredKafka, listener: str, mechanism: str | None) -> dict[str, str]:
    """Return the properties of librdkafka."""
    protocol = {"SSL": "ssl", "MTLS": "ssl", "SASLS": "sasl_ssl", "REAUTH": "sasl_plaintext"}[listener]
    found = {"bootstrap.servers": kafka.servers(listener), "security.protocol": protocol}
    if "ssl" in protocol:
        found["ssl.ca.location"] = str(kafka.certificates.authority())
    if listener == "MTLS":
        found |= {"ssl.keystore.location": str(kafka.certificates.pkcs12("client")), "ssl.keystore.password": PASSWORD}
    if mechanism is not None:
        found |= {"sasl.mechanisms": mechanism, "sasl.username": USER, "sasl.password": SECRET}
    return found


def arguments(kafka: SecuredKafka, listener: str, mechanism: str | None) -> str:
    """Return what the scripts need, as JSON: files are PEM."""
    stores = kafka.certificates
    return json.dumps(
        {
            "servers": kafka.servers(listener),
            "topic": kafka.new_topic(),
            "ca": str(stores.authority()) if listener in ("SSL", "MTLS", "SASLS") else None,
            "client": str(stores.pem("client")) if listener == "MTLS" else None,
            "mechanism": mechanism,
            "user": USER,
            "password": SECRET,
        }
    )


@pytest.mark.parametrize(("listener", "mechanism"), CASES)
def test_confluent_kafka(listener: str, mechanism: str | None, any_secured: SecuredKafka) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    settings = librdkafka(any_secured, listener, mechanism)
    topic = any_secured.new_topic()
    producer = Producer(settings)
    producer.produce(topic, b"hello", partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer({**settings, "group.id": any_secured.new_name("group"), "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(30)
    assert message is not None
    assert (message.error(), message.value()) == (None, b"hello")
    consumer.close()


# Apache's broker, too, refuses SCRAM of Debian's librdkafka 2.0: confluent-kafka covers it.
@pytest.mark.parametrize(("listener", "mechanism"), CASES[:3])
def test_kcat(listener: str, mechanism: str | None, any_secured: SecuredKafka, kcat: str) -> None:
    settings = librdkafka(any_secured, listener, mechanism)
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    topic = any_secured.new_topic()

    def run(*words: str, stdin: bytes = b"") -> bytes:
        command = [kcat, *options, "-t", topic, *words]
        return subprocess.run(command, input=stdin, check=True, capture_output=True, timeout=30).stdout

    run("-P", stdin=b"hello\n")
    assert run("-C", "-e", "-q", "-o", "beginning") == b"hello\n"


@pytest.mark.parametrize(("listener", "mechanism"), CASES)
def test_kafka_python(listener: str, mechanism: str | None, any_secured: SecuredKafka) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    stores = any_secured.certificates
    protocol = {"SSL": "SSL", "MTLS": "SSL", "SASLS": "SASL_SSL", "REAUTH": "SASL_PLAINTEXT"}[listener]
    settings: dict[str, object] = {"bootstrap_servers": any_secured.servers(listener), "security_protocol": protocol}
    if protocol.endswith("SSL"):
        settings["ssl_cafile"] = str(stores.authority())
    if listener == "MTLS":
        settings |= {"ssl_certfile": str(stores.pem("client")), "ssl_keyfile": str(stores.pem("client"))}
    if mechanism is not None:
        settings |= {"sasl_mechanism": mechanism, "sasl_plain_username": USER, "sasl_plain_password": SECRET}
    topic = any_secured.new_topic()
    producer = KafkaProducer(**settings)
    producer.send(topic, b"hello").get(30)
    producer.close()
    consumer = KafkaConsumer(topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
    assert next(consumer).value == b"hello"
    consumer.close()


@pytest.mark.parametrize(("listener", "mechanism"), CASES)
def test_aiokafka(listener: str, mechanism: str | None, any_secured: SecuredKafka) -> None:
    day = python_script("aiokafka_secured.py", "aiokafka==0.14.0")
    assert day(arguments(any_secured, listener, mechanism)) == "hello"


@pytest.mark.parametrize(("listener", "mechanism"), CASES[:-1])  # it cannot authenticate again on a connection
def test_kafkajs(listener: str, mechanism: str | None, any_secured: SecuredKafka) -> None:
    day = node_script("kafkajs_secured.js", "kafkajs@2.2.4")
    assert day(arguments(any_secured, listener, mechanism)) == "hello"


@pytest.mark.parametrize(("listener", "mechanism"), CASES)
def test_franz_go(listener: str, mechanism: str | None, any_secured: SecuredKafka) -> None:
    assert go_program("franz_secured")(arguments(any_secured, listener, mechanism)) == "hello"


def test_kafkas_tools_create_users_tokens_and_acls(any_secured: SecuredKafka) -> None:
    user = any_secured.new_name("user")
    at = (
        "--bootstrap-server",
        any_secured.servers("SASLS"),
        *any_secured.command_config(any_secured.properties("SASLS")),
    )
    entity = ("--entity-type", "users", "--entity-name", user)
    any_secured.tool("ConfigCommand", *at, "--alter", *entity, "--add-config", "SCRAM-SHA-256=[password=new-secret]")
    topic = any_secured.new_topic()
    rule = ("--add", "--allow-principal", f"User:{user}", "--operation", "Read", "--topic", topic)
    any_secured.tool("AclCommand", *at, *rule)
    wait_until(
        lambda: f"principal=User:{user}" in any_secured.tool("AclCommand", *at, "--list", "--topic", topic).stdout,
        "the ACL to be listed",
    )
    properties = any_secured.properties("SASLS")
    properties["sasl.jaas.config"] = (
        properties["sasl.jaas.config"].replace(USER, user).replace(f"{user}-secret", "new-secret")
    )
    as_user = ("--bootstrap-server", any_secured.servers("SASLS"), *any_secured.command_config(properties))
    assert any_secured.tool("TopicCommand", *as_user, "--list").stdout.split() == [topic]
    refused = any_secured.tool(  # its status depends on whether it sends before or after it is refused
        "ConsoleProducer", *as_user[:2], "--command-config", as_user[3], "--topic", topic, stdin="x\n", check=False
    )
    assert "ClusterAuthorizationException" in refused.stderr  # of InitProducerId, which comes first
    assert any_secured.delegation_token.identifier
