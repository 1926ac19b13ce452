"""`--fail-if` and `wait`: what is known of a group, and what that is worth."""

from __future__ import annotations

import pytest

from kcli.cli.group.facts import survey_facts
from kcli.cli.group.threshold import judge_all
from kcli.cli.group.waiting import Waiting, parse_until
from kcli.conditions import Amount, parse_condition
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, TimeoutExpired
from tests.cli.group.cases import member, survey

ONE = member("one", "orders-0", "orders-1")
MISSING = BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, group="billing")
BEHIND = survey({"orders-0": (1, 0, 5), "orders-1": (3, 0, 3)}, ONE, ages={"orders-0": (90_000, None)})
CAUGHT_UP = survey({"orders-0": (5, 0, 5), "orders-1": (3, 0, 3)}, ONE)
HALF_SEEN = survey({"orders-0": (1, 0, 5), "orders-1": TimeoutExpired("no answer")}, ONE)
NOT_BEGUN = survey({"orders-0": (None, 0, 5), "orders-1": (None, 7, 7)}, ONE)


def test_what_is_known_of_a_group() -> None:
    assert survey_facts(BEHIND) == {
        "state": "Stable",
        "members": Amount(1),
        "lag": Amount(4),
        "age": Amount(90_000),
        "uncommitted": Amount(0),
    }


def test_without_lag_nothing_is_old() -> None:
    assert survey_facts(CAUGHT_UP)["age"] == Amount(0)


def test_a_partition_that_failed_leaves_a_lower_bound() -> None:
    facts = survey_facts(HALF_SEEN)
    assert facts["lag"] == Amount(4, exact=False)
    assert facts["age"] == Amount(0, exact=False)
    unread = survey_facts(survey({}, ONE, error=MISSING))
    assert unread["lag"] == Amount(0, exact=False)


def test_a_lag_whose_age_cannot_be_had_is_not_young() -> None:
    assert survey_facts(survey({"orders-0": (1, 0, 5)}, ONE))["age"] == Amount(0, exact=False)


def test_nothing_committed_is_no_lag_for_an_alarm_but_neither_is_it_caught_up_for_who_waits() -> None:
    assert survey_facts(NOT_BEGUN)["lag"] == Amount(0)
    assert survey_facts(NOT_BEGUN)["uncommitted"] == Amount(1)  # the other partition is empty
    assert survey_facts(NOT_BEGUN, strict=True)["lag"] == Amount(0, exact=False)
    assert survey_facts(survey({}), strict=True)["lag"] == Amount(0, exact=False)
    assert survey_facts(CAUGHT_UP, strict=True)["lag"] == Amount(0)


@pytest.mark.parametrize(
    ("text", "look", "status"),
    [
        ("lag>3", 0, 6),
        ("lag>4", 0, 0),
        ("lag>4", 3, 3),  # another group was not there
        ("lag>3", 1, 6),  # the threshold is what was asked about
        ("age>1m", 0, 6),
        ("age>2m", 0, 0),
    ],
)
def test_the_threshold_decides_about_the_status(text: str, look: int, status: int) -> None:
    assert judge_all([CAUGHT_UP, BEHIND], parse_condition(text), look)[0] == status


def test_each_group_to_blame_is_named_with_what_it_has() -> None:
    assert judge_all([CAUGHT_UP, BEHIND], parse_condition("lag>3 or age>1m"), 0)[1] == [
        "kcli: billing: lag>3 or age>1m: age is 1m30s, lag is 4"
    ]


def test_what_cannot_be_told_is_no_pass() -> None:
    status, lines = judge_all([HALF_SEEN], parse_condition("lag>100"), 0)
    assert status == 1
    assert lines == ["kcli: billing: it cannot be told whether lag>100: lag is 4 or more"]
    assert judge_all([HALF_SEEN], parse_condition("lag>3"), 1)[0] == 6


def test_what_one_can_wait_for() -> None:
    assert parse_until("Empty").judge({"state": "Empty"}) is True
    assert parse_until("stable").judge({"state": "PreparingRebalance"}) is False
    assert parse_until("lag<=10").judge({"lag": Amount(10)}) is True
    with pytest.raises(ConfigError, match="--until takes empty, stable, or a condition such as lag<=0; 'full' is not"):
        parse_until("full")


def test_a_wait_is_over_when_it_is_so() -> None:
    waiting = Waiting(parse_until("lag<=0"))
    assert waiting.saw(survey_facts(BEHIND, strict=True)) == (False, "lag is 4")
    assert waiting.saw(survey_facts(NOT_BEGUN, strict=True)) == (False, "lag is 0 or more")
    assert waiting.saw(survey_facts(CAUGHT_UP, strict=True)) == (True, "lag is 0")


def test_a_group_that_is_to_be_stable_may_come_yet() -> None:
    waiting = Waiting(parse_until("stable"))
    assert waiting.failed(MISSING) == (False, "there is no such group")
    assert waiting.saw({"state": "CompletingRebalance"}).done is False
    assert waiting.saw({"state": "Stable"}).done is True


def test_a_group_that_never_was_does_not_become_empty_but_one_that_goes_away_has() -> None:
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        Waiting(parse_until("empty")).failed(MISSING)
    waiting = Waiting(parse_until("empty"))
    assert waiting.saw({"state": "Stable"}).done is False
    assert waiting.failed(MISSING).done is True


def test_trouble_that_may_pass_is_waited_out_and_other_trouble_is_not() -> None:
    waiting = Waiting(parse_until("stable"))
    assert waiting.failed(TimeoutExpired("no answer")) == (False, "no answer")
    assert waiting.failed(BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)).done is False
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        waiting.failed(BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
