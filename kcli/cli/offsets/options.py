"""Options of the offsets commands: the target of a reset, the scope, the policies, and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple, TypedDict

from kcli.cli.options import check_choice, naming
from kcli.cli.parser import Option, given_options, option_name
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.admin.offsets.offset_plan import IfNoRecord, IfOutOfRange, Scope, Target

LARGEST_BYTES = 1 << 30

TopicScope = Annotated[
    list[str] | None,
    Option("--topic", "-t", metavar="TOPIC[:P,P]", help="Include only this topic, or these partitions; repeatable."),
]
IfOutOfRangeText = Annotated[
    str,
    Option(
        "--if-out-of-range",
        metavar="refuse|clamp|skip",
        help="For an offset outside the log: refuse, use the nearest end of the log, or skip the partition. [refuse]",
    ),
]


class TargetOptions(NamedTuple):
    """The options that name the target of a reset."""

    to_earliest: Annotated[bool, Option("--to-earliest", help="Move to the start of the log.")] = False
    to_latest: Annotated[bool, Option("--to-latest", help="Move to the end of the log.")] = False
    to_current: Annotated[
        bool, Option("--to-current", help="Keep the current offsets: show or save them as a plan.")
    ] = False
    to_offset: Annotated[
        str | None,
        Option(
            "--to-offset",
            metavar="PLACE",
            help="Move to this offset in every partition, or to start, end, +100, -100, @TIME or -1h.",
        ),
    ] = None
    shift_by: Annotated[
        int | None, Option("--shift-by", metavar="N", help="Move by N offsets, back if N is negative.")
    ] = None
    to_datetime: Annotated[
        str | None,
        Option(
            "--to-datetime",
            metavar="TIME",
            help="Move to the first record at or after this time: 2024-01-31T10:00, with Z or +02:00 (none: UTC).",
        ),
    ] = None
    by_duration: Annotated[
        str | None,
        Option(
            "--by-duration",
            metavar="DURATION",
            help="Move to the first record of this time before now: 1h30m, PT1H30M.",
        ),
    ] = None
    from_file: Annotated[
        str | None,
        Option(
            "--from-file", metavar="FILE", help="Move to the offsets of a plan, an export, or Apache's CSV; -: stdin."
        ),
    ] = None
    to_group_of: Annotated[
        str | None, Option("--to-group-of", metavar="GROUP", help="Move to the committed offsets of this other group.")
    ] = None

    def check(self) -> None:
        """Raise ConfigError unless exactly one is given."""
        given = list(given_options(self))
        if not given:
            raise ConfigError(f"give exactly one target: {', '.join(map(option_name, self._fields))}")
        if len(given) > 1:
            raise ConfigError(f"give exactly one target; got {' and '.join(given)}")

    def target(self, now_ms: int) -> Target | None:
        """Return the target; None if it is in a file or another group. `now_ms` is the current wall-clock time."""
        from kcli.admin.offsets import offset_plan
        from kcli.log_place import LARGEST_OFFSET, LOG_END, LOG_START, Place, parse_place_option
        from kcli.text import parse_duration, parse_time

        if self.to_earliest:
            return LOG_START
        if self.to_latest:
            return LOG_END
        if self.to_current:
            return offset_plan.ToCurrent()
        if self.to_offset is not None:
            return parse_place_option("--to-offset", self.to_offset.strip(), now_ms)
        if self.shift_by is not None:
            if abs(self.shift_by) > LARGEST_OFFSET:
                raise ConfigError(f"--shift-by: {self.shift_by} is not valid; use at most {LARGEST_OFFSET}")
            return offset_plan.ShiftBy(self.shift_by)
        if self.to_datetime is not None:
            with naming("--to-datetime"):
                return Place.time(parse_time(self.to_datetime.removeprefix("@"), now_ms))
        if self.by_duration is not None:
            with naming("--by-duration"):
                return Place.time(max(0, now_ms - parse_duration(self.by_duration)))
        return None


class Policies(TypedDict):
    """Keywords of `plan_group_reset`: the policies for a partition that cannot be set as requested."""

    if_no_record: IfNoRecord
    if_out_of_range: IfOutOfRange


class PolicyOptions(NamedTuple):
    """The policies for partitions that cannot be set as requested."""

    if_no_record: Annotated[
        str,
        Option(
            "--if-no-record",
            metavar="refuse|end|skip",
            help="Without a record since that time, or an offset to shift: refuse, use the log end, or skip. [refuse]",
        ),
    ] = "refuse"
    if_out_of_range: IfOutOfRangeText = "refuse"

    def parse(self) -> Policies:
        """Return the policies. ConfigError for an unknown value."""
        return {
            "if_no_record": _one_of("--if-no-record", self.if_no_record, "refuse", "end", "skip"),
            "if_out_of_range": _one_of("--if-out-of-range", self.if_out_of_range, "refuse", "clamp", "skip"),
        }


def _one_of(option: str, value: str, *values: str) -> Any:
    check_choice(option, value, values)
    return value


def parse_scope(topics: list[str] | None) -> Scope:
    """Return the scope of the `--topic` options; None without any."""
    from kcli.text import parse_topics

    return parse_topics(topics) if topics else None


class ResetScope(NamedTuple):
    """The partitions to move."""

    all_topics: Annotated[
        bool, Option("--all-topics", help="Move all partitions of the topics in which the group has committed.")
    ] = False
    topic: Annotated[
        list[str] | None,
        Option("--topic", "-t", metavar="TOPIC[:P,P]", help="Move only this topic, or these partitions; repeatable."),
    ] = None

    def scope(self, target: TargetOptions) -> Scope:
        """Return the scope. ConfigError unless one is given, or none for a target in a file."""
        count = bool(self.topic) + self.all_topics
        if count > 1 or (count == 0 and target.from_file is None):
            raise ConfigError(
                "give either --topic TOPIC[:0,1,2] or --all-topics (all topics in which the group has committed)"
            )
        return parse_scope(self.topic)


def read_text(path: str, stdin: BinaryIO) -> str:
    """Return the text of a file, `-`: of standard input. ConfigError if it cannot be read.

    The bytes are not translated, because the metadata of commits may contain any line break.
    """
    try:
        if path == "-":
            data = stdin.read(LARGEST_BYTES + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(LARGEST_BYTES + 1)
        if len(data) > LARGEST_BYTES:
            raise ConfigError(f"{file_name(path)} is larger than 1 GiB")
        return data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"cannot read {file_name(path)}: {reason}") from error


def file_name(path: str) -> str:
    """Return the name of the file for messages."""
    return "standard input" if path == "-" else path
