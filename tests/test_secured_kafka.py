"""The secured Kafka that other tests rely on."""

from __future__ import annotations

import pytest

from tests.secured_kafka import LISTENERS, SecuredKafka


def listed(kafka: SecuredKafka, listener: str, mechanism: str = "SCRAM-SHA-256", user: str = "admin") -> list[str]:
    """Return the topics that Kafka's tool lists."""
    at = ("--bootstrap-server", kafka.servers(listener))
    properties = kafka.properties(listener, mechanism, user)
    return kafka.tool("TopicCommand", *at, *kafka.command_config(properties), "--list").stdout.split()


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [(listener, "SCRAM-SHA-256") for listener in LISTENERS if listener != "EXPIRED"]
    + [("SASLS", "PLAIN"), ("SASLS", "SCRAM-SHA-512"), ("SASL", "OAUTHBEARER")],
)
def test_java_lists_topics_on_each_listener(listener: str, mechanism: str, secured_kafka: SecuredKafka) -> None:
    topic = secured_kafka.new_topic()
    assert topic in listed(secured_kafka, listener, mechanism)


def test_java_refuses_the_expired_certificate(secured_kafka: SecuredKafka) -> None:
    with pytest.raises(AssertionError, match="NotAfter: Thu Mar 04 "):
        listed(secured_kafka, "EXPIRED")


@pytest.mark.parametrize("listener", ["SASLS", "OAUTHJ", "KRB"])
def test_a_user_without_rights_sees_no_topic(listener: str, secured_kafka: SecuredKafka) -> None:
    topic = secured_kafka.new_topic()
    assert topic in listed(secured_kafka, listener)
    assert listed(secured_kafka, listener, user="alice") == []
