"""Manual pages of commands, section 1, in troff's `man` macros. Source: man-pages(7), groff_man(7)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kcli.cli import exit_status
from kcli.cli.command_table import COMMANDS, GROUPS
from kcli.cli.docs.examples import Example, examples
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
            *("group delete", "topic alter", "topic undo"),
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


def name(command: CommandDoc) -> str:
    """Return the name of the page: kcli-group-describe."""
    return "-".join(("kcli", *command.words))


def page(command: CommandDoc) -> str:
    """Return the manual page of one command."""
    synopsis = " ".join(("kcli", *command.words, "[OPTIONS]", *(metavar for metavar, _ in command.arguments)))
    names = {name for option in command.options for name in option.names}
    names |= {" ".join(command.words), *(metavar for metavar, _ in command.arguments)}
    lines = [
        *head(name(command), command.summary),
        ".SH SYNOPSIS",
        escaped(synopsis),
        ".SH DESCRIPTION",
        *paragraphs(command.description),
    ]
    if command.arguments:
        lines += [".SH ARGUMENTS", *items((bold(metavar), text) for metavar, text in command.arguments)]
    lines += [".SH OPTIONS", *items((_heading(option), option.help) for option in command.options)]
    if shown := examples().get(command.words):
        lines += [".SH EXAMPLES", *_examples(shown)]
    lines += [*_environment(names), *_files(names), *_statuses(), ".SH SEE ALSO"]
    pages = ["kcli(1)", *(["kcli-configuration(7)"] if "--property" in names else [])]
    pages += ["kcli-spark(7)"] if "--master" in names else []
    return "\n".join((*lines, _see_also(pages))) + "\n"


def family(name: str) -> str:
    """Return the page of a family of commands, such as topic."""
    commands = {words: summary for words, summary in COMMANDS.items() if words[0] == name}
    lines = [
        *head(f"kcli-{name}", GROUPS[name]),
        ".SH SYNOPSIS",
        escaped(f"kcli {name} COMMAND [OPTIONS] [ARGUMENTS]"),
        ".SH COMMANDS",
        *items((bold(" ".join(words)), summary) for words, summary in commands.items()),
        ".SH SEE ALSO",
        _see_also(["kcli(1)", *(f"kcli-{'-'.join(words)}(1)" for words in commands)]),
    ]
    return "\n".join(lines) + "\n"


def overview() -> str:
    """Return the page of kcli itself: commands, environment variables, files, exit statuses."""
    first = [shown[0] for words in _FIRST_COMMANDS if (shown := examples().get(words))]
    names = {option for option, _ in _ENVIRONMENT.values()} | {name for names, _ in _FILES.values() for name in names}
    lines = [
        *head("kcli", "Read, write and administer Kafka from the command line."),
        ".SH SYNOPSIS",
        "kcli COMMAND [OPTIONS] [ARGUMENTS]",
        ".br",
        "kcli help [COMMAND]",
        ".SH COMMANDS",
        *items((bold(" ".join(words)), summary) for words, summary in COMMANDS.items()),
        ".SH EXAMPLES",
        *_examples(first),
        *_environment(names),
        *_files(names),
        ".SH STANDARD STREAMS",
        *items((bold(stream), text) for stream, text in _STREAMS.items()),
        *_statuses(),
        ".SH SEE ALSO",
        _see_also(["kcli-configuration(7)", "kcli-spark(7)", *(f"kcli-{'-'.join(words)}(1)" for words in COMMANDS)]),
    ]
    return "\n".join(lines) + "\n"


_FIRST_COMMANDS = (
    *(("demo",), ("topic", "list"), ("consume", "topic"), ("group", "describe"), ("group", "explain")),
    *(("offsets", "reset"), ("profile", "check")),
)


def head(title: str, summary: str, section: int = 1) -> list[str]:
    """Return the beginning of a page."""
    return [f'.TH "{title.upper()}" "{section}" "" "kcli" "kcli manual"', ".SH NAME", escaped(f"{title} - {summary}")]


def _see_also(pages: Iterable[str]) -> str:
    return ",\n".join(rf"{bold(page[:-3])}{page[-3:]}" for page in pages)


def _examples(shown: Iterable[Example]) -> list[str]:
    """Return command lines, which troff does not fill, each with its comment below it."""
    lines = []
    for example in shown:
        comment = example.comment[:1].upper() + example.comment[1:]
        lines += [".PP", ".nf", bold(example.line), ".fi", *([".RS 4", escaped(comment), ".RE"] if comment else [])]
    return lines


def _environment(names: Collection[str]) -> list[str]:
    """Return the section of the variables of a command with these options."""
    shown = {
        variable: f"{text} The same as {option}." if option else text
        for variable, (option, text) in _ENVIRONMENT.items()
        if not option or option in names
    }
    return [".SH ENVIRONMENT", *items((bold(variable), text) for variable, text in shown.items())]


def _files(names: Collection[str]) -> list[str]:
    """Return the section of the files of a command with this name and these options; none without files."""
    shown = {path: text for path, (users, text) in _FILES.items() if any(user in names for user in users)}
    return [".SH FILES", *items((bold(path), text) for path, text in shown.items())] if shown else []


def _statuses() -> list[str]:
    return [".SH EXIT STATUS", *items((bold(str(n)), text) for n, text in exit_status.MEANINGS.items())]


def _heading(option: OptionDoc) -> str:
    value = "" if option.value is None else rf" \fI{escaped(option.value)}\fR"
    return ", ".join(bold(one) for one in option.names) + value


def items(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return headings, already escaped, each with its text below it."""
    return [line for heading, text in pairs for line in (".TP", heading, escaped(text) or "\\&")]


def paragraphs(text: str) -> list[str]:
    """Return the help as paragraphs. troff fills their lines, except in paragraphs marked as preformatted."""
    lines: list[str] = []
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        lines += [".PP"] if number else []
        if paragraph.startswith("\b\n"):
            lines += [".nf", ".ft CW", *map(escaped, paragraph[2:].split("\n")), ".ft", ".fi"]
        else:
            lines += map(escaped, paragraph.split("\n"))
    return lines


def bold(text: str) -> str:
    """Return text in bold, escaped."""
    return rf"\fB{escaped(text)}\fR"


def escaped(text: str) -> str:
    """Escape text for troff: backslashes, hyphens, and a dot or quote at the start, which would begin a request."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return rf"\&{safe}" if safe.startswith((".", "'")) else safe
