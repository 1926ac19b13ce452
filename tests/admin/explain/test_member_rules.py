"""Rules of `explain` about members and rebalances: observations as literals, and their findings."""

from __future__ import annotations

import pytest

from kcli.admin.explain.observations import Observations
from kcli.admin.explain.rules import RULES, explain
from kcli.admin.groups.group import CONSUMER
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from tests.admin.explain.explain_cases import (
    cluster_facts,
    findings,
    group,
    group_survey,
    member,
    topic,
    unchanged_findings,
)

ROWS = {"orders-0": (100, 0, 100), "orders-1": (50, 0, 50)}
BEHIND = {"orders-0": (100, 0, 160), "orders-1": (50, 0, 50)}
A, B = member("a", "orders-0"), member("b", "orders-1")


def test_an_empty_group_with_unread_records_is_a_problem() -> None:
    found = findings(group_survey(group(A), BEHIND, 0), group_survey(group(state="Empty"), BEHIND, 6000))

    assert found["no-members"].severity == "problem"
    assert "1 member left between the observations; unread: 60 records in 1 partition." in found["no-members"].evidence


def test_an_empty_group_without_lag_is_a_note() -> None:
    assert unchanged_findings(group(state="Empty"), ROWS)["no-members"].severity == "note"
    nothing = unchanged_findings(group(state="Empty"), {})["no-members"]
    assert "no offsets are committed" in nothing.evidence
    assert "auto.offset.reset" in nothing.advice
    # The lag of an offset beyond the end is unknown, so the evidence does not state that lag 0 is caught up.
    outside = unchanged_findings(group(state="Empty"), {"orders-0": (100, 0, 20)})
    assert "committed-beyond-end" in outside
    assert outside["no-members"].evidence == "The group has no members."


def test_commits_without_members_are_reported_as_consumers_that_assign_partitions_themselves() -> None:
    empty = group(state="Empty")
    found = findings(group_survey(empty, BEHIND, 0), group_survey(empty, {**BEHIND, "orders-0": (150, 0, 160)}, 6000))

    assert "no-members" not in found
    assert "orders-0" in found["commits-without-members"].evidence


def test_a_classic_rebalance_names_the_members_that_may_not_have_rejoined() -> None:
    preparing = group(member("a", "orders-0"), member("b", "orders-1"), member("c"), state="PreparingRebalance")
    found = unchanged_findings(preparing, ROWS)["rebalancing"]

    assert found.severity == "problem"
    assert "rebalancing at both observations, 6s apart (PreparingRebalance, 3 members)" in found.evidence
    assert "previous generation: a-1 on 10.0.0.9, b-1 on 10.0.0.9." in found.evidence
    assert "Newly joined: c-1" in found.evidence


def test_a_member_that_still_commits_has_not_rejoined() -> None:
    preparing = group(member("a", "orders-0"), member("b", "orders-1"), state="PreparingRebalance")
    found = findings(
        group_survey(preparing, BEHIND, 0), group_survey(preparing, {**BEHIND, "orders-0": (120, 0, 160)}, 6000)
    )
    assert "Still committing, so not rejoined: a-1 on 10.0.0.9." in found["rebalancing"].evidence


def test_a_group_leader_that_does_not_send_the_assignment_is_reported() -> None:
    found = unchanged_findings(group(member("a"), state="CompletingRebalance"), ROWS)["rebalancing"]
    assert "the group leader has not sent the assignment" in found.evidence


def test_a_rebalance_that_started_between_the_observations_is_a_warning() -> None:
    found = findings(group_survey(group(A), ROWS, 0), group_survey(group(A, state="PreparingRebalance"), ROWS, 6000))
    assert found["rebalancing"].severity == "warning"


def test_a_rebalance_that_ended_without_a_member_is_a_warning() -> None:
    found = findings(group_survey(group(A, B, state="PreparingRebalance"), ROWS, 0), group_survey(group(A), ROWS, 6000))

    assert found["rebalance-ended"].severity == "warning"
    assert "left: b-1 on 10.0.0.9" in found["rebalance-ended"].evidence


def test_members_that_joined_between_two_stable_observations_are_reported() -> None:
    found = findings(group_survey(group(A), ROWS, 0), group_survey(group(A, B), ROWS, 6000))
    assert "joined: b-1 on 10.0.0.9" in found["rebalanced"].evidence


def test_late_kip848_members_are_reported_with_their_partitions_to_revoke_and_receive() -> None:
    late = member("a", "orders-0", "orders-1", target=("orders-0",), epoch=6)
    waits = member("b", target=("orders-1",), epoch=7)
    found = unchanged_findings(group(late, waits, type=CONSUMER, state="Reconciling"), ROWS)["rebalancing"]

    assert "a-1 on 10.0.0.9 is at epoch 6 and must still revoke orders-1." in found.evidence
    assert "b-1 on 10.0.0.9 is at epoch 7 and waits for orders-1." in found.evidence


def test_a_broker_that_has_not_computed_the_assignment_is_reported() -> None:
    found = unchanged_findings(group(A, type=CONSUMER, state="Assigning", target_epoch=6), ROWS)["rebalancing"]
    assert "an assignment for epoch 6, but not yet for epoch 7" in found.evidence


def test_members_beyond_the_number_of_partitions_are_idle() -> None:
    found = unchanged_findings(group(A, B, member("c")), ROWS)["idle-member"]

    assert (found.severity, found.subject) == ("note", "c-1 on 10.0.0.9")
    assert found.evidence == "orders has 2 partitions, and 3 members share them."


def test_an_idle_member_with_enough_partitions_names_the_assignor() -> None:
    found = unchanged_findings(group(member("a", "orders-0", "orders-1"), member("b")), ROWS)["idle-member"]
    assert "enough partitions for every member, but this one was assigned none (assignor range)" in found.evidence


def test_a_subscription_to_a_missing_topic_is_reported() -> None:
    gone = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="ordrs")
    cluster = cluster_facts(topics={"orders": topic("orders"), "ordrs": gone})
    found = unchanged_findings(group(A, B, member("c", topics=("ordrs",))), ROWS, cluster)

    assert "subscribes to ordrs, which the cluster does not have" in found["idle-member"].evidence
    assert found["topic-gone"].severity == "problem"


def test_classic_and_kip848_members_in_one_group_are_reported() -> None:
    both = group(A._replace(member_type="classic"), B._replace(member_type="consumer"), type=CONSUMER)
    found = unchanged_findings(both, ROWS)["mixed-protocols"]

    assert found.severity == "warning"
    assert "different protocols: 1 classic, 1 consumer (KIP-848). Classic: a-1 on 10.0.0.9." in found.evidence


def test_different_subscriptions_are_reported_with_their_numbers_of_members() -> None:
    found = unchanged_findings(group(A, B, member("c", topics=("orders", "returns"))), ROWS)["mixed-subscriptions"]
    assert found.evidence == "Members have different subscriptions: 2 members: orders; 1 member: orders, returns."


def test_a_partition_with_two_owners_and_one_without_an_owner_are_problems() -> None:
    found = unchanged_findings(group(member("a", "orders-0"), member("b", "orders-0")), ROWS)

    assert found["owned-twice"].severity == "problem"
    assert "orders-0" in found["owned-twice"].evidence
    assert (found["unassigned"].severity, found["unassigned"].subject) == ("problem", "orders-1")


def test_assignments_are_not_examined_during_a_rebalance() -> None:
    moving = findings(
        group_survey(group(A), ROWS, 0), group_survey(group(member("a", "orders-0"), member("b")), ROWS, 6000)
    )
    assert not {"unassigned", "idle-member"} & moving.keys()


def test_a_static_member_that_left_is_reported_with_its_partitions() -> None:
    found = findings(
        group_survey(group(A, B._replace(instance_id="pod-1")), ROWS, 0), group_survey(group(A), ROWS, 6000)
    )
    assert found["static-member-gone"].subject == "pod-1 (static) on 10.0.0.9"
    assert "with orders-1, and is no longer a member" in found["static-member-gone"].evidence


def test_a_kip848_static_member_that_closed_temporarily_is_a_problem() -> None:
    gone = member("a", "orders-0", instance_id="pod-0", epoch=-2, target=("orders-0",))
    found = unchanged_findings(group(gone, B, type=CONSUMER), BEHIND)

    assert found["static-member-gone"].severity == "problem"
    assert "keeps orders-0: nobody reads from there" in found["static-member-gone"].evidence
    assert "group.instance.id=pod-0" in found["static-member-gone"].advice


def test_a_silent_static_member_may_have_crashed() -> None:
    found = unchanged_findings(group(A._replace(instance_id="pod-0"), B), BEHIND, time_lag_ms={"orders-0": 90_000})

    assert found["static-member-gone"].severity == "warning"
    assert "nothing in 6s, with 60 records to read in orders-0" in found["static-member-gone"].evidence
    assert "1m30s old" in found["static-member-gone"].evidence


def test_a_member_with_lag_that_commits_nothing_is_silent() -> None:
    found = unchanged_findings(group(A, B), BEHIND)

    assert set(found) == {"silent-member"}
    assert found["silent-member"].subject == "a-1 on 10.0.0.9"


def test_a_member_without_lag_or_with_a_commit_is_not_silent() -> None:
    assert unchanged_findings(group(A, B), ROWS) == {}
    both = group(member("a", "orders-0", "orders-1"))
    second = group_survey(both, {"orders-0": (100, 0, 160), "orders-1": (60, 0, 60)}, 6000)
    assert "silent-member" not in findings(group_survey(both, BEHIND, 0), second)


def test_a_member_that_waits_for_a_rebalance_is_not_silent() -> None:
    assert set(unchanged_findings(group(A, B, state="PreparingRebalance"), BEHIND)) == {"rebalancing"}


def test_groups_of_connect_workers_have_no_idle_members() -> None:
    workers = group(member("w", topics=()), member("v", topics=()))._replace(protocol_type="connect")
    assert unchanged_findings(workers, {}) == {}


def test_a_random_member_id_is_shown_with_the_client_id() -> None:
    random = A._replace(id="2Yw0", client_id="billing")
    assert unchanged_findings(group(random, B), BEHIND)["silent-member"].subject == "billing (2Yw0) on 10.0.0.9"


def test_findings_are_sorted_by_severity() -> None:
    rows = {"orders-0": (100, 400, 900), "orders-1": (None, 3, 3)}
    found = explain(
        Observations(group_survey(group(A, B), rows, 0), group_survey(group(A, B), rows, 6000), cluster_facts())
    )
    severities = [finding.severity for finding in found]
    assert severities == sorted(severities, key=["problem", "warning", "note"].index)
    assert len(set(severities)) == 3


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_rule_fails_for_a_group_without_known_facts(rule: object) -> None:
    nothing = group_survey(group(state="Stable"), {}, 0)
    unknown = group_survey(group(member("a", "orders-0")), {"orders-0": (None, None, None)}, 6000)
    assert callable(rule)
    for facts in (
        Observations(nothing, nothing, cluster_facts()),
        Observations(unknown, unknown, cluster_facts(topics={})),
    ):
        list(rule(facts))
