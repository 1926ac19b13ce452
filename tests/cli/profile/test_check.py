"""`kcli profile check`: one row per step, the cause where it stops, and the exit status of its kind."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Certificates
from tests.cli.fake import Result, run_kcli
from tests.secured_broker import PASSWORD, Secured, secured_broker

STEPS = ["dns", "tcp", "tls", "api-versions", "sasl"]
ACCESS = ["cluster", "brokers", "topics", "groups"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("broker"), certificates) as running:
        yield running


def check(folder: Path, properties: dict[str, str], *argv: str, status: int = 0) -> dict[str, Any]:
    """Return the items by step."""
    result = checked(folder, properties, "-O", "json", *argv)
    assert result.status == status, result.text + result.err
    return {item["step"]: item for item in result.document["items"]}


def checked(folder: Path, properties: dict[str, str], *argv: str) -> Result:
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    result = run_kcli("profile", "check", "--command-config", str(file), *argv)
    assert PASSWORD not in result.text + result.err
    return result


def test_every_step_of_sasl_over_tls_is_shown(broker: Secured, tmp_path: Path) -> None:
    items = check(tmp_path, broker.properties("SASLS"))
    assert list(items) == ["configuration", *STEPS, *ACCESS]
    assert {item["status"] for item in items.values()} == {"ok"}
    assert items["configuration"]["detail"] == "SASL_SSL, PLAIN, User:alice"
    tls = items["tls"]
    assert tls["version"] == "TLSv1.3"
    assert tls["certificate"]["names"] == ["localhost", "127.0.0.1", "::1"]
    assert tls["certificate"]["issuer"] == "CN=ca,O=kcli"
    assert tls["certificate"]["days_left"] in (29, 30)
    assert items["sasl"]["mechanism"] == "PLAIN"
    assert items["sasl"]["offered"] == ["PLAIN", "SCRAM-SHA-512"]
    assert items["sasl"]["session_lifetime_ms"] is None


@pytest.mark.parametrize(
    ("listener", "steps"),
    [
        ("PLAINTEXT", ["dns", "tcp", "api-versions"]),
        ("TLS", ["dns", "tcp", "tls", "api-versions"]),
        ("SASL", ["dns", "tcp", "api-versions", "sasl"]),
    ],
)
def test_only_the_steps_of_the_protocol_are_made(
    broker: Secured, tmp_path: Path, listener: str, steps: list[str]
) -> None:
    assert list(check(tmp_path, broker.properties(listener))) == ["configuration", *steps, *ACCESS]


def test_each_resource_has_its_own_operations(broker: Secured, tmp_path: Path) -> None:
    items = check(tmp_path, broker.properties("SASLS"))
    assert "; DESCRIBE on 0, READ on 0, WRITE on 0" in items["topics"]["detail"]
    assert "; DESCRIBE on 0, READ on 0, DELETE on 0" in items["groups"]["detail"]
    assert {"describe", "read", "delete"} < items["groups"].keys()
    assert "write" not in items["groups"]


def test_a_password_without_tls_is_warned_of(broker: Secured, tmp_path: Path) -> None:
    sent = "security.protocol=SASL_PLAINTEXT with sasl.mechanism=PLAIN sends the password unencrypted; use SASL_SSL"
    assert check(tmp_path, broker.properties("SASL"))["configuration"]["warnings"] == [sent]
    assert f"kcli: warning: {sent}\n" in checked(tmp_path, broker.properties("SASL")).err
    for listener in ("PLAINTEXT", "TLS", "SASLS"):
        assert check(tmp_path, broker.properties(listener))["configuration"]["warnings"] == []
        assert "warning" not in checked(tmp_path, broker.properties(listener)).err


@pytest.mark.parametrize(
    ("name", "value", "warning"),
    [
        ("enable.ssl.certificate.verification", "false", "any certificate is accepted, also a forged one"),
        ("ssl.endpoint.identification.algorithm", "", "the certificate of any host is accepted"),
    ],
)
def test_checks_that_are_switched_off_are_warned_of(
    broker: Secured, tmp_path: Path, name: str, value: str, warning: str
) -> None:
    (found,) = check(tmp_path, broker.properties("SASLS") | {name: value})["configuration"]["warnings"]
    assert found.startswith(name)
    assert found.endswith(warning)


def test_a_wrong_password_stops_at_sasl(broker: Secured, tmp_path: Path) -> None:
    items = check(tmp_path, broker.properties("SASLS", password="wrong"), status=4)
    assert items["api-versions"]["status"] == "ok"
    assert items["sasl"]["error"]["message"].startswith(
        "SASL PLAIN: Authentication failed: Invalid username or password"
    )
    assert {items[name]["status"] for name in ACCESS} == {"skipped"}


def test_a_mechanism_that_is_not_offered_is_shown_with_the_offered_ones(broker: Secured, tmp_path: Path) -> None:
    items = check(tmp_path, broker.properties("SASL") | {"sasl.mechanism": "SCRAM-SHA-256"}, status=4)
    assert items["sasl"]["offered"] == ["PLAIN", "SCRAM-SHA-512"]
    assert "set sasl.mechanism to one that it offers: PLAIN, SCRAM-SHA-512" in items["sasl"]["error"]["message"]


def test_a_certificate_that_is_not_trusted_is_shown(broker: Secured, tmp_path: Path) -> None:
    other = str(broker.certificates.authority("other_ca"))
    items = check(tmp_path, broker.properties("SASLS") | {"ssl.truststore.location": other}, status=4)
    assert "is not trusted; set ssl.truststore.location" in items["tls"]["error"]["message"]
    assert items["tls"]["certificate"]["issuer"] == "CN=ca,O=kcli"
    assert items["api-versions"]["status"] == "skipped"


def test_tls_to_a_listener_without_tls_stops_at_tls(broker: Secured, tmp_path: Path) -> None:
    properties = broker.properties("TLS") | {"bootstrap.servers": f"localhost:{broker.ports['PLAINTEXT']}"}
    items = check(tmp_path, properties, status=4)
    assert "set security.protocol to PLAINTEXT or SASL_PLAINTEXT" in items["tls"]["error"]["message"]


def test_no_tls_to_a_listener_with_tls_stops_at_the_first_answer(broker: Secured, tmp_path: Path) -> None:
    items = check(tmp_path, {"bootstrap.servers": f"localhost:{broker.ports['TLS']}"}, status=4)
    assert items["api-versions"]["error"]["message"] == (
        "the listener expects TLS; set security.protocol=SSL or SASL_SSL"
    )


def test_no_sasl_to_a_listener_with_sasl_stops_at_the_cluster(broker: Secured, tmp_path: Path) -> None:
    items = check(tmp_path, {"bootstrap.servers": f"localhost:{broker.ports['SASL']}"}, status=4)
    assert "set security.protocol=SASL_PLAINTEXT" in items["cluster"]["error"]["message"]


def test_an_own_certificate_that_has_expired_is_an_error(broker: Secured, tmp_path: Path) -> None:
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(broker.certificates.pem("expired"))}
    items = check(tmp_path, broker.properties("TLS") | own, status=4)
    assert items["own-certificate"]["status"] == "failed"
    assert "2021-03-04" in items["own-certificate"]["error"]["message"]
    own["ssl.keystore.location"] = str(broker.certificates.pem("client"))
    items = check(tmp_path, broker.properties("TLS") | own)
    assert items["own-certificate"]["subject"] == "CN=client,O=kcli"


def test_each_bootstrap_server_is_checked_and_the_cluster_by_one_that_works(broker: Secured, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        closed_port = unused.getsockname()[1]
    servers = f"127.0.0.1:{closed_port},localhost:{broker.ports['PLAINTEXT']}"
    result = checked(tmp_path, {"bootstrap.servers": servers})
    assert result.status == 5
    lines = [line.split() for line in result.text.splitlines()]
    assert ["tcp", f"127.0.0.1:{closed_port}", "failed"] in [line[:3] for line in lines]
    assert ["api-versions", f"127.0.0.1:{closed_port}", "skipped"] in [line[:3] for line in lines]
    assert ["cluster", "-", "ok"] in [line[:3] for line in lines]
    assert "connection refused; check that the broker runs and listens on this address and port" in result.err


def test_an_invalid_setting_stops_at_the_configuration(tmp_path: Path) -> None:
    items = check(tmp_path, {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere/ca.pem"}, status=2)
    assert items["configuration"]["status"] == "failed"
    assert {item["status"] for name, item in items.items() if name != "configuration"} == {"skipped"}
    assert check(tmp_path, {"request.timeout.ms": "x"}, status=2)["configuration"]["status"] == "failed"


def test_a_name_that_cannot_be_resolved_stops_at_dns(tmp_path: Path) -> None:
    items = check(tmp_path, {"bootstrap.servers": "no-such-host.invalid:9092"}, status=5)
    assert "no-such-host.invalid cannot be resolved" in items["dns"]["error"]["message"]
    assert items["tcp"]["status"] == "skipped"


def test_a_profile_is_checked_by_its_name(broker: Secured, tmp_path: Path) -> None:
    (tmp_path / "kcli").mkdir()
    (tmp_path / "kcli" / "config.toml").write_text(
        f'[profile.a]\nbootstrap-servers = "localhost:{broker.ports["PLAINTEXT"]}"\n'
    )
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert run_kcli("profile", "check", "a", environ=environ).status == 0
    assert run_kcli("profile", "check", "b", environ=environ).status == 2


def test_a_server_that_does_not_answer_stops_at_the_time_limit(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        items = check(tmp_path, {"bootstrap.servers": servers}, "--timeout", "0.2", status=5)
    assert items["tcp"]["status"] == "ok"
    assert "timed out before the answer to ApiVersions" in items["api-versions"]["error"]["message"]


def test_a_profile_with_a_password_command_connects(broker: Secured, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    program = json.dumps([sys.executable, "-c", f"print(open({str(tmp_path / 'password')!r}).read())"])
    properties = {**broker.properties("SASLS"), "sasl.username": "alice"}
    del properties["sasl.jaas.config"]
    (tmp_path / "kcli").mkdir()
    (tmp_path / "kcli" / "config.toml").write_text(
        f"[profile.a]\npassword-command = {program}\n[profile.a.properties]\n"
        + "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in properties.items())
    )
    for argv in (["topic", "list"], ["profile", "check"], ["profile", "show"]):
        result = run_kcli(*argv, "-P", "a", "-v", environ={"XDG_CONFIG_HOME": str(tmp_path), "KCLI_DEBUG": "1"})
        assert result.status == 0, result.err
        assert PASSWORD not in result.text + result.err
