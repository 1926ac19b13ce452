"""Options of `kcli consume topic`, and the grammar of `-o/--offset`.

Pure: no I/O, no clock.

    SPEC   = [PARTITION "="] RANGE
    RANGE  = PLACE | [PLACE] ":" [PLACE]          ":END" starts at the log start; "START:" follows, like "START"
    PLACE  = see kcli.log_place

The end of a range is exclusive. After a time, the end is a time too, without a second "@": `@-2h:-1h`.
"""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Annotated, NamedTuple

from kcli.cli.options import MessageOption, RegistryOption, SchemaFileOption
from kcli.cli.parser import Argument, Option, given_options
from kcli.consumer.read_range import ReadRange
from kcli.errors import ConfigError
from kcli.log_place import (
    LOG_END,
    LOG_START,
    LONGEST,
    NAMED,
    TIME_PLACE,
    Place,
    ends_before_start,
    mistake,
    parse_place,
)
from kcli.structs import TopicPartition
from kcli.text import TIME_SHAPES, compile_regex, parse_topics


class TopicOptions(NamedTuple):
    """The topics and ranges to read, and the early ends of the read."""

    topic: Annotated[
        list[str] | None, Argument(metavar="[TOPIC[:P,P..]...]", help="Topics, or some partitions of them.")
    ] = None
    topics: Annotated[
        str | None,
        Option("--topics", metavar="REGEX", help="Read all topics whose whole name matches, also those created later."),
    ] = None
    offset: Annotated[
        list[str] | None,
        Option(
            "--offset",
            "-o",
            metavar="[P=]RANGE",
            help="Read this range: start, end, 100, +100, -100, @TIME or A:B; repeatable. [end]",
        ),
    ] = None
    from_beginning: Annotated[bool, Option("--from-beginning", help="Read from the log start, like -o start.")] = False
    exit_at_end: Annotated[
        bool, Option("--exit", "-e", help="Stop at the end offsets that the partitions have at the start.")
    ] = False
    max_messages: Annotated[
        int | None, Option("--max-messages", "-n", metavar="N", min=1, help="Stop after N printed records.")
    ] = None
    idle_timeout: Annotated[
        float | None,
        Option("--idle-timeout", metavar="SECONDS", help="Stop when no record arrives for SECONDS. [never]"),
    ] = None
    partition: Annotated[
        list[str] | None, Option("--partition", "-p", metavar="P,P..", help="Read only these partitions; repeatable.")
    ] = None

    def check(self) -> None:
        """Raise ConfigError for options that contradict each other."""
        if self.from_beginning and self.offset:
            raise ConfigError(
                f"--from-beginning cannot be combined with -o {self.offset[0]}; it is the same as -o start"
            )
        if self.idle_timeout is not None and not 0 < self.idle_timeout < 1e9:
            raise ConfigError(f"--idle-timeout: {self.idle_timeout:g} is not valid; use a number of seconds above 0")

    @property
    def offsets(self) -> list[str]:
        """All values of `-o`; `--from-beginning` is `-o start`."""
        return ["start"] if self.from_beginning else list(self.offset or ())

    @property
    def idle_ms(self) -> float | None:
        """The value of --idle-timeout in milliseconds."""
        return None if self.idle_timeout is None else self.idle_timeout * 1000

    def wanted(self) -> dict[str, list[int] | None]:
        """Return the partitions of each topic on the command line, None for all; no topic for --topics. ConfigError."""
        if self.topics is None:
            if not self.topic:
                raise ConfigError("the topic is missing; use TOPIC or --topics REGEX (see kcli consume topic --help)")
            return parse_topics(self.topic, self.partition or ())
        if self.topic:
            raise ConfigError(f"--topics cannot be combined with topic {self.topic[0]}")
        if self.partition:
            raise ConfigError("--topics cannot be combined with -p")
        compile_topics(self.topics)
        return {}

    def subscribed(self, wanted: Mapping[str, list[int] | None]) -> list[str]:
        """Return the topics to subscribe to. Raise ConfigError if single partitions are given."""
        named = [f"{name}:..." for name, numbers in wanted.items() if numbers is not None]
        if chosen := ["-p"] * bool(self.partition) + named:
            raise ConfigError(f"{chosen[0]} cannot be combined with --group: the group assigns the partitions")
        return list(wanted)


class RawOptions(NamedTuple):
    """The form of raw output."""

    format: Annotated[
        str | None,
        Option("--format", "-f", metavar="FORMAT", help="Print each record in this format, such as '%p %o %k %s\\n'."),
    ] = None
    delimiter: Annotated[str, Option("--delimiter", "-D", metavar="TEXT", help="Print TEXT after each value.")] = "\\n"
    key_delimiter: Annotated[
        str | None,
        Option("--key-delimiter", "-K", metavar="TEXT", help="Print each key and TEXT before the value."),
    ] = None
    null: Annotated[
        str | None, Option("--null", "-Z", metavar="TEXT", help="Print TEXT for a null. [nothing; NULL in %h]")
    ] = None


class FilterOptions(NamedTuple):
    """The expressions that choose records by their bytes."""

    grep: Annotated[str | None, Option("--grep", metavar="REGEX", help="Print only records whose value matches.")] = (
        None
    )
    key: Annotated[str | None, Option("--key", metavar="REGEX", help="Print only records whose key matches.")] = None
    header: Annotated[
        list[str] | None,
        Option(
            "--header",
            "-H",
            metavar="NAME=REGEX",
            help="Print only records with a matching header; repeatable: all must match.",
        ),
    ] = None
    invert: Annotated[bool, Option("--invert", help="Print only records that --grep, --key and --header exclude.")] = (
        False
    )


class DecodeOptions(NamedTuple):
    """The decoders of keys and values, and what is made of decoded records."""

    serde: Annotated[
        list[str] | None,
        Option(
            "--serde",
            "-s",
            metavar="[key=|value=]NAME",
            help="Decode keys, values or both as json, avro, protobuf, auto, ...; repeatable.",
        ),
    ] = None
    schema_registry: RegistryOption = None
    schema_file: SchemaFileOption = None
    message: MessageOption = None
    where: Annotated[
        str | None,
        Option("--where", metavar="EXPR", help="Print only records for which this jq expression is true."),
    ] = None
    select: Annotated[
        str | None,
        Option("--select", metavar="EXPR", help="Print the results of this jq expression instead of each record."),
    ] = None
    columns: Annotated[
        str | None,
        Option(
            "--columns", metavar="NAME,..", help="Print these columns of a table, csv or tsv, such as offset,value.id."
        ),
    ] = None


class SourceOptions(NamedTuple):
    """The choice and the order of the records of a read, mostly of one without a group."""

    isolation_level: Annotated[
        str | None,
        Option(
            "--isolation-level",
            metavar="read_uncommitted|read_committed",
            help="With read_committed, skip records of aborted and open transactions. [read_uncommitted]",
        ),
    ] = None
    merge: Annotated[bool, Option("--merge", help="Print the records of all partitions in order of time.")] = False
    tail: Annotated[
        int | None,
        Option("--tail", metavar="N", min=1, help="Print the last N records of all partitions by time, then follow."),
    ] = None
    checkpoint: Annotated[
        str | None,
        Option("--checkpoint", metavar="FILE", help="Store the position in FILE; the next run goes on there."),
    ] = None
    control: Annotated[bool, Option("--control", help="Print the transaction markers instead of the records.")] = False

    def refuse_with_group(self) -> None:
        """Raise ConfigError for an option that needs the partitions of a whole topic: a member has only its own."""
        if self.checkpoint is not None:
            raise ConfigError("--checkpoint cannot be combined with --group: a member goes on at the committed offsets")
        for option in given_options(self):
            if option != "--isolation-level":
                raise ConfigError(
                    f"{option} cannot be combined with --group: a member reads only its assigned partitions"
                )


class MemberOptions(NamedTuple):
    """The membership of a group."""

    group: Annotated[
        str | None,
        Option("--group", "-g", metavar="GROUP", help="Read as a member of this group, and commit what was printed."),
    ] = None
    no_commit: Annotated[bool, Option("--no-commit", help="Commit nothing, as a member.")] = False
    assignor: Annotated[
        str | None,
        Option(
            "--assignor",
            metavar="NAME",
            help="Assignor of the group. [range,cooperative-sticky; with --protocol consumer the broker's default]",
        ),
    ] = None
    instance_id: Annotated[
        str | None,
        Option("--instance-id", metavar="ID", help="Join as a static member, which keeps its partitions at a restart."),
    ] = None
    protocol: Annotated[
        str | None,
        Option(
            "--protocol",
            metavar="classic|consumer",
            help="Group protocol: the members assign partitions, or the broker does (KIP-848). [classic]",
        ),
    ] = None

    def check(self) -> None:
        """Raise ConfigError for options that require --group, and for empty names."""
        for option in given_options(self):
            if self.group is None:
                raise ConfigError(f"{option} requires --group")
        if self.group is not None and not self.group.strip():  # Kafka's properties are stripped
            raise ConfigError("--group: the group name must not be empty")
        if self.instance_id is not None and not self.instance_id.strip():
            raise ConfigError("--instance-id: the id must not be empty")

    def properties(self, offsets: Sequence[str]) -> dict[str, str]:
        """Return Kafka properties for the options and the values of -o. ConfigError for -o with another place."""
        own = {"enable.auto.commit": "false"}
        given = {"group.id": self.group, "group.instance.id": self.instance_id, "group.protocol": self.protocol}
        own |= {name: value for name, value in given.items() if value is not None}
        if offsets:
            own["auto.offset.reset"] = _reset(offsets)
        return own


class ShareOptions(NamedTuple):
    """The membership of a share group."""

    share: Annotated[
        str | None,
        Option(
            "--share", metavar="GROUP", help="Read as a member of this share group, and acknowledge what was printed."
        ),
    ] = None
    ack: Annotated[
        str | None,
        Option(
            "--ack",
            metavar="accept|release|reject",
            help="Acknowledge the printed records of a share group in this way. [accept]",
        ),
    ] = None

    def check(self) -> None:
        """Raise ConfigError for --ack without --share, and for an empty name."""
        if self.share is None and self.ack is not None:
            raise ConfigError("--ack requires --share")
        if self.share is not None and not self.share.strip():
            raise ConfigError("--share: the group name must not be empty")


class ReportOptions(NamedTuple):
    """The reports on standard error."""

    stats: Annotated[bool, Option("--stats", help="Report records, bytes and rates on stderr at the end.")] = False
    quiet: Annotated[bool, Option("--quiet", "-q", help="Report no notes and no coverage table on stderr.")] = False


def compile_topics(expression: str) -> re.Pattern[str]:
    """Return the expression of --topics. Raise ConfigError if it is not valid."""
    if not expression:
        raise ConfigError("--topics: the regular expression must not be empty: no topic has an empty name")
    try:
        return compile_regex(expression)
    except re.error as error:
        raise ConfigError(f"--topics: {expression!r} is not a valid regular expression: {error}") from error


def _reset(offsets: Sequence[str]) -> str:
    place = NAMED.get(offsets[0].strip())
    if place is None or len(offsets) > 1:
        raise ConfigError(
            f"-o {' -o '.join(offsets)} cannot be combined with --group: a member starts at the committed offsets; "
            "use -o start or -o end for partitions without one"
        )
    return "earliest" if place == LOG_START else "latest"


SHAPES = "start, end, 100, +100, -100, 100:200, :end, @TIME, @TIME:TIME"

_MISTAKES: list[tuple[str, str]] = [
    (r"[se]@.*", "use '@A' and '@A:B' instead of kcat's 's@A' and 'e@B'"),
    (r"json|jsonl|csv|tsv|table", "the output format is -O or --output"),
    (r"stored", "without --group there is no committed offset"),
    (r"[0-9]+(-|\.\.)[0-9]+", "use a colon between the bounds, like 100:200"),
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
        start, end = own or ReadRange(LOG_END)
        ranges[tp] = ReadRange(start, end or (LOG_END if exit_at_end else None))
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
    if len(text) > LONGEST:
        raise _bad(f"{text[:20]}...", f"it has more than {LONGEST} characters")
    named, equals, rest = text.partition("=")
    if not equals:
        return None, _parse_range(text, text, now_ms)
    if not re.fullmatch(r"[0-9]{1,10}", named.strip()):
        raise _bad(text, f"'{named}' is not a valid partition number")
    return int(named), _parse_range(rest.strip(), text, now_ms)


def _parse_range(text: str, spec: str, now_ms: int) -> ReadRange:
    start_text, end_text = _split(text, spec)
    start = LOG_START if start_text is None else _place(start_text, spec, now_ms)
    end = None if end_text is None else _place(end_text, spec, now_ms)
    if end is not None and ends_before_start(start, end):
        raise _bad(spec, "it ends before it starts")
    return ReadRange(start, end)


def _split(text: str, spec: str) -> tuple[str | None, str | None]:
    """Return both places as text, None where one is omitted.

    A time may contain colons, so a time is matched as a whole.
    """
    match = re.fullmatch(rf"(?P<start>{TIME_PLACE})(?::(?P<end>.*))?", text)
    if match is not None:
        end = match["end"]
        if end and not end.startswith("@") and end not in NAMED:
            end = "@" + end
        return match["start"], end or None
    if text.startswith("@") and not text.startswith("@:"):
        raise _bad(spec, mistake(text) or f"a valid time is {TIME_SHAPES}")
    start, colon, end = text.removeprefix("@").partition(":")
    if text.startswith("@:") and not end.startswith("@"):
        end = "@" + end
    if not start and not end.removeprefix("@"):
        raise _bad(spec, f"use one of {SHAPES}")
    return (start or None) if colon else start, end or None


def _place(text: str, spec: str, now_ms: int) -> Place:
    hint = next((hint for shape, hint in _MISTAKES if re.fullmatch(shape, text)), None)
    try:
        return parse_place(text, now_ms, shapes=SHAPES)
    except ConfigError as error:
        raise _bad(spec, hint or str(error)) from None


def _bad(spec: str, reason: str) -> ConfigError:
    return ConfigError(f"-o: '{spec}' is not a valid range; {reason}")
