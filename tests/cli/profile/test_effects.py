"""The output of a password command becomes a property."""

from __future__ import annotations

import sys

import pytest

from kcli.cli.profile.effects import add_password
from kcli.cli.profile.profile_file import Profile
from kcli.errors import ConfigError

PRINTING = (sys.executable, "-c", r"print('se cret\nmore')")


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.password"),
        ({"security.protocol": "sasl_plaintext"}, "sasl.password"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            "sasl.oauthbearer.client.credentials.client.secret",
        ),
        ({"security.protocol": "SSL"}, "ssl.keystore.password"),
    ],
)
def test_the_first_line_is_the_password_of_the_mechanism(properties: dict[str, str], expected: str) -> None:
    profile = Profile("a", {}, password_command=PRINTING)
    assert add_password(profile, properties) == {**properties, expected: "se cret"}


def test_the_profile_can_name_the_property() -> None:
    profile = Profile("a", {}, password_command=PRINTING, password_property="ssl.key.password")
    assert add_password(profile, {"security.protocol": "SASL_SSL"})["ssl.key.password"] == "se cret"


def test_a_program_that_never_stops_printing_is_ended() -> None:
    endless = (sys.executable, "-c", "while True: print('marked' * 1000)")
    with pytest.raises(ConfigError, match="printed more than 1048576 bytes") as caught:
        add_password(Profile("a", {}, password_command=endless), {})
    assert "marked" not in str(caught.value)


def test_a_program_that_a_signal_ends_is_an_error() -> None:
    killed = (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(ConfigError, match="was ended by signal 9"):
        add_password(Profile("a", {}, password_command=killed), {})
