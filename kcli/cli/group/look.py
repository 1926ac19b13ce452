"""The look that several commands take: the groups meant, surveyed with one client."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from kcli.admin.groups.survey import GroupSurvey, survey_groups
from kcli.cli.group.selection import Selected, select_groups

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from kcli.cli.options import Common
    from kcli.client.requests import Results


def look(
    common: Common,
    names: Sequence[str],
    found: re.Pattern[str] | None,
    isolation_level: str | None,
    *,
    time_lag: bool,
) -> tuple[Selected, Results[str, GroupSurvey]]:
    """The groups with these names, else those in whose name the pattern is `found`, else all; and how far they are.

    The isolation level is a consumer's property, so that a shared file of properties says it too.
    """
    from kcli.client.config import ConsumerConfig

    own = {} if isolation_level is None else {"isolation_level": isolation_level}
    config = common.config(ConsumerConfig, **own)
    level = int(config.reads_committed)
    deadline_ms = common.deadline_ms()
    with closing(common.connect(config)) as client:
        selected = select_groups(client, names, found, deadline_ms)
        return selected, survey_groups(client, selected.groups, deadline_ms, isolation_level=level, time_lag=time_lag)


@contextmanager
def without_collections() -> Iterator[None]:
    """No search for cycles meanwhile: with a hundred thousand rows that is a quarter of the time, and finds nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
