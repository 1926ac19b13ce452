"""Options that select groups, the survey of the selected groups, and its exit status."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

from kcli.cli import exit_status
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    import re

    from kcli.admin.groups.listing import SelectedGroups
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.options import Common
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.requests import Results
    from kcli.errors import KcliError

GroupNames = Annotated[list[str] | None, Argument(metavar="[GROUP...]", help="Names of groups.")]
Match = Annotated[
    str | None,
    Option("--match", metavar="REGEX", help="Select groups whose name contains a match; ^ and $ anchor it."),
]
Wide = Annotated[bool, Option("--wide", help="Show all columns, even if the terminal is too narrow.")]


class GroupSelection(NamedTuple):
    """Groups: those with these names, or those that match, or all of the cluster."""

    group: GroupNames = None
    all_groups: Annotated[bool, Option("--all", help="Select all groups of the cluster.")] = False
    match: Match = None

    def check(self) -> None:
        """Raise ConfigError unless groups are selected in exactly one form, and if --match is not valid."""
        if sum((bool(self.group), self.all_groups, self.match is not None)) != 1:
            raise ConfigError("select groups in exactly one form: group names, --all, or --match REGEX")
        pattern(self.match)


class ChosenGroups(NamedTuple):
    """Groups to change: those with these names, or those that match."""

    group: GroupNames = None
    match: Match = None

    def check(self) -> None:
        """Raise ConfigError unless groups are selected in exactly one form, and if --match is not valid."""
        if bool(self.group) == (self.match is not None):
            raise ConfigError("select groups in exactly one form: group names or --match REGEX")
        pattern(self.match)


class LagOptions(NamedTuple):
    """The end of the log and the records from which the lag is measured."""

    isolation_level: Annotated[
        str | None,
        Option(
            "--isolation-level",
            metavar="LEVEL",
            help="read_committed: measure the lag up to the last stable offset. [read_uncommitted]",
        ),
    ] = None
    no_time_lag: Annotated[bool, Option("--no-time-lag", help="Do not read the record at each committed offset.")] = (
        False
    )

    def config(self, common: Common) -> ConsumerConfig:
        """Return the configuration. The isolation level is a consumer property, so that a shared file can set it."""
        from kcli.client.config import ConsumerConfig

        own = {} if self.isolation_level is None else {"isolation_level": self.isolation_level}
        return common.config(ConsumerConfig, **own)


def find_selected(
    client: ConsumerNetworkClient, groups: GroupSelection | ChosenGroups, deadline_ms: float
) -> SelectedGroups:
    """Return the selected groups of the cluster."""
    from kcli.admin.groups.listing import select_groups

    return select_groups(client, groups.group or (), pattern(groups.match), deadline_ms)


def pattern(match: str | None) -> re.Pattern[str] | None:
    """Return the compiled expression of --match, None without it. ConfigError if it is not valid or empty."""
    import re

    from kcli.text import compile_regex

    if match == "":
        raise ConfigError("--match: the regular expression must not be empty: it would match every name")
    try:
        return None if match is None else compile_regex(match)
    except re.error as error:
        raise ConfigError(f"--match: '{match}' is not a valid regular expression: {error}") from None


def survey_selected(
    common: Common, groups: GroupSelection, lag: LagOptions
) -> tuple[SelectedGroups, Results[str, GroupSurvey]]:
    """Survey the selected groups."""
    from kcli.admin.groups.listing import with_suggestions
    from kcli.admin.groups.survey import survey_groups

    config = lag.config(common)
    level, deadline_ms = int(config.reads_committed), common.deadline_ms()
    with closing(common.connect(config)) as client:
        selected = find_selected(client, groups, deadline_ms)
        surveys = survey_groups(
            client, selected.groups, deadline_ms, isolation_level=level, time_lag=not lag.no_time_lag
        )
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
