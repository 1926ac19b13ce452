"""Rules of `explain` about members and rebalances: literals in, findings out."""

from __future__ import annotations

import pytest

from kcli.admin.explain.observations import Observations
from kcli.admin.explain.rules import RULES, explain
from kcli.admin.groups.group import CONSUMER
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from tests.admin.explain.explain_cases import around, found, found_in, group, look, member, topic

ROWS = {"orders-0": (100, 0, 100), "orders-1": (50, 0, 50)}
BEHIND = {"orders-0": (100, 0, 160), "orders-1": (50, 0, 50)}
A, B = member("a", "orders-0"), member("b", "orders-1")


def test_an_empty_group_with_records_waiting() -> None:
    told = found(look(group(A), BEHIND, 0), look(group(state="Empty"), BEHIND, 6000))

    assert told["no-members"].severity == "problem"
    assert (
        "1 member left between the observations, and 60 records in 1 partition are unread"
        in told["no-members"].evidence
    )


def test_an_empty_group_that_has_read_all_is_a_note() -> None:
    assert found_in(group(state="Empty"), ROWS)["no-members"].severity == "note"
    nothing = found_in(group(state="Empty"), {})["no-members"]
    assert "no committed offsets" in nothing.evidence
    assert "start over" in nothing.advice
    # Of an offset beyond the end nobody may say that it is the end.
    outside = found_in(group(state="Empty"), {"orders-0": (100, 0, 20)})
    assert "committed-beyond-end" in outside
    assert outside["no-members"].evidence == "The group has no members; its lag is 0."


def test_commits_without_members_are_somebodys_who_assigns_partitions_to_himself() -> None:
    empty = group(state="Empty")
    told = found(look(empty, BEHIND, 0), look(empty, {**BEHIND, "orders-0": (150, 0, 160)}, 6000))

    assert "no-members" not in told
    assert "orders-0" in told["commits-without-members"].evidence


def test_a_classic_rebalance_tells_who_may_not_have_rejoined() -> None:
    preparing = group(member("a", "orders-0"), member("b", "orders-1"), member("c"), state="PreparingRebalance")
    told = found_in(preparing, ROWS)["rebalancing"]

    assert told.severity == "problem"
    assert "PreparingRebalance at both observations, 6s apart, with 3 members" in told.evidence
    assert "previous generation: a-1 on 10.0.0.9, b-1 on 10.0.0.9." in told.evidence
    assert "Newly joined: c-1" in told.evidence


def test_who_still_commits_has_surely_not_rejoined() -> None:
    preparing = group(member("a", "orders-0"), member("b", "orders-1"), state="PreparingRebalance")
    told = found(look(preparing, BEHIND, 0), look(preparing, {**BEHIND, "orders-0": (120, 0, 160)}, 6000))
    assert "so they have not rejoined: a-1 on 10.0.0.9." in told["rebalancing"].evidence


def test_a_leader_that_does_not_send_the_assignment() -> None:
    told = found_in(group(member("a"), state="CompletingRebalance"), ROWS)["rebalancing"]
    assert "the group leader" in told.evidence


def test_a_rebalance_that_began_between_the_looks_is_a_warning() -> None:
    told = found(look(group(A), ROWS, 0), look(group(A, state="PreparingRebalance"), ROWS, 6000))
    assert told["rebalancing"].severity == "warning"


def test_a_rebalance_that_ended_without_a_member() -> None:
    told = found(look(group(A, B, state="PreparingRebalance"), ROWS, 0), look(group(A), ROWS, 6000))

    assert told["rebalance-ended"].severity == "warning"
    assert "left: b-1 on 10.0.0.9" in told["rebalance-ended"].evidence


def test_members_that_came_between_two_stable_looks() -> None:
    told = found(look(group(A), ROWS, 0), look(group(A, B), ROWS, 6000))
    assert "came: b-1 on 10.0.0.9" in told["rebalanced"].evidence


def test_members_of_the_new_protocol_that_are_behind_say_for_what_they_wait() -> None:
    late = member("a", "orders-0", "orders-1", target=("orders-0",), epoch=6)
    waits = member("b", target=("orders-1",), epoch=7)
    told = found_in(group(late, waits, type=CONSUMER, state="Reconciling"), ROWS)["rebalancing"]

    assert "a-1 on 10.0.0.9 is at epoch 6 and still has to give up orders-1." in told.evidence
    assert "b-1 on 10.0.0.9 is at epoch 7 and waits for orders-1." in told.evidence


def test_a_broker_that_has_not_assigned_yet() -> None:
    told = found_in(group(A, type=CONSUMER, state="Assigning", target_epoch=6), ROWS)["rebalancing"]
    assert "an assignment for epoch 6, but none for epoch 7 yet" in told.evidence


def test_more_members_than_partitions() -> None:
    told = found_in(group(A, B, member("c")), ROWS)["idle-member"]

    assert (told.severity, told.subject) == ("note", "c-1 on 10.0.0.9")
    assert told.evidence == "orders has 2 partitions, and 3 members share them."


def test_an_idle_member_though_there_is_enough_for_all() -> None:
    told = found_in(group(member("a", "orders-0", "orders-1"), member("b")), ROWS)["idle-member"]
    assert "There are enough partitions, but the member got none (assignor range)" in told.evidence


def test_a_member_of_a_topic_that_is_not_there() -> None:
    gone = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="ordrs")
    lies = around(topics={"orders": topic("orders"), "ordrs": gone})
    told = found_in(group(A, B, member("c", topics=("ordrs",))), ROWS, lies)

    assert "subscribes to ordrs, which do not exist in the cluster" in told["idle-member"].evidence
    assert told["topic-gone"].severity == "problem"


def test_classic_and_new_members_in_one_group() -> None:
    both = group(A._replace(member_type="classic"), B._replace(member_type="consumer"), type=CONSUMER)
    told = found_in(both, ROWS)["mixed-protocols"]

    assert told.severity == "warning"
    assert "1 member speaks the classic protocol and 1 that of KIP-848. Classic: a-1 on 10.0.0.9." in told.evidence


def test_members_that_subscribe_to_different_topics() -> None:
    told = found_in(group(A, B, member("c", topics=("orders", "returns"))), ROWS)["mixed-subscriptions"]
    assert told.evidence == "Members have different subscriptions: 2 members: orders, 1 member: orders, returns."


def test_a_partition_that_two_members_have_and_one_that_nobody_has() -> None:
    told = found_in(group(member("a", "orders-0"), member("b", "orders-0")), ROWS)

    assert told["owned-twice"].severity == "problem"
    assert "orders-0" in told["owned-twice"].evidence
    assert (told["unassigned"].severity, told["unassigned"].subject) == ("problem", "orders-1")


def test_nothing_is_said_of_assignments_while_they_move() -> None:
    moving = found(look(group(A), ROWS, 0), look(group(member("a", "orders-0"), member("b")), ROWS, 6000))
    assert not {"unassigned", "idle-member"} & moving.keys()


def test_a_static_member_that_is_no_longer_there() -> None:
    told = found(look(group(A, B._replace(instance_id="pod-1")), ROWS, 0), look(group(A), ROWS, 6000))
    assert told["static-member-gone"].subject == "pod-1 (static) on 10.0.0.9"
    assert "with orders-1; now it is not" in told["static-member-gone"].evidence


def test_a_static_member_of_the_new_protocol_that_closed_to_come_back() -> None:
    gone = member("a", "orders-0", instance_id="pod-0", epoch=-2, target=("orders-0",))
    told = found_in(group(gone, B, type=CONSUMER), BEHIND)

    assert told["static-member-gone"].severity == "problem"
    assert "keeps orders-0: no member reads them" in told["static-member-gone"].evidence
    assert "group.instance.id=pod-0" in told["static-member-gone"].advice


def test_a_silent_static_member_may_be_gone() -> None:
    told = found_in(group(A._replace(instance_id="pod-0"), B), BEHIND, time_lag_ms={"orders-0": 90_000})

    assert told["static-member-gone"].severity == "warning"
    assert "nothing in 6s, with 60 records unread in orders-0" in told["static-member-gone"].evidence
    assert "1m30s old" in told["static-member-gone"].evidence


def test_a_silent_member() -> None:
    told = found_in(group(A, B), BEHIND)

    assert set(told) == {"silent-member"}
    assert told["silent-member"].subject == "a-1 on 10.0.0.9"


def test_a_member_that_has_nothing_to_read_or_commits_some_of_it_is_not_silent() -> None:
    assert found_in(group(A, B), ROWS) == {}
    both = group(member("a", "orders-0", "orders-1"))
    second = look(both, {"orders-0": (100, 0, 160), "orders-1": (60, 0, 60)}, 6000)
    assert "silent-member" not in found(look(both, BEHIND, 0), second)


def test_who_waits_for_a_rebalance_is_not_silent() -> None:
    assert set(found_in(group(A, B, state="PreparingRebalance"), BEHIND)) == {"rebalancing"}


def test_connect_workers_share_out_something_else() -> None:
    workers = group(member("w", topics=()), member("v", topics=()))._replace(protocol_type="connect")
    assert found_in(workers, {}) == {}


def test_members_whose_id_does_not_begin_with_the_clients_name_are_told_by_both() -> None:
    random = A._replace(id="2Yw0", client_id="billing")
    assert found_in(group(random, B), BEHIND)["silent-member"].subject == "billing (2Yw0) on 10.0.0.9"


def test_the_most_severe_comes_first() -> None:
    rows = {"orders-0": (100, 400, 900), "orders-1": (None, 3, 3)}
    told = explain(Observations(look(group(A, B), rows, 0), look(group(A, B), rows, 6000), around()))
    severities = [finding.severity for finding in told]
    assert severities == sorted(severities, key=["problem", "warning", "note"].index)
    assert len(set(severities)) == 3


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_rule_stumbles_over_a_group_of_which_nothing_is_known(rule: object) -> None:
    nothing = look(group(state="Stable"), {}, 0)
    unknown = look(group(member("a", "orders-0")), {"orders-0": (None, None, None)}, 6000)
    assert callable(rule)
    for facts in (Observations(nothing, nothing, around()), Observations(unknown, unknown, around(topics={}))):
        list(rule(facts))
