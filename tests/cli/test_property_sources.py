"""Properties of a command line: where passwords come from, and texts that no message shows."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kcli import Admin
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.cli.options import Common, CommonOptions
from kcli.errors import ConfigError
from kcli.secret import Secret
from tests.cli.fake import FakeEnvironment, run_kcli
from tests.limits import killed_after

SECURED = ["security.protocol=SASL_SSL", "sasl.mechanisms=PLAIN", "sasl.username=alice"]


def merged(
    *properties: str, environ: dict[str, str] | None = None, file: Path | None = None
) -> tuple[Common, FakeEnvironment]:
    env = FakeEnvironment(environ=environ)
    config = None if file is None else str(file)
    return Common.from_options(env, CommonOptions(property=list(properties), command_config=config)), env


def password(common: Common) -> Secret | None:
    return common.config().sasl_password


def test_a_password_comes_from_a_variable_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("hunter2\n")
    common, env = merged(*SECURED, "sasl.password=env:PW", environ={"PW": "hunter2"})
    assert password(common) == Secret("hunter2")
    assert password(merged(*SECURED, f"sasl.password=file:{tmp_path}/pw")[0]) == Secret("hunter2")
    assert env.result(0).err == ""


def test_the_value_of_a_variable_is_not_searched_for_references() -> None:
    common, _ = merged(*SECURED, "sasl.password=env:PW", environ={"PW": "${a:b}"})
    assert password(common) == Secret("${a:b}")


def test_a_password_in_a_file_is_literal(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.password=env:PW\n")
    assert password(merged(*SECURED, file=file)[0]) == Secret("env:PW")


def test_a_password_on_the_command_line_is_one_warning() -> None:
    common, env = merged(*SECURED, "sasl.password=hunter2", "ssl.key.password=hunter3")
    common.config()
    common.config()
    assert env.result(0).err == (
        "kcli: warning: -X sasl.password, ssl.key.password: other users can see it in the process list; use "
        "sasl.password=env:NAME, file:PATH or prompt\n"
    )
    public = ("sasl.oauthbearer.token.endpoint.url=https://x", "ssl.ca.pem=-----BEGIN CERTIFICATE-----")
    _, env = merged(*public, environ={"KCLI_PROPERTY": "sasl.password=hunter2"})
    assert env.result(0).err == ""


def test_a_name_of_librdkafka_overrides_kafkas_and_the_other_way_round(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.mechanism=SCRAM-SHA-512\nmetadata.broker.list=file\nsasl.password=hunter2\n")
    common, _ = merged(*SECURED, file=file)
    config = common.config()
    assert (config.sasl_mechanism, config.bootstrap_servers) == ("PLAIN", "file:9092")


def test_tuning_of_librdkafka_is_a_note_also_on_the_command_line() -> None:
    common, env = merged("api.version.request=true", "socket.keepalive.enable=true")
    common.config()
    assert env.result(0).err == "kcli: note: without effect in kcli: api.version.request, socket.keepalive.enable\n"


def test_a_file_in_utf_8_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes("ssl.key.password=hunté\n".encode())
    _, env = merged(file=file)
    assert env.result(0).err == (
        f"kcli: warning: {file}: ssl.key.password: UTF-8 is read as ISO-8859-1, as in Java; write \\uXXXX for "
        "characters outside ASCII\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["-X", "sasl.password hunter2"],
        ["-X", "hunter2"],
        ["-X", "sasl.password: hunter2=x"],
        ["-X", "sasl.password", "=", "hunter2"],
        ["sasl.password=hunter2"],
        ["-X", "request.timeout.ms=30000sasl.password=hunter2"],
        ["-X", "default.api.timeout.ms=hunter2"],
        ["-X", "security.protocol=SSLsasl.password=hunter2"],
        ["-X", "sasl.pasword=hunter2", "-X", "request.timeout.ms=x"],
        ["-X", "sasl.jaas.config=a required password='hunter2", "-X", "security.protocol=SASL_PLAINTEXT"],
    ],
)
@pytest.mark.parametrize("environ", [{}, {"KCLI_DEBUG": "1", "KCLI_VERBOSE": "1"}])
def test_no_message_shows_a_text_that_may_be_a_password(words: list[str], environ: dict[str, str]) -> None:
    result = run_kcli("topic", "list", "-v", *words, environ=environ)
    assert result.status == 2
    assert "hunter2" not in result.err
    assert result.err


@pytest.mark.parametrize(
    "text",
    [
        "sasl.jaas.config=a.B required\n username=x\n 'hunter2';\n",
        "ssl.keystore.key=-----BEGIN PRIVATE KEY-----\nhunter2\nMhunter2==\n",
        "a=\\uhunter2\n",
        "request.timeout.ms=30000\\\nsasl.password=hunter2",
    ],
)
def test_no_message_shows_a_line_of_a_file_that_may_be_a_password(tmp_path: Path, text: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text + "\nrequest.timeout.ms=x\n")
    result = run_kcli("topic", "list", "--command-config", str(file), environ={"KCLI_DEBUG": "1"})
    assert result.status == 2
    assert "hunter2" not in result.err


def test_lines_of_a_value_that_was_not_continued_are_one_warning(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("ssl.keystore.key=-----BEGIN PRIVATE KEY-----\nMIIabc\nMIIdef\n")
    common, env = merged(file=file)
    common.config()
    assert env.result(0).err.splitlines()[0] == (
        f"kcli: warning: {file}: a line that is not a property (not shown: it may contain a password) is ignored; "
        "check for a missing backslash at the end of the line before"
    )
    assert "MII" not in env.result(0).err


def test_without_a_terminal_a_password_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> None:
        raise OSError(6, "No such device or address")

    common, _ = merged(*SECURED, "sasl.password=prompt")
    monkeypatch.setattr("builtins.open", closed)
    with pytest.raises(
        ConfigError, match=r"^sasl\.password: there is no terminal to ask for it; use env:NAME or file:"
    ):
        _ = common.properties


_ASK = """
import os, sys
os.open(sys.argv[1], os.O_RDWR)  # the first terminal of a session without one is its controlling terminal
from tests.cli.fake import FakeEnvironment
from kcli.cli.options import Common, CommonOptions
common = Common.from_options(FakeEnvironment(), CommonOptions(property=["sasl.password=prompt"]))
sys.exit(0 if common.properties["sasl.password"] == common.properties["sasl.password"] == "hunter2" else 1)
"""


def test_a_password_is_asked_for_once_on_a_terminal_that_does_not_show_it() -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", _ASK, os.ttyname(theirs)]
    with subprocess.Popen(command, start_new_session=True, stdin=theirs) as process:
        os.close(theirs)  # the program has it open, so reading fails when the program ends
        shown = b""
        with killed_after(process, "the question for the password, and the end of the program"):
            while b"sasl.password: " not in shown:
                shown += os.read(ours, 1000)
            os.write(ours, b"hunter2\n")
            with suppress(OSError):  # on Linux, the end of the other side is an error
                while chunk := os.read(ours, 1000):
                    shown += chunk
    os.close(ours)
    assert process.returncode == 0
    assert b"hunter2" not in shown
    assert shown.split() == [b"kcli:", b"sasl.password:"]


@pytest.mark.parametrize("password", ['pass"w\\\\ord, =1', "größe €", "\U0001f600 a", "c:\\temp\\new", "${a:b}"])
@pytest.mark.parametrize("client", ["java", "librdkafka"])
def test_the_files_of_other_clients_connect(tmp_path: Path, client: str, password: str) -> None:
    with EmbeddedBroker(security="SASL_PLAINTEXT", users={"alice": password}) as broker:
        properties = broker.client_properties(client)
        file = broker.write_client_properties(tmp_path / "client.properties", client)
        arguments = [word for name, value in properties.items() for word in ("-X", f"{name}={value}")]
        if password == "${a:b}" and client == "java":
            assert run_kcli("topic", "list", *arguments).status == 2
            return
        for words in (["--command-config", str(file)], arguments):
            result = run_kcli("topic", "list", *words)
            assert (result.status, password in result.err) == (0, False), result.err
        server = ["--bootstrap-server", broker.address]
        result = run_kcli("compat", "consumer-groups", "--list", *server, "--command-config", str(file))
        assert (result.status, result.err) == (0, "")
        result = run_kcli("consume", "none", "--group", "g", "--timeout", "5", "--command-config", str(file))
        assert "none" in result.err
        assert result.status not in (4, 5)
        settings = {name.replace(".", "_"): value for name, value in properties.items()}
        with Admin(**settings) as admin:
            assert admin.list_topics() == []
