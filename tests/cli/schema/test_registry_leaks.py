"""A secret of the schema registry is in no output and no file, whatever the registry and the settings do wrong."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from tests.cli.fake import run_kcli
from tests.fake_registry import Answer, FakeRegistry, Request, Stall, fake_registry

MARK = "s3cret-of-the-registry"
FORMS = (MARK.encode(), *(base64.b64encode(it + MARK.encode()).rstrip(b"=") for it in (b"", b"user:", b"x:", b"xx:")))
COMMANDS = (
    "schema list --long",
    "schema show orders-value",
    "schema versions orders-value --long",
    "schema diff orders-value",
    "schema check orders-value --schema-file orders.avsc",
    "consume orders -o start -e -s value=avro",
    "consume orders -o start -e -s value=auto -O json",
    "produce orders -s value=avro --subject orders-value",
    "produce orders -s value=avro --schema-file orders.avsc --register",
    "profile show",
)
USER = f"basic.auth.user.info=user:{MARK}"


class Fault(NamedTuple):
    """Lines of the properties file, more words, variables, a profile, and the registry's answer to all requests."""

    lines: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    environ: tuple[tuple[str, str], ...] = ()
    profile: str = ""
    answer: Callable[[Request], Answer] = lambda request: None


def _echo(status: int) -> Callable[[Request], Answer]:
    """Refuse with the headers that were sent, and the secret itself."""
    return lambda request: (status, {"error_code": status * 100, "message": f"{MARK} {request.headers} user:{MARK}"})


def _page(request: Request) -> Answer:
    return f"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n<html>{MARK}{request.headers}</html>".encode()


FAULTS: dict[str, Fault] = {
    "none": Fault((USER,)),
    "the password is refused": Fault((USER,), answer=_echo(401)),
    "the user is refused": Fault((USER,), answer=_echo(403)),
    "a refusal with the headers": Fault((USER,), answer=_echo(422)),
    "a failure with the headers": Fault((USER,), answer=_echo(500)),
    "not found, with the headers": Fault((USER,), answer=_echo(404)),
    "a page with the headers": Fault((USER,), answer=_page),
    "a stall": Fault((USER,), answer=lambda request: Stall(MARK.encode())),
    "a redirect with the password": Fault(
        (USER,), answer=lambda request: f"HTTP/1.1 302 Found\r\nLocation: http://{MARK}/\r\n\r\n".encode()
    ),
    "a token": Fault(("bearer.auth.credentials.source=STATIC_TOKEN", f"bearer.auth.token={MARK}"), answer=_echo(401)),
    "a token with a line end": Fault(
        ("bearer.auth.credentials.source=STATIC_TOKEN", f"bearer.auth.token={MARK}\\u000aX: y")
    ),
    "a user without a password": Fault((f"basic.auth.user.info={MARK}",)),
    "the prefix of Confluent's clients": Fault((f"schema.registry.{USER}",), answer=_echo(401)),
    "a misspelled name": Fault((f"basic.auth.user.infos=user:{MARK}",)),
    "-X with the password": Fault(words=("-X", USER), answer=_echo(401)),
    "-X without an equals sign": Fault(words=("-X", f"basic.auth.user.info user:{MARK}")),
    "the URL has the password": Fault(words=("--schema-registry", f"http://user:{MARK}@127.0.0.1:1")),
    "the URL's query has the password": Fault(words=("--schema-registry", f"http://127.0.0.1:1/?token={MARK}")),
    "the URL is not one": Fault(words=("--schema-registry", f"user:{MARK}@registry")),
    "the URL in a variable has the password": Fault(
        environ=(("KCLI_SCHEMA_REGISTRY", f"http://user:{MARK}@127.0.0.1:1"),)
    ),
    "KCLI_PROPERTY": Fault(environ=(("KCLI_PROPERTY", USER),), answer=_echo(401)),
    "a profile": Fault(
        profile=f'[profile.p]\nproperties = {{ "basic.auth.user.info" = "user:{MARK}" }}\n', answer=_echo(401)
    ),
    "the user of SASL": Fault(
        ("basic.auth.credentials.source=SASL_INHERIT", "sasl.username=user", f"sasl.password={MARK}"), answer=_echo(401)
    ),
    "a trust store that is missing": Fault(
        (
            USER,
            "schema.registry.ssl.truststore.location=/nonexistent",
            f"schema.registry.ssl.truststore.password={MARK}",
        ),
        words=("--schema-registry", "https://127.0.0.1:1"),
    ),
    "a key that is not one": Fault(
        (f"schema.registry.ssl.keystore.key=-----BEGIN PRIVATE KEY----- {MARK} -----END PRIVATE KEY-----",),
        words=("--schema-registry", "https://127.0.0.1:1"),
    ),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        running.create_topic("orders", 1)
        yield running


@pytest.mark.parametrize("name", FAULTS)
def test_no_command_shows_a_secret_of_the_registry(
    name: str,
    broker: EmbeddedBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    fault, home, inputs = FAULTS[name], tmp_path / "home", tmp_path / "inputs"
    for folder in (home, inputs / "kcli"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(home)
    (home / "orders.avsc").write_text('"string"')
    (inputs / "kcli" / "config.toml").write_text(fault.profile or "[profile.p]\n")
    (inputs / "kcli" / "config.toml").chmod(0o600)
    with fake_registry() as registry:
        registry.register("orders-value", '"bytes"')
        id = registry.register("orders-value", '"string"')
        registry.fault = fault.answer
        lines = (f"schema.registry.url={registry.url}", *fault.lines)
        (inputs / "client.properties").write_text("".join(f"{line}\n" for line in lines))
        run_kcli("produce", "orders", "-b", broker.address, "-s", "value=hex", stdin=f"00{id:08x}0261\n".encode())
        environ = {"HOME": str(home), "XDG_CONFIG_HOME": str(inputs), "KCLI_DEBUG": "1", "KCLI_PROFILE": "p"}
        for command in COMMANDS:
            words = [*command.split(), "-b", broker.address, "--command-config", str(inputs / "client.properties")]
            words += ["-v", "--timeout", "0.1" if name == "a stall" else "5"]
            more = [] if command == "profile show" and "--schema-registry" in fault.words else fault.words
            done = run_kcli(*words, *more, stdin=b'"a"\n', environ={**environ, **dict(fault.environ)})
            printed = done.out + done.err.encode()
            assert not [form for form in FORMS if form in printed], (command, printed.decode())
            if name == "none":
                assert done.status == 0, (command, done.err)
            elif command.startswith("schema") and name not in ("a misspelled name",):
                assert done.status != 0, (command, done.err)
        _assert_asked(registry, fault)
    captured = capfd.readouterr()
    assert MARK not in captured.out + captured.err
    written = [path for path in home.rglob("*") if path.is_file()]
    assert not [path for path in written for form in FORMS if form in path.read_bytes()]


def _assert_asked(registry: FakeRegistry, fault: Fault) -> None:
    """The secret was sent where the fault is the registry's answer, so that the test cannot pass without it."""
    if fault.answer(Request("GET", "/", "", {}, None)) is not None:
        sent = [request.headers.get("Authorization", "").encode() for request in registry.requests]
        assert any(form in header for header in sent for form in FORMS), registry.requests
