"""The exit status of a command that looked at groups. Pure."""

from __future__ import annotations

from collections.abc import Collection

from kcli.cli import exit_status
from kcli.errors import KcliError


def status_of_look(failed_groups: Collection[KcliError], failed_parts: bool, succeeded: bool) -> int:
    """What the whole look is worth: 3 when all that failed are groups that are not there, 4 when they were refused,
    1 when a part of the table is missing for any other reason. When nothing could be told at all: why.
    """
    if failed_parts:
        return exit_status.FAILED
    status = exit_status.status_of_all(failed_groups)
    if succeeded and status not in (exit_status.DONE, exit_status.NOT_FOUND, exit_status.REFUSED):
        return exit_status.FAILED
    return status
