"""Values of properties that are kept outside the configuration: config providers, the JAAS login file, references.

`complete` is the one step between the texts of a configuration and `ClientConfig.from_properties`: it reads files and
environment variables, in the process that connects.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING

from kcli.client.login import LOGIN_PROPERTIES
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.client.config_providers import ReadFile

LOGIN_FILE = "java.security.auth.login.config"
LOGIN_SECTION = "KafkaClient"
KERBEROS_FILE = "java.security.krb5.conf"


def read_file(path: str) -> bytes:
    """Return the bytes of a file."""
    with open(path, "rb") as file:
        return file.read()


def complete(properties: Mapping[str, str], environ: Mapping[str, str], read: ReadFile = read_file) -> dict[str, str]:
    """Return the properties with references to config providers replaced, and with the login of a JAAS login file.

    Raise ConfigError, which names the property, for a value that cannot be read.
    """
    result = dict(properties)
    if "config.providers" in properties or any("${" in value for value in properties.values()):
        from kcli.client.config_providers import replace_references

        result = replace_references(properties, environ, read)
    option = result.pop(LOGIN_FILE, None)
    if not _needs_login(result):
        return result
    where, path = LOGIN_FILE, option
    if not path:
        where, path = "KAFKA_OPTS", _jvm_property(LOGIN_FILE, environ)
    if path:
        result["sasl.jaas.config"] = _login_of_file(where, path, read)
    return result


def use_kerberos_file_of_java(environ: MutableMapping[str, str]) -> None:
    """Let Kerberos read the krb5.conf that KAFKA_OPTS names, as Java does, unless KRB5_CONFIG names another one."""
    path = _jvm_property(KERBEROS_FILE, environ)
    if path is not None and "KRB5_CONFIG" not in environ:
        environ["KRB5_CONFIG"] = path


def read_reference(name: str, value: str, environ: Mapping[str, str], read: ReadFile = read_file) -> str:
    """Return the value to which `env:NAME` or `file:PATH` refers, without blanks at its ends; else `value` itself.

    Raise ConfigError, which names the property `name`.
    """
    if value.startswith("env:"):
        variable = environ.get(value[4:])
        if variable is None:
            raise ConfigError(f"{name}: environment variable {value[4:]} is not set in this process")
        return variable
    if not value.startswith("file:"):
        return value
    try:
        return read(value[5:]).decode("utf-8-sig").strip()
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {value[5:]}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: cannot read {value[5:]}: not a text file") from None


def _needs_login(properties: Mapping[str, str]) -> bool:
    if not properties.get("security.protocol", "").strip().upper().startswith("SASL"):
        return False
    return not any(properties.get(name) for name in ("sasl.jaas.config", *LOGIN_PROPERTIES))


def _jvm_property(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the value of -DNAME=VALUE in KAFKA_OPTS, where Kafka's scripts take the options of the JVM."""
    value = r"""(?:"([^"]*)"|'([^']*)'|([^\s"']*))"""
    match = re.search(rf"""(?:^|\s)["']?-D{re.escape(name)}==?{value}""", environ.get("KAFKA_OPTS", ""))
    return None if match is None else next((group for group in match.groups() if group), None)


def _login_of_file(where: str, path: str, read: ReadFile) -> str:
    from kcli.security.jaas import login_section

    try:
        text = read(path.removeprefix("file:")).decode()
    except OSError as error:
        raise ConfigError(f"{where}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: {path} is not UTF-8") from None
    section = login_section(text, LOGIN_SECTION)
    if section is None:
        raise ConfigError(f"{where}: {path} has no section {LOGIN_SECTION}")
    return _expanded(where, path, section)


def _expanded(where: str, path: str, text: str) -> str:
    """Replace the system properties that a login file of Java may contain, such as ${user.home}."""
    known = {"user.home": os.path.expanduser("~"), "/": "/"}

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise ConfigError(f"{where}: {path} has a system property of Java that kcli does not know; write its value")
        return known[match[1]].replace("\\", "\\\\").replace('"', '\\"')

    return re.sub(r"\$\{([^}]*)\}", value_of, text)
