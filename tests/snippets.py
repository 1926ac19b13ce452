"""The programs in the pages for people: each block ```python is a complete program, or a test file of pytest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
GUIDE = ROOT / "kcli" / "cli" / "docs" / "guide.md"
LIBRARY = ROOT / "kcli" / "cli" / "docs" / "library.md"
PAGES = (README, GUIDE, LIBRARY)
ADDRESS = "localhost:9092"
"""The address of the broker in all programs."""
REGISTRY = "http://localhost:8081"
"""The address of the schema registry."""


class Snippet(NamedTuple):
    """A block of a page, with the last heading before it."""

    page: Path
    heading: str
    line: int
    source: str

    def __str__(self) -> str:
        return f"{self.page.stem}-{self.line}-{self.heading.lower().replace(' ', '-')}"

    @property
    def is_test(self) -> bool:
        """True for a test file of pytest."""
        return re.search(r"^def test_", self.source, re.MULTILINE) is not None

    @property
    def ends_by_sigterm(self) -> bool:
        """True for a program that runs until it gets SIGTERM."""
        return "SIGTERM" in self.source

    def at(self, address: str, registry_url: str) -> str:
        """Return the program for the broker and the schema registry at these addresses."""
        return self.source.replace(ADDRESS, address).replace(REGISTRY, registry_url)


def snippets(page: Path) -> list[Snippet]:
    """Return the blocks of a page in their order."""
    found, heading, lines = [], "", page.read_text("utf-8").splitlines(keepends=True)
    start: int | None = None
    for number, line in enumerate(lines, 1):
        if start is not None and line == "```\n":
            found.append(Snippet(page, heading, start, "".join(lines[start : number - 1])))
            start = None
        elif line == "```python\n":
            start = number
        elif start is None and line.startswith("#"):
            heading = line.strip("# \n")
    return found


def programs() -> list[Snippet]:
    """Return what runs as it is: the blocks of the page "The library" and of README.md."""
    return snippets(LIBRARY) + snippets(README)
