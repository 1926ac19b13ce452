"""`kcli help`: show a page of the manual."""

from __future__ import annotations

import os
import re
import subprocess
from shutil import which
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.command_table import COMMANDS, GROUPS, SHORT_FOR
from kcli.cli.environment import Environment
from kcli.cli.parser import Argument
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.docs.page import Page

_OTHER_TOPICS = {
    "configuration": "Client properties, their sources, and passwords.",
    "spark recipes": "Recipes for Apache Spark, and the options of the data source.",
    "guide": "Recipes by symptom, then the main commands by subject.",
    "library": "Programs in Python: loops, shutdown, threads, migration from other clients.",
}


def run(
    env: Environment,
    topic: Annotated[
        list[str] | None,
        Argument(metavar="[TOPIC...]", help="Command, family of commands, configuration, guide, library."),
    ] = None,
) -> int:
    """Show a page of the manual: that of a command, of a family of commands, or of kcli itself.

    The topic "configuration" is the page of all client properties, "spark recipes" that of recipes for Apache Spark,
    "guide" the guide: recipes by symptom, then the main commands by subject; "library" is for programs in Python. Words
    that are no topic list the pages that have them in title or summary. On a terminal, the program man shows the page;
    without it, and in a pipe, the page is plain text.

    \b
    kcli help consume topic
    kcli help group
    kcli help configuration
    kcli help lag
    """
    name = "-".join(word for given in topic or () for word in given.split()).removeprefix("kcli").strip("-")
    name = name.rsplit(".", 1)[0] if name.endswith((".1", ".7")) else name
    if name in ("guide", "library"):
        env.stdout.write(handwritten(name))
        return exit_status.DONE
    shown = page(name, env)
    if shown is None:
        return _show_found(env, name)
    status = _show_with_man(env, shown) if env.stdout_is_terminal else None
    if status is None:
        from kcli.cli.docs.page import plain_text

        env.stdout.write(plain_text(shown, min(env.width, 100)))
        return exit_status.DONE
    return exit_status.DONE if status == 0 else exit_status.FAILED


def handwritten(name: str) -> str:
    """Return the text of the guide or of the page about the library."""
    from kcli.cli.docs.examples import GUIDE

    return GUIDE.with_stem(name).read_text(encoding="utf-8")


def page(name: str, env: Environment) -> Page | None:
    """Return the page of a topic, whose words are joined by hyphens; None if there is no such page."""
    from kcli.cli.docs import man

    if not name:
        return man.overview()
    if name == "configuration":
        from kcli.cli.docs import configuration

        return configuration.page()
    if name == "spark-recipes":
        from kcli.cli.docs import spark_page

        return spark_page.page()
    if name in SHORT_FOR:
        name = f"{name}-{SHORT_FOR[name]}"
    if name in GROUPS:
        return man.family(name)
    path = next((path for path in COMMANDS if "-".join(path) == name), None)
    if path is None:
        return None
    from kcli.cli.docs.tree import read_command

    return man.page(read_command(path, env))


def _show_found(env: Environment, name: str) -> int:
    """Print the topics whose title or summary has all these words, a plural for a singular as well.

    Raise ConfigError if there is none.
    """
    topics = {**GROUPS, **{" ".join(path): summary for path, summary in COMMANDS.items()}, **_OTHER_TOPICS}
    wanted = {_singular(word) for word in name.lower().split("-")}
    found = {
        topic: summary
        for topic, summary in topics.items()
        if wanted <= {_singular(word) for word in re.findall(r"\w+", f"{topic} {summary}".lower())}
    }
    if not found:
        from kcli.text import closest_name

        close = closest_name(name, [topic.replace(" ", "-") for topic in topics])
        hint = f"did you mean 'kcli help {close.replace('-', ' ', 1)}'?" if close else "see 'kcli help'"
        raise ConfigError(f"there is no page for {name.replace('-', ' ')!r}; {hint}")
    width = max(map(len, found))
    for topic, summary in found.items():
        env.stdout.write(f"kcli help {topic:{width}}  {summary}\n")
    return exit_status.DONE


def _singular(word: str) -> str:
    return word.removesuffix("s")


def _show_with_man(env: Environment, page: Page) -> int | None:
    """Show the page with `man`, and return its exit status; None without that program."""
    program = which("man", path=env.environ.get("PATH"))
    if program is None:
        return None
    from tempfile import TemporaryDirectory

    from kcli.cli.docs.page import troff

    with TemporaryDirectory(prefix="kcli-help-") as folder:
        path = os.path.join(folder, page.file_name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(troff(page))
        env.stdout.flush()
        process = subprocess.Popen([program, path], env=dict(env.environ))
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the pager decides about Ctrl-C
                continue
