"""The files for type checkers: keyword settings of the library's clients, and the stub with the public names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import kcli
from kcli.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from kcli.settings import Setting

_HEAD = '''\
"""Keyword settings of `Admin`, `Consumer` and `Producer`, for type checkers.

Generated from the declarations by `python -m kcli.cli.docs`; kcli itself never imports it. A value is text, as in a
properties file, or a plain Python value; None is the default. The manual page kcli-configuration(7) explains them all.
"""

from __future__ import annotations

from typing import TypedDict

from kcli.secret import Secret
'''
_TEXTS = "str | list[str] | tuple[str, ...]"
#: The types that `Setting.parse` takes for each kind, besides None.
_TYPES = {
    "Boolean": "bool | str",
    "Double": "float | str",
    "Int": "int | str",
    "List": _TEXTS,
    "Long": "int | str",
    "Password": "str | Secret",
    "Short": "int | str",
    "String": "str",
}
_ADDRESSES = "bootstrap.servers"  # a list too, although it has a parser of text of its own


def type_files() -> dict[str, str]:
    """Return the text of each file by its path in the repository."""
    return {"kcli/__init__.pyi": _stub(), "kcli/client/keyword_types.py": _keyword_types()}


def _stub() -> str:
    """Return the stub: type checkers do not see names that `kcli` imports when they are used."""
    names = sorted((home, name) for name, home in vars(kcli)["_HOME"].items())  # the stub hides it
    imports = "".join(f"from {home} import {name} as {name}\n" for home, name in names)
    return f"{imports}\n__version__: str\n"


def _keyword_types() -> str:
    admin = _declared(ClientConfig)
    del admin[_ADDRESSES]  # it is the first parameter of Admin
    classes = (
        ("AdminSettings", "TypedDict", "Settings of `Admin`, besides `bootstrap_servers`.", admin, ()),
        ("ConsumerSettings", "AdminSettings", "Settings of `Consumer`.", _declared(ConsumerConfig), admin),
        ("ProducerSettings", "AdminSettings", "Settings of `Producer`.", _declared(ProducerConfig), admin),
    )
    parts = [_HEAD]
    for name, base, doc, settings, inherited in classes:
        parts += [f'\n\nclass {name}({base}, total=False):\n    """{doc}"""\n\n', *_lines(settings, inherited)]
    return "".join(parts)


def _declared(cls: type[ClientConfig]) -> dict[str, Setting]:
    """Return the settings that a keyword may set: those that have an effect."""
    return {name: setting for name, setting in cls.SETTINGS.items() if name not in cls.NO_EFFECT}


def _lines(settings: Mapping[str, Setting], inherited: Iterable[str]) -> Iterator[str]:
    for name in sorted(settings.keys() - set(inherited)):
        accepted = _TEXTS if name == _ADDRESSES else _TYPES[settings[name].kind]
        yield f"    {name.replace('.', '_')}: {accepted} | None\n"
