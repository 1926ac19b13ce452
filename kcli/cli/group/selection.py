"""Options that select groups, the survey of the selected groups, and its exit status."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    import re

    from kcli.admin.groups.listing import SelectedGroups
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.options import Common
    from kcli.client.requests import Results
    from kcli.errors import KcliError

GroupNames = Annotated[list[str] | None, Argument(metavar="[GROUP...]", help="Names of groups.")]
AllGroups = Annotated[bool, Option("--all", help="Select all groups of the cluster.")]
Match = Annotated[
    str | None,
    Option("--match", metavar="REGEX", help="Select groups whose name contains a match; ^ and $ anchor it."),
]
IsolationLevel = Annotated[
    str | None,
    Option(
        "--isolation-level",
        metavar="LEVEL",
        help="read_committed: measure the lag up to the last stable offset. [read_uncommitted]",
    ),
]
Wide = Annotated[bool, Option("--wide", help="Show all columns, even if the terminal is too narrow.")]
NoTimeLag = Annotated[bool, Option("--no-time-lag", help="Do not read the record at each committed offset.")]


def check_selection(names: Sequence[str], match: str | None, *, every: bool | None = None) -> re.Pattern[str] | None:
    """Return the pattern of --match. ConfigError unless groups are selected in exactly one form.

    `every` is the value of --all; None for a command that does not have it.
    """
    if sum((bool(names), bool(every), match is not None)) != 1:
        others = " or --match REGEX" if every is None else ", --all, or --match REGEX"
        raise ConfigError(f"select groups in exactly one form: group names{others}")
    return pattern(match)


def pattern(match: str | None) -> re.Pattern[str] | None:
    """Return the compiled expression of --match, None without it. ConfigError if it is not valid."""
    import re

    from kcli.text import compile_regex

    try:
        return None if match is None else compile_regex(match)
    except re.error as error:
        raise ConfigError(f"--match: '{match}' is not a valid regular expression: {error}") from None


def survey_selected(
    common: Common,
    names: Sequence[str],
    found: re.Pattern[str] | None,
    isolation_level: str | None,
    *,
    time_lag: bool,
) -> tuple[SelectedGroups, Results[str, GroupSurvey]]:
    """Survey the groups with these names, else those whose name contains a match, else all.

    The isolation level is a consumer property, so that a shared properties file can set it.
    """
    from kcli.admin.groups.listing import select_groups, with_suggestions
    from kcli.admin.groups.survey import survey_groups
    from kcli.client.config import ConsumerConfig

    own = {} if isolation_level is None else {"isolation_level": isolation_level}
    config = common.config(ConsumerConfig, **own)
    level = int(config.reads_committed)
    deadline_ms = common.deadline_ms()
    with closing(common.connect(config)) as client:
        selected = select_groups(client, names, found, deadline_ms)
        surveys = survey_groups(client, selected.groups, deadline_ms, isolation_level=level, time_lag=time_lag)
        surveys.errors = with_suggestions(client, surveys.errors, deadline_ms)
        return selected, surveys


@contextmanager
def without_collections() -> Iterator[None]:
    """Suspend the garbage collector, which takes a quarter of the time for 100,000 rows and frees nothing.

    Afterwards it leaves out the objects of the block (`gc.freeze`); else it looks at all of them once more.
    """
    import gc

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def status_of_survey(selected: SelectedGroups, surveys: Results[str, GroupSurvey]) -> int:
    """Return the exit status of a survey of partitions."""
    found = list(surveys.values.values())
    failed_parts = any(survey.error or any(row.error for row in survey.partitions) for survey in found)
    return status_of_groups(selected.failures(surveys), failed_parts=failed_parts, succeeded=bool(found))


def status_of_groups(failed: Collection[KcliError], *, failed_parts: bool, succeeded: bool) -> int:
    """Return 3 if all failed groups do not exist, 4 if all were refused, and 1 if another part is missing.

    If no group succeeded, it is the status of the common reason.
    """
    if failed_parts:
        return exit_status.FAILED
    status = exit_status.status_of_all(failed)
    if succeeded and status not in (exit_status.DONE, exit_status.NOT_FOUND, exit_status.REFUSED):
        return exit_status.FAILED
    return status
