"""Votes for an assignor, and the topics in subscriptions."""

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


def test_most_votes_win_though_the_first_member_wants_another() -> None:
    assert (
        choose_protocol([member("range", "sticky"), member("sticky", "range"), member("sticky", "range")]) == "sticky"
    )


def test_what_one_member_lacks_cannot_be_voted_for() -> None:
    members = [member("sticky", "range"), member("sticky", "range"), member("range")]
    assert common_protocols(members) == ["range"]
    assert choose_protocol(members) == "range"


def test_protocol_named_twice_by_one_member_is_not_common() -> None:
    assert common_protocols([member("range", "range"), member("sticky")]) == []


def test_who_shares_no_protocol_with_everybody_cannot_join() -> None:
    members = [member("range", "sticky"), member("sticky")]
    assert can_join(members, (("sticky", b""), ("cooperative-sticky", b"")))
    assert not can_join(members, (("range", b""),))
    assert not can_join(members, ())
    assert can_join([], (("anything", b""),))


def test_topics_of_all_members() -> None:
    members = [
        member("range", metadata=subscribed_to("orders", "bills")),
        member("range", metadata=subscribed_to("bills", "mails")),
    ]
    assert subscribed_topics("consumer", "range", members) == {"orders", "bills", "mails"}


def test_topics_are_unknown_when_somebody_does_not_tell() -> None:
    mumbling = member("range", metadata=b"\0\0\xff")
    assert subscribed_topics("consumer", "range", [member("range", metadata=subscribed_to("orders")), mumbling]) is None
    assert subscribed_topics("connect", "default", [member("default")]) is None
    assert subscribed_topics(None, None, []) is None
    assert subscribed_topics("consumer", None, []) == frozenset()


def test_member_ids_differ() -> None:
    assert new_member_id("box") != new_member_id("box")
    assert new_member_id("box").startswith("box-")
