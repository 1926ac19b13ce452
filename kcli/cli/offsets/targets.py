"""Where `kcli offsets reset` moves to, from its options: exactly one of them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.cli.options import check_choice
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.admin.offsets.facts import Scope
    from kcli.admin.offsets.plan import IfNoRecord, IfOutOfRange
    from kcli.admin.offsets.targets import Target

_LARGEST_OFFSET = 2**63 - 1


class Wanted(NamedTuple):
    """The options that say where to, as they were given; None and False: not given."""

    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: int | None = None
    shift_by: int | None = None
    to_datetime: str | None = None
    by_duration: str | None = None
    from_file: str | None = None
    to_group_of: str | None = None

    def check(self) -> None:
        """ConfigError unless exactly one is given."""
        given = [
            option_name(name) for name, value in self._asdict().items() if value is not None and value is not False
        ]
        if len(given) != 1:
            every = ", ".join(option_name(name) for name in self._fields)
            raise ConfigError(f"say where to, in one way: {' and '.join(given) or every}")


class Policies(NamedTuple):
    """What to do where there is no offset to go to: by default nothing at all."""

    if_no_record: IfNoRecord = "refuse"
    if_out_of_range: IfOutOfRange = "refuse"


def option_name(name: str) -> str:
    """`--to-offset` for `to_offset`."""
    return "--" + name.replace("_", "-")


def simple_target(wanted: Wanted, now_ms: int) -> Target | None:
    """Where to, as far as the command line says it; None when it is told by a file or another group.

    `now_ms` is the wall clock's, for times before now.
    """
    from kcli.admin.offsets import targets
    from kcli.text import parse_duration, parse_time

    wanted.check()
    if wanted.to_earliest:
        return targets.ToEarliest()
    if wanted.to_latest:
        return targets.ToLatest()
    if wanted.to_current:
        return targets.ToCurrent()
    if wanted.to_offset is not None:
        if not 0 <= wanted.to_offset <= _LARGEST_OFFSET:
            raise ConfigError(f"--to-offset {wanted.to_offset} is no offset: they begin at 0 and have at most 63 bits")
        return targets.ToOffset(wanted.to_offset)
    if wanted.shift_by is not None:
        if abs(wanted.shift_by) > _LARGEST_OFFSET:
            raise ConfigError(f"--shift-by {wanted.shift_by}: offsets have at most 63 bits")
        return targets.ShiftBy(wanted.shift_by)
    if wanted.to_datetime is not None:
        return targets.ToTime(parse_time(wanted.to_datetime.removeprefix("@"), now_ms))
    if wanted.by_duration is not None:
        return targets.ToTime(max(0, now_ms - parse_duration(wanted.by_duration)))
    return None


def parse_scope(topics: list[str], *, all_topics: bool, optional: bool) -> Scope:
    """`--topic T[:p,p]` or `--all-topics`, one of them; without any if it is `optional`."""
    from kcli.text import parse_topics

    if bool(topics) + all_topics != 1 and not (optional and not topics and not all_topics):
        raise ConfigError("say which topics: --topic TOPIC[:0,1,2], or --all-topics for those that the group reads")
    return parse_topics(topics) if topics else None


def check_policies(if_no_record: str, if_out_of_range: str) -> Policies:
    """ConfigError unless the values are among those that there are."""
    return Policies(
        _one_of("--if-no-record", if_no_record, "refuse", "end", "skip"),
        _one_of("--if-out-of-range", if_out_of_range, "refuse", "clamp", "skip"),
    )


def _one_of(option: str, value: str, *values: str) -> Any:
    check_choice(option, value, values)
    return value
