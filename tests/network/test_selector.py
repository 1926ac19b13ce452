"""The behavior of every selector, tested over sockets and in memory."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.network.worlds import MemoryWorld, SocketWorld, World


@pytest.fixture(params=[SocketWorld, MemoryWorld], ids=["sockets", "memory"])
def make_world(request: pytest.FixtureRequest) -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def make(**options: Any) -> World:
        worlds.append(request.param(**options))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()


def test_connecting_is_reported_once(world: World) -> None:
    world.connect("1")
    assert world.selector.is_connected("1")
    world.poll()
    assert world.connected == ["1"]
    assert world.disconnected == {}


def test_a_refused_connection_is_reported_with_its_reason_and_the_id_is_free_again(world: World) -> None:
    world.selector.connect("1", world.closed_address)
    world.poll_until(lambda: "1" in world.disconnected)
    assert world.disconnected["1"].startswith("connection refused by ")
    assert world.connected == []
    assert not world.selector.is_connected("1")
    world.connect("1")
    assert world.selector.is_connected("1")


def test_the_same_id_cannot_be_connected_twice(world: World) -> None:
    world.connect("1")
    with pytest.raises(ValueError, match="already a connection 1"):
        world.selector.connect("1", world.address)


def test_a_frame_is_sent_with_its_length_and_received_without(world: World) -> None:
    peer = world.connect("1")
    world.selector.send("1", [b"head", b"", memoryview(b"body")])
    world.poll_until(lambda: world.sends)
    assert peer.take_frame() == b"headbody"
    peer.deliver(b"answer")
    world.poll_until(lambda: world.receives)
    assert world.receives == [("1", b"answer")]
    assert world.sends == ["1"]


def test_results_are_those_of_the_last_poll_only(world: World) -> None:
    peer = world.connect("1")
    peer.deliver(b"answer")
    world.poll_until(lambda: world.receives)
    kept = world.selector.completed_receives
    world.poll()
    assert world.selector.completed_receives == []
    assert kept == [("1", b"answer")]


def test_sending_before_the_connection_is_ready_is_a_value_error(world: World) -> None:
    with pytest.raises(ValueError, match="not ready"):
        world.selector.send("1", [b"x"])
    world.selector.connect("1", world.address)
    with pytest.raises(ValueError, match="not ready"):
        world.selector.send("1", [b"x"])


def test_a_second_frame_before_the_first_is_written_is_a_value_error(world: World) -> None:
    world.connect("1")
    world.selector.send("1", [b"first"])
    with pytest.raises(ValueError, match="still being sent"):
        world.selector.send("1", [b"second"])
    world.poll_until(lambda: world.sends)
    world.selector.send("1", [b"second"])


def test_a_busy_peer_gets_one_receive_per_poll(world: World) -> None:
    peer, other = world.connect("busy"), world.connect("other")
    peer.deliver(b"1", b"2", b"3")
    other.deliver(b"mine")
    world.poll_until(lambda: len(world.receives) >= 1)
    for _ in range(10):
        world.poll()
        ids = [id for id, _ in world.selector.completed_receives]
        assert len(ids) == len(set(ids))
    assert [frame for id, frame in world.receives if id == "busy"] == [b"1", b"2", b"3"]
    assert ("other", b"mine") in world.receives[:2]


def test_a_frame_arrives_byte_by_byte(world: World) -> None:
    peer = world.connect("1")
    for byte in struct.pack(">i", 3) + b"abc":
        assert world.receives == []
        peer.deliver_bytes(bytes([byte]))
        world.poll()
    world.poll_until(lambda: world.receives)
    assert world.receives == [("1", b"abc")]


def test_a_muted_connection_is_not_read_until_unmuted(world: World) -> None:
    peer, other = world.connect("quiet"), world.connect("other")
    world.selector.mute("quiet")
    peer.deliver(b"later")
    other.deliver(b"now")
    world.poll_until(lambda: world.receives)
    world.poll()
    world.poll()
    assert world.receives == [("other", b"now")]
    world.selector.unmute("quiet")
    world.poll_until(lambda: len(world.receives) == 2)
    assert world.receives[1] == ("quiet", b"later")


def test_a_muted_connection_can_still_be_written_to(world: World) -> None:
    peer = world.connect("1")
    world.selector.mute("1")
    world.selector.send("1", [b"x"])
    world.poll_until(lambda: world.sends)
    assert peer.take_frame() == b"x"


def test_an_orderly_close_and_a_reset_have_different_reasons(world: World) -> None:
    ended, broken = world.connect("ended"), world.connect("broken")
    ended.hang_up()
    broken.reset()
    world.poll_until(lambda: len(world.disconnected) == 2)
    assert world.disconnected["ended"].startswith("closed by ")
    assert world.disconnected["broken"].startswith("connection reset by ")
    assert world.failed == []


def test_a_frame_sent_just_before_the_close_is_received(world: World) -> None:
    peer = world.connect("1")
    peer.deliver(b"first", b"last words")
    peer.hang_up()
    world.poll_until(lambda: world.disconnected)
    assert world.receives == [("1", b"first"), ("1", b"last words")]


def test_a_close_within_a_frame_reports_the_bytes_read(world: World) -> None:
    peer = world.connect("1")
    peer.deliver_bytes(struct.pack(">i", 400) + bytes(12))
    peer.hang_up()
    world.poll_until(lambda: world.disconnected)
    assert world.disconnected["1"].endswith(" in the middle of a frame, 12 of 400 bytes read")


@pytest.mark.parametrize("length", [-1, -0x80000000, 0, 1001, 0x7FFFFFFF])
def test_an_invalid_length_closes_only_that_connection(make_world: Callable[..., World], length: int) -> None:
    world = make_world(max_frame_bytes=1000)
    evil, good = world.connect("evil"), world.connect("good")
    evil.deliver_bytes(struct.pack(">i", length) + b"and some")
    good.deliver(bytes(1000))
    world.poll_until(lambda: world.disconnected and world.receives)
    assert f"length of {length} " in world.disconnected["evil"]
    assert evil.is_hung_up()
    assert world.receives == [("good", bytes(1000))]


@pytest.mark.parametrize(("data", "hint"), [(b"HTTP/1.1 400", "bytes are HTTP"), (b"\x15\x03\x01\x00\x02", "TLS")])
def test_a_peer_of_another_protocol_is_recognised(world: World, data: bytes, hint: str) -> None:
    world.connect("1").deliver_bytes(data)
    world.poll_until(lambda: world.disconnected)
    assert hint in world.disconnected["1"]


def test_close_is_not_reported_and_reaches_the_other_side(world: World) -> None:
    peer = world.connect("1")
    world.selector.close("1")
    world.selector.close("1")
    world.poll()
    assert peer.is_hung_up()
    assert world.disconnected == {}
    assert world.selector.channel("1") is None


def test_wakeup_before_a_poll_makes_it_return(world: World) -> None:
    world.selector.wakeup()
    world.selector.wakeup()
    world.poll(timeout_ms=float("inf"))
    assert world.receives == []


def test_the_longest_idle_connections_are_closed_first(make_world: Callable[..., World]) -> None:
    world = make_world(idle_ms=1000)
    peers = {id: world.connect(id) for id in ("a", "b", "c")}
    world.let_pass(600)
    peers["a"].deliver(b"still here")
    world.poll_until(lambda: world.receives)
    world.let_pass(400)
    world.poll(timeout_ms=0)
    assert list(world.disconnected) == ["b", "c"]
    assert world.disconnected["b"].endswith("closed after 1 s without traffic")
    assert peers["b"].is_hung_up()
    world.let_pass(600)
    world.poll(timeout_ms=0)
    assert list(world.disconnected) == ["b", "c", "a"]


def test_sending_counts_as_traffic(make_world: Callable[..., World]) -> None:
    world = make_world(idle_ms=1000)
    world.connect("1")
    world.let_pass(999)
    world.selector.send("1", [b"x"])
    world.poll_until(lambda: world.sends)
    world.let_pass(999)
    world.poll(timeout_ms=0)
    assert world.disconnected == {}


def test_a_negative_idle_limit_keeps_idle_connections(make_world: Callable[..., World]) -> None:
    world = make_world(idle_ms=-1)
    world.connect("1")
    world.let_pass(1e12)
    world.poll(timeout_ms=0)
    assert world.disconnected == {}


def test_frames_in_use_beyond_the_memory_bound_stop_reading_until_they_are_freed(
    make_world: Callable[..., World],
) -> None:
    world = make_world(memory_limit_bytes=100)
    first, second = world.connect("first"), world.connect("second")
    first.deliver(b"a" * 100, b"b")
    world.poll_until(lambda: world.selector.completed_receives)
    frame = world.selector.completed_receives[0][1]
    view = memoryview(frame)[10:20]
    del frame
    second.deliver(b"c" * 60)
    for _ in range(5):
        world.poll()
    assert len(world.receives) == 1
    assert "waiting for memory" in repr(world.selector)
    assert "waiting-for-memory" in repr(world.selector.channel("second"))
    del view
    world.poll_until(lambda: len(world.receives) == 3)
    assert {id for id, _ in world.receives[1:]} == {"first", "second"}


def test_a_frame_larger_than_the_memory_bound_is_received(make_world: Callable[..., World]) -> None:
    world = make_world(memory_limit_bytes=10)
    world.connect("1").deliver(bytes(1000))
    world.poll_until(lambda: world.receives)
    assert world.receives == [("1", bytes(1000))]


def test_a_frame_of_a_lost_connection_releases_its_memory(make_world: Callable[..., World]) -> None:
    world = make_world(memory_limit_bytes=100)
    cut, whole = world.connect("cut"), world.connect("whole")
    cut.deliver_bytes(struct.pack(">i", 100) + bytes(50))
    for _ in range(3):
        world.poll()
    whole.deliver(b"x")
    for _ in range(3):
        world.poll()
    assert world.receives == []
    cut.hang_up()
    world.poll_until(lambda: world.receives)
    assert world.receives == [("whole", b"x")]


def test_two_hundred_connections_each_receive_their_own_response(world: World) -> None:
    peers = {str(n): world.connect(str(n)) for n in range(200)}
    for id in peers:
        world.selector.send(id, [f"request {id}".encode()])
    world.poll_until(lambda: len(world.sends) == 200)
    for id, peer in peers.items():
        assert peer.take_frame() == f"request {id}".encode()
        peer.deliver(f"answer {id}".encode())
    world.poll_until(lambda: len(world.receives) == 200)
    assert dict(world.receives) == {id: f"answer {id}".encode() for id in peers}
