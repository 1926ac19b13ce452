"""Options of `kcli consume topic`: `-o/--offset`, the options of members, and the choice of a renderer.

Pure: no I/O, no clock.

    SPEC   = [PARTITION "="] RANGE
    RANGE  = BOUND | [BOUND] ":" [BOUND]          ":END" starts at the log start; "START:" follows, like "START"
    BOUND  = "start" | "end" | N | "+N" | "-N" | "@" TIME     "start" and "end" have the names of other tools, too
    TIME   = see kcli.text

The end of a range is exclusive. A time that starts a range needs no second "@": `@-2h:-1h`. A time without a zone is
UTC.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.consumer.read_range import EARLIEST, LATEST, Bound, FromEnd, FromStart, Offset, ReadRange, Time
from kcli.errors import ConfigError
from kcli.structs import TopicPartition
from kcli.text import DATE, DURATION_STEP, TIME, TIME_SHAPES, parse_time

if TYPE_CHECKING:
    from kcli.cli.consume.format import Field, FormatPart
    from kcli.cli.consume.renderer import Highlights, Renderer

SHAPES = "start, end, 100, +100, -100, 100:200, :end, @TIME, @TIME:TIME"

_NAMED: dict[str, Bound] = {
    "start": EARLIEST,
    "beginning": EARLIEST,
    "earliest": EARLIEST,
    "oldest": EARLIEST,
    "end": LATEST,
    "latest": LATEST,
    "newest": LATEST,
}
_LARGEST_OFFSET = 2**63 - 1
_LONGEST = 100
# Not compiled here: most command lines need none of them, and compiling takes longer than all the rest.
_TIME_RANGE = rf"@(?P<start>{TIME})(?::(?P<end>.*))?"

_MISTAKES: list[tuple[str, str]] = [
    (r"[se]@.*", "use '@A' and '@A:B' instead of kcat's 's@A' and 'e@B'"),
    (r"json|jsonl|csv|tsv|table", "the output format is -O or --output"),
    (r"stored", "without --group there is no committed offset"),
    (r"[0-9]+(-|\.\.)[0-9]+", "use a colon between the bounds, like 100:200"),
    (rf"-?({DURATION_STEP})+", "a time begins with '@', like @-1h"),
    (rf"{DATE}.*", "a time begins with '@', like @2024-01-31"),
    (r"@\+.*", "a relative time is in the past, like @-1h"),
    (rf"@({DURATION_STEP})+.*", "a relative time begins with '-', like @-1h"),
    (r"@-[0-9.]+", "a relative time needs a unit, like @-30s, @-5m, @-1h30m, @-2d"),
]


class OffsetSpecs(NamedTuple):
    """All `-o` of a command line: the range for all partitions (None: not given), and those of single partitions."""

    general: ReadRange | None
    partitions: dict[int, ReadRange]

    def names_only_partitions(self) -> bool:
        """True if there are ranges of single partitions only."""
        return self.general is None and bool(self.partitions)


def choose_ranges(
    partitions: Iterable[TopicPartition], specs: OffsetSpecs, named: Container[str] = (), *, exit_at_end: bool = False
) -> dict[TopicPartition, ReadRange]:
    """Return the range to read of each partition.

    The default is to follow from the end; `exit_at_end` sets a missing end.

    With ranges of single partitions only, other partitions are not read, unless the partitions of the topic were
    `named`.
    """
    candidates = list(partitions)
    unknown = sorted(set(specs.partitions) - {tp.partition for tp in candidates})
    if unknown:
        raise ConfigError(f"-o {unknown[0]}=...: partition {unknown[0]} is not read")
    ranges = {}
    for tp in candidates:
        own = specs.partitions.get(tp.partition, specs.general)
        if own is None and specs.names_only_partitions() and tp.topic not in named:
            continue
        start, end = own or ReadRange(LATEST)
        ranges[tp] = ReadRange(start, end or (LATEST if exit_at_end else None))
    return ranges


def followed_topics(
    wanted: Mapping[str, list[int] | None], specs: OffsetSpecs, *, exit_at_end: bool = False
) -> list[str]:
    """Return the topics of which partitions that are added later are read too.

    These are the topics without partition numbers, if all partitions are read without an end.
    """
    if not follows_topics(specs, exit_at_end=exit_at_end):
        return []
    return [topic for topic, numbers in wanted.items() if numbers is None]


def follows_topics(specs: OffsetSpecs, *, exit_at_end: bool) -> bool:
    """Return whether all partitions are read without an end, so that the read goes on with those added later."""
    is_bounded = exit_at_end or (specs.general is not None and specs.general.end is not None)
    return not (is_bounded or specs.names_only_partitions())


def parse_offset_specs(texts: Iterable[str], now_ms: int) -> OffsetSpecs:
    """Parse all values of a repeated `-o`, each with one range or several separated by commas.

    `now_ms`: ms since the epoch.
    """
    general: ReadRange | None = None
    partitions: dict[int, ReadRange] = {}
    for text in (part for given in texts for part in given.split(",")):
        partition, asked = parse_offset_spec(text, now_ms)
        if partition is None:
            if general is not None:
                raise _bad(text, "a range for all partitions is given already; use P=RANGE for one partition")
            general = asked
        elif partition in partitions:
            raise _bad(text, f"partition {partition} already has a range")
        else:
            partitions[partition] = asked
    return OffsetSpecs(general, partitions)


def parse_offset_spec(text: str, now_ms: int) -> tuple[int | None, ReadRange]:
    """Parse one range and its partition (None: all). Raise ConfigError for an invalid range."""
    text = text.strip()
    if len(text) > _LONGEST:
        raise _bad(f"{text[:20]}...", f"it has more than {_LONGEST} characters")
    named, equals, rest = text.partition("=")
    if not equals:
        return None, _parse_range(text, text, now_ms)
    if not re.fullmatch(r"[0-9]{1,10}", named.strip()):
        raise _bad(text, f"'{named}' is not a valid partition number")
    return int(named), _parse_range(rest.strip(), text, now_ms)


def _parse_range(text: str, spec: str, now_ms: int) -> ReadRange:
    start_text, end_text = _split(text, spec)
    start = EARLIEST if start_text is None else _bound(start_text, spec, now_ms)
    end = None if end_text is None else _bound(end_text, spec, now_ms)
    if _ends_before_start(start, end):
        raise _bad(spec, "it ends before it starts")
    return ReadRange(start, end)


def _split(text: str, spec: str) -> tuple[str | None, str | None]:
    """Return both bounds as text, None where one is omitted.

    A time may contain colons, so a time is matched as a whole.
    """
    if text.startswith("@") and not text.startswith("@:"):
        match = re.fullmatch(_TIME_RANGE, text)
        if match is None:
            raise _bad(spec, _hint(text) or f"a valid time is {TIME_SHAPES}")
        end = match["end"]
        if end and not end.startswith("@") and end not in _NAMED:
            end = "@" + end
        return "@" + match["start"], end or None
    start, colon, end = text.removeprefix("@").partition(":")
    if text.startswith("@:") and not end.startswith("@"):
        end = "@" + end
    if not start and not end.removeprefix("@"):
        raise _bad(spec, f"use one of {SHAPES}")
    return (start or None) if colon else start, end or None


def _bound(text: str, spec: str, now_ms: int) -> Bound:
    if text in _NAMED:
        return _NAMED[text]
    if text.startswith("@"):
        return Time(_time_ms(text[1:], spec, now_ms))
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise _bad(spec, _hint(text) or f"use one of {SHAPES}")
    number = int(text.lstrip("+-"))
    if number > _LARGEST_OFFSET:
        raise _bad(spec, "an offset has at most 63 bits")
    if text.startswith("+"):
        return FromStart(number)
    return FromEnd(number) if text.startswith("-") else Offset(number)


def _time_ms(text: str, spec: str, now_ms: int) -> int:
    hint = None if re.fullmatch(TIME, text) else _hint("@" + text)
    if hint:
        raise _bad(spec, hint)
    try:
        return parse_time(text, now_ms)
    except ConfigError as error:
        raise _bad(spec, str(error)) from None


def _ends_before_start(start: Bound, end: Bound | None) -> bool:
    """True if two bounds of one kind are in the wrong order.

    Bounds of different kinds need the log's offsets to tell.
    """
    if end is None or type(start) is not type(end):
        return False
    return end.n > start.n if isinstance(start, FromEnd) else end.n < start.n


def _hint(text: str) -> str | None:
    return next((hint for shape, hint in _MISTAKES if re.fullmatch(shape, text)), None)


def _bad(spec: str, reason: str) -> ConfigError:
    return ConfigError(f"-o: '{spec}' is not a valid range; {reason}")


def offset_options(offsets: Sequence[str] | None, *, from_beginning: bool) -> list[str]:
    """Return all values of `-o`; `--from-beginning` is `-o start`. Raise ConfigError if both are given."""
    if from_beginning and offsets:
        raise ConfigError(f"--from-beginning cannot be combined with -o {offsets[0]}; it is the same as -o start")
    return ["start"] if from_beginning else list(offsets or ())


class MemberOptions(NamedTuple):
    """The options of `consume topic` about groups, as given."""

    group: str | None = None
    no_commit: bool = False
    assignor: str | None = None
    instance_id: str | None = None
    protocol: str | None = None


_OF_MEMBERS = {
    "auto.offset.reset": "use -o start or -o end",
    "enable.auto.commit": "remove it",
    "group.id": "use --group",
}


def refuse_without_group(options: MemberOptions, properties: Collection[str] = ()) -> None:
    """Raise ConfigError for options, and for `properties` of the command line, that require --group."""
    for name in sorted(_OF_MEMBERS.keys() & set(properties)):
        if options.group is None:
            raise ConfigError(f"-X {name} has no effect without --group; {_OF_MEMBERS[name]}")
    given = {
        "--no-commit": options.no_commit,
        "--assignor": options.assignor is not None,
        "--instance-id": options.instance_id is not None,
        "--protocol": options.protocol is not None,
    }
    for option, is_given in given.items():
        if is_given and options.group is None:
            raise ConfigError(f"{option} requires --group")


def check_topics(wanted: Mapping[str, list[int] | None], partitions: Sequence[str]) -> list[str]:
    """Return the topics to subscribe to. Raise ConfigError if single partitions are given."""
    chosen = ["-p"] * bool(partitions) or [f"{name}:..." for name, numbers in wanted.items() if numbers is not None]
    if chosen:
        raise ConfigError(f"{chosen[0]} cannot be combined with --group: the group assigns the partitions")
    return list(wanted)


def member_properties(options: MemberOptions, offsets: Sequence[str]) -> dict[str, str]:
    """Return Kafka properties for the options. Raise ConfigError for options that cannot be combined."""
    if options.group is None or not options.group.strip():  # Kafka's properties are stripped
        raise ConfigError("--group: the group name must not be empty")
    own = {"group.id": options.group, "enable.auto.commit": "false"}
    if options.instance_id is not None and not options.instance_id.strip():
        raise ConfigError("--instance-id: the id must not be empty")
    if options.instance_id is not None:
        own["group.instance.id"] = options.instance_id
    if options.protocol is not None:
        own["group.protocol"] = options.protocol
    if offsets:
        own["auto.offset.reset"] = _reset(offsets)
    return own


def assignor_property(assignor: str, protocol: str) -> dict[str, str]:
    """Return the property of `--assignor` under a group protocol. Raise ConfigError for an unknown classic assignor."""
    if protocol == "consumer":
        return {"group.remote.assignor": assignor}
    from kcli.assignors.lookup import find_strategy

    return {"partition.assignment.strategy": find_strategy(assignor, option="--assignor").name}


def _reset(offsets: Sequence[str]) -> str:
    bound = _NAMED.get(offsets[0].strip())
    if bound is None or len(offsets) > 1:
        raise ConfigError(
            f"-o {' -o '.join(offsets)} cannot be combined with --group: a member starts at the committed offsets; "
            "use -o start or -o end for partitions without one"
        )
    return "earliest" if bound is EARLIEST else "latest"


class RenderOptions(NamedTuple):
    """The options for printing records, as given. `highlights`: expressions whose matches have a colour, by field.

    `decoders`: the sides (key, value) with a decoder, if the records are `DecodedColumns`; None: they are not.
    `selects`: they have results of --select. `columns`: the text of --columns.
    """

    output: str | None = None
    format: str | None = None
    delimiter: str = "\\n"
    key_delimiter: str | None = None
    null: str | None = None
    terminal: bool = False
    highlights: Highlights = {}
    decoders: Collection[str] | None = None
    selects: bool = False
    columns: str | None = None


def make_renderer(options: RenderOptions) -> Renderer:
    """Return the renderer for the options; only its module is imported. Raise ConfigError for options in conflict."""
    parts = _format_parts(options)
    if options.decoders is not None:
        chosen = {} if options.columns is None else parse_columns(options.columns, options.decoders)
        return _decoded_renderer(options, parts, chosen)
    if parts is not None:
        from kcli.cli.consume.render_text import text_renderer

        return text_renderer(parts, null=options.null, terminal=options.terminal, highlights=options.highlights)
    if options.output in ("json", "jsonl"):
        from kcli.cli.consume.render_json import json_renderer

        return json_renderer(lines=options.output == "jsonl", terminal=options.terminal)
    from kcli.cli.consume.render_tables import separated_renderer, table_renderer

    if options.output == "table":
        return table_renderer(options.highlights)
    return separated_renderer(tabs=options.output == "tsv", terminal=options.terminal)


def _decoded_renderer(options: RenderOptions, parts: Sequence[FormatPart] | None, chosen: dict[str, Field]) -> Renderer:
    """Return the renderer for the options. Raise ConfigError.

    `parts` is the format of raw output, and `chosen` are the fields of --columns by name.
    """
    from kcli.cli.consume import render_decoded

    output, terminal = options.output, options.terminal
    if options.selects:
        if output not in (None, "json", "jsonl"):
            raise ConfigError(
                f"--select cannot be combined with --output {output}; use --columns, json, jsonl or raw output"
            )
        if options.format is not None or options.key_delimiter is not None:
            raise ConfigError("--select cannot be combined with -f or -K; it makes the whole output of a record")
        if parts is not None:
            return render_decoded.selected_text_renderer(
                b"".join(part for part in parts if isinstance(part, bytes)), terminal=terminal
            )
    if chosen and output in (None, "json", "jsonl"):
        raise ConfigError("--columns requires --output table, csv or tsv")
    if parts is not None:
        return render_decoded.decoded_text_renderer(
            parts, null=options.null, terminal=terminal, highlights=options.highlights
        )
    if output in ("json", "jsonl"):
        return render_decoded.decoded_json_renderer(lines=output == "jsonl", terminal=terminal)
    if chosen:
        return render_decoded.chosen_columns_renderer(
            output or "table", chosen, terminal=terminal, highlights=options.highlights
        )
    if output == "table":
        return render_decoded.decoded_table_renderer(options.highlights)
    return render_decoded.decoded_separated_renderer(tabs=output == "tsv", terminal=terminal)


def _format_parts(options: RenderOptions) -> list[FormatPart] | None:
    """Return the parts of the format; None for --output."""
    from kcli.cli.consume.format import compile_format, raw_format

    if options.output is not None:
        given = [("-f", options.format), ("-K", options.key_delimiter), ("-Z", options.null)]
        given.append(("-D", None if options.delimiter == "\\n" else options.delimiter))
        for option, value in given:
            if value is not None:
                raise ConfigError(f"{option} cannot be combined with --output {options.output}; it is for raw output")
        return None
    if options.format is None:
        return raw_format(options.delimiter, options.key_delimiter)
    if options.key_delimiter is not None or options.delimiter != "\\n":
        raise ConfigError("-f cannot be combined with -D or -K")
    parts = compile_format(options.format)
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
    from kcli.cli.consume.format import NAMED, named_field

    fields = {}
    for name in map(str.strip, text.split(",")):
        field = named_field(name)
        if field is None:
            known = ", ".join([*NAMED, "value.PATH", "key.PATH"])
            raise ConfigError(f"--columns: '{name}' is not a valid column; use {known} or headers.NAME")
        _require_decoder("--columns", field, decoders)
        fields[name] = field
    return fields
