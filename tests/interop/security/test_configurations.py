"""One configuration file for each way to connect: what Kafka's tools take, kcli takes unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.process import kcli
from tests.interop.security.configurations import CONFIGURATIONS, Values
from tests.secured_kafka import SecuredKafka


class Connection(NamedTuple):
    """A topic of the broker, and the options for its address and the configuration file."""

    topic: str
    at: tuple[str, ...]


@pytest.fixture
def connect(any_secured: SecuredKafka, tmp_path: Path) -> Callable[[str], Connection]:
    """A function that writes the configuration file of a name."""

    def prepare(name: str) -> Connection:
        listener, text = CONFIGURATIONS[name]
        if listener not in any_secured.ports:
            pytest.skip("our broker has no Kerberos")
        file = tmp_path / "client.properties"
        file.write_text(Values(any_secured, tmp_path).filled(text), encoding="latin-1")
        at = ("--bootstrap-server", any_secured.servers(listener), "--command-config", str(file))
        return Connection(any_secured.new_topic(), at)

    return prepare


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_kafkas_tools_connect(name: str, any_secured: SecuredKafka, connect: Callable[[str], Connection]) -> None:
    topic, at = connect(name)
    assert topic in any_secured.tool("TopicCommand", *at, "--list").stdout.split()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_kcli_connects(
    name: str, any_secured: SecuredKafka, connect: Callable[[str], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, at = connect(name)
    for variable, value in any_secured.environment.items():
        monkeypatch.setenv(variable, value)
    done = kcli("topic", "list", *at, timeout_s=20)
    assert done.status == 0, done.err
    assert topic in done.out.decode().split()
    assert done.err == ""
