"""The topics that a `kcli spark` command is given. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kcli.cli.topic_spec import Wanted, parse_topics
from kcli.errors import ConfigError

_LEGAL = r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}"
"""What brokers let a topic be called (`org.apache.kafka.common.internals.Topic`)."""


def read_topics(texts: Iterable[str]) -> Wanted:
    """`TOPIC[:p,p..]` arguments. ConfigError for what no topic can be called: the source takes names between commas,
    so of `a,b` it would read two."""
    wanted = parse_topics(texts)
    for name in wanted:
        if not re.fullmatch(_LEGAL, name):
            hint = f": say {name.replace(',', ' ')}" if "," in name else ", only letters, digits, '.', '_' and '-'"
            raise ConfigError(f"no topic is called '{name}'{hint}")
    return wanted
