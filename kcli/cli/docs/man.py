"""Manual pages of commands, section 1, in troff's `man` macros. Source: man-pages(7), groff_man(7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcli.cli import exit_status
from kcli.cli.docs.tree import CommandDoc, OptionDoc

_ENVIRONMENT = {
    "KCLI_BOOTSTRAP_SERVER": "Brokers to connect to first, as --bootstrap-server.",
    "KCLI_COMMAND_CONFIG": "A Kafka properties file, as --command-config.",
    "KCLI_PROFILE": "A profile, as --profile.",
    "KCLI_PROPERTY": "Client properties, key=value, one per line, as --property.",
    "KCLI_TIMEOUT": "Seconds to wait for brokers, as --timeout.",
    "KCLI_OUTPUT": "The output format, as --output.",
    "KCLI_VERBOSE": "1: print more details, as --verbose.",
    "KCLI_DEBUG": "1: print tracebacks.",
    "NO_COLOR": "Print without colours (no-color.org).",
}


def name(command: CommandDoc) -> str:
    """Return the name of the page: kcli-group-describe."""
    return "-".join(("kcli", *command.words))


def page(command: CommandDoc) -> str:
    """Return the manual page of one command."""
    synopsis = " ".join(("kcli", *command.words, "[OPTIONS]", *(metavar for metavar, _ in command.arguments)))
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
    lines += [*_statuses(), ".SH SEE ALSO", r"\fBkcli\fR(1)"]
    return "\n".join(lines) + "\n"


def overview(commands: Sequence[CommandDoc]) -> str:
    """Return the page of kcli itself: commands, environment variables, exit statuses."""
    lines = [
        *head("kcli", "Read, write and administer Kafka from the command line."),
        ".SH SYNOPSIS",
        "kcli COMMAND [OPTIONS] [ARGUMENTS]",
        ".SH COMMANDS",
        *items((bold(" ".join(command.words)), command.summary) for command in commands),
        ".SH ENVIRONMENT",
        *items((bold(variable), text) for variable, text in _ENVIRONMENT.items()),
        *_statuses(),
        ".SH SEE ALSO",
        ",\n".join([r"\fBkcli\-configuration\fR(7)", *(rf"\fB{escaped(name(command))}\fR(1)" for command in commands)]),
    ]
    return "\n".join(lines) + "\n"


def head(title: str, summary: str, section: int = 1) -> list[str]:
    """Return the beginning of a page."""
    return [f'.TH "{title.upper()}" "{section}" "" "kcli" "kcli manual"', ".SH NAME", escaped(f"{title} - {summary}")]


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
