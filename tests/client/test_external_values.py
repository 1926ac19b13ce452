"""Values outside the configuration: the JAAS login file as Java finds it, and references to variables and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.client.external_values import complete, read_reference, use_kerberos_file_of_java
from kcli.errors import ConfigError

LOGIN = """
KafkaServer { a.Plain required username="broker" password="hunter2"; };
KafkaClient {
  com.sun.security.auth.module.Krb5LoginModule required
  useKeyTab=true keyTab="${user.home}/alice.keytab";
};
"""
SASL = {"security.protocol": "sasl_plaintext"}


@pytest.fixture
def login_file(tmp_path: Path) -> Path:
    path = tmp_path / "client jaas.conf"
    path.write_text(LOGIN)
    return path


@pytest.mark.parametrize("form", ["-Xmx1g -D{}={} -Dx=y", '"-D{}={}"', "-D{}=={}", '-D{}="{}"'])
def test_the_login_file_of_kafka_opts(login_file: Path, form: str, tmp_path: Path) -> None:
    path = login_file if '"' in form and '="' in form else login_file.rename(tmp_path / "jaas.conf")
    options = form.format("java.security.auth.login.config", path)
    jaas = complete(SASL, {"KAFKA_OPTS": options})["sasl.jaas.config"]
    assert jaas.split() == [
        "com.sun.security.auth.module.Krb5LoginModule",
        "required",
        "useKeyTab=true",
        f'keyTab="{Path("~").expanduser()}/alice.keytab";',
    ]


def test_the_property_comes_before_kafka_opts(login_file: Path) -> None:
    environ = {"KAFKA_OPTS": "-Djava.security.auth.login.config=/nowhere"}
    given = {**SASL, "java.security.auth.login.config": str(login_file)}
    assert complete(given, environ).keys() == {"security.protocol", "sasl.jaas.config"}


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"security.protocol": "SSL"},
        {**SASL, "sasl.jaas.config": "x"},
        {**SASL, "sasl.username": "x"},
        {**SASL, "sasl.kerberos.keytab": "x"},
    ],
)
def test_the_login_file_is_not_read_if_another_login_is_given_or_none_is_needed(properties: dict[str, str]) -> None:
    assert complete(properties, {"KAFKA_OPTS": "-Djava.security.auth.login.config=/nowhere"}) == properties


def test_a_login_file_that_cannot_be_used(tmp_path: Path) -> None:
    def refusal(text: str | None) -> str:
        path = tmp_path / "jaas.conf"
        if text is not None:
            path.write_text(text)
        with pytest.raises(ConfigError) as error:
            complete({**SASL, "java.security.auth.login.config": str(path)}, {})
        assert "hunter2" not in str(error.value)
        return str(error.value).replace(str(path), "FILE")

    name = "java.security.auth.login.config"
    assert refusal(None) == f"{name}: cannot read FILE: No such file or directory"
    assert refusal('KafkaServer { a.B required password="hunter2"; };') == f"{name}: FILE has no section KafkaClient"
    assert refusal('KafkaClient { a.B required x="${hunter2}"; };') == (
        f"{name}: FILE has a system property of Java that kcli does not know; write its value"
    )


def test_references_to_variables_and_files(tmp_path: Path) -> None:
    (tmp_path / "pw").write_bytes(b"\xef\xbb\xbf hunter2\n")
    assert read_reference("x", "env:PW", {"PW": " a "}) == " a "
    assert read_reference("x", f"file:{tmp_path}/pw", {}) == "hunter2"
    assert read_reference("x", "plain", {}) == "plain"
    with pytest.raises(ConfigError, match=r"^x: environment variable NO is not set in this process$"):
        read_reference("x", "env:NO", {})
    with pytest.raises(ConfigError, match=r"^x: cannot read /nowhere: No such file or directory$"):
        read_reference("x", "file:/nowhere", {})
    (tmp_path / "pw").write_bytes(b"\xe9")
    with pytest.raises(ConfigError, match="not a text file"):
        read_reference("x", f"file:{tmp_path}/pw", {})


@pytest.mark.parametrize(
    ("environ", "file"),
    [
        ({"KAFKA_OPTS": "-Djava.security.auth.login.config=/a -Djava.security.krb5.conf=/etc/b.conf"}, "/etc/b.conf"),
        ({"KAFKA_OPTS": "-Djava.security.krb5.conf=/etc/b.conf", "KRB5_CONFIG": "/mine"}, "/mine"),
        ({"KAFKA_OPTS": "-Djava_security_krb5_conf=/etc/b.conf"}, None),
        ({}, None),
    ],
)
def test_kerberos_reads_the_file_that_java_reads(environ: dict[str, str], file: str | None) -> None:
    use_kerberos_file_of_java(environ)
    assert environ.get("KRB5_CONFIG") == file
