"""Exit statuses of plans: one function, and two rules where the contracts of commands differ."""

from __future__ import annotations

import pytest

from kcli.admin.plan import Applied
from kcli.cli.offsets.offset_view import OffsetView
from kcli.cli.run_plan import StatusRules
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, NotFound, OutcomeUnknown, Refused, TimeoutExpired

COMMON, OFFSETS = StatusRules(), OffsetView.rules
PLAIN, MISSING, REFUSED, LATE, LOST = (
    KcliError("x"),
    NotFound("x"),
    Refused("x"),
    TimeoutExpired("x"),
    OutcomeUnknown("x"),
)
MEMBERS = BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize(
    ("errors", "common", "offsets"),
    [
        ([], 0, 0),
        ([MISSING, MISSING], 3, 3),
        ([LATE], 5, 5),
        ([REFUSED], 4, 4),
        ([PLAIN], 1, 4),
        ([MISSING, REFUSED], 1, 4),
        ([PLAIN, MISSING], 1, 4),
    ],
)
def test_the_status_of_refusals(errors: list[KcliError], common: int, offsets: int) -> None:
    assert (COMMON.of_refusals(errors), OFFSETS.of_refusals(errors)) == (common, offsets)


@pytest.mark.parametrize(
    ("outcomes", "common", "offsets"),
    [
        ([], 0, 0),
        ([None, None], 0, 0),
        ([None, REFUSED], 4, 1),
        ([None, LOST], 5, 5),
        ([LOST, LOST], 5, 5),
        ([LOST, PLAIN], 1, 1),
        ([REFUSED, REFUSED], 4, 4),
        ([PLAIN, MISSING], 1, 1),
        ([MEMBERS, MEMBERS], 1, 4),
        ([MEMBERS, None], 1, 1),
        ([MEMBERS, PLAIN], 1, 1),
    ],
)
def test_the_status_of_an_outcome(outcomes: list[KcliError | None], common: int, offsets: int) -> None:
    applied = Applied(dict(enumerate(outcomes)))
    assert (COMMON.of_outcome(applied), OFFSETS.of_outcome(applied)) == (common, offsets)
