"""One configuration file for each way to connect: what Kafka's tools take, kcli takes unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.process import kcli
from tests.interop.security.configurations import CONFIGURATIONS, Values
from tests.secured_kafka import SecuredKafka


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_kafkas_tools_connect(name: str, secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    topic = secured_kafka.new_topic()
    listener, text = CONFIGURATIONS[name]
    file = tmp_path / "client.properties"
    file.write_text(Values(secured_kafka, tmp_path).filled(text), encoding="latin-1")
    at = ("--bootstrap-server", secured_kafka.servers(listener), "--command-config", str(file))
    assert topic in secured_kafka.tool("TopicCommand", *at, "--list").stdout.split()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_kcli_connects(name: str, secured_kafka: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = secured_kafka.new_topic()
    listener, text = CONFIGURATIONS[name]
    file = tmp_path / "client.properties"
    file.write_text(Values(secured_kafka, tmp_path).filled(text), encoding="latin-1")
    for variable, value in secured_kafka.environment.items():
        monkeypatch.setenv(variable, value)
    done = kcli(
        "topic",
        "list",
        "--bootstrap-server",
        secured_kafka.servers(listener),
        "--command-config",
        str(file),
        timeout_s=20,
    )
    assert done.status == 0, done.err
    assert topic in done.out.decode().split()
    assert done.err == ""
