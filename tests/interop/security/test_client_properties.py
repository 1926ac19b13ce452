"""Every property of Kafka's clients, as their classes declare them: known to kcli, with the same type and default."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kcli.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from kcli.security.security_settings import SecuritySettings
from kcli.settings import format_value
from tests.java_driver import compiled

SOURCE = Path(__file__).parent / "ClientProperties.java"
CLASSES: dict[str, type[ClientConfig]] = {"admin": ClientConfig, "consumer": ConsumerConfig, "producer": ProducerConfig}


@pytest.fixture(scope="module")
def declared(kafka_jars: Path) -> list[list[str]]:
    path = f"{kafka_jars}/*:{compiled(SOURCE, kafka_jars)}"
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", path, SOURCE.stem]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_no_property_of_kafkas_clients_is_unknown(declared: list[list[str]]) -> None:
    names = {(client, name) for client, name, *_ in declared if not name.startswith("internal.")}
    assert len(names) > 300
    unknown = {
        name for client, name in names if name not in CLASSES[client].SETTINGS and not ClientConfig.is_known(name)
    }
    assert unknown == set()


def test_security_properties_have_kafkas_types_and_defaults(declared: list[list[str]]) -> None:
    compared = 0
    for client, name, kind, default in declared:
        if name in SecuritySettings.SETTINGS:
            ours = CLASSES[client].SETTINGS[name]
            assert ours.kind.upper() == kind.replace("CLASS", "STRING"), name
            assert ("null" if ours.default is None else format_value(ours.default)) == default, name
            compared += 1
    assert compared > 100
