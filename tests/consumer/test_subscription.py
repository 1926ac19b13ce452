"""The positions and states of partitions."""

import pytest

from kcli.consumer.subscription import FetchPosition, SubscriptionState
from kcli.errors import KcliError
from kcli.structs import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def reading(*partitions: TopicPartition, offset: int = 10) -> SubscriptionState:
    subscription = SubscriptionState()
    subscription.assign(partitions)
    for tp in partitions:
        subscription.seek(tp, offset)
    subscription.updated.clear()
    return subscription


def test_topics_pattern_and_partitions_exclude_each_other() -> None:
    subscription = SubscriptionState()
    subscription.subscribe(["a"])
    subscription.subscribe(["a", "b"])
    with pytest.raises(KcliError, match="cannot change the subscription from topics to"):
        subscription.subscribe_pattern("a.*")
    with pytest.raises(KcliError, match="cannot change the subscription from topics to"):
        subscription.assign([A0])
    subscription.unsubscribe()
    subscription.assign([A0])
    with pytest.raises(KcliError, match="cannot change the subscription from assigned to topics"):
        subscription.subscribe(["a"])


def test_a_malformed_pattern_is_an_error_without_effect() -> None:
    subscription = SubscriptionState()
    with pytest.raises(KcliError, match="not a valid regular expression"):
        subscription.subscribe_pattern("a(")
    subscription.assign([A0])


def test_a_new_partition_has_no_position_and_a_kept_one_keeps_its_position() -> None:
    subscription = reading(A0)
    subscription.assign([A0, A1])
    assert subscription.not_ready == {A1}
    assert subscription.state(A0).next_fetch() == FetchPosition(10)
    assert subscription.state(A1).next_fetch() is None


def test_an_unassigned_partition_is_updated() -> None:
    subscription = reading(A0, A1)
    subscription.assign([A1])
    assert A0 in subscription.updated
    assert subscription.get(A0) is None
    with pytest.raises(KcliError, match="a-0 is not assigned"):
        subscription.state(A0)


def test_the_fetch_position_is_ahead_of_the_position() -> None:
    subscription = reading(A0)
    subscription.fetched(A0, 10, FetchPosition(50, 3))
    state = subscription.state(A0)
    assert (state.position, state.fetch_position) == (FetchPosition(10), FetchPosition(50, 3))
    subscription.delivered(A0, FetchPosition(50, 3))
    assert state.position == FetchPosition(50, 3)


def test_a_response_to_an_earlier_fetch_is_ignored() -> None:
    subscription = reading(A0)
    subscription.seek(A0, 5)
    subscription.fetched(A0, 10, FetchPosition(50))
    assert subscription.state(A0).fetch_position == FetchPosition(5)


def test_a_seek_drops_received_records() -> None:
    subscription = reading(A0)
    subscription.fetched(A0, 10, FetchPosition(50))
    subscription.seek(A0, 20)
    assert subscription.state(A0).fetch_position == FetchPosition(20)


def test_rewind_sets_the_fetch_position_back() -> None:
    subscription = reading(A0)
    subscription.fetched(A0, 10, FetchPosition(50))
    subscription.rewind(A0)
    assert subscription.state(A0).next_fetch() == FetchPosition(10)


def test_a_delivery_after_the_fetch_position_advances_it() -> None:
    subscription = reading(A0)
    subscription.fetched(A0, 10, FetchPosition(50))
    subscription.pause(A0)
    subscription.resume(A0)
    subscription.delivered(A0, FetchPosition(50, 1))
    assert subscription.state(A0).next_fetch() == FetchPosition(50, 1)


def test_a_paused_partition_is_not_fetched() -> None:
    subscription = reading(A0)
    subscription.pause(A0)
    assert subscription.state(A0).next_fetch() is None
    subscription.resume(A0)
    assert subscription.state(A0).next_fetch() == FetchPosition(10)
    assert A0 in subscription.updated


def test_nothing_is_fetched_at_or_after_the_end() -> None:
    subscription = reading(A0)
    subscription.stop_at(A0, 50)
    assert subscription.state(A0).next_fetch() == FetchPosition(10)
    subscription.fetched(A0, 10, FetchPosition(50))
    assert subscription.state(A0).next_fetch() is None


def test_a_reset_is_finished_only_by_its_own_answer() -> None:
    subscription = reading(A0)
    subscription.request_reset(A0, "latest")
    assert subscription.not_ready == {A0}
    assert subscription.state(A0).next_fetch() is None
    assert not subscription.finish_reset(A0, "earliest", 0)
    assert subscription.finish_reset(A0, "latest", 99, 4)
    assert subscription.state(A0).position == FetchPosition(99, 4)
    assert not subscription.not_ready


def test_a_seek_replaces_a_reset() -> None:
    subscription = reading(A0)
    subscription.request_reset(A0, "latest")
    subscription.seek(A0, 7)
    assert not subscription.finish_reset(A0, "latest", 99)
    assert subscription.state(A0).position == FetchPosition(7)


def test_a_position_without_an_epoch_needs_no_validation() -> None:
    subscription = reading(A0)
    assert not subscription.request_validation(A0)
    assert subscription.state(A0).next_fetch() is not None


def test_a_validated_position_has_the_epoch_of_the_leader() -> None:
    subscription = reading(A0)
    subscription.seek(A0, 10, 3)
    assert subscription.not_ready == {A0}
    assert subscription.state(A0).next_fetch() is None
    assert subscription.finish_validation(A0, FetchPosition(10, 3), 2)
    assert subscription.state(A0).position == subscription.state(A0).next_fetch() == FetchPosition(10, 2)


def test_a_seek_replaces_a_validation() -> None:
    subscription = reading(A0)
    subscription.fetched(A0, 10, FetchPosition(50, 3))
    assert subscription.request_validation(A0)
    assert subscription.state(A0).next_fetch() is None
    subscription.seek(A0, 20)
    assert not subscription.finish_validation(A0, FetchPosition(50, 3), 3)
    assert subscription.state(A0).next_fetch() == FetchPosition(20)


def test_prefer_leader_returns_true_once() -> None:
    subscription = reading(A0)
    subscription.prefer_replica(A0, 2, until_ms=500)
    assert (subscription.state(A0).preferred_replica, subscription.state(A0).preferred_until_ms) == (2, 500)
    assert subscription.prefer_leader(A0)
    assert not subscription.prefer_leader(A0)


def test_unread_records_of_an_iteration_hold_the_consumed_position_back() -> None:
    subscription = reading(A0)
    subscription.seek(A0, 10)
    subscription.delivered(A0, FetchPosition(20, 3))
    subscription.unread[A0] = 15
    assert subscription.consumed_position(A0) == FetchPosition(15)
    assert subscription.state(A0).position == FetchPosition(20, 3)


def test_rewind_unread_seeks_to_the_first_unread_record() -> None:
    subscription = reading(A0)
    subscription.seek(A0, 10)
    subscription.delivered(A0, FetchPosition(20, 3))
    subscription.unread[A0] = 15
    subscription.rewind_unread()
    assert (subscription.state(A0).position, subscription.unread) == (FetchPosition(15), {})


def test_a_seek_and_an_unassignment_drop_the_unread_records() -> None:
    subscription = reading(A0, A1)
    subscription.unread.update({A0: 15, A1: 7})
    subscription.seek(A0, 3)
    assert subscription.unread == {A1: 7}
    subscription.assign([A0])
    assert subscription.unread == {}


def test_a_partition_is_at_its_end_when_all_visible_records_were_returned() -> None:
    subscription = SubscriptionState()
    subscription.assign([A0])
    state = subscription.state(A0)
    assert not state.is_at_end(read_committed=False)
    subscription.seek(A0, 5)
    assert not state.is_at_end(read_committed=False)  # no response yet
    state.high_watermark, state.last_stable_offset = 7, 5
    assert state.is_at_end(read_committed=True)
    assert not state.is_at_end(read_committed=False)
    subscription.delivered(A0, FetchPosition(7))
    assert state.is_at_end(read_committed=False)
