"""Which record renderer was asked for: only its module is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.consume.format import Piece
    from kcli.cli.consume.output import Renderer


class Style(NamedTuple):
    """How records are to be printed, as the command line says it."""

    output: str | None = None
    format: str | None = None
    delimiter: str = "\\n"
    key_delimiter: str | None = None
    null: str | None = None
    terminal: bool = False


def make_renderer(style: Style) -> Renderer:
    """The renderer for a style; only its module is imported. `ConfigError` for what does not go together."""
    pieces = _pieces(style)
    if pieces is not None:
        from kcli.cli.consume.text import text_renderer

        return text_renderer(pieces, null=style.null, terminal=style.terminal)
    if style.output in ("json", "jsonl"):
        from kcli.cli.consume.json import json_renderer

        return json_renderer(lines=style.output == "jsonl", terminal=style.terminal)
    from kcli.cli.consume.tables import separated_renderer, table_renderer

    if style.output == "table":
        return table_renderer()
    return separated_renderer(tabs=style.output == "tsv", terminal=style.terminal)


def _pieces(style: Style) -> list[Piece] | None:
    """The format to fill in, None when an output format with a shape of its own was asked for."""
    from kcli.cli.consume.format import compile_format, raw_format

    if style.output is not None:
        given = [("-f", style.format), ("-K", style.key_delimiter), ("-Z", style.null)]
        given.append(("-D", None if style.delimiter == "\\n" else style.delimiter))
        for option, value in given:
            if value is not None:
                raise ConfigError(f"{option} is for raw output: it does not go with --output {style.output}")
        return None
    if style.format is None:
        return raw_format(style.delimiter, style.key_delimiter)
    if style.key_delimiter is not None or style.delimiter != "\\n":
        raise ConfigError("-f says it all: -D and -K do not go with it")
    return compile_format(style.format)
