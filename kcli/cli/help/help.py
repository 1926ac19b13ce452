"""`kcli help`: show a page of the manual."""

from __future__ import annotations

import os
from typing import Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.parser import Argument
from kcli.errors import ConfigError

_OTHER_TOPICS = ("configuration", "spark-recipes", "guide")


def run(
    env: Environment,
    topic: Annotated[
        list[str] | None, Argument(metavar="[TOPIC...]", help="Command, family of commands, configuration, guide.")
    ] = None,
) -> int:
    """Show a page of the manual: that of a command, of a family of commands, or of kcli itself.

    The topic "configuration" is the page of all client properties, "spark recipes" that of recipes for Apache Spark,
    "guide" the guide: recipes by symptom, then the main commands by subject. On a terminal, the program man shows the
    page; without it, and in a pipe, the page is plain text.

    \b
    kcli help consume topic
    kcli help group
    kcli help configuration
    """
    name = "-".join(word for given in topic or () for word in given.split()).removeprefix("kcli").strip("-")
    name = name.rsplit(".", 1)[0] if name.endswith((".1", ".7")) else name
    if name == "guide":
        env.stdout.write(guide())
        return exit_status.DONE
    title, text = page(name, env)
    shown = _show_with_man(env, title, text) if env.stdout_is_terminal else None
    if shown is None:
        from kcli.cli.help.plain_page import plain_text

        env.stdout.write(plain_text(text, min(env.width, 100)))
        return exit_status.DONE
    return exit_status.DONE if shown == 0 else exit_status.FAILED


def guide() -> str:
    """Return the text of the guide."""
    from kcli.cli.docs.examples import GUIDE

    return GUIDE.read_text(encoding="utf-8")


def page(name: str, env: Environment) -> tuple[str, str]:
    """Return the name of the file of a page, and its text for troff. `ConfigError` if there is no such page."""
    from kcli.cli.command_table import COMMANDS, GROUPS, SHORT_FOR
    from kcli.cli.docs import man
    from kcli.cli.docs.tree import read_command

    if not name:
        return "kcli.1", man.overview()
    if name == "configuration":
        from kcli.cli.docs import configuration

        return "kcli-configuration.7", configuration.page()
    if name == "spark-recipes":
        from kcli.cli.docs import spark_page

        return "kcli-spark.7", spark_page.page()
    if name in SHORT_FOR:
        name = f"{name}-{SHORT_FOR[name]}"
    if name in GROUPS:
        return f"kcli-{name}.1", man.family(name)
    paths = {"-".join(path): path for path in COMMANDS}
    if name not in paths:
        from kcli.text import closest_name

        close = closest_name(name, [*paths, *GROUPS, *_OTHER_TOPICS])
        hint = f"did you mean 'kcli help {close.replace('-', ' ', 1)}'?" if close else "see 'kcli help'"
        raise ConfigError(f"there is no page for {name.replace('-', ' ')!r}; {hint}")
    return f"kcli-{name}.1", man.page(read_command(paths[name], env))


def _show_with_man(env: Environment, title: str, text: str) -> int | None:
    """Show the page with `man`, and return its exit status; None without that program."""
    from shutil import which

    program = which("man", path=env.environ.get("PATH"))
    if program is None:
        return None
    import subprocess
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="kcli-help-") as folder:
        path = os.path.join(folder, title)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        env.stdout.flush()
        process = subprocess.Popen([program, path], env=dict(env.environ))
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the pager decides about Ctrl-C
                continue
