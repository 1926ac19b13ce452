"""Which files there are, and what stands in each."""

from __future__ import annotations

from kcli.cli.docs import bash, fish, man, zsh
from kcli.cli.docs.tree import read_tree


def generated() -> dict[str, str]:
    """Path below the repository -> text, for all commands."""
    commands = read_tree()
    files = {
        "completions/kcli.bash": bash.completion(commands),
        "completions/_kcli": zsh.completion(commands),
        "completions/kcli.fish": fish.completion(commands),
        "man/kcli.1": man.overview(commands),
    }
    files |= {f"man/{man.name(command)}.1": man.page(command) for command in commands}
    return files
