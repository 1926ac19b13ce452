"""Plans for partitions and settings of topics, from literals."""

from __future__ import annotations

from uuid import UUID

import pytest

from kcli.admin.configs import OwnSetting
from kcli.admin.plan import Plan
from kcli.admin.snapshots import SETTINGS, Change, Snapshot
from kcli.admin.topic_changes.alterations import (
    Alteration,
    OwnerState,
    Wanted,
    check_unchanged,
    plan_rows,
    undo_rows,
)
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, Refused

ID, OTHER_ID = UUID(int=1), UUID(int=2)
STATE = OwnerState(
    ID,
    3,
    settings={"retention.ms": OwnSetting("7", None, "7"), "cleanup.policy": OwnSetting("compact", "compact", "delete")},
)


def test_partitions_are_added() -> None:
    (row,) = plan_rows("t", STATE, Wanted(5))
    assert (row.key, row.action, row.old, row.new, row.error) == (("t", "partitions"), "add", "3", "5", None)
    assert row.why == "keys may change their partition"


def test_the_same_number_of_partitions_is_no_change() -> None:
    (row,) = plan_rows("t", STATE, Wanted(3))
    assert (row.action, row.error) == ("keep", None)


def test_partitions_are_not_removed() -> None:
    (row,) = plan_rows("t", STATE, Wanted(2))
    assert isinstance(row.error, Refused)
    assert "has 3 partitions, and partitions cannot be removed" in row.error.message


@pytest.mark.parametrize("allowed", [True, False])
def test_partitions_of_an_internal_topic_need_an_option(allowed: bool) -> None:
    (row,) = plan_rows("t", STATE._replace(internal=True), Wanted(5), internal=allowed)
    assert isinstance(row.error, Refused) is not allowed


def test_settings_are_set_and_deleted() -> None:
    rows = plan_rows("t", STATE, Wanted(settings={"retention.ms": "9"}, deleted=["cleanup.policy"]))
    assert [(row.name, row.action, row.old, row.new, row.own, row.new_own, row.why) for row in rows] == [
        ("retention.ms", "set", "7", "9", None, "9", "OLD is inherited"),
        ("cleanup.policy", "delete", "compact", "delete", "compact", None, "NEW is inherited"),
    ]


def test_a_setting_with_the_inherited_value_is_still_set() -> None:
    (row,) = plan_rows("t", STATE, Wanted(settings={"retention.ms": "7"}))
    assert row.action == "set", "a later change of the broker must not change the topic"


@pytest.mark.parametrize("wanted", [Wanted(settings={"cleanup.policy": "compact"}), Wanted(deleted=["retention.ms"])])
def test_settings_that_are_so_already_are_kept(wanted: Wanted) -> None:
    (row,) = plan_rows("t", STATE, wanted)
    assert row.action == "keep"
    assert row.old == row.new


def test_an_unknown_setting_is_left_for_the_broker_to_refuse() -> None:
    (row,) = plan_rows("t", STATE, Wanted(deleted=["retention.m"]))
    assert (row.action, row.error) == ("delete", None)


def test_of_the_settings_of_all_brokers_those_that_are_set_can_be_deleted() -> None:
    """Brokers list no others, so that a name that is missing is not set. Their values without it are unknown."""
    state = OwnerState(settings={"log.retention.ms": OwnSetting("9", "9", None)})
    rows = plan_rows("", state, Wanted(deleted=["log.retention.ms", "log.segment.bytes"]), kind="broker")
    assert [(row.name, row.action, row.new, row.kind) for row in rows] == [
        ("log.retention.ms", "delete", None, "broker"),
        ("log.segment.bytes", "keep", None, "broker"),
    ]


@pytest.mark.parametrize("name", ["ssl.key.password", "listener.name.x.ssl.keystore.password"])
def test_a_secret_is_refused_and_in_no_row(name: str) -> None:
    state = OwnerState(settings={"ssl.key.password": OwnSetting(None, None, None, sensitive=True)})
    (row,) = plan_rows("1", state, Wanted(settings={name: "hunter2"}), kind="broker")
    assert isinstance(row.error, Refused)
    assert "hunter2" not in repr(row)


def test_a_setting_that_is_no_secret_may_have_a_name_like_one() -> None:
    state = OwnerState(settings={"delegation.token.max.lifetime.ms": OwnSetting("7", None, "7")})
    (row,) = plan_rows("1", state, Wanted(settings={"delegation.token.max.lifetime.ms": "9"}), kind="broker")
    assert (row.action, row.new, row.error) == ("set", "9", None)


@pytest.mark.parametrize(
    ("row", "topic_id"),
    [
        (Alteration(("t", "partitions"), "2", "5", "add"), ID),
        (Alteration(("t", "cleanup.policy"), "delete", "x", "set", own="delete", new_own="x"), ID),
        (Alteration(("t", "retention.ms"), "7", "9", "set", own="7", new_own="9"), ID),
        (Alteration(("t", "partitions"), "3", "5", "add"), OTHER_ID),
    ],
)
def test_a_topic_that_has_changed_since_the_plan_is_refused(row: Alteration, topic_id: UUID) -> None:
    with pytest.raises(Refused, match="since the plan; make a new plan"):
        check_unchanged(row, STATE, str(topic_id))


def test_an_unchanged_topic_is_accepted() -> None:
    check_unchanged(Alteration(("t", "partitions"), "3", "5", "add"), STATE, str(ID))
    check_unchanged(Alteration(("t", "retention.ms"), "7", "9", "set", own=None, new_own="9"), STATE, None)


def test_an_undo_explains_each_row() -> None:
    snapshot = Snapshot(
        "s",
        1_706_695_200_000,
        SETTINGS,
        "alter",
        "c",
        "b",
        tuple(Change((topic, "retention.ms"), "7", "9") for topic in ("same", "again", "gone", "new", "kept")),
        {"same": str(ID), "new": str(ID)},
    )
    missing = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    rows = (
        Alteration(("same", "retention.ms"), "9", "7", "set", own="9", new_own="7"),
        Alteration(("again", "retention.ms"), "8", "7", "set", own="8", new_own="7"),
        Alteration(("gone", ""), action="keep", error=missing),
        Alteration(("new", "retention.ms"), "9", "7", "set", own="9", new_own="7"),
        Alteration(("kept", "retention.ms"), "7", "7", "keep", "is set already", own="7", new_own="7"),
    )
    ids = {"same": ID, "new": OTHER_ID, "again": ID, "kept": ID}
    plan = Plan("undo", rows, states={topic: str(topic_id) for topic, topic_id in ids.items()}, cluster_id="c")

    found = list(undo_rows(plan, snapshot))

    when = "as before the change of 2024-01-31T10:00:00.000Z"
    assert [(row.owner, row.action, row.why, row.error) for row in found] == [
        ("same", "set", when, None),
        ("again", "set", f"{when}; it was changed again since", None),
        ("gone", "keep", "the topic does not exist any more", None),
        ("new", "keep", "the topic was deleted and recreated since", None),
        ("kept", "keep", "is set already", None),
    ]
    assert found[3].new == "9", "nothing is restored on the new topic"
