"""Scenarios of members of consumer groups (KIP-848), with the outcome of Apache Kafka 4.3.1.

Each runs on the coordinator, on our broker and on Apache Kafka. Numbers are Kafka's error codes.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from kcli.error_codes import ErrorCode
from tests.broker.group.consumer_groups_harness import ConsumerGroupsRecorder, Member
from tests.broker.group.harness import ask
from tests.broker.group.offsets_harness import commit, delete
from tests.broker.group.requests import form_group_of_one, leave

UNKNOWN_ID = UUID(int=77)
Scenario = Callable[[ConsumerGroupsRecorder], None]


def two(broker: ConsumerGroupsRecorder, group: str, topic: str) -> tuple[Member, Member]:
    """Return two members with two partitions of the topic each, in epoch 3."""
    first, second = Member(broker, "a", group), Member(broker, "b", group)
    first.join([topic])
    second.join([topic])
    first.beat(owns=first.beat())
    second.beat()
    assert (first.epoch, second.epoch) == (3, 3)
    return first, second


# ---- joining and sharing ----


def first_member_gets_all_partitions(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(4)
    member = Member(broker, "a", broker.new_group())
    answer = member.join([topic])
    assert (answer.error_code, answer.member_epoch) == (0, 2)
    assert len(answer.assignment.topic_partitions[0].partitions) == 4
    assert member.beat().assignment is None
    assert member.beat(owns=answer).assignment is None


def member_without_topics_gets_nothing(broker: ConsumerGroupsRecorder) -> None:
    member = Member(broker, "a", broker.new_group())
    assert member.join([]).member_epoch == 1
    assert member.beat().assignment is None


def topic_that_does_not_exist_is_assigned_when_it_does(broker: ConsumerGroupsRecorder) -> None:
    known, _ = broker.new_topic(1)
    later = f"{known}.later"
    member = Member(broker, "a", broker.new_group())
    member.join([known, later])
    broker.create_topic(later, 2)
    answer = broker.beat_until_assigned(member)
    assert (answer.member_epoch, len(answer.assignment.topic_partitions)) == (3, 2)


def new_partitions_are_assigned(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(1)
    member = Member(broker, "a", broker.new_group())
    member.join([topic])
    broker.create_partitions(topic, 3)
    answer = broker.beat_until_assigned(member)
    assert (answer.member_epoch, len(answer.assignment.topic_partitions[0].partitions)) == (3, 3)


def deleted_topic_is_taken_away(broker: ConsumerGroupsRecorder) -> None:
    kept, _ = broker.new_topic(1)
    deleted, _ = broker.new_topic(1)
    member = Member(broker, "a", broker.new_group())
    answer = member.join([kept, deleted])
    broker.delete_topic(deleted)
    shrunk = broker.beat_until_assigned(member, owns=answer)
    assert (shrunk.member_epoch, len(shrunk.assignment.topic_partitions)) == (2, 1)
    assert member.beat(owns=shrunk).member_epoch == 3


def second_member_waits_until_the_first_has_revoked(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(4)
    group = broker.new_group()
    first, second = Member(broker, "a", group), Member(broker, "b", group)
    everything = first.join([topic])
    assert (second.join([topic]).member_epoch, second.beat().assignment) == (3, None)
    rest = first.beat()
    assert (rest.member_epoch, rest.assignment is not None) == (2, True)
    assert (first.beat().assignment, first.beat(owns=everything).assignment) == (None, None)
    assert first.beat(owns=rest).member_epoch == 3
    assert second.beat().assignment is not None
    assert second.beat().assignment is None


def three_members_share_one_after_the_other(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(6)
    group = broker.new_group()
    members = [Member(broker, name, group) for name in ("a", "b", "c")]
    for member in members:
        member.join([topic])
    for _ in range(4):
        for member in members:
            answer = member.beat()
            if answer.assignment is not None:
                member.beat(owns=answer)
    assert [member.epoch for member in members] == [4, 4, 4]


def part_of_the_revoked_partitions_is_not_enough(broker: ConsumerGroupsRecorder) -> None:
    topic, topic_id = broker.new_topic(4)
    group = broker.new_group()
    first, second = Member(broker, "a", group), Member(broker, "b", group)
    first.join([topic])
    second.join([topic])
    kept = first.beat().assignment.topic_partitions[0].partitions
    revoking = [number for number in range(4) if number not in kept]
    assert first.beat(owns={topic_id: [*kept, revoking[0]]}).member_epoch == 2
    assert second.beat().assignment is None
    assert first.beat(owns={topic_id: kept}).member_epoch == 3
    assert second.beat().assignment is not None


def third_member_joins_while_the_first_revokes(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(6)
    group = broker.new_group()
    first, second, third = (Member(broker, name, group) for name in ("a", "b", "c"))
    first.join([topic])
    second.join([topic])
    rest = first.beat()
    third.join([topic])
    assert first.beat().member_epoch == 2
    less = first.beat(owns=rest)
    assert (less.member_epoch, less.assignment is not None) == (2, True)
    first.beat(owns=less)
    for member in (second, third, second, third):
        member.beat()
    assert [one.epoch for one in (first, second, third)] == [4, 4, 4]


def member_leaves_while_another_revokes_for_it(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(4)
    group = broker.new_group()
    first, second = Member(broker, "a", group), Member(broker, "b", group)
    first.join([topic])
    second.join([topic])
    rest = first.beat()
    second.leave()
    assert first.beat().member_epoch == 2
    answer = first.beat(owns=rest)
    assert len(answer.assignment.topic_partitions[0].partitions) == 4


def full_request_is_answered_with_the_assignment(broker: ConsumerGroupsRecorder) -> None:
    topic, topic_id = broker.new_topic(2)
    member = Member(broker, "a", broker.new_group())
    answer = member.join([topic])
    assert member.beat(rebalance_timeout_ms=60_000, subscribed_topic_names=[topic]).assignment is None
    assert member.beat(owns=answer, rebalance_timeout_ms=60_000).assignment is None
    full = member.beat(owns=answer, rebalance_timeout_ms=60_000, subscribed_topic_names=[topic])
    assert full.assignment is not None
    assert member.beat(owns={topic_id: [0]}).assignment is None


def member_joins_again_in_its_epoch(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    member = Member(broker, "a", broker.new_group())
    member.join([topic])
    again = member.join([topic])
    assert (again.member_epoch, again.assignment is not None) == (2, True)


def member_that_revokes_joins_again(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(4)
    group = broker.new_group()
    first, second = Member(broker, "a", group), Member(broker, "b", group)
    first.join([topic])
    second.join([topic])
    first.beat()
    again = first.join([topic])
    assert again.member_epoch == 3
    assert second.beat().assignment is not None


def old_version_gets_a_member_id(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(1)
    group = broker.new_group()
    member = Member(broker, "", group)
    member.member_id = broker.known_id(member.join([topic], version=0, subscribed_topic_regex=None).member_id)
    assert member.beat(version=0).error_code == 0
    assert member.leave(version=0).error_code == 0


# ---- subscriptions ----


def added_topic_is_assigned(broker: ConsumerGroupsRecorder) -> None:
    one, _ = broker.new_topic(1)
    other, _ = broker.new_topic(1)
    member = Member(broker, "a", broker.new_group())
    member.join([one])
    answer = member.beat(subscribed_topic_names=[one, other])
    assert (answer.member_epoch, len(answer.assignment.topic_partitions)) == (3, 2)
    assert member.beat(subscribed_topic_names=[other, one, other]).member_epoch == 3


def dropped_topic_is_revoked(broker: ConsumerGroupsRecorder) -> None:
    one, _ = broker.new_topic(1)
    other, _ = broker.new_topic(1)
    member = Member(broker, "a", broker.new_group())
    member.join([one, other])
    answer = member.beat(subscribed_topic_names=[one])
    assert (answer.member_epoch, len(answer.assignment.topic_partitions)) == (2, 1)
    assert member.beat(owns=answer, subscribed_topic_names=[one]).member_epoch == 3


def dropped_topic_that_is_revoked_already(broker: ConsumerGroupsRecorder) -> None:
    one, one_id = broker.new_topic(1)
    other, _ = broker.new_topic(1)
    member = Member(broker, "a", broker.new_group())
    member.join([one, other])
    answer = member.beat(owns={one_id: [0]}, subscribed_topic_names=[one])
    assert (answer.member_epoch, len(answer.assignment.topic_partitions)) == (3, 1)


def no_topic_at_all_any_more(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    member = Member(broker, "a", broker.new_group())
    member.join([topic])
    assert member.beat(subscribed_topic_names=[]).assignment.topic_partitions == []
    assert member.beat(owns={}, subscribed_topic_names=[]).member_epoch == 3
    assert member.beat(owns={}, subscribed_topic_names=[topic]).member_epoch == 4


def subscription_changes_while_the_member_revokes(broker: ConsumerGroupsRecorder) -> None:
    one, _ = broker.new_topic(2)
    other, _ = broker.new_topic(2)
    group = broker.new_group()
    first, second = Member(broker, "a", group), Member(broker, "b", group)
    first.join([one])
    second.join([one])
    rest = first.beat()
    answer = first.beat(subscribed_topic_names=[other])
    assert (answer.member_epoch, answer.assignment.topic_partitions) == (2, [])
    assert first.beat(owns=rest).member_epoch == 2
    answer = first.beat(owns={})
    assert (answer.member_epoch, len(answer.assignment.topic_partitions)) == (4, 1)
    second.beat()
    full = second.beat(rebalance_timeout_ms=1, subscribed_topic_names=[one], owns={})
    assert len(full.assignment.topic_partitions) == 1


def members_with_different_topics(broker: ConsumerGroupsRecorder) -> None:
    one, _ = broker.new_topic(2)
    other, _ = broker.new_topic(2)
    group = broker.new_group()
    first, second = Member(broker, "a", group), Member(broker, "b", group)
    first.join([one])
    assert len(second.join([other]).assignment.topic_partitions) == 1
    assert first.beat().member_epoch == 3
    assert second.beat(subscribed_topic_names=[one, other]).member_epoch == 4
    assert first.beat().member_epoch == 4


def changed_rack_and_timeout_do_not_rebalance(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    member = Member(broker, "a", broker.new_group())
    member.join([topic], rack_id="r1")
    assert member.beat(rack_id="r2").member_epoch == 2
    assert member.beat(rebalance_timeout_ms=1000).member_epoch == 2
    assert member.beat(server_assignor="range").member_epoch == 2


def empty_regular_expression_is_none(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group = broker.new_group()
    member = Member(broker, "a", group)
    assert len(member.join([topic], subscribed_topic_regex="").assignment.topic_partitions) == 1
    assert Member(broker, "b", group).join(None, subscribed_topic_regex="").error_code == 0
    assert member.beat().assignment is None


# ---- assignors ----


def range_assigns_the_first_partitions_to_the_first_member(broker: ConsumerGroupsRecorder) -> None:
    one, _ = broker.new_topic(3)
    other, _ = broker.new_topic(3)
    group = broker.new_group()
    first, second = Member(broker, "a", group), Member(broker, "b", group)
    first.join([one, other], server_assignor="range")
    second.join([one, other], server_assignor="range")
    first.beat(owns=first.beat())
    assert len(second.beat().assignment.topic_partitions) == 2


def assignor_of_the_majority_is_used(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(5)
    group = broker.new_group()
    first, second, third = (Member(broker, name, group) for name in ("a", "b", "c"))
    first.join([topic], server_assignor="uniform")
    second.join([topic], server_assignor="range")
    first.beat(owns=first.beat())
    second.beat()
    third.join([topic], server_assignor="range")
    for member in (first, second, third, first, second, third):
        answer = member.beat()
        if answer.assignment is not None:
            member.beat(owns=answer)


def assignor_in_a_tie_is_the_one_of_the_table_order(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(5)
    for names in (("uniform", "range"), ("range", "uniform")):
        group = broker.new_group()
        first, second = Member(broker, "a", group), Member(broker, "b", group)
        first.join([topic], server_assignor=names[0])
        second.join([topic], server_assignor=names[1])
        first.beat(owns=first.beat())
        second.beat()
        third = Member(broker, "c", group)
        third.join([topic])
        for member in (first, second, third, first, second, third):
            answer = member.beat()
            if answer.assignment is not None:
                member.beat(owns=answer)


def unknown_assignor_is_refused(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(1)
    member = Member(broker, "a", broker.new_group())
    assert member.join([topic], server_assignor="sticky").error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert member.join([topic], server_assignor="").error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    member.join([topic])
    assert member.beat(server_assignor="roundrobin").error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert member.beat(member_epoch=-1, server_assignor="roundrobin").error_code == ErrorCode.UNSUPPORTED_ASSIGNOR


# ---- epochs ----


def wrong_epochs_are_fenced(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    member = Member(broker, "a", broker.new_group())
    answer = member.join([topic])
    for epoch in (1, 3, 100, 2**31 - 1):
        assert member.beat(member_epoch=epoch).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert member.beat(member_epoch=epoch, owns=answer).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert member.beat(member_epoch=2).error_code == 0


def previous_epoch_is_accepted_from_a_member_without_foreign_partitions(broker: ConsumerGroupsRecorder) -> None:
    topic, topic_id = broker.new_topic(4)
    first, second = two(broker, broker.new_group(), topic)
    del second
    kept = first.beat(rebalance_timeout_ms=60_000, subscribed_topic_names=[topic], owns={}).assignment
    numbers = kept.topic_partitions[0].partitions
    foreign = next(number for number in range(4) if number not in numbers)
    assert first.beat(member_epoch=2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert first.beat(member_epoch=2, owns={topic_id: [*numbers, foreign]}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert first.beat(member_epoch=2, owns={UNKNOWN_ID: [0]}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert first.beat(member_epoch=2, owns={topic_id: numbers}).member_epoch == 3
    assert first.beat(member_epoch=2, owns={topic_id: numbers[:1]}).member_epoch == 3
    assert first.beat(member_epoch=2, owns={}).member_epoch == 3
    assert first.beat(member_epoch=1, owns={}).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def lost_response_of_the_first_join(broker: ConsumerGroupsRecorder) -> None:
    topic, topic_id = broker.new_topic(2)
    member = Member(broker, "a", broker.new_group())
    member.join([topic])
    member.join([topic])
    assert member.beat(owns={topic_id: [0, 1]}).error_code == 0


def partitions_that_were_never_assigned_do_not_matter(broker: ConsumerGroupsRecorder) -> None:
    topic, topic_id = broker.new_topic(2)
    member = Member(broker, "a", broker.new_group())
    member.join([topic])
    assert member.beat(owns={topic_id: [0, 0, 1, 17, -1], UNKNOWN_ID: [3]}).error_code == 0
    assert member.beat(owns={UNKNOWN_ID: []}).error_code == 0


# ---- leaving ----


def leaving_member_frees_its_partitions(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(4)
    group = broker.new_group()
    first, second = two(broker, group, topic)
    assert second.leave().error_code == 0
    answer = first.beat()
    assert (answer.member_epoch, len(answer.assignment.topic_partitions[0].partitions)) == (4, 4)
    assert second.leave().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert second.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert second.join([topic]).member_epoch == 5


def empty_group_goes_on_in_the_next_epoch(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(1)
    group = broker.new_group()
    member = Member(broker, "a", group)
    member.join([topic])
    member.leave()
    assert member.beat(member_epoch=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert Member(broker, "b", group).join([topic]).member_epoch == 4


def leaving_in_any_epoch_but_without_the_member(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(1)
    group = broker.new_group()
    member = Member(broker, "a", group)
    member.join([topic])
    assert Member(broker, "b", group).leave().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.leave(subscribed_topic_names=["x"], rebalance_timeout_ms=5).error_code == 0


def unknown_groups_and_members(broker: ConsumerGroupsRecorder) -> None:
    group = broker.new_group()
    stranger = Member(broker, "a", group)
    assert stranger.beat(member_epoch=1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert stranger.leave().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert stranger.beat(member_epoch=-2, instance_id="i").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    Member(broker, "b", group).join([])
    assert stranger.beat(member_epoch=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.leave().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.beat(member_epoch=-2, instance_id="i").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.beat(member_epoch=1, instance_id="i").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def requests_that_are_not_valid(broker: ConsumerGroupsRecorder) -> None:
    topic, topic_id = broker.new_topic(1)
    group = broker.new_group()
    for version in (0, 1):
        member = Member(broker, "a", group, version=version)
        assert member.join([topic], group_id="").error_code == ErrorCode.INVALID_REQUEST
        assert member.join([topic], instance_id="").error_code == ErrorCode.INVALID_REQUEST
        assert member.join([topic], rack_id="").error_code == ErrorCode.INVALID_REQUEST
        assert member.join([topic], rebalance_timeout_ms=-1).error_code == ErrorCode.INVALID_REQUEST
        assert member.join([topic], topic_partitions=None).error_code == ErrorCode.INVALID_REQUEST
        assert member.join([topic], owns={topic_id: [0]}).error_code == ErrorCode.INVALID_REQUEST
        assert member.join(None).error_code == ErrorCode.INVALID_REQUEST
        assert member.beat(member_epoch=-3).error_code == ErrorCode.INVALID_REQUEST
        assert member.beat(member_epoch=-2).error_code == ErrorCode.INVALID_REQUEST
        assert member.beat(member_epoch=-1, member_id="").error_code == ErrorCode.INVALID_REQUEST
        assert member.beat(member_epoch=3, member_id="").error_code == ErrorCode.INVALID_REQUEST
        assert member.beat(member_epoch=3, group_id="").error_code == ErrorCode.INVALID_REQUEST
    assert Member(broker, "", group).join([topic]).error_code == ErrorCode.INVALID_REQUEST


# ---- static members ----


def static_member_comes_back_under_another_id(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(4)
    group = broker.new_group()
    before, after = Member(broker, "a", group, instance_id="i"), Member(broker, "b", group, instance_id="i")
    before.join([topic])
    assert after.join([topic]).error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert before.leave(-2).member_epoch == -2
    answer = after.join([topic])
    assert (answer.member_epoch, len(answer.assignment.topic_partitions[0].partitions)) == (2, 4)
    assert before.beat(member_epoch=2).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert before.leave(-2).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert before.leave(-1).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert after.beat().error_code == 0
    assert after.beat(instance_id=None).error_code == 0


def static_member_comes_back_under_its_own_id(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    member = Member(broker, "a", broker.new_group(), instance_id="i")
    member.join([topic])
    assert member.join([topic]).error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    member.leave(-2)
    assert member.beat(member_epoch=2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert member.join([topic]).member_epoch == 2


def static_member_that_is_away_keeps_its_partitions(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(4)
    group = broker.new_group()
    static, other = Member(broker, "a", group, instance_id="i"), Member(broker, "b", group)
    static.join([topic])
    other.join([topic])
    static.leave(-2)
    assert other.beat().assignment is None
    back = Member(broker, "c", group, instance_id="i")
    answer = back.join([topic])
    assert (answer.member_epoch, len(answer.assignment.topic_partitions[0].partitions)) == (3, 2)
    assert len(other.beat().assignment.topic_partitions[0].partitions) == 2


def static_member_with_a_new_subscription(broker: ConsumerGroupsRecorder) -> None:
    one, _ = broker.new_topic(1)
    other, _ = broker.new_topic(1)
    group = broker.new_group()
    Member(broker, "a", group, instance_id="i").join([one])
    Member(broker, "a", group, instance_id="i").leave(-2)
    answer = Member(broker, "b", group, instance_id="i").join([other])
    assert (answer.member_epoch, len(answer.assignment.topic_partitions)) == (3, 1)


def static_member_leaves_for_good(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group = broker.new_group()
    static, other = Member(broker, "a", group, instance_id="i"), Member(broker, "b", group)
    static.join([topic])
    assert static.leave(-1).member_epoch == -1
    assert other.join([topic]).member_epoch == 4
    assert static.beat(member_epoch=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def member_takes_another_instance_id(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group = broker.new_group()
    member = Member(broker, "a", group)
    member.join([topic])
    assert member.beat(instance_id="i").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.join([topic], instance_id="i").error_code == 0
    assert member.join([topic], instance_id="j").error_code == 0
    assert member.beat(instance_id="i").error_code == 0
    assert member.beat(instance_id="j").error_code == 0
    assert member.leave(-2, instance_id="j").error_code == 0


def static_member_comes_back_while_another_waits_for_its_partitions(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(4)
    group = broker.new_group()
    static, other = Member(broker, "a", group, instance_id="i"), Member(broker, "b", group)
    static.join([topic])
    other.join([topic])
    static.beat()  # revokes two partitions
    static.leave(-2)
    assert other.beat().assignment is not None
    back = Member(broker, "c", group, instance_id="i")
    assert len(back.join([topic]).assignment.topic_partitions[0].partitions) == 2
    assert other.beat().error_code == 0


def static_member_leaves_twice(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    member = Member(broker, "a", broker.new_group(), instance_id="i")
    member.join([topic])
    assert [member.leave(-2).error_code for _ in range(2)] == [0, 0]
    assert member.leave(-1).error_code == 0
    assert member.leave(-1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.leave(-2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


# ---- offsets ----


def offsets_of_subscribed_topics_are_not_deleted(broker: ConsumerGroupsRecorder) -> None:
    read, _ = broker.new_topic(1)
    former, _ = broker.new_topic(1)
    group, client = broker.new_group(), broker.connect()
    member = Member(broker, "a", group)
    member.join([read])
    commit(client, group, {read: [(0, 5)], former: [(0, 6)]}, generation=2, member="a")
    assert delete(client, group, {read: [0], former: [0, 7]})[0] == 0
    member.leave()
    assert delete(client, group, {read: [0]}) == (0, [(read, [(0, 0)])])


# ---- time ----


def silent_member_is_removed_after_its_session(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(4)
    group = broker.new_group(session_ms=2000)
    first, second = two(broker, group, topic)
    broker.pause(1200)
    second.beat()
    broker.pause(1300)
    assert first.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(second.beat().assignment.topic_partitions[0].partitions) == 4


def static_member_that_stays_away_is_removed(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group = broker.new_group(session_ms=2000)
    static, other = Member(broker, "a", group, instance_id="i"), Member(broker, "b", group)
    static.join([topic])
    static.leave(-2)
    broker.pause(1000)
    assert other.join([topic]).member_epoch == 3
    broker.pause(1500)
    assert len(other.beat().assignment.topic_partitions[0].partitions) == 2


def member_that_does_not_revoke_in_time_is_removed(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(4)
    group = broker.new_group()
    first, second = Member(broker, "a", group), Member(broker, "b", group)
    first.join([topic], rebalance_timeout_ms=1500)
    second.join([topic])
    first.beat()
    broker.pause(800)
    assert first.beat().error_code == 0
    broker.pause(1200)
    assert first.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(second.beat().assignment.topic_partitions[0].partitions) == 4


def member_that_revokes_in_time_stays(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(4)
    group = broker.new_group()
    first, second = Member(broker, "a", group), Member(broker, "b", group)
    first.join([topic], rebalance_timeout_ms=1500)
    second.join([topic])
    rest = first.beat()
    broker.pause(800)
    first.beat(owns=rest)
    broker.pause(1200)
    assert first.beat().error_code == 0


def target_assignment_waits_for_the_interval(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(4)
    group = broker.new_group(assignment_ms=1500)
    first, second, third = (Member(broker, name, group) for name in ("a", "b", "c"))
    first.join([topic])
    assert second.join([topic]).member_epoch == 2
    assert third.join([topic]).member_epoch == 2
    assert first.beat().assignment is None
    broker.pause(2000)
    assert second.beat().member_epoch == 4
    rest = first.beat()
    assert first.beat(owns=rest).member_epoch == 4
    second.beat()
    third.beat()


# ---- groups of other kinds ----


def group_with_offsets_only_becomes_a_consumer_group(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(1)
    group = broker.new_group()
    member = Member(broker, "a", group)
    commit(broker.connect(), group, {topic: [(0, 5)]})
    assert member.beat(member_epoch=1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert member.leave().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert member.join([topic]).member_epoch == 2


def empty_classic_group_becomes_a_consumer_group(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(1)
    group, client = broker.new_group(), broker.connect()
    member_id, _ = form_group_of_one(client, group)
    ask(client, leave(group, member_id))
    assert Member(broker, "a", group).join([topic]).member_epoch == 2


SCENARIOS: list[Scenario] = [
    first_member_gets_all_partitions,
    member_without_topics_gets_nothing,
    topic_that_does_not_exist_is_assigned_when_it_does,
    new_partitions_are_assigned,
    deleted_topic_is_taken_away,
    second_member_waits_until_the_first_has_revoked,
    three_members_share_one_after_the_other,
    part_of_the_revoked_partitions_is_not_enough,
    third_member_joins_while_the_first_revokes,
    member_leaves_while_another_revokes_for_it,
    full_request_is_answered_with_the_assignment,
    member_joins_again_in_its_epoch,
    member_that_revokes_joins_again,
    old_version_gets_a_member_id,
    added_topic_is_assigned,
    dropped_topic_is_revoked,
    dropped_topic_that_is_revoked_already,
    no_topic_at_all_any_more,
    subscription_changes_while_the_member_revokes,
    members_with_different_topics,
    changed_rack_and_timeout_do_not_rebalance,
    empty_regular_expression_is_none,
    range_assigns_the_first_partitions_to_the_first_member,
    assignor_of_the_majority_is_used,
    assignor_in_a_tie_is_the_one_of_the_table_order,
    unknown_assignor_is_refused,
    wrong_epochs_are_fenced,
    previous_epoch_is_accepted_from_a_member_without_foreign_partitions,
    lost_response_of_the_first_join,
    partitions_that_were_never_assigned_do_not_matter,
    leaving_member_frees_its_partitions,
    empty_group_goes_on_in_the_next_epoch,
    leaving_in_any_epoch_but_without_the_member,
    unknown_groups_and_members,
    requests_that_are_not_valid,
    static_member_comes_back_under_another_id,
    static_member_comes_back_under_its_own_id,
    static_member_that_is_away_keeps_its_partitions,
    static_member_with_a_new_subscription,
    static_member_leaves_for_good,
    member_takes_another_instance_id,
    static_member_comes_back_while_another_waits_for_its_partitions,
    static_member_leaves_twice,
    offsets_of_subscribed_topics_are_not_deleted,
    silent_member_is_removed_after_its_session,
    static_member_that_stays_away_is_removed,
    member_that_does_not_revoke_in_time_is_removed,
    member_that_revokes_in_time_stays,
    target_assignment_waits_for_the_interval,
    group_with_offsets_only_becomes_a_consumer_group,
    empty_classic_group_becomes_a_consumer_group,
]
