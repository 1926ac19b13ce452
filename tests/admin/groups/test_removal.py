"""Plans to delete groups and to remove members: the selection of members, and the errors that prevent a removal."""

from __future__ import annotations

import pytest

from kcli.admin.groups.group import SHARE
from kcli.admin.groups.removal import permanent_part, plan_group, plan_member_removal
from kcli.admin.groups.survey import GroupSurvey
from kcli.cli.group.delete import item
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from tests.admin.groups.cases import group, member, survey

ONE, TWO, THREE = member("app", "orders-0"), member("app", "orders-1", instance_id="till-2"), member("etl")
ALL = group(ONE, TWO._replace(id="app-id-2"), THREE)


def planned(**chosen: list[str]) -> list[str]:
    named = {"members": [], "instances": [], "clients": [], **chosen}
    plan = plan_member_removal(ALL, named["members"], named["instances"], named["clients"], every=False)
    return [f"{row.key}!" if row.error else row.key for row in plan.rows]


def test_members_are_selected_by_member_id_instance_id_or_client_id() -> None:
    assert planned(members=["etl-id"]) == ["etl-id"]
    assert planned(instances=["till-2"]) == ["app-id-2"]
    assert planned(clients=["app"]) == ["app-id", "app-id-2"]
    assert planned(clients=["app"], instances=["till-2"]) == ["app-id", "app-id-2"]
    everyone = plan_member_removal(ALL, [], [], [], every=True)
    assert [row.key for row in everyone.rows] == [
        "app-id",
        "app-id-2",
        "etl-id",
    ]


def test_an_unknown_member_is_an_error() -> None:
    assert planned(members=["etl-id", "nobody"], instances=["till-9"]) == ["etl-id", "nobody!", "till-9!"]


def test_members_of_share_groups_cannot_be_removed() -> None:
    (plan,) = plan_member_removal(group(ONE, kind="share"), [], [], [], every=True).rows
    assert "members of share groups cannot be removed; stop the member" in str(plan.error)
    assert plan_member_removal(group(ONE, kind="consumer"), [], [], [], every=True).rows[0].error is None


def test_a_group_with_members_is_not_deleted() -> None:
    plan = plan_group("billing", survey({"orders-0": (1, 0, 2)}, ONE))
    assert isinstance(plan.error, BrokerError)
    assert plan.error.code is ErrorCode.NON_EMPTY_GROUP
    assert "the group has 1 member" in str(plan.error)


def test_the_plan_of_a_deletion_has_the_committed_offsets() -> None:
    plan = plan_group("billing", survey({"orders-0": (1, 0, 2), "orders-1": (0, 0, 7)}, state="Empty"))
    assert plan.error is None
    assert item(plan, "would-be-deleted") == {
        "group": "billing",
        "status": "would-be-deleted",
        "type": "classic",
        "state": "Empty",
        "members": 0,
        "partitions": 2,
        "lag": 8,
        "offsets": [
            {"topic": "orders", "partition": 0, "offset": 1},
            {"topic": "orders", "partition": 1, "offset": 0},
        ],
    }


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ({"billing": survey({"orders-0": (1, 0, 2)})}, ""),
        ({"bare": survey({})}, "the deletion cannot be undone: bare (without committed offsets)"),
        (
            {"bare": survey({"orders-0": (None, 0, 2)})},
            "the deletion cannot be undone: bare (without committed offsets)",
        ),
        ({"unknown": survey({"orders-0": KcliError("x")})}, ""),
        ({"unknown": survey({}, error=KcliError("x"))}, ""),
        ({"busy": survey({}, ONE)}, ""),
        (
            {"s": survey({}, kind=SHARE), "b": survey({})},
            "the deletion cannot be undone: s (the start offsets of share groups are not saved), b (without committed "
            "offsets)",
        ),
        (
            {f"g{number:02}": survey({}) for number in range(12)},
            f"the deletion cannot be undone: {', '.join(f'g{number:02}' for number in range(10))} and 2 more (without "
            "committed offsets)",
        ),
    ],
)
def test_groups_of_which_nothing_can_be_restored(groups: dict[str, GroupSurvey], text: str) -> None:
    assert permanent_part([plan_group(name, found) for name, found in groups.items()]) == text
