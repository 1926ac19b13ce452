"""Protocol votes, subscribed topics and member ids of a classic group."""

from __future__ import annotations

from kcli.broker.group.classic_group import (
    ClassicGroupMember,
    can_join,
    choose_protocol,
    common_protocols,
    new_member_id,
    subscribed_topics,
)
from tests.broker.group.requests import subscribed_to


def member(*protocols: str, metadata: bytes = b"") -> ClassicGroupMember:
    return ClassicGroupMember(
        member_id=new_member_id("m"),
        group_instance_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=1000,
        session_timeout_ms=1000,
        protocols=tuple((name, metadata) for name in protocols),
    )


def test_protocol_with_the_most_votes_is_chosen() -> None:
    assert (
        choose_protocol([member("range", "sticky"), member("sticky", "range"), member("sticky", "range")]) == "sticky"
    )


def test_protocol_that_one_member_lacks_is_not_a_candidate() -> None:
    members = [member("sticky", "range"), member("sticky", "range"), member("range")]
    assert common_protocols(members) == ["range"]
    assert choose_protocol(members) == "range"


def test_protocol_named_twice_by_one_member_is_not_common() -> None:
    assert common_protocols([member("range", "range"), member("sticky")]) == []


def test_member_without_a_common_protocol_cannot_join() -> None:
    members = [member("range", "sticky"), member("sticky")]
    assert can_join(members, (("sticky", b""), ("cooperative-sticky", b"")))
    assert not can_join(members, (("range", b""),))
    assert not can_join(members, ())
    assert can_join([], (("anything", b""),))


def test_subscribed_topics_are_those_of_all_members() -> None:
    members = [
        member("range", metadata=subscribed_to("orders", "bills")),
        member("range", metadata=subscribed_to("bills", "mails")),
    ]
    assert subscribed_topics("consumer", "range", members) == {"orders", "bills", "mails"}


def test_subscribed_topics_are_unknown_with_an_unreadable_subscription() -> None:
    unreadable = member("range", metadata=b"\0\0\xff")
    assert (
        subscribed_topics("consumer", "range", [member("range", metadata=subscribed_to("orders")), unreadable]) is None
    )
    assert subscribed_topics("connect", "default", [member("default")]) is None
    assert subscribed_topics(None, None, []) is None
    assert subscribed_topics("consumer", None, []) == frozenset()


def test_member_ids_differ() -> None:
    assert new_member_id("box") != new_member_id("box")
    assert new_member_id("box").startswith("box-")
