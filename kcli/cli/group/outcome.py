"""The exit status of a command that looked at groups. Pure."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter
from typing import TYPE_CHECKING

from kcli.cli import exit_status

if TYPE_CHECKING:
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.group.selection import Selected
    from kcli.client.requests import Results
    from kcli.errors import KcliError


def status_of_survey(selected: Selected, surveys: Results[str, GroupSurvey]) -> int:
    """The status of a look at partitions."""
    found = list(surveys.values.values())
    failed_parts = any(survey.error or any(map(attrgetter("error"), survey.partitions)) for survey in found)
    return status_of_look(selected.failures(surveys), failed_parts=failed_parts, succeeded=bool(found))


def status_of_look(failed: Collection[KcliError], *, failed_parts: bool, succeeded: bool) -> int:
    """3 when all that failed are groups that are not there, 4 when they were refused; 1 when a part of the table is
    missing for any other reason, and when nothing could be told at all the status of why.
    """
    if failed_parts:
        return exit_status.FAILED
    status = exit_status.status_of_all(failed)
    if succeeded and status not in (exit_status.DONE, exit_status.NOT_FOUND, exit_status.REFUSED):
        return exit_status.FAILED
    return status
