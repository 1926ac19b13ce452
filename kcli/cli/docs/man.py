"""Manual pages of commands and of kcli itself, section 1."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kcli.cli import exit_status
from kcli.cli.command_table import COMMANDS, GROUPS
from kcli.cli.docs.examples import Example, examples
from kcli.cli.docs.page import Block, ExampleLine, Item, Line, Page, items, paragraphs, see_also
from kcli.cli.docs.tree import CommandDoc, OptionDoc

# The variables of the environment, each with its option ("": it has none, and every command has the variable).
_ENVIRONMENT = {
    "KCLI_BOOTSTRAP_SERVER": ("--bootstrap-server", "Brokers to connect to first."),
    "KCLI_COMMAND_CONFIG": ("--command-config", "A file of Kafka client properties."),
    "KCLI_PROFILE": ("--profile", "A profile; none: no profile."),
    "KCLI_PROPERTY": ("--property", "Client properties, key=value, one per line."),
    "KCLI_SCHEMA_REGISTRY": ("--schema-registry", "URL of the schema registry."),
    "KCLI_TIMEOUT": ("--timeout", "Seconds to wait for brokers."),
    "KCLI_OUTPUT": ("--output", "The output format."),
    "KCLI_VERBOSE": ("--verbose", "1: print more details on stderr."),
    "KCLI_DEBUG": ("", "1: print tracebacks of errors."),
    "NO_COLOR": ("", "Not empty: print without colours (no-color.org)."),
}
_STREAMS = {
    "standard input": "Read by produce without -f, and where an option names -. If it is closed (<&-), such a command "
    "fails with status 1; the others do not read it.",
    "standard output": "Data. A reader that closes its end of a pipe ends the command without an error. If it is "
    "closed (>&-), nothing is done, and the status is 1; redirect it to /dev/null to have no output. If it fails after "
    "a change was made, as on a full disk, the status is 1 and a line on standard error says what was done.",
    "standard error": "Messages. If it is closed (2>&-) or fails, they are lost; data and status are the same.",
}
# The files of the user, each with the commands that use it, or with their options or arguments.
_FILES = {
    "~/.config/kcli/config.toml": (
        ("--profile", "[PROFILE]", "PROFILE"),
        "The profiles; see kcli-profile-list(1). In $XDG_CONFIG_HOME/kcli if that is set.",
    ),
    "~/.local/state/kcli/": (
        (
            *("offsets reset", "offsets apply", "offsets copy", "offsets delete", "offsets undo"),
            *("group delete", "topic alter", "topic undo", "undo"),
        ),
        "What a change has replaced, for its undo. In $XDG_STATE_HOME/kcli if that is set.",
    ),
    "~/.cache/kcli/schemas/": (
        ("--schema-registry",),
        "Schemas of registries. In $XDG_CACHE_HOME/kcli if that is set.",
    ),
    "~/.cache/kcli/completion/": (
        ("SHELL",),
        "Names for completion, for ten seconds. In $XDG_CACHE_HOME/kcli if that is set.",
    ),
}


def page(command: CommandDoc) -> Page:
    """Return the manual page of one command."""
    metavars = [metavar for metavar, _ in command.arguments]
    names = {name for option in command.options for name in option.names}
    names |= {" ".join(command.words), *metavars}
    sections: dict[str, list[Block]] = {
        "SYNOPSIS": paragraphs(" ".join(("kcli", *command.words, "[OPTIONS]", *metavars))),
        "DESCRIPTION": paragraphs(command.description),
        "ARGUMENTS": items(command.arguments),
        "OPTIONS": [Item(_heading(option), option.help) for option in command.options],
        "EXAMPLES": _examples(examples().get(command.words, ())),
        **_environment_and_files(names),
        "EXIT STATUS": _statuses(),
    }
    pages = ["kcli(1)", *(["kcli-configuration(7)"] if "--property" in names else [])]
    pages += ["kcli-spark(7)"] if "--master" in names else []
    sections["SEE ALSO"] = see_also(pages)
    shown = {title: blocks for title, blocks in sections.items() if blocks}
    return Page("-".join(("kcli", *command.words)), command.summary, shown)


def family(name: str) -> Page:
    """Return the page of a family of commands, such as topic."""
    commands = {words: summary for words, summary in COMMANDS.items() if words[0] == name}
    sections = {
        "SYNOPSIS": paragraphs(f"kcli {name} COMMAND [OPTIONS] [ARGUMENTS]"),
        "COMMANDS": items((" ".join(words), summary) for words, summary in commands.items()),
        "SEE ALSO": see_also(["kcli(1)", *(f"kcli-{'-'.join(words)}(1)" for words in commands)]),
    }
    return Page(f"kcli-{name}", GROUPS[name], sections)


def overview() -> Page:
    """Return the page of kcli itself: commands, environment variables, files, exit statuses."""
    names = {option for option, _ in _ENVIRONMENT.values()} | {name for names, _ in _FILES.values() for name in names}
    sections = {
        "SYNOPSIS": paragraphs("\b\nkcli COMMAND [OPTIONS] [ARGUMENTS]\nkcli help [COMMAND]"),
        "COMMANDS": items((" ".join(words), summary) for words, summary in COMMANDS.items()),
        "EXAMPLES": _examples(shown[0] for words in _FIRST_COMMANDS if (shown := examples().get(words))),
        **_environment_and_files(names),
        "STANDARD STREAMS": items(_STREAMS.items()),
        "EXIT STATUS": _statuses(),
        "SEE ALSO": see_also(
            ["kcli-configuration(7)", "kcli-spark(7)", *(f"kcli-{'-'.join(words)}(1)" for words in COMMANDS)]
        ),
    }
    return Page("kcli", "Read, write and administer Kafka from the command line.", sections)


_FIRST_COMMANDS = (
    *(("demo",), ("topic", "list"), ("consume", "topic"), ("group", "describe"), ("group", "explain")),
    *(("offsets", "reset"), ("profile", "check")),
)


def _examples(shown: Iterable[Example]) -> list[Block]:
    return [ExampleLine(line, comment[:1].upper() + comment[1:]) for line, comment in shown]


def _environment_and_files(names: Collection[str]) -> dict[str, list[Block]]:
    """Return the sections of the variables and files of a command with this name and these options."""
    variables = {
        variable: f"{text} The same as {option}." if option else text
        for variable, (option, text) in _ENVIRONMENT.items()
        if not option or option in names
    }
    files = {path: text for path, (users, text) in _FILES.items() if any(user in names for user in users)}
    return {"ENVIRONMENT": items(variables.items()), "FILES": items(files.items())}


def _statuses() -> list[Block]:
    return items((str(status), text) for status, text in exit_status.MEANINGS.items())


def _heading(option: OptionDoc) -> Line:
    heading: list[tuple[str, str]] = []
    for name in option.names:
        heading += [*([("R", ", ")] if heading else []), ("B", name)]
    return (*heading, *(() if option.value is None else (("R", " "), ("I", option.value))))
