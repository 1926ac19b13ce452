"""Forecasts beside the current assignment: moves, stopped partitions, skew. Expected values as in test_facts."""

from __future__ import annotations

from random import Random

import pytest

from kcli.assignors.forecast import MAX_REBALANCES, Changes, Move, change, compare, forecast_assignment, owners, skew
from kcli.assignors.lookup import SERVER_ASSIGNORS, STRATEGIES
from kcli.assignors.model import Member, Topic
from kcli.errors import ConfigError, NotFound
from kcli.structs import TopicPartition
from tests.assignors.cases import make_case

ORDERS = frozenset({"orders"})
SIX = {"orders": Topic(6)}


def at(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", number) for number in numbers)


def member(name: str, *numbers: int) -> Member:
    return Member(name, ORDERS, at(*numbers), 1 if numbers else -1)


def before(*members: Member) -> dict[str, tuple[TopicPartition, ...]]:
    return {it.id: it.owned for it in members}


def test_a_new_member_stops_all_partitions_under_eager_and_moved_ones_under_cooperative() -> None:
    old = [member("a", 0, 1, 2), member("b", 3, 4, 5)]
    found = compare(before(*old), forecast_assignment("sticky", SIX, [*old, member("c")]))
    assert [(it.source, it.target) for it in found.moved] == [("a", "c"), ("b", "c")]
    assert (found.kept, found.stopped_eager, found.stopped_cooperative, found.idle) == (4, 6, 2, [])
    (a, _, c) = found.shares
    assert (len(a.kept), a.gained, len(a.lost), c.before, len(c.gained)) == (2, [], 1, None, 2)


def test_cooperative_members_need_a_second_rebalance_for_partitions_that_move() -> None:
    """CS2 and CS3 of the fact cases."""
    topics = {"orders": Topic(3)}
    forecast = forecast_assignment("cooperative-sticky", topics, [member("consumer1", 0, 1, 2), member("consumer2")])
    assert forecast.rebalances == (
        {"consumer1": [*at(0, 1)], "consumer2": []},
        {"consumer1": [*at(0, 1)], "consumer2": [*at(2)]},
    )
    assert (forecast.settled, forecast.withheld) == (True, [*at(2)])


def test_cooperative_members_need_one_rebalance_for_unassigned_partitions() -> None:
    """CS5 of the fact cases, and a topic that has grown."""
    forecast = forecast_assignment("cooperative-sticky", SIX, [member("a", 0, 1), member("b", 2, 3)])
    assert (len(forecast.rebalances), forecast.withheld) == (1, [])
    found = compare({"a": at(0, 1), "b": at(2, 3)}, forecast)
    assert [move.partition for move in found.newly_assigned] == [*at(4, 5)]
    assert (found.moved, found.stopped_eager, found.stopped_cooperative) == ([], 4, 0)


def test_a_leaving_member_loses_all_partitions_and_has_a_share() -> None:
    stays = member("b", 3, 4, 5)
    found = compare({"a": at(0, 1, 2), "b": at(3, 4, 5)}, forecast_assignment("range", SIX, [stays]))
    assert [move.source for move in found.moved] == ["a", "a", "a"]
    assert [(it.member, it.after is None) for it in found.shares] == [("a", True), ("b", False)]
    assert compare({"a": at(0)}, forecast_assignment("range", SIX, [])).unassigned == [Move(*at(0), "a", None)]


def test_members_without_partitions_are_idle() -> None:
    found = compare({}, forecast_assignment("range", {"orders": Topic(1)}, [member("a"), member("b"), member("c")]))
    assert found.idle == ["b", "c"]


def test_skew_is_the_largest_share_divided_by_the_mean_of_partitions_or_loads() -> None:
    shares = {"a": at(0, 1, 2), "b": at(3), "c": ()}
    assert skew(shares) == (3, 4 / 3)
    assert skew(shares).ratio == pytest.approx(2.25)
    assert skew(shares, {at(3)[0]: 90.0, at(0)[0]: 30.0}).ratio == pytest.approx(90 / 40), "others are not known"
    assert skew(shares, {}).ratio is None
    assert skew({}).ratio is None


@pytest.mark.parametrize("assignor", [*STRATEGIES, *SERVER_ASSIGNORS])
def test_every_partition_is_kept_or_moved(assignor: str) -> None:
    """Each partition of before and after is kept or a move, and who cooperates gives nothing in the last rebalance."""
    for number in range(150):
        case = make_case(Random(f"comparison {number}"))
        had = {it.id: it.owned for it in case.members}
        forecast = forecast_assignment(assignor, case.topics, case.members)
        found = compare(had, forecast)
        everything = owners(had).keys() | owners(forecast.final).keys()
        assert found.kept + len(found.moves) == len(everything)
        assert len(found.moved) + len(found.newly_assigned) + len(found.unassigned) == len(found.moves)
        assert found.stopped_cooperative <= found.stopped_eager
        assert len(forecast.rebalances) <= MAX_REBALANCES
        *_, last = [had, *forecast.rebalances[:-1]]
        if forecast.settled and assignor == "cooperative-sticky":
            assert all({*last[it.id]} <= {*forecast.final[it.id]} for it in case.members), (
                "a member that loses a partition must join again"
            )


# --- changes of a group


def test_new_members_have_the_most_common_subscription_and_sort_last() -> None:
    members = [member("zoe"), member("yan"), Member("xi", frozenset({"bills"}))]
    topics, found = change(SIX, members, Changes(more=2))
    assert topics == SIX
    assert found[3:] == [Member("~new-1", ORDERS), Member("~new-2", ORDERS)]
    assert [*sorted(it.id for it in found)][-2:] == ["~new-1", "~new-2"]


def test_fewer_members_remove_the_last_ones_and_static_ones_sort_first() -> None:
    members = [member("a"), member("b"), Member("z", ORDERS, instance_id="static")]
    _, found = change(SIX, members, Changes(more=-2))
    assert [it.id for it in found] == ["z"]
    with pytest.raises(ConfigError, match="cannot remove 4 members: there are only 3"):
        change(SIX, members, Changes(more=-4))


def test_members_are_added_and_removed_by_id() -> None:
    _, found = change(SIX, [member("a"), member("b")], Changes(add=[Member("c", frozenset())], remove=["a"]))
    assert found == [member("b"), Member("c", ORDERS)]
    with pytest.raises(ConfigError, match="member b already exists; choose another name"):
        change(SIX, [member("b")], Changes(add=[member("b")]))


def test_new_partitions_repeat_the_racks_of_the_old_ones() -> None:
    a, b = frozenset("a"), frozenset("b")
    topics, _ = change({"orders": Topic(2, (a, b))}, [member("m")], Changes(partitions={"orders": 5}))
    assert topics == {"orders": Topic(5, (a, b, a, b, a))}
    with pytest.raises(ConfigError, match="topic orders has 6 partitions; Kafka cannot reduce them to 5"):
        change(SIX, [member("m")], Changes(partitions={"orders": 5}))
    with pytest.raises(NotFound, match="no member subscribes to topic bills; subscribed: orders"):
        change(SIX, [member("m")], Changes(partitions={"bills": 5}))
