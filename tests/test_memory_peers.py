"""The network in memory that stories of clusters use."""

from __future__ import annotations

from typing import Any

from kcli.broker.node.peers import PeerError
from kcli.broker.serving.pending import Pending
from kcli.clock import ManualClock
from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tests.broker.cluster.memory_peers import MemoryNetwork


def test_requests_are_answered_in_order_and_only_by_run() -> None:
    network = MemoryNetwork(ManualClock(), controller=0)
    network.serve(0, lambda request, sender: BrokerHeartbeatResponse(throttle_time_ms=request.broker_id + sender))
    answers: list[Any] = []
    for number in (10, 20):
        network.peers(2).controller("test").send(BrokerHeartbeatRequest(broker_id=number), answers.append)
    assert not answers
    network.run()
    assert [answer.throttle_time_ms for answer in answers] == [12, 22]


def test_a_cut_fails_requests_and_a_pause_lets_them_wait() -> None:
    clock = ManualClock()
    network = MemoryNetwork(clock)
    waiting: Pending[Any] = Pending()
    network.serve(1, lambda request, sender: waiting)
    answers: list[Any] = []
    peer = network.peers(2).to(1, "test")
    network.cut(1, 2)
    peer.send(BrokerHeartbeatRequest(), answers.append)
    network.run()
    assert isinstance(answers.pop(), PeerError)
    network.heal(1, 2)
    peer.send(BrokerHeartbeatRequest(), answers.append, timeout_ms=1000)
    network.run()
    network.pause(1)
    waiting.complete(BrokerHeartbeatResponse())
    network.run()
    assert not answers
    network.resume(1)
    network.run()
    assert isinstance(answers.pop(), BrokerHeartbeatResponse)
    network.pause(1)
    peer.send(BrokerHeartbeatRequest(), answers.append, timeout_ms=1000)
    network.advance(1000)
    assert isinstance(answers.pop(), PeerError)
