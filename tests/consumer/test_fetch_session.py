"""Fetch sessions (KIP-227): the contents of the next request after each response."""

import uuid

from kcli.consumer.fetch_session import FetchSession, PartitionFetch, SessionRequest
from kcli.error_codes import ErrorCode
from kcli.structs import TopicPartition

ID_A, ID_B = uuid.UUID(int=1), uuid.UUID(int=2)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def ask(offset: int, topic_id: uuid.UUID | None = ID_A) -> PartitionFetch:
    return PartitionFetch(offset, topic_id=topic_id)


def established(*partitions: TopicPartition) -> FetchSession:
    session = FetchSession()
    for tp in partitions:
        session.put(tp, ask(0))
    session.build()
    session.succeeded(ErrorCode.NONE, 77)
    return session


def test_the_first_request_has_all_partitions_and_opens_a_session() -> None:
    session = FetchSession()
    session.put(A0, ask(5))
    session.put(A1, ask(6))
    assert session.build() == SessionRequest(0, 0, [(A0, ask(5)), (A1, ask(6))], [], True)


def test_later_requests_have_changes_only() -> None:
    session = established(A0, A1)
    session.put(A1, ask(10))
    assert session.build() == SessionRequest(77, 1, [(A1, ask(10))], [], True)
    session.succeeded(ErrorCode.NONE, 77)
    assert session.build() == SessionRequest(77, 2, [], [], True)


def test_an_unchanged_fetch_is_not_sent_again() -> None:
    session = established(A0)
    session.put(A0, ask(0))
    assert session.build().fetches == []


def test_a_removed_partition_is_forgotten_once() -> None:
    session = established(A0, A1)
    session.remove(A0)
    assert session.build() == SessionRequest(77, 1, [], [(A0, ID_A)], True)
    session.succeeded(ErrorCode.NONE, 77)
    assert session.build().forgotten == []


def test_a_partition_added_and_removed_between_two_requests_is_not_sent() -> None:
    session = established(A0)
    session.put(B0, ask(0, ID_B))
    session.remove(B0)
    assert session.build() == SessionRequest(77, 1, [], [], True)


def test_a_recreated_topic_is_forgotten_by_its_old_id_and_fetched_by_the_new_one() -> None:
    session = established(A0)
    session.put(A0, ask(0, ID_B))
    assert session.build() == SessionRequest(77, 1, [(A0, ask(0, ID_B))], [(A0, ID_A)], True)


def test_without_a_session_each_request_has_all_partitions() -> None:
    session = FetchSession()
    session.put(A0, ask(0))
    session.build()
    session.succeeded(ErrorCode.NONE, 0)
    session.put(A0, ask(9))
    assert session.build() == SessionRequest(0, 0, [(A0, ask(9))], [], True)


def test_an_evicted_session_is_opened_again() -> None:
    session = established(A0, A1)
    session.build()
    session.succeeded(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert session.build() == SessionRequest(0, 0, [(A0, ask(0)), (A1, ask(0))], [], True)


def test_a_wrong_epoch_closes_the_session_and_opens_another() -> None:
    session = established(A0)
    session.build()
    session.succeeded(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    assert session.build() == SessionRequest(77, 0, [(A0, ask(0))], [], True)


def test_a_topic_id_error_closes_the_session() -> None:
    session = established(A0)
    session.build()
    session.succeeded(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 0)
    assert session.build()[:2] == (77, 0)


def test_a_lost_request_closes_the_session() -> None:
    session = established(A0, A1)
    session.put(A1, ask(10))
    session.build()
    session.failed()
    assert session.build() == SessionRequest(77, 0, [(A0, ask(0)), (A1, ask(10))], [], True)


def test_a_topic_without_an_id_changes_the_session_to_names() -> None:
    session = established(A0)
    session.put(B0, ask(0, None))
    assert session.build() == SessionRequest(77, 0, [(A0, ask(0)), (B0, ask(0, None))], [], False)
    session.succeeded(ErrorCode.NONE, 78)
    session.put(B0, ask(0, ID_B))
    assert session.build() == SessionRequest(78, 0, [(A0, ask(0)), (B0, ask(0, ID_B))], [], True)


def test_changed_partitions_move_to_the_end_of_the_request() -> None:
    session = FetchSession()
    session.put(A0, ask(0))
    session.put(A1, ask(0))
    session.put(A0, ask(50))
    assert list(session.partitions()) == [A1, A0]


def test_the_epoch_wraps_after_the_largest_number() -> None:
    session = established(A0)
    session.epoch = 2**31 - 1
    session.succeeded(ErrorCode.NONE, 77)
    assert session.epoch == 1


def test_topic_names_are_known_for_requested_ids() -> None:
    session = established(A0)
    assert session.name_of(ID_A) == "a"
    assert session.name_of(ID_B) is None
