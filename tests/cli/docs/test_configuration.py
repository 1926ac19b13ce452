"""The manual page of the properties: complete, with the name of each in librdkafka."""

from __future__ import annotations

from kcli.cli.docs import configuration
from kcli.cli.docs.page import troff
from kcli.client import librdkafka
from kcli.client.config import ConsumerConfig, ProducerConfig

PAGE = troff(configuration.page())


def entry(name: str) -> str:
    """Return the heading and the text of a property."""
    heading = f".TP\n\\fB{name.replace('-', chr(92) + '-')}\\fR"
    _, found, after = PAGE.partition(heading)
    assert found, name
    return found + after.partition("\n.")[0]


def test_every_property_has_an_entry() -> None:
    for cls in (ConsumerConfig, ProducerConfig):
        for name, declared in cls.SETTINGS.items():
            assert name in cls.NO_EFFECT or declared.doc.replace("-", "\\-")[:40] in entry(name)
        for name, reason in {**cls.NO_EFFECT, **cls.REFUSED}.items():
            if name not in librdkafka.TUNING:
                assert reason[1:].replace("-", "\\-") in entry(f"{name}*" if name.endswith(".") else name)


def test_every_name_of_librdkafka_is_named() -> None:
    for name, kafka_name in librdkafka.KAFKA_NAMES.items():
        assert name in entry(kafka_name)
    for name in librdkafka.OWN_NAMES:
        assert "A property of librdkafka" in entry(name)
    assert all(name in PAGE for name in librdkafka.TUNING)


def test_an_entry_has_type_default_and_values() -> None:
    assert entry("isolation.level").startswith(".TP\n\\fBisolation.level\\fR (string; default: read_uncommitted)\n")
    assert "Values: read_uncommitted, read_committed." in entry("isolation.level")
    assert "(password; default: not set)" in entry("sasl.jaas.config")
    assert "From 0 to 900." in entry("sasl.login.refresh.min.period.seconds")
