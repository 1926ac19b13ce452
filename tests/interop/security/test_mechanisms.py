"""Each SASL mechanism and kind of store on real Kafka: kcli's commands from the first record to an offset."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import pytest

from tests.certificates import PASSWORD, Certificates
from tests.interop.process import Finished, kcli
from tests.secured_kafka import SecuredKafka

Properties = dict[str, str]

TRUST_STORES: dict[str, Callable[[Certificates], Properties]] = {
    "PEM": lambda of: {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(of.authority())},
    "inline": lambda of: {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": of.authority().read_text()},
    "JKS": lambda of: {"ssl.truststore.location": str(of.truststore_jks), "ssl.truststore.password": PASSWORD},
    "PKCS12": lambda of: {
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(of.truststore_pkcs12),
        "ssl.truststore.password": PASSWORD,
    },
}
KEY_STORES: dict[str, Callable[[Certificates], Properties]] = {
    "PEM": lambda of: {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(of.pem("client"))},
    "inline": lambda of: {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": of.key_pem("client"),
        "ssl.keystore.certificate.chain": of.chain_pem("client"),
    },
    "JKS": lambda of: {"ssl.keystore.location": str(of.jks("client")), "ssl.keystore.password": PASSWORD},
    "PKCS12": lambda of: {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(of.pkcs12("client")),
        "ssl.keystore.password": PASSWORD,
    },
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")


@pytest.fixture
def day(secured_kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Properties], None]:
    """A function that runs kcli's commands on a listener with these properties."""
    for variable, value in secured_kafka.environment.items():
        monkeypatch.setenv(variable, value)

    def commands(listener: str, properties: Properties) -> None:
        at = ("-b", secured_kafka.servers(listener), *secured_kafka.command_config(properties))
        topic, group = secured_kafka.new_topic(), secured_kafka.new_name("group")

        def run(*words: str, stdin: bytes = b"") -> Finished:
            done = kcli(*words, *at, stdin=stdin, timeout_s=30)
            assert done.status == 0, (words, done)
            assert "kcli:" not in done.err  # a warning
            return done

        run("produce", topic, stdin=b"one\ntwo\nthree\n")
        assert run("consume", topic, "-o", "start", "-e").lines == [b"one", b"two", b"three"]
        assert topic.encode() in run("topic", "list").lines
        moved = ("offsets", "reset", group, "--topic", topic, "--to-offset", "1", "--execute", "--output", "json")
        (row,) = json.loads(run(*moved).out)["items"]
        assert (row["topic"], row["new"]["offset"]) == (topic, 1)
        (described,) = json.loads(run("group", "describe", group, "--output", "json").out)["items"]
        (row,) = described["partitions"]
        assert (row["committed"], row["end"], row["lag"]) == (1, 3, 2)

    return commands


@pytest.mark.parametrize(("mechanism", "store"), list(itertools.product(MECHANISMS, TRUST_STORES)))
def test_sasl_over_tls(
    mechanism: str, store: str, secured_kafka: SecuredKafka, day: Callable[[str, Properties], None]
) -> None:
    trust = TRUST_STORES[store](secured_kafka.certificates)
    day("SASLS", {"security.protocol": "SASL_SSL", **trust, **secured_kafka.login(mechanism)})


@pytest.mark.parametrize("store", TRUST_STORES)
def test_tls(store: str, secured_kafka: SecuredKafka, day: Callable[[str, Properties], None]) -> None:
    day("SSL", {"security.protocol": "SSL", **TRUST_STORES[store](secured_kafka.certificates)})


@pytest.mark.parametrize("store", KEY_STORES)
def test_client_certificates(store: str, secured_kafka: SecuredKafka, day: Callable[[str, Properties], None]) -> None:
    stores = TRUST_STORES[store](secured_kafka.certificates) | KEY_STORES[store](secured_kafka.certificates)
    day("MTLS", {"security.protocol": "SSL", **stores})


@pytest.mark.parametrize("listener", ["SASL", "OAUTHJ", "REAUTH", "KRB"])
def test_sasl_without_tls(listener: str, secured_kafka: SecuredKafka, day: Callable[[str, Properties], None]) -> None:
    day(listener, secured_kafka.properties(listener))
