"""Java's regular expressions for topic names, as far as Python's `re` means the same; the rest is refused. Pure."""

from __future__ import annotations

import re


def compile_pattern(text: str) -> re.Pattern[str]:
    """A pattern to be used with `fullmatch` on topic names, as Java's `matches`."""
    return re.compile(text, re.ASCII)
