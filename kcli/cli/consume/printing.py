"""The printing of records by a read: the choice of a renderer, filters, limits and reports."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.cli.consume.options import RawOptions
from kcli.cli.consume.printed_records import UNLIMITED, Limits
from kcli.cli.consume.renderer import NO_HIGHLIGHTS, Highlights, Renderer
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.consume.checkpointer import Checkpointer
    from kcli.cli.consume.decoding import Decoding
    from kcli.cli.consume.filters import Filters
    from kcli.cli.consume.printed_records import PrintedRecords
    from kcli.cli.consume.render_text import Field, FormatPart
    from kcli.cli.environment import Environment


class PrintOptions(NamedTuple):
    """The rendering and the filters of records, early ends, and the reports on standard error.

    `notes` are reported before the first record. `quiet` suppresses notes and tables; `verbose` adds signs of life.
    `decoding` decodes keys and values, and has the expressions. `checkpoint` stores the positions of printed records.
    """

    renderer: Renderer
    filters: Filters | None = None
    limits: Limits = UNLIMITED
    stats: bool = False
    quiet: bool = False
    verbose: bool = False
    notes: Sequence[str] = ()
    decoding: Decoding | None = None
    checkpoint: Checkpointer | None = None

    def report_stats(self, env: Environment, printed: PrintedRecords, started_ms: float) -> None:
        """Report the numbers and rates of the printed records since then, with --stats."""
        if self.stats:
            env.report_lines(printed.stats(env.clock.now_ms() - started_ms).split("\n"))

    def status(self, status: int) -> int:
        """Report the failures of decoding, and return the exit status of a read that would end with `status`."""
        if self.decoding is None:
            return status
        self.decoding.report_summary()
        return self.decoding.status(status)


class RenderOptions(NamedTuple):
    """The options for printing records. `output` None: raw, in the form of `raw`.

    `highlights`: expressions whose matches have a colour, by field. `decoders`: the sides (key, value) with a decoder,
    if the records are `DecodedColumns`; None: they are not. `selects`: they have results of --select. `columns`: the
    text of --columns.
    """

    output: str | None = None
    raw: RawOptions = RawOptions()
    terminal: bool = False
    highlights: Highlights = NO_HIGHLIGHTS
    decoders: Collection[str] | None = None
    selects: bool = False
    columns: str | None = None


def make_renderer(options: RenderOptions) -> Renderer:
    """Return the renderer for the options; only its module is imported. Raise ConfigError for options in conflict."""
    output, terminal, decoders = options.output, options.terminal, options.decoders
    parts = _format_parts(options)
    chosen = {} if options.columns is None else parse_columns(options.columns, decoders or ())
    if options.selects:
        _check_select(options)
    if chosen and output in (None, "json", "jsonl"):
        raise ConfigError("--columns requires --output table, csv or tsv")
    if parts is not None:
        from kcli.cli.consume import render_text

        if options.selects:
            end = b"".join(part for part in parts if isinstance(part, bytes))
            return render_text.selected_text_renderer(end, terminal=terminal)
        null, highlights = options.raw.null, options.highlights
        return render_text.text_renderer(
            parts, null=null, terminal=terminal, highlights=highlights, decoders=decoders or ()
        )

    from kcli.cli.consume.render_structured import json_renderer, separated_renderer, table_renderer

    if output in ("json", "jsonl"):
        return json_renderer(lines=output == "jsonl", terminal=terminal, decoders=decoders)
    if output == "table":
        return table_renderer(options.highlights, decoders=decoders, chosen=chosen)
    return separated_renderer(tabs=output == "tsv", terminal=terminal, decoders=decoders, chosen=chosen)


def _check_select(options: RenderOptions) -> None:
    """Raise ConfigError for options that cannot be combined with --select."""
    if options.output not in (None, "json", "jsonl"):
        raise ConfigError(
            f"--select cannot be combined with --output {options.output}; use --columns, json, jsonl or raw output"
        )
    if options.raw.format is not None or options.raw.key_delimiter is not None:
        raise ConfigError("--select cannot be combined with -f or -K; it makes the whole output of a record")


def _format_parts(options: RenderOptions) -> list[FormatPart] | None:
    """Return the parts of the format; None for --output."""
    from kcli.cli.consume.render_text import compile_format, raw_format

    raw, delimiter = options.raw, None if options.raw.delimiter == "\\n" else options.raw.delimiter
    if options.output is not None:
        for option, value in (("-f", raw.format), ("-K", raw.key_delimiter), ("-Z", raw.null), ("-D", delimiter)):
            if value is not None:
                raise ConfigError(f"{option} cannot be combined with --output {options.output}; it is for raw output")
        return None
    if raw.format is None:
        return raw_format(raw.delimiter, raw.key_delimiter)
    if raw.key_delimiter is not None or delimiter is not None:
        raise ConfigError("-f cannot be combined with -D or -K")
    parts = compile_format(raw.format)
    for part in parts:
        if not isinstance(part, bytes):
            _require_decoder("-f", part, options.decoders or ())
    return parts


def _require_decoder(option: str, field: Field, decoders: Collection[str]) -> None:
    if field.needs_decoder and field.name not in decoders:
        raise ConfigError(
            f"{option}: a part or the error of a {field.name} requires a decoder, such as -s {field.name}=json"
        )


def parse_columns(text: str, decoders: Collection[str]) -> dict[str, Field]:
    """Return the fields of --columns by the given names. Raise ConfigError."""
    from kcli.cli.consume.render_text import NAMED, named_field

    fields = {}
    for name in map(str.strip, text.split(",")):
        field = named_field(name)
        if field is None:
            known = ", ".join([*NAMED, "value.PATH", "key.PATH"])
            raise ConfigError(f"--columns: '{name}' is not a valid column; use {known} or headers.NAME")
        _require_decoder("--columns", field, decoders)
        fields[name] = field
    return fields
