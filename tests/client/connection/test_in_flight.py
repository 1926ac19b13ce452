"""Requests in flight and unsent requests, by node."""

from typing import Any

from kcli.client.connection.in_flight import InFlight, InFlightRequests, Unsent, UnsentRequests
from kcli.client.request_future import RequestFuture
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.structs import Node


def entry(node_id: int, correlation_id: int, deadline_ms: float = 1_000, **more: Any) -> InFlight:
    future: RequestFuture[Any] = RequestFuture()
    return InFlight(node_id, correlation_id, 13, MetadataRequest(), future, 0, deadline_ms, **more)


def test_the_next_request_waits_until_the_last_one_is_written() -> None:
    queue = InFlightRequests(max_per_node=2)
    queue.add(entry(1, 1))
    assert not queue.can_send(1)
    assert queue.can_send(2)
    queue.written(1)
    assert queue.can_send(1)
    queue.add(entry(1, 2))
    queue.written(1)
    assert not queue.can_send(1)
    assert queue.count(1) == queue.count() == 2


def test_responses_belong_to_the_oldest_request() -> None:
    queue = InFlightRequests(5)
    first, second = entry(1, 1), entry(1, 2)
    queue.add(first)
    queue.add(second)
    assert queue.oldest(1) is first
    assert queue.take_oldest(1) is first
    assert queue.oldest(1) is second
    assert queue.oldest(9) is None


def test_a_request_without_response_ends_when_it_is_written() -> None:
    queue = InFlightRequests(5)
    queue.add(entry(1, 1))
    assert queue.written(1) is None
    silent = entry(1, 2, expects_response=False)
    queue.add(silent)
    assert queue.written(1) is silent
    assert queue.count(1) == 1


def test_one_overdue_request_per_node_is_returned_and_all_can_be_taken() -> None:
    queue = InFlightRequests(5)
    for each in (entry(1, 1, 500), entry(1, 2, 100), entry(1, 3, 100), entry(2, 4, 900)):
        queue.add(each)
    assert queue.next_deadline_ms() == 100
    assert [e.correlation_id for e in queue.overdue(100)] == [2]
    entries, unwritten = queue.take_all(1)
    assert [e.correlation_id for e in entries] == [1, 2, 3]
    assert unwritten is entries[2]
    assert queue.can_send(1)
    assert queue.overdue(899) == []


def test_requests_move_with_an_adopted_connection() -> None:
    queue = InFlightRequests(5)
    queue.add(entry(-1, 1))
    queue.adopt(-1, 7)
    assert not queue.can_send(7)
    queue.written(7)
    assert queue.take_oldest(7).node_id == 7
    assert queue.count() == 0
    assert entry(1, 1).api == "Metadata"


A, B = Node(1, "a", 9092), Node(2, "b", 9092)


def two_nodes_with_unsent_requests() -> UnsentRequests:
    unsent = UnsentRequests()
    for node, deadline_ms in ((A, 300), (B, 100), (A, 200)):
        unsent.put(Unsent(node, ListGroupsRequest(), RequestFuture(), deadline_ms))
    return unsent


def test_unsent_requests_are_counted_at_once_and_queued_by_node_when_sorted_in() -> None:
    unsent = two_nodes_with_unsent_requests()
    assert (unsent.count(), unsent.count(1), unsent.nodes()) == (3, 2, [])
    unsent.sort_in()
    assert (unsent.count(), unsent.count(1), unsent.nodes()) == (3, 2, [A, B])
    assert unsent.next_deadline_ms() == 100


def test_unsent_requests_leave_in_the_order_of_their_arrival() -> None:
    unsent = two_nodes_with_unsent_requests()
    unsent.sort_in()
    taken = [unsent.take_oldest(1), unsent.take_oldest(1), unsent.take_oldest(1)]
    assert [entry and entry.deadline_ms for entry in taken] == [300, 200, None]
    assert unsent.nodes() == [B]


def test_only_expired_unsent_requests_are_taken() -> None:
    unsent = two_nodes_with_unsent_requests()
    unsent.sort_in()
    assert sorted(entry.deadline_ms for entry in unsent.take_expired(200)) == [100, 200]
    assert unsent.nodes() == [A]
    assert [entry.deadline_ms for entry in unsent.take_all(1)] == [300]
    assert unsent.next_deadline_ms() == float("inf")
