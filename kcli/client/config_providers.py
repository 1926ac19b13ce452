"""Config providers: references `${provider:path:key}` in values of properties, as in Kafka's clients (KIP-297).

Pure: the caller passes the environment variables and a function that reads a file. `file` (FileConfigProvider),
`directory` (DirectoryConfigProvider, KIP-632) and `env` (EnvVarConfigProvider, KIP-887) are supported, under any name
that `config.providers` declares.

Unlike Kafka, which sends a reference that it cannot replace as the password, a reference without a value is an error.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from kcli.client.librdkafka import KAFKA_NAMES, OWN_NAMES
from kcli.client.properties import load_properties
from kcli.errors import ConfigError
from kcli.text import compile_regex, format_alternatives

NAME = "config.providers"
_PACKAGE = "org.apache.kafka.common.config.provider"
_REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_PARAMETERS = ("allowed.paths", "allowlist.pattern")

ReadFile = Callable[[str], bytes]


class _Provider(Protocol):
    def get(self, path: str, key: str) -> str:
        """Return the value. Raise ConfigError, a sentence that starts after the name of the provider."""


class _Sources(NamedTuple):
    """The outside world: environment variables and files."""

    environ: Mapping[str, str]
    read: ReadFile


def replace_references(properties: Mapping[str, str], environ: Mapping[str, str], read: ReadFile) -> dict[str, str]:
    """Return the properties with all references replaced, without those that declare the providers.

    A replaced value is not searched again. `read` returns the bytes of a file or raises OSError. Raise ConfigError,
    which names the property, for a provider that is not declared and for a value that does not exist.
    """
    providers = _declared(properties, _Sources(environ, read))
    result = {}
    for name, value in properties.items():
        if name == NAME or name.startswith(f"{NAME}."):
            continue
        # librdkafka has no config providers, so its values are literal unless providers are declared.
        is_literal = not providers and (name in KAFKA_NAMES or name in OWN_NAMES)
        result[name] = value if is_literal or "${" not in value else _replaced(name, value, providers)
    return result


def _replaced(name: str, value: str, providers: Mapping[str, _Provider]) -> str:
    def value_of(match: re.Match[str]) -> str:
        provider = providers.get(match[1])
        if provider is None:
            raise ConfigError(
                f"{name} refers to a config provider that {NAME} does not declare; declare it, or take the value from "
                "a variable or a file with -X"
            )
        try:
            return provider.get(match[2] or "", match[3])
        except ConfigError as error:
            raise ConfigError(f"{name}: config provider {match[1]}: {error}") from None

    return _REFERENCE.sub(value_of, value)


def _declared(properties: Mapping[str, str], sources: _Sources) -> dict[str, _Provider]:
    providers = {}
    for name in (name.strip() for name in properties.get(NAME, "").split(",")):
        if not name:
            continue
        key = f"{NAME}.{name}.class"
        class_name = properties.get(key, "").strip()
        if not class_name:
            raise ConfigError(f"{key} is missing; {NAME} declares {name}")
        make = _CLASSES.get(class_name)
        if make is None:
            raise ConfigError(f"{key}: {class_name!r} is not supported; use {format_alternatives(_CLASSES)}")
        prefix = f"{NAME}.{name}.param."
        parameters = {key[len(prefix) :]: value for key, value in properties.items() if key.startswith(prefix)}
        for parameter in parameters.keys() - set(_PARAMETERS):
            raise ConfigError(f"{prefix}{parameter} is not supported; use {format_alternatives(_PARAMETERS)}")
        providers[name] = make(prefix, parameters, sources)
    return providers


class _EnvironmentProvider:
    """`${env:NAME}`."""

    def __init__(self, prefix: str, parameters: Mapping[str, str], sources: _Sources) -> None:
        self._environ = sources.environ
        pattern = parameters.get("allowlist.pattern")
        try:
            self._allowed = compile_regex(pattern) if pattern else None
        except re.error as error:
            raise ConfigError(f"{prefix}allowlist.pattern is not a valid regular expression: {error}") from None

    def get(self, path: str, key: str) -> str:
        if path:
            raise ConfigError("a reference to a variable has no path; write ${env:NAME}")
        if self._allowed is not None and not self._allowed.fullmatch(key):
            raise ConfigError(f"allowlist.pattern does not allow the variable {key}")
        if key not in self._environ:
            raise ConfigError(f"the environment variable {key} is not set")
        return self._environ[key]


class _FileProvider:
    """`${file:PATH:key}`: a property of a properties file, which is UTF-8."""

    def __init__(self, prefix: str, parameters: Mapping[str, str], sources: _Sources) -> None:
        self._read = sources.read
        self._allowed = _allowed_paths(prefix, parameters)

    def get(self, path: str, key: str) -> str:
        properties = load_properties(self._text(path), kcat=False)
        if key not in properties:
            raise ConfigError(f"the file {path} has no property {key}")
        return properties[key]

    def _text(self, path: str) -> str:
        if not path:
            raise ConfigError("the reference has no path; write ${file:PATH:key}")
        if self._allowed and not _is_within(path, self._allowed):
            raise ConfigError(f"allowed.paths does not allow {path}")
        try:
            return self._read(path).decode()
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{path} is not UTF-8") from None


class _DirectoryProvider(_FileProvider):
    """`${directory:PATH:name}`: the text of a file of a directory, without a newline at its end."""

    def get(self, path: str, key: str) -> str:
        if not path or not key or os.path.basename(key) != key or key in (".", ".."):
            raise ConfigError("the reference needs a directory and the name of a file; write ${dir:PATH:NAME}")
        return self._text(os.path.join(path, key)).removesuffix("\n").removesuffix("\r")


_CLASSES: dict[str, Callable[[str, Mapping[str, str], _Sources], _Provider]] = {
    f"{_PACKAGE}.FileConfigProvider": _FileProvider,
    f"{_PACKAGE}.DirectoryConfigProvider": _DirectoryProvider,
    f"{_PACKAGE}.EnvVarConfigProvider": _EnvironmentProvider,
}


def _allowed_paths(prefix: str, parameters: Mapping[str, str]) -> tuple[str, ...]:
    paths = tuple(path.strip() for path in parameters.get("allowed.paths", "").split(",") if path.strip())
    for path in paths:
        if not os.path.isabs(path):
            raise ConfigError(f"{prefix}allowed.paths: {path!r} is not valid; use an absolute path")
    return tuple(os.path.normpath(path) for path in paths)


def _is_within(path: str, allowed: tuple[str, ...]) -> bool:
    """Return whether the path is in one of the directories, by its text: links are not followed, as in Kafka."""
    normal = os.path.normpath(path)
    return any(normal == parent or normal.startswith(parent.rstrip("/") + "/") for parent in allowed)
