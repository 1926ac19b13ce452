"""The examples of the manual pages: the command lines of the guide's reference, with comments. A test runs each."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kcli.cli.command_table import find_command

GUIDE = Path(__file__).parent / "guide.md"


class Example(NamedTuple):
    """A line for a shell, and a comment (may be empty)."""

    line: str
    comment: str

    @property
    def words(self) -> list[str]:
        """The words after `kcli`, up to a pipe, a redirection or a second command."""
        words = []
        for word in shlex.split(self.line)[1:]:
            if word in ("|", "<", ">", ";", "&&"):
                break
            words.append(word)
        return words


@cache
def examples() -> Mapping[tuple[str, ...], list[Example]]:
    """Return the examples of each command, in the order of the guide's reference. Recipes are no examples."""
    found: dict[tuple[str, ...], list[Example]] = {}
    _, _, text = GUIDE.read_text(encoding="utf-8").partition("\n## Reference\n")
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in re.findall(r"^kcli .*", block.replace("\\\n", ""), re.MULTILINE):
            command, _, comment = line.partition(" # ")
            example = Example(command.strip(), comment.strip())
            _, path = find_command(example.words)
            if path is not None:
                found.setdefault(path, []).append(example)
    return found
