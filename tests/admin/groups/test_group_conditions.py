"""Conditions on groups: the values that they compare, alarms (`group lag --fail-if`), and waits (`group wait`)."""

from __future__ import annotations

import pytest

from kcli.admin.groups.group_conditions import GroupWait, parse_group_condition, parse_until, survey_facts
from kcli.cli.group.lag import judge
from kcli.conditions import Amount
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, TimeoutExpired
from tests.admin.groups.cases import member, survey

ONE = member("one", "orders-0", "orders-1")
MISSING = BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, group="billing")
BEHIND = survey({"orders-0": (1, 0, 5), "orders-1": (3, 0, 3)}, ONE, ages={"orders-0": (90_000, None)})
CAUGHT_UP = survey({"orders-0": (5, 0, 5), "orders-1": (3, 0, 3)}, ONE)
HALF_SEEN = survey({"orders-0": (1, 0, 5), "orders-1": TimeoutExpired("no answer")}, ONE)
NOT_BEGUN = survey({"orders-0": (None, 0, 5), "orders-1": (None, 7, 7)}, ONE)


def test_values_of_a_group() -> None:
    assert survey_facts(BEHIND) == {
        "type": "classic",
        "state": "Stable",
        "members": Amount(1),
        "partitions": Amount(2),
        "lag": Amount(4),
        "max-lag": Amount(4),
        "age": Amount(90_000),
        "time-lag": Amount(90_000),
        "unknown": Amount(0),
        "uncommitted": Amount(0),
        "beyond-end": Amount(0),
    }


def test_age_is_zero_without_lag() -> None:
    assert survey_facts(CAUGHT_UP)["age"] == Amount(0)


def test_failed_partition_makes_lag_and_age_lower_bounds() -> None:
    facts = survey_facts(HALF_SEEN)
    assert facts["lag"] == Amount(4, exact=False)
    assert facts["age"] == Amount(0, exact=False)
    unread = survey_facts(survey({}, ONE, error=MISSING))
    assert unread["lag"] == Amount(0, exact=False)


def test_lag_without_a_record_time_makes_age_a_lower_bound() -> None:
    assert survey_facts(survey({"orders-0": (1, 0, 5)}, ONE))["age"] == Amount(0, exact=False)


def test_uncommitted_partition_has_no_lag_for_an_alarm_and_unknown_lag_for_a_wait() -> None:
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
        ("lag>4", 3, 3),  # another group did not exist
        ("lag>3", 1, 6),  # 6 takes precedence over a failed partition
        ("age>1m", 0, 6),
        ("age>2m", 0, 0),
        ("time-lag>1m", 0, 6),
        ("TIME_LAG>1m", 0, 6),
        ("MAX-LAG>3 and Partitions=2 and type=Classic", 0, 6),
    ],
)
def test_condition_that_holds_exits_with_6(text: str, look: int, status: int) -> None:
    assert judge([CAUGHT_UP, BEHIND], parse_group_condition(text), look)[0] == status


def test_each_group_for_which_the_condition_holds_is_reported_with_its_values() -> None:
    assert judge([CAUGHT_UP, BEHIND], parse_group_condition("lag>3 or age>1m"), 0)[1] == [
        "kcli: billing: lag>3 or age>1m: age is 1m30s, lag is 4"
    ]


def test_unknown_lag_does_not_satisfy_the_condition() -> None:
    status, lines = judge([HALF_SEEN], parse_group_condition("lag>100"), 0)
    assert status == 1
    assert lines == ["kcli: billing: unknown whether lag>100: lag is 4 or more"]
    assert judge([HALF_SEEN], parse_group_condition("lag>3"), 1)[0] == 6


def test_until_takes_empty_stable_or_a_condition() -> None:
    assert parse_until("Empty").judge({"state": "Empty"}) is True
    assert parse_until("stable").judge({"state": "PreparingRebalance"}) is False
    assert parse_until("lag<=10").judge({"lag": Amount(10)}) is True
    with pytest.raises(ConfigError, match="use empty, stable, or a condition such as lag<=0; 'full' is not"):
        parse_until("full")


def test_wait_ends_when_the_condition_holds() -> None:
    wait = GroupWait(parse_until("lag<=0"))
    assert wait.observe(survey_facts(BEHIND, strict=True)) == (False, "lag is 4")
    assert wait.observe(survey_facts(NOT_BEGUN, strict=True)) == (False, "lag is 0 or more")
    assert wait.observe(survey_facts(CAUGHT_UP, strict=True)) == (True, "lag is 0")


def test_wait_for_stable_continues_while_the_group_does_not_exist() -> None:
    wait = GroupWait(parse_until("stable"))
    assert wait.observe_error(MISSING) == (False, "the group does not exist")
    assert wait.observe({"state": "CompletingRebalance"}).done is False
    assert wait.observe({"state": "Stable"}).done is True


def test_wait_for_empty_fails_if_the_group_never_existed_and_ends_if_it_is_deleted() -> None:
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        GroupWait(parse_until("empty")).observe_error(MISSING)
    wait = GroupWait(parse_until("empty"))
    assert wait.observe({"state": "Stable"}).done is False
    assert wait.observe_error(MISSING).done is True


def test_wait_continues_after_retriable_errors_only() -> None:
    wait = GroupWait(parse_until("stable"))
    assert wait.observe_error(TimeoutExpired("no answer")) == (False, "no answer")
    assert wait.observe_error(BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)).done is False
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        wait.observe_error(BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
