"""The effects of a profile on a command: changes of the cluster are refused or announced, and a program prints the
password: a password manager, a keyring.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.errors import ConfigError, Refused

if TYPE_CHECKING:
    from kcli.cli.environment import Environment
    from kcli.cli.profile.profile_file import Profile

_MAX_OUTPUT_BYTES = 1 << 20


def report_change(env: Environment, profile: Profile, servers: str, change: str, *, applies: bool = True) -> None:
    """Report profile and cluster before a change, in the colour of the profile; without a colour report nothing.

    `Refused` if the profile is read-only, also if its properties do not apply to the cluster.
    """
    if profile.read_only:
        cure = "" if applies else "; use -P none for a cluster without a profile"
        raise Refused(f"{refusal(profile)}: {change} changes the cluster; nothing was sent{cure}")
    if profile.colour is not None:
        env.report_in_colour(f"kcli: profile {profile.name}: {change} changes the cluster at {servers}", profile.colour)


def refusal(profile: Profile) -> str:
    """Return the reason for which a change is refused."""
    return f"profile {profile.name} is read-only"


def add_password(profile: Profile, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with the output of the password command, which overrides those of files.

    `ConfigError` for a program that cannot be started, fails, or prints nothing; it has no text that the program has
    printed on standard output.
    """
    name = profile.password_property or default_property(properties)
    return {**properties, name: _output(f"profile {profile.name}: password-command", profile.password_command)}


def default_property(properties: Mapping[str, str]) -> str:
    """Return the property of the password of the configured mechanism."""
    if "SASL" not in properties.get("security.protocol", "").upper():
        return "ssl.keystore.password"
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms")
    return "sasl.oauthbearer.client.credentials.client.secret" if mechanism == "OAUTHBEARER" else "sasl.password"


def _output(where: str, command: tuple[str, ...]) -> str:
    """Return the first line that the program prints. It has no standard input, which a command may read records from;
    its messages appear on stderr.
    """
    import subprocess

    try:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as program:
            assert program.stdout is not None
            try:
                output = program.stdout.read(_MAX_OUTPUT_BYTES + 1)
            except BaseException:  # Ctrl-C
                program.kill()
                raise
            if len(output) > _MAX_OUTPUT_BYTES:
                program.kill()
                raise ConfigError(
                    f"{where}: {command[0]!r} printed more than {_MAX_OUTPUT_BYTES} bytes; it must print the password"
                )
    except OSError as error:
        raise ConfigError(f"{where}: cannot run {command[0]!r}: {error.strerror}") from None
    if program.returncode < 0:
        raise ConfigError(f"{where}: {command[0]!r} was ended by signal {-program.returncode}")
    if program.returncode:
        raise ConfigError(f"{where}: {command[0]!r} failed with status {program.returncode}")
    try:
        password = output.decode().partition("\n")[0].rstrip("\r")
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: {command[0]!r} does not print UTF-8 text") from None
    if not password:
        raise ConfigError(f"{where}: {command[0]!r} printed nothing; it must print the password")
    return password
