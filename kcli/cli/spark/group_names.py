"""`--groups a,b` of commands that go over all groups without it. Pure."""

from __future__ import annotations

from kcli.errors import ConfigError


def parse_groups(text: str | None) -> tuple[str, ...] | None:
    """The names, each once; None for all groups. ConfigError for no name at all, as an unset variable of a script."""
    if text is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError("--groups names no group")
    return names
