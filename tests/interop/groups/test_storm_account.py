"""The judgement of storms: each rule rejects the story that breaks it, and only that story."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.structs import TopicPartition
from tests.interop.groups.storm_account import Account, Story, judge

TP = TopicPartition("t", 0)
Event = dict[str, Any]


def owns(at: int) -> Event:
    return {"event": "assigned", "at": at, "partitions": [["t", 0]]}


def gives_up(at: int, event: str = "revoked") -> Event:
    return {"event": event, "at": at, "partitions": [["t", 0]]}


def reads(at: int, *offsets: int) -> Event:
    return {"event": "records", "at": at, "topic": "t", "partition": 0, "offsets": list(offsets)}


def commits(at: int, offset: int, event: str = "committed") -> Event:
    return {"event": event, "begun": at - 1, "at": at, "offsets": [["t", 0, offset]]}


def story(name: str, *events: Event, **more: Any) -> Story:
    return Story(name, name.rstrip("0123456789"), events, **more)


def test_a_correct_move_of_a_partition_passes() -> None:
    first = story("kcli1", owns(10), reads(11, 0, 1), commits(13, 2), reads(14, 2), gives_up(15), end=20)
    second = story("java2", owns(16), reads(17, 2, 3), commits(19, 4))
    assert judge([first, second], {TP: 4}) == Account(2, 4, 1, 2, 0, {})


def test_an_unprocessed_record_fails() -> None:
    with pytest.raises(AssertionError, match="t-0: 1 of 4 records were processed by nobody, the first at offset 2"):
        judge([story("kcli1", owns(10), reads(11, 0, 1, 3))], {TP: 4})


def test_a_record_read_after_revocation_fails() -> None:
    with pytest.raises(AssertionError, match="kcli1 read t-0 at 13 though it did not own it"):
        judge([story("kcli1", owns(10), gives_up(12), reads(13, 0))], {TP: 1})


def test_a_repeated_assignment_fails() -> None:
    with pytest.raises(AssertionError, match="was assigned at 12 what it owned"):
        judge([story("kcli1", owns(10), owns(12))], {TP: 0})


def test_an_assignment_before_revocation_fails() -> None:
    first, second = story("kcli1", owns(10), gives_up(20)), story("java2", owns(15))
    with pytest.raises(AssertionError, match="t-0 was assigned to java2 at 15 while kcli1 held it from 10 to 20"):
        judge([first, second], {TP: 0})
    judge([first._replace(stops=[(11, 19)]), second], {TP: 0})  # it could not know
    with pytest.raises(AssertionError, match="held it"):
        judge([first._replace(stops=[(16, 19)]), second], {TP: 0})


def test_a_killed_member_owns_its_partitions_until_its_end() -> None:
    judge([story("kcli1", owns(10), end=14), story("java2", owns(15))], {TP: 0})
    with pytest.raises(AssertionError, match="held it"):
        judge([story("kcli1", owns(10), end=16), story("java2", owns(15))], {TP: 0})


def test_a_commit_that_moves_back_fails() -> None:
    first = story("kcli1", owns(10), reads(11, 0), gives_up(12, "lost"), commits(30, 1))
    second = story("java2", owns(15), reads(16, 0, 1), commits(20, 2))
    with pytest.raises(AssertionError, match="t-0: kcli1 committed 1 at 30, after java2 had committed 2 at 20"):
        judge([first, second], {TP: 2})
    refused = first._replace(events=[*first.events[:-1], commits(30, 1, "commit_failed")])
    assert judge([refused, second], {TP: 2}).commits_failed == 1


def test_records_processed_after_a_later_commit_of_another_member_fail() -> None:
    first = story("java1", owns(10), reads(25, 0), gives_up(26, "lost"), stops=[(11, 24)])
    second = story("kcli2", owns(15), reads(16, 0, 1), commits(20, 2))
    assert judge([first, second], {TP: 2}).stale == {"java": 1}
    with pytest.raises(AssertionError, match="t-0: java1 processed 0 at 25, after kcli2 committed 2 at 20"):
        judge([first, second], {TP: 2}, strict=frozenset({"java"}))
