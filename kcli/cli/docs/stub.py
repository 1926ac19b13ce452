"""The stub `kcli/__init__.pyi`: the public names for type checkers, because `kcli` imports them when they are used."""

from __future__ import annotations

import kcli

PATH = "kcli/__init__.pyi"


def text() -> str:
    """Return the text of the stub."""
    names = sorted((home, name) for name, home in vars(kcli)["_HOME"].items())  # the stub hides it
    imports = "".join(f"from {home} import {name} as {name}\n" for home, name in names)
    return f"{imports}\n__version__: str\n"
