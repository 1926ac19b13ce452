"""Client properties as a user gives them: `-X key=value`, properties files, and references to passwords.

A password in -X can be seen in the list of processes, so -X takes a reference instead: `env:NAME`, `file:PATH`, or
`prompt`, which asks on the terminal. KCLI_PROPERTY and profiles take them, too. A file has Java's config providers.
No error has a part of a text that may be a password.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from kcli.cli.environment import Environment
from kcli.errors import ConfigError

_NAME = r"[^\s\"'=;]+"
_REFERENCES = ("env:", "file:")
_PROMPT = "prompt"
# Kafka's type of these is password, but certificates are public.
_PUBLIC = ("ssl.truststore.certificates", "ssl.keystore.certificate.chain", "https.ca.pem")


def key_values(where: str, texts: Iterable[str]) -> dict[str, str]:
    """Return texts `key=value` as a dict; the last value of a key wins.

    `ConfigError` for a malformed text; `where` is the option or variable it comes from.
    """
    pairs = {}
    for number, text in enumerate(texts, 1):
        key, equals, value = text.partition("=")
        if not equals or not re.fullmatch(_NAME, key.strip()):
            raise ConfigError(
                f"{where}: value {number} is not valid; write key=value (it is not shown: it may contain a password)"
            )
        pairs[key.strip()] = value.strip()
    return pairs


def client_properties(where: str, texts: Iterable[str]) -> dict[str, str]:
    """Return texts `key=value` as client properties under Kafka's names."""
    from kcli.client.librdkafka import canonical

    return canonical(key_values(where, texts))


def read_properties(path: str | None, env: Environment | None = None) -> dict[str, str]:
    """Return the properties in a file, under Kafka's names; none without a path. With `env`, warn about UTF-8.

    `ConfigError` for a file that cannot be read.
    """
    if not path:
        return {}
    from kcli.client.librdkafka import canonical
    from kcli.client.properties import load_properties, names_in_utf8

    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        raise ConfigError(f"cannot read properties file {path}: {error.strerror}") from error
    try:
        properties = canonical(load_properties(source))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if env is not None and (names := names_in_utf8(source)):
        env.report(
            f"kcli: warning: {path}: {', '.join(names)}: UTF-8 is read as ISO-8859-1, as in Java; write \\uXXXX for "
            "characters outside ASCII"
        )
    return properties


def warn_of_secrets(env: Environment, properties: Mapping[str, str], option: str = "-X", prefix: str = "") -> None:
    """Warn once if an option has a password itself: other users can read the command line.

    Names start with `prefix`. A value that refers to its source is not a password; `prompt` is known to -X only.
    """
    names = [
        name
        for name, value in properties.items()
        if name.startswith(prefix) and _is_exposed(name[len(prefix) :], value)
    ]
    if names:
        sources = "env:NAME or file:PATH" if prefix else "env:NAME, file:PATH or prompt"
        env.report(
            f"kcli: warning: {option} {', '.join(names)}: other users can see it in the process list; use "
            f"{names[0]}={sources}"
        )


def complete_properties(
    env: Environment, properties: Mapping[str, str], of_file: Collection[str], fetched: Mapping[str, str] = {}
) -> dict[str, str]:
    """Return the properties with their values: references of passwords, config providers and the JAAS login file.

    `of_file` are the names of properties of a file, where `env:` and `prompt` have no meaning. `fetched` are passwords
    from elsewhere; as those of references, they are not searched for references. `ConfigError` names the property of a
    value that is not available.
    """
    from kcli.client.config import is_secret_property
    from kcli.client.external_values import complete

    secrets = dict(fetched)
    for name, value in properties.items():
        if name not in of_file and name not in fetched and is_reference(value) and is_secret_property(name):
            secrets[name] = _referred(env, name, value)
    return {**complete({**properties, **dict.fromkeys(secrets, _PROMPT)}, env.environ), **secrets}


def _is_exposed(name: str, value: str) -> bool:
    from kcli.client.config import is_secret_property

    return bool(value) and not is_reference(value) and name not in _PUBLIC and is_secret_property(name)


def is_reference(value: str) -> bool:
    """Return whether the value of a password says where to take it from."""
    return value == _PROMPT or value.startswith(_REFERENCES)


def _referred(env: Environment, name: str, value: str) -> str:
    if value == _PROMPT:
        return _ask(env, name)
    from kcli.client.external_values import read_reference

    return read_reference(name, value, env.environ)


def _ask(env: Environment, name: str) -> str:
    """Return the answer of a person at the terminal, which is not shown."""
    import getpass

    try:
        with open("/dev/tty"):
            pass
    except OSError:
        raise ConfigError(f"{name}: there is no terminal to ask for it; use env:NAME or file:PATH") from None
    env.stdout.flush()
    try:
        answer = getpass.getpass(f"kcli: {name}: ")
    except EOFError:
        answer = ""
    if not answer:
        raise ConfigError(f"{name}: no answer; enter the value, or use env:NAME or file:PATH")
    return answer
