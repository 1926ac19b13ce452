"""The file of profiles: its grammar, its errors, and the change of the current profile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kcli.cli.profile.profile_file import (
    Profile,
    ProfileFile,
    choose_current,
    parse,
    read_file,
    with_current,
)
from kcli.errors import ConfigError

PATH = "/home/me/.config/kcli/config.toml"
WHOLE = """
current = "prod"
[profile.prod]
bootstrap-servers = ["k1:9093", "k2:9093"]
command-config = "prod.properties"
password-command = ["pass", "show", "kafka"]
password-property = "ssl.key.password"
read-only = true
colour = "red"
properties.ssl.truststore.location = "/ca.pem"
[profile.prod.properties]
"""


def test_a_profile_has_every_key_and_paths_are_relative_to_the_file() -> None:
    text = WHOLE.replace("[profile.prod.properties]", "")
    assert parse(text, PATH) == ProfileFile(
        PATH,
        {
            "prod": Profile(
                "prod",
                {"ssl.truststore.location": "/ca.pem", "bootstrap.servers": "k1:9093,k2:9093"},
                "/home/me/.config/kcli/prod.properties",
                ("pass", "show", "kafka"),
                "ssl.key.password",
                read_only=True,
                colour="red",
            )
        },
        "prod",
    )


def test_properties_are_written_with_or_without_quotes() -> None:
    quoted = parse('[profile.a.properties]\n"sasl.mechanism" = "PLAIN"\n"request.timeout.ms" = 5\n', PATH)
    dotted = parse('[profile.a.properties]\nsasl.mechanism = "PLAIN"\nrequest.timeout.ms = 5\n', PATH)
    assert quoted == dotted
    assert quoted.profiles["a"].properties == {"sasl.mechanism": "PLAIN", "request.timeout.ms": "5"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[profile.a]\nbootstrap-servers = "k:1\n', r"config\.toml is not valid TOML: .*line 2"),
        ("[profile.a]\nread_only = true", "profile a: there is no key 'read_only'; did you mean read-only"),
        ("[profile.a]\nzzz = 1", "profile a: there is no key 'zzz'; use bootstrap-servers, properties"),
        ('curent = "a"', "there is no key 'curent'; did you mean current"),
        ("current = 1", "current must be the name of a profile in quotes"),
        ("profile = 1", r"profile must be a table; write \[profile.NAME\]"),
        ("[profile]\na = 1", r"profile a must be a table; write \[profile.a\]"),
        ('[profile."a b"]', "'a b' is not a valid name of a profile; use letters, digits, '-' and '_'"),
        ("[profile.none]", "'none' is not a valid name of a profile"),
        ("[profile.a]\nread-only = 'yes'", "read-only must be true or false, without quotes"),
        ("[profile.a]\ncolour = 'pink'", "profile a: colour: 'pink' is not valid; use red, green"),
        ("[profile.a]\npassword-command = 'pass'", "password-command must be a list of texts"),
        ("[profile.a]\npassword-command = []", "password-command must be a list of texts"),
        ("[profile.a]\npassword-property = 'x'", "password-property requires password-command"),
        ("[profile.a]\nproperties = 1", "properties must be a table of Kafka properties"),
        ("[profile.a.properties]\nx = 2020-01-01", "the value of property x must be a text, a number, true or false"),
        ("[profile.a]\nbootstrap-servers = 1", "bootstrap-servers must be a text in quotes"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(text, PATH)


@pytest.mark.parametrize(
    "text", ['password = "hunter2', '"sasl.password" = hunter2', '"sasl.password" = "a" "hunter2"']
)
def test_an_error_has_no_text_of_the_file(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"[profile.a.properties]\n{text}\n", PATH)
    assert "hunter2" not in str(caught.value)


def test_an_unknown_profile_is_reported_with_a_similar_one() -> None:
    file = parse("[profile.prod]\n[profile.staging]", PATH)
    with pytest.raises(ConfigError, match=r"--profile: there is no profile 'pord' in /home/.*; did you mean prod\?$"):
        file.profile("pord", "--profile")
    with pytest.raises(ConfigError, match="it has prod, staging"):
        file.profile("zzz", "--profile")
    with pytest.raises(ConfigError, match="it has no profiles"):
        ProfileFile(PATH, {}).profile("zzz", "--profile")


def test_deeply_nested_values_are_an_error() -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        parse(f"x = {'[' * 5000}", PATH)


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b'\xef\xbb\xbfcurrent = "a"\r\n[profile.a]\r\n[profile.b]\r\n')
    assert read_file(str(path)).current == "a"
    choose_current(str(path), "b")
    assert read_file(str(path)).current == "b"


def test_without_a_file_there_are_no_profiles(tmp_path: Path) -> None:
    path = str(tmp_path / "config.toml")
    assert read_file(path) == ProfileFile(path, {})


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the profiles of .*: Is a directory"):
        read_file(str(tmp_path))
    (tmp_path / "x").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="it is not UTF-8 text"):
        read_file(str(tmp_path / "x"))


BEFORE = '# mine\ncurrent = "a"  # usual\n\n[profile.a]\n# current = "x"\n[profile.b]\n'


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (BEFORE, "b", BEFORE.replace('"a"', '"b"')),
        (BEFORE, None, BEFORE.replace('current = "a"', "")),
        ("[profile.a]\n", "a", 'current = "a"\n[profile.a]\n'),
        ("# mine\n[profile.a]\n", "a", 'current = "a"\n# mine\n[profile.a]\n'),
        ("current='a'\r\n[profile.a]\r\n[profile.b]", "b", 'current = "b"\r\n[profile.a]\r\n[profile.b]'),
        ("[profile.a]\n", None, "[profile.a]\n"),
    ],
)
def test_only_the_line_of_the_current_profile_changes(text: str, name: str | None, expected: str) -> None:
    assert with_current(text, PATH, name) == expected


@pytest.mark.parametrize(
    "text", ['"current" = "a"\n[profile.a]\n[profile.b]', 'current = """\\\na"""\n[profile.a]\n[profile.b]']
)
def test_a_line_in_another_form_is_left_alone(text: str) -> None:
    with pytest.raises(ConfigError, match='the line of current cannot be changed; write current = "b" at the top'):
        with_current(text, PATH, "b")


def test_the_file_is_replaced_with_its_permissions(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "config.toml"
    real.write_text(BEFORE)
    real.chmod(0o640)
    link.symlink_to(real)
    inode = real.stat().st_ino
    choose_current(str(link), "b")
    assert read_file(str(link)).current == "b"
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert real.stat().st_ino != inode
    assert sorted(os.listdir(tmp_path)) == ["config.toml", "real.toml"]
