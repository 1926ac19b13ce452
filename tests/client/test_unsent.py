"""Requests that wait for a connection, by node."""

from kcli.client.request_future import RequestFuture
from kcli.client.unsent import Unsent, UnsentRequests
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.structs import Node

A, B = Node(1, "a", 9092), Node(2, "b", 9092)


def filled() -> UnsentRequests:
    unsent = UnsentRequests()
    for node, deadline_ms in ((A, 300), (B, 100), (A, 200)):
        unsent.put(Unsent(node, ListGroupsRequest(), RequestFuture(), deadline_ms))
    return unsent


def test_what_was_put_is_counted_at_once_and_queued_by_node_when_sorted_in() -> None:
    unsent = filled()
    assert (unsent.count(), unsent.count(1), unsent.nodes()) == (3, 2, [])
    unsent.sort_in()
    assert (unsent.count(), unsent.count(1), unsent.nodes()) == (3, 2, [A, B])
    assert unsent.next_deadline_ms() == 100


def test_it_comes_out_in_the_order_in_which_it_came() -> None:
    unsent = filled()
    unsent.sort_in()
    taken = [unsent.take_oldest(1), unsent.take_oldest(1), unsent.take_oldest(1)]
    assert [entry and entry.deadline_ms for entry in taken] == [300, 200, None]
    assert unsent.nodes() == [B]


def test_the_expired_leave_and_the_others_stay() -> None:
    unsent = filled()
    unsent.sort_in()
    assert sorted(entry.deadline_ms for entry in unsent.take_expired(200)) == [100, 200]
    assert unsent.nodes() == [A]
    assert [entry.deadline_ms for entry in unsent.take_all(1)] == [300]
    assert unsent.next_deadline_ms() == float("inf")
