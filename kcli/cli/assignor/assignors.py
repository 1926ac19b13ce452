"""Assignors as they are named on the command line. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.assignors.foresee import NAMES_ON_SERVER, SERVER_ASSIGNORS
from kcli.assignors.strategies import STRATEGIES
from kcli.errors import ConfigError

NAMES = (*STRATEGIES, *SERVER_ASSIGNORS)
_BY_JAVA_CLASS = {strategy.java_class: name for name, strategy in STRATEGIES.items()}


def parse_assignors(option: str, texts: Sequence[str]) -> list[str]:
    """Names separated by commas, each once; ConfigError for one that there is not."""
    names = [name.strip() for text in texts for name in text.split(",")]
    if "" in names:
        raise ConfigError(f"{option} is NAME,NAME,... of {', '.join(NAMES)}; one is missing in '{','.join(texts)}'")
    return list(dict.fromkeys(parse_assignor(option, name) for name in names))


def parse_assignor(option: str, text: str) -> str:
    """The name in `kcli.assignors.foresee` of a name or of a Java class; ConfigError with the nearest ones."""
    name = _BY_JAVA_CLASS.get(text, text)
    if name in NAMES:
        return name
    from difflib import get_close_matches

    close = get_close_matches(text, NAMES, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(NAMES)}"
    raise ConfigError(f"{option}: there is no assignor '{text}'; {hint}")


def on_server(name: str) -> str:
    """What a name means for a group whose broker assigns (KIP-848): there `range` is the broker's."""
    return NAMES_ON_SERVER.get(name, name)
