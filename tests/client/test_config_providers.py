"""Config providers: the references that Kafka's clients replace, and errors where Kafka sends the reference itself."""

from __future__ import annotations

import pytest

from kcli.client.config_providers import replace_references
from kcli.errors import ConfigError

PACKAGE = "org.apache.kafka.common.config.provider"
DECLARED = {
    "config.providers": "file, dir,env",
    "config.providers.file.class": f"{PACKAGE}.FileConfigProvider",
    "config.providers.dir.class": f"{PACKAGE}.DirectoryConfigProvider",
    "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider",
}
FILES = {
    "/etc/secrets.properties": "user=alice\npass=hun\\\n  ter2\nsasl.password=a\\u0062\nnon=é\n".encode(),
    "/run/secrets/jaas": b'x.Plain required username="a"\n  password="hunter2";\n',
    "/etc/latin": b"a=\xe9",
}
ENVIRON = {"PW": "hunter2", "NESTED": "${env:PW}"}


def read(path: str) -> bytes:
    if path not in FILES:
        raise FileNotFoundError(2, "No such file or directory", path)
    return FILES[path]


def replaced(value: str, name: str = "sasl.jaas.config", **parameters: str) -> str:
    declared = {f"config.providers.{key.replace('_', '.')}": value for key, value in parameters.items()}
    properties = replace_references({**DECLARED, **declared, name: value}, ENVIRON, read)
    assert list(properties) == [name]
    return properties[name]


def refusal(value: str, name: str = "sasl.jaas.config", **parameters: str) -> str:
    with pytest.raises(ConfigError) as error:
        replaced(value, name, **parameters)
    assert "hunter2" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (
            'username="${file:/etc/secrets.properties:user}" password="${env:PW}";',
            'username="alice" password="hunter2";',
        ),
        ("${file:/etc/secrets.properties:pass}", "hunter2"),
        ("${file:/etc/secrets.properties:sasl.password}", "ab"),
        ("${file:/etc/secrets.properties:non}", "é"),
        ("${dir:/run/secrets:jaas}", 'x.Plain required username="a"\n  password="hunter2";'),
        ("${env:NESTED}", "${env:PW}"),
        ("${no-reference}", "${no-reference}"),
        ("$5 {env:PW}", "$5 {env:PW}"),
    ],
)
def test_references_are_replaced_inside_a_value(value: str, result: str) -> None:
    assert replaced(value) == result


def test_librdkafkas_properties_have_references_too_if_providers_are_declared() -> None:
    assert replaced("${env:PW}", "sasl.password") == "hunter2"
    assert replace_references({"sasl.password": "${a:b}"}, {}, read) == {"sasl.password": "${a:b}"}


@pytest.mark.parametrize(
    ("value", "parameters", "sentence"),
    [
        (
            "${vault:hunter2}",
            {},
            "sasl.jaas.config refers to a config provider that config.providers does not declare; declare it, or take "
            "the value from a variable or a file with -X",
        ),
        ("${env:NO}", {}, "sasl.jaas.config: config provider env: the environment variable NO is not set"),
        (
            "${env:path:PW}",
            {},
            "sasl.jaas.config: config provider env: a reference to a variable has no path; write ${env:NAME}",
        ),
        (
            "${env:PW}",
            {"env_param_allowlist.pattern": "KAFKA_.*"},
            "sasl.jaas.config: config provider env: allowlist.pattern does not allow the variable PW",
        ),
        (
            "${file:/etc/none:a}",
            {},
            "sasl.jaas.config: config provider file: cannot read /etc/none: No such file or directory",
        ),
        (
            "${file:/etc/secrets.properties:no}",
            {},
            "sasl.jaas.config: config provider file: the file /etc/secrets.properties has no property no",
        ),
        ("${file:/etc/latin:a}", {}, "sasl.jaas.config: config provider file: /etc/latin is not UTF-8"),
        (
            "${file:a}",
            {},
            "sasl.jaas.config: config provider file: the reference has no path; write ${file:PATH:key}",
        ),
        (
            "${file:/etc/../run/secrets/jaas:a}",
            {"file_param_allowed.paths": "/etc,/opt"},
            "sasl.jaas.config: config provider file: allowed.paths does not allow /etc/../run/secrets/jaas",
        ),
        (
            "${dir:/run:secrets/jaas}",
            {},
            "sasl.jaas.config: config provider dir: the reference needs a directory and the name of a file; write "
            "${dir:PATH:NAME}",
        ),
        (
            "",
            {"file_param_allowed.paths": "etc"},
            "config.providers.file.param.allowed.paths: 'etc' is not valid; use an absolute path",
        ),
        (
            "",
            {"file_param_url": "x"},
            "config.providers.file.param.url is not supported; use allowed.paths or allowlist.pattern",
        ),
        (
            "",
            {"env_param_allowlist.pattern": "("},
            "config.providers.env.param.allowlist.pattern is not a valid regular expression: ",
        ),
        (
            "",
            {"env_class": "com.example.Vault"},
            f"config.providers.env.class: 'com.example.Vault' is not supported; use {PACKAGE}.FileConfigProvider, "
            f"{PACKAGE}.DirectoryConfigProvider or {PACKAGE}.EnvVarConfigProvider",
        ),
        ("", {"env_class": ""}, "config.providers.env.class is missing; config.providers declares env"),
    ],
)
def test_a_reference_without_a_value_is_an_error(value: str, parameters: dict[str, str], sentence: str) -> None:
    assert refusal(value, **parameters).startswith(sentence)


def test_allowed_paths() -> None:
    allowed = {"file_param_allowed.paths": "/opt, /etc/", "dir_param_allowed.paths": "/run/secrets"}
    assert replaced("${file:/etc/secrets.properties:user}", **allowed) == "alice"
    assert replaced("${dir:/run/secrets:jaas}", **allowed).startswith("x.Plain")
    assert "does not allow /etc/secrets.properties" in refusal(
        "${file:/etc/secrets.properties:user}", **{"file_param_allowed.paths": "/etc/secrets"}
    )


def test_without_a_provider_a_reference_is_refused_and_not_sent_as_a_password() -> None:
    with pytest.raises(
        ConfigError, match=r"^ssl\.key\.password refers to a config provider that config\.providers does"
    ):
        replace_references({"ssl.key.password": "${file:/etc/secrets.properties:pass}"}, {}, read)
