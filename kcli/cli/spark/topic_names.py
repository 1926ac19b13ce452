"""The topics that a `kcli spark` command is given. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kcli.errors import ConfigError
from kcli.text import is_topic_name, parse_topics


def read_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """`TOPIC[:p,p..]` arguments. ConfigError for what no topic can be called: the source takes names between commas,
    so of `a,b` it would read two."""
    wanted = parse_topics(texts)
    for name in wanted:
        if not is_topic_name(name):
            hint = f": say {name.replace(',', ' ')}" if "," in name else ", only letters, digits, '.', '_' and '-'"
            raise ConfigError(f"no topic is called '{name}'{hint}")
    return wanted
