"""`--fail-if`: for which groups a condition holds, and what that makes of the exit status. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.cli import exit_status
from kcli.cli.group.facts import shown_facts, survey_facts

if TYPE_CHECKING:
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.conditions import Condition


def judge_all(surveys: Iterable[GroupSurvey], condition: Condition, status: int) -> tuple[int, list[str]]:
    """The status and a line for each group to blame. `status` is that of the look alone.

    One group that exceeds the threshold is enough for 6. A group of which it cannot be told is a failure, since silence
    would read as a pass.
    """
    lines, exceeded, unclear = [], False, False
    for survey in surveys:
        facts = survey_facts(survey)
        verdict = condition.judge(facts)
        exceeded |= verdict is True
        unclear |= verdict is None
        if verdict is not False:
            how = condition.text if verdict else f"it cannot be told whether {condition.text}"
            lines.append(f"kcli: {survey.group.group}: {how}: {shown_facts(facts, condition)}")
    if exceeded:
        return exit_status.THRESHOLD, lines
    return (status or exit_status.FAILED) if unclear else status, lines
