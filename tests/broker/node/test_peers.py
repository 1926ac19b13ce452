"""Connections to peers over a selector in memory, answered by hand."""

from __future__ import annotations

import socket
from typing import Any

from kcli.broker.node.peers import NetworkPeers, PeerError
from kcli.broker.serving.timer import Timer
from kcli.clock import ManualClock
from kcli.error_codes import ErrorCode
from kcli.network.transport import SocketAddress
from kcli.protocol.codec import decode
from kcli.protocol.headers import decode_request_header, encode_response
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kcli.protocol.messages.describe_cluster import DescribeClusterRequest
from kcli.protocol.registry import request_type
from tests.broker.node.images import broker_record, image_of
from tests.network.memory import MemoryPeer, MemorySelector


def address(host: str, port: int) -> list[SocketAddress]:
    return [(int(socket.AF_INET), (host, port))]


class Scene:
    """The peers of node 2; `serve` answers heartbeats with the broker id as throttle time."""

    def __init__(self, *bootstrap: tuple[str, int]) -> None:
        self.clock = ManualClock()
        self.timer = Timer()
        self.selector = MemorySelector(self.clock)
        self.selector.respond = self._respond
        self.answers_versions = True
        self.answers = True
        self.heartbeat_versions = (0, 1)
        self.requests: list[tuple[str, int, int]] = []
        self.outcomes: list[Any] = []
        self.peers = NetworkPeers(
            self.selector,
            self.timer,
            self.clock,
            node_id=2,
            listener="PLAINTEXT",
            bootstrap=bootstrap or (("c", 1),),
            resolve=address,
        )

    def _respond(self, peer: MemoryPeer, frame: bytes) -> None:
        header, at = decode_request_header(frame)
        self.requests.append((peer.address, header.api_key, header.api_version))
        response: Any
        version = header.api_version
        if header.api_key == 18:
            first, last = self.heartbeat_versions
            response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=63, min_version=first, max_version=last)])
            if not self.answers_versions:
                response.error_code, version = ErrorCode.UNSUPPORTED_VERSION, 0
                response.api_keys = [ApiVersion(api_key=18, min_version=0, max_version=2)]
                self.answers_versions = True
        elif self.answers:
            request: Any = decode(request_type(header.api_key), frame, version, at)
            response = BrokerHeartbeatResponse(throttle_time_ms=request.broker_id)
        else:
            return
        peer.deliver(encode_response(response, version, header.correlation_id))

    def beat(self, peer: Any, broker_id: int = 0, timeout_ms: float = 30_000) -> None:
        peer.send(BrokerHeartbeatRequest(broker_id=broker_id), self.outcomes.append, timeout_ms=timeout_ms)

    def run(self, ms: float = 5) -> None:
        """Poll for some time, as the broker's loop does."""
        until_ms = self.clock.now_ms() + ms
        while True:
            now_ms = self.clock.now_ms()
            self.timer.advance(now_ms)
            if now_ms >= until_ms:
                return
            due_ms = min(self.timer.next_deadline_ms(), until_ms)
            self.selector.poll(max(0.0, due_ms - now_ms))
            self.peers.dispatch(self.selector)


def test_requests_share_one_connection_and_go_out_one_by_one_in_the_newest_common_version() -> None:
    scene = Scene()
    peer = scene.peers.controller("test")
    for number in (7, 8):
        scene.beat(peer, number)
    assert not scene.outcomes
    scene.run()
    assert [outcome.throttle_time_ms for outcome in scene.outcomes] == [7, 8]
    assert scene.requests == [("c:1", 18, 3), ("c:1", 63, 1), ("c:1", 63, 1)]


def test_an_older_peer_is_asked_for_its_versions_again() -> None:
    scene = Scene()
    scene.answers_versions = False
    scene.beat(scene.peers.controller("test"), 7)
    scene.run()
    assert scene.outcomes[0].throttle_time_ms == 7
    assert scene.requests[:2] == [("c:1", 18, 3), ("c:1", 18, 2)]


def test_an_api_that_is_not_served_is_an_error_and_the_connection_stays() -> None:
    scene = Scene()
    peer = scene.peers.controller("test")
    peer.send(DescribeClusterRequest(), scene.outcomes.append)
    scene.beat(peer, 7)
    scene.run()
    errors = [outcome for outcome in scene.outcomes if isinstance(outcome, PeerError)]
    assert [str(error) for error in errors] == ["the peer does not serve DescribeCluster"]
    assert len(scene.outcomes) == 2
    assert len(scene.selector.peers) == 1


def test_a_refused_connection_is_an_error_and_tried_again_after_a_pause() -> None:
    scene = Scene()
    scene.selector.refuse("c:1")
    peer = scene.peers.controller("test")
    scene.beat(peer)
    scene.run()
    assert "connection refused by c:1" in str(scene.outcomes.pop())
    scene.selector.listen("c:1")
    scene.beat(peer, 7)
    scene.run(10)
    assert not scene.outcomes
    scene.run(100)
    assert scene.outcomes[0].throttle_time_ms == 7


def test_a_lost_connection_fails_its_requests_and_the_next_one_connects_again() -> None:
    scene = Scene()
    scene.answers = False
    peer = scene.peers.controller("test")
    scene.beat(peer)
    scene.run()
    scene.selector.peers[0].hang_up()
    scene.run()
    assert isinstance(scene.outcomes.pop(), PeerError)
    scene.answers = True
    scene.beat(peer, 7)
    scene.run(100)
    assert scene.outcomes[0].throttle_time_ms == 7
    assert len(scene.selector.peers) == 2


def test_a_request_without_answer_times_out_and_the_requests_behind_it_are_sent_on_a_new_connection() -> None:
    scene = Scene()
    scene.answers = False
    peer = scene.peers.controller("test")
    scene.beat(peer, 1, timeout_ms=50)
    scene.beat(peer, 2)
    scene.run(20)
    scene.answers = True
    scene.run(100)
    assert str(scene.outcomes[0]) == "the controller did not answer BrokerHeartbeat in time"
    assert scene.outcomes[1].throttle_time_ms == 2
    assert len(scene.selector.peers) == 2


def test_the_next_bootstrap_server_is_asked_when_one_is_gone_until_the_controller_is_known() -> None:
    scene = Scene(("c", 1), ("d", 2))
    scene.selector.refuse("c:1")
    peer = scene.peers.controller("test")
    scene.beat(peer)
    scene.run()
    assert isinstance(scene.outcomes.pop(), PeerError)
    assert scene.peers.controller_address == ("d", 2)
    scene.beat(peer, 7)
    scene.run(100)
    assert scene.outcomes.pop().throttle_time_ms == 7
    scene.peers.set_controller(("e", 3))
    scene.beat(peer, 8)
    scene.run()
    assert scene.requests[-1][0] == "e:3"


def test_the_connection_to_a_broker_is_closed_when_it_registers_again() -> None:
    """Trap: the old connection leads to a process that has ended, and the first request on it would be lost."""
    scene = Scene()
    scene.peers.update(image_of(broker_record(3, port=9093)))
    peer = scene.peers.to(3, "fetch")
    scene.beat(peer, 7)
    scene.run()
    assert scene.requests[-1][0] == "127.0.0.1:9093"
    again = broker_record(3, port=9099)
    again.broker_epoch = 500
    scene.peers.update(image_of(again))
    assert scene.selector.peers[0].closed
    scene.beat(peer, 8)
    scene.run()
    assert scene.requests[-1][0] == "127.0.0.1:9099"
    assert [outcome.throttle_time_ms for outcome in scene.outcomes] == [7, 8]


def test_a_broker_that_is_not_registered_has_no_address() -> None:
    scene = Scene()
    scene.beat(scene.peers.to(9, "fetch"))
    scene.run()
    assert str(scene.outcomes[0]) == "no answer from node 9: its address is not known yet"
