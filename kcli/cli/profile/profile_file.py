"""The file of the profiles: its grammar, the profile that a command uses, and the change of the current one.

The file is TOML. `current` names the profile that is used if none is given, and each table `[profile.NAME]` has the
settings of one profile. Relative paths are relative to the folder of the file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from kcli.cli.environment import COLOURS, Environment
from kcli.errors import ConfigError
from kcli.settings import format_value, invalid_value
from kcli.text import closest_name
from kcli.visible import shell_word
from kcli.whole_files import replacing

#: The name that stands for no profile.
NONE = "none"
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_TOP_LEVEL = ("current", "profile")
_KEYS = (
    "bootstrap-servers",
    "properties",
    "command-config",
    "password-command",
    "password-property",
    "read-only",
    "colour",
)


class Profile(NamedTuple):
    """The settings of one profile; see `kcli profile show`.

    `properties` includes bootstrap.servers. `password_property` is the property that the output of `password_command`
    sets; None: the password of the mechanism.
    """

    name: str
    properties: dict[str, str]
    command_config: str | None = None
    password_command: tuple[str, ...] = ()
    password_property: str | None = None
    read_only: bool = False
    colour: str | None = None

    @property
    def bootstrap_servers(self) -> str | None:
        return self.properties.get("bootstrap.servers")


class ProfileFile(NamedTuple):
    """The profiles of a file, by name, and the name of the current one (None: none)."""

    path: str
    profiles: dict[str, Profile]
    current: str | None = None

    def profile(self, name: str, where: str) -> Profile:
        """Return a profile. `ConfigError` for an unknown name; `where` is the option or variable that has it."""
        if name not in self.profiles:
            raise ConfigError(f"{where}: there is no profile {name!r} in {self.path}{self._hint(name)}")
        return self.profiles[name]

    def _hint(self, name: str) -> str:
        close = closest_name(name, self.profiles)
        if close is not None:
            return f"; did you mean {close}?"
        return f"; it has {', '.join(sorted(self.profiles))}" if self.profiles else "; it has no profiles"

    @property
    def has_secrets(self) -> bool:
        from kcli.client.config import is_secret_property

        return any(
            is_secret_property(name) and value
            for profile in self.profiles.values()
            for name, value in profile.properties.items()
        )


def read_file(path: str) -> ProfileFile:
    """Read and check the file; without a file there are no profiles. `ConfigError` names the line or the key."""
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8-sig")
    except FileNotFoundError:
        return ProfileFile(path, {})
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"cannot read the profiles of {path}: {reason}") from None
    return parse(text, path)


def parse(text: str, path: str) -> ProfileFile:
    """Return the profiles in the text of the file. `ConfigError` names the line or the key, and never a value that may
    be a secret.
    """
    try:
        document = _toml().loads(text)
    except ValueError as error:
        raise ConfigError(f"{path} is not valid TOML: {str(error)[:200]}") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: its values are nested too deeply") from None
    _check_keys(path, document, _TOP_LEVEL)
    current = document.get("current")
    if current is not None and not isinstance(current, str):
        raise ConfigError(f"{path}: current must be the name of a profile in quotes")
    tables = document.get("profile", {})
    if not isinstance(tables, dict):
        raise ConfigError(f"{path}: profile must be a table; write [profile.NAME]")
    profiles = {name: _profile(path, name, table) for name, table in tables.items()}
    return ProfileFile(path, profiles, current or None)


def _toml() -> Any:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # type: ignore[import-not-found,no-redef,unused-ignore]
    return tomllib


def _profile(path: str, name: str, table: Any) -> Profile:
    where = f"{path}: profile {name}"
    if not _NAME.fullmatch(name) or name == NONE:
        raise ConfigError(f"{path}: {name!r} is not a valid name of a profile; use letters, digits, '-' and '_'")
    if not isinstance(table, dict):
        raise ConfigError(f"{where} must be a table; write [profile.{name}]")
    _check_keys(where, table, _KEYS)
    properties = dict(_flat(where, "properties", table.get("properties", {})))
    servers = table.get("bootstrap-servers")
    if servers is not None:
        servers = ",".join(servers) if _is_texts(servers) else servers
        properties["bootstrap.servers"] = _text(where, "bootstrap-servers", servers)
    config, colour = table.get("command-config"), table.get("colour")
    command, password_property = table.get("password-command"), table.get("password-property")
    read_only = table.get("read-only", False)
    if config is not None:
        folder = os.path.dirname(path)
        config = os.path.join(folder, os.path.expanduser(_text(where, "command-config", config)))
    if command is not None and (not _is_texts(command) or not command):
        raise ConfigError(
            f'{where}: password-command must be a list of texts, such as ["pass", "show", "kafka/{name}"]'
        )
    if password_property is not None:
        password_property = _text(where, "password-property", password_property)
        if command is None:
            raise ConfigError(f"{where}: password-property requires password-command")
    if not isinstance(read_only, bool):
        raise ConfigError(f"{where}: read-only must be true or false, without quotes")
    if colour is not None and colour not in COLOURS:
        raise invalid_value(f"{where}: colour", _text(where, "colour", colour), f"{', '.join(COLOURS)}")
    return Profile(name, properties, config, tuple(command or ()), password_property, read_only, colour)


def _check_keys(where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in table:
        if key not in known:
            close = closest_name(key, known)
            hint = f"did you mean {close}?" if close else f"use {', '.join(known)}"
            raise ConfigError(f"{where}: there is no key {key!r}; {hint}")


def _text(where: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{where}: {key} must be a text in quotes")
    return value


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _flat(where: str, prefix: str, table: Any) -> Iterator[tuple[str, str]]:
    """Yield the properties of a table; `ssl.truststore.location` without quotes is a table in tables in TOML."""
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: {prefix} must be a table of Kafka properties")
    for key, value in table.items():
        if isinstance(value, dict):
            for name, text in _flat(where, key, value):
                yield f"{key}.{name}", text
        elif isinstance(value, str | bool | int | float) or _is_texts(value):
            yield key, format_value(value)
        else:
            raise ConfigError(f"{where}: the value of property {key} must be a text, a number, true or false")


def path_of(env: Environment) -> str:
    """Return the path of the file, which need not exist. `ConfigError` if the environment names no folder for it."""
    if env.profile_file is None:
        raise ConfigError("there is no folder for profiles: HOME and XDG_CONFIG_HOME are not set")
    return env.profile_file


def report_exposure(env: Environment, file: ProfileFile) -> None:
    """Report that other users can read the secrets of a file."""
    with suppress(OSError):
        if stat.S_IMODE(os.stat(file.path).st_mode) & 0o044 and file.has_secrets:
            command = f"chmod 600 {shell_word(file.path)}"
            env.report(f"kcli: note: other users can read the secrets in {file.path}; run: {command}")


_CURRENT = re.compile(r"""(?m)^[ \t]*current[ \t]*=[ \t]*(?:"[^"\n]*"|'[^'\n]*')([ \t]*(?:\#.*)?\r?)$""")
_TABLE = re.compile(r"(?m)^[ \t]*\[")


def with_current(text: str, path: str, name: str | None) -> str:
    """Return the text of the file with another current profile; everything else, also comments, stays as it is.

    None removes the line. `ConfigError` if the line is written in a form that cannot be replaced.
    """
    table = _TABLE.search(text)
    top = text[: table.start()] if table else text
    line = "" if name is None else f'current = "{name}"'
    if _CURRENT.search(top):
        changed = _CURRENT.sub(lambda found: line + found[1], top, count=1)
    else:
        changed = f"{line}\n{top}" if line else top
    changed += text[len(top) :]
    before = parse(text, path)
    try:
        after: ProfileFile | None = parse(changed, path)
    except ConfigError:
        after = None
    if after != before._replace(current=name):
        raise ConfigError(f'{path}: the line of current cannot be changed; write current = "{name or ""}" at the top')
    return changed


def choose_current(path: str, name: str | None) -> None:
    """Write the name of the current profile into the file, which keeps its permissions. `ConfigError`, `OSError`."""
    path = os.path.realpath(path)
    with open(path, encoding="utf-8-sig", newline="") as file:
        text = file.read()
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    changed = with_current(text, path, name)
    with replacing(path, mode=0o600, durable=True) as to:
        to.write(changed.encode())
        os.fchmod(to.fileno(), mode)
