"""The behavior of every selector, tested over sockets and in memory."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kcli.network.selector import IdleTimes
from tests.network.harness import Harness, MemoryHarness, SocketHarness


@pytest.fixture(params=[SocketHarness, MemoryHarness], ids=["sockets", "memory"])
def make_harness(request: pytest.FixtureRequest) -> Iterator[Callable[..., Harness]]:
    harnesses: list[Harness] = []

    def make(**options: Any) -> Harness:
        harnesses.append(request.param(**options))
        return harnesses[-1]

    yield make
    for harness in harnesses:
        harness.close()


@pytest.fixture
def harness(make_harness: Callable[..., Harness]) -> Harness:
    return make_harness()


def test_connecting_is_reported_once(harness: Harness) -> None:
    harness.connect("1")
    assert harness.selector.is_connected("1")
    harness.poll()
    assert harness.connected == ["1"]
    assert harness.disconnected == {}


def test_a_refused_connection_is_reported_with_its_reason_and_the_id_is_free_again(harness: Harness) -> None:
    harness.selector.connect("1", harness.closed_address)
    harness.poll_until(lambda: "1" in harness.disconnected)
    assert harness.disconnected["1"].startswith("connection refused by ")
    assert harness.connected == []
    assert not harness.selector.is_connected("1")
    harness.connect("1")
    assert harness.selector.is_connected("1")


def test_the_same_id_cannot_be_connected_twice(harness: Harness) -> None:
    harness.connect("1")
    with pytest.raises(ValueError, match="already a connection 1"):
        harness.selector.connect("1", harness.address)


def test_a_frame_is_sent_with_its_length_and_received_without(harness: Harness) -> None:
    peer = harness.connect("1")
    harness.selector.send("1", [b"head", b"", memoryview(b"body")])
    harness.poll_until(lambda: harness.sends)
    assert peer.take_frame() == b"headbody"
    peer.deliver(b"answer")
    harness.poll_until(lambda: harness.receives)
    assert harness.receives == [("1", b"answer")]
    assert harness.sends == ["1"]


def test_results_are_those_of_the_last_poll_only(harness: Harness) -> None:
    peer = harness.connect("1")
    peer.deliver(b"answer")
    harness.poll_until(lambda: harness.receives)
    kept = harness.selector.completed_receives
    harness.poll()
    assert harness.selector.completed_receives == []
    assert kept == [("1", b"answer")]


def test_sending_before_the_connection_is_ready_is_a_value_error(harness: Harness) -> None:
    with pytest.raises(ValueError, match="not ready"):
        harness.selector.send("1", [b"x"])
    harness.selector.connect("1", harness.address)
    with pytest.raises(ValueError, match="not ready"):
        harness.selector.send("1", [b"x"])


def test_a_second_frame_before_the_first_is_written_is_a_value_error(harness: Harness) -> None:
    harness.connect("1")
    harness.selector.send("1", [b"first"])
    with pytest.raises(ValueError, match="still being sent"):
        harness.selector.send("1", [b"second"])
    harness.poll_until(lambda: harness.sends)
    harness.selector.send("1", [b"second"])


def test_a_busy_peer_gets_one_receive_per_poll(harness: Harness) -> None:
    peer, other = harness.connect("busy"), harness.connect("other")
    peer.deliver(b"1", b"2", b"3")
    other.deliver(b"mine")
    harness.poll_until(lambda: len(harness.receives) >= 1)
    for _ in range(10):
        harness.poll()
        ids = [id for id, _ in harness.selector.completed_receives]
        assert len(ids) == len(set(ids))
    assert [frame for id, frame in harness.receives if id == "busy"] == [b"1", b"2", b"3"]
    assert ("other", b"mine") in harness.receives[:2]


def test_a_frame_arrives_byte_by_byte(harness: Harness) -> None:
    peer = harness.connect("1")
    for byte in struct.pack(">i", 3) + b"abc":
        assert harness.receives == []
        peer.deliver_bytes(bytes([byte]))
        harness.poll()
    harness.poll_until(lambda: harness.receives)
    assert harness.receives == [("1", b"abc")]


def test_a_muted_connection_is_not_read_until_unmuted(harness: Harness) -> None:
    peer, other = harness.connect("quiet"), harness.connect("other")
    harness.selector.mute("quiet")
    peer.deliver(b"later")
    other.deliver(b"now")
    harness.poll_until(lambda: harness.receives)
    harness.poll()
    harness.poll()
    assert harness.receives == [("other", b"now")]
    harness.selector.unmute("quiet")
    harness.poll_until(lambda: len(harness.receives) == 2)
    assert harness.receives[1] == ("quiet", b"later")


def test_a_muted_connection_can_still_be_written_to(harness: Harness) -> None:
    peer = harness.connect("1")
    harness.selector.mute("1")
    harness.selector.send("1", [b"x"])
    harness.poll_until(lambda: harness.sends)
    assert peer.take_frame() == b"x"


def test_an_orderly_close_and_a_reset_have_different_reasons(harness: Harness) -> None:
    ended, broken = harness.connect("ended"), harness.connect("broken")
    ended.hang_up()
    broken.reset()
    harness.poll_until(lambda: len(harness.disconnected) == 2)
    assert harness.disconnected["ended"].startswith("closed by ")
    assert harness.disconnected["broken"].startswith("connection reset by ")
    assert harness.failed == []


def test_a_frame_sent_just_before_the_close_is_received(harness: Harness) -> None:
    peer = harness.connect("1")
    peer.deliver(b"first", b"last words")
    peer.hang_up()
    harness.poll_until(lambda: harness.disconnected)
    assert harness.receives == [("1", b"first"), ("1", b"last words")]


def test_a_close_within_a_frame_reports_the_bytes_read(harness: Harness) -> None:
    peer = harness.connect("1")
    peer.deliver_bytes(struct.pack(">i", 400) + bytes(12))
    peer.hang_up()
    harness.poll_until(lambda: harness.disconnected)
    assert harness.disconnected["1"].endswith(" in the middle of a frame, 12 of 400 bytes read")


@pytest.mark.parametrize("length", [-1, -0x80000000, 0, 1001, 0x7FFFFFFF])
def test_an_invalid_length_closes_only_that_connection(make_harness: Callable[..., Harness], length: int) -> None:
    harness = make_harness(max_frame_bytes=1000)
    evil, good = harness.connect("evil"), harness.connect("good")
    evil.deliver_bytes(struct.pack(">i", length) + b"and some")
    good.deliver(bytes(1000))
    harness.poll_until(lambda: harness.disconnected and harness.receives)
    assert f"length of {length} " in harness.disconnected["evil"]
    assert evil.is_hung_up()
    assert harness.receives == [("good", bytes(1000))]


@pytest.mark.parametrize(("data", "hint"), [(b"HTTP/1.1 400", "bytes are HTTP"), (b"\x15\x03\x01\x00\x02", "TLS")])
def test_a_peer_of_another_protocol_is_recognised(harness: Harness, data: bytes, hint: str) -> None:
    harness.connect("1").deliver_bytes(data)
    harness.poll_until(lambda: harness.disconnected)
    assert hint in harness.disconnected["1"]


def test_close_is_not_reported_and_reaches_the_other_side(harness: Harness) -> None:
    peer = harness.connect("1")
    harness.selector.close("1")
    harness.selector.close("1")
    harness.poll()
    assert peer.is_hung_up()
    assert harness.disconnected == {}
    assert harness.selector.channel("1") is None


def test_wakeup_before_a_poll_makes_it_return(harness: Harness) -> None:
    harness.selector.wakeup()
    harness.selector.wakeup()
    harness.poll(timeout_ms=float("inf"))
    assert harness.receives == []


def test_the_longest_idle_connections_are_closed_first(make_harness: Callable[..., Harness]) -> None:
    harness = make_harness(idle_ms=1000)
    peers = {id: harness.connect(id) for id in ("a", "b", "c")}
    harness.advance(600)
    peers["a"].deliver(b"still here")
    harness.poll_until(lambda: harness.receives)
    harness.advance(400)
    harness.poll(timeout_ms=0)
    assert list(harness.disconnected) == ["b", "c"]
    assert harness.disconnected["b"].endswith("closed after 1 s without traffic")
    assert peers["b"].is_hung_up()
    harness.advance(600)
    harness.poll(timeout_ms=0)
    assert list(harness.disconnected) == ["b", "c", "a"]


def test_sending_counts_as_traffic(make_harness: Callable[..., Harness]) -> None:
    harness = make_harness(idle_ms=1000)
    harness.connect("1")
    harness.advance(999)
    harness.selector.send("1", [b"x"])
    harness.poll_until(lambda: harness.sends)
    harness.advance(999)
    harness.poll(timeout_ms=0)
    assert harness.disconnected == {}


def test_a_negative_idle_limit_keeps_idle_connections(make_harness: Callable[..., Harness]) -> None:
    harness = make_harness(idle_ms=-1)
    harness.connect("1")
    harness.advance(1e12)
    harness.poll(timeout_ms=0)
    assert harness.disconnected == {}


def test_frames_in_use_beyond_the_memory_bound_stop_reading_until_they_are_freed(
    make_harness: Callable[..., Harness],
) -> None:
    harness = make_harness(memory_limit_bytes=100)
    first, second = harness.connect("first"), harness.connect("second")
    first.deliver(b"a" * 100, b"b")
    harness.poll_until(lambda: harness.selector.completed_receives)
    frame = harness.selector.completed_receives[0][1]
    view = memoryview(frame)[10:20]
    del frame
    second.deliver(b"c" * 60)
    for _ in range(5):
        harness.poll()
    assert len(harness.receives) == 1
    assert "waiting for memory" in repr(harness.selector)
    assert "waiting-for-memory" in repr(harness.selector.channel("second"))
    del view
    harness.poll_until(lambda: len(harness.receives) == 3)
    assert {id for id, _ in harness.receives[1:]} == {"first", "second"}


def test_a_frame_larger_than_the_memory_bound_is_received(make_harness: Callable[..., Harness]) -> None:
    harness = make_harness(memory_limit_bytes=10)
    harness.connect("1").deliver(bytes(1000))
    harness.poll_until(lambda: harness.receives)
    assert harness.receives == [("1", bytes(1000))]


def test_a_frame_of_a_lost_connection_releases_its_memory(make_harness: Callable[..., Harness]) -> None:
    harness = make_harness(memory_limit_bytes=100)
    cut, whole = harness.connect("cut"), harness.connect("whole")
    cut.deliver_bytes(struct.pack(">i", 100) + bytes(50))
    for _ in range(3):
        harness.poll()
    whole.deliver(b"x")
    for _ in range(3):
        harness.poll()
    assert harness.receives == []
    cut.hang_up()
    harness.poll_until(lambda: harness.receives)
    assert harness.receives == [("whole", b"x")]


def test_two_hundred_connections_each_receive_their_own_response(harness: Harness) -> None:
    peers = {str(n): harness.connect(str(n)) for n in range(200)}
    for id in peers:
        harness.selector.send(id, [f"request {id}".encode()])
    harness.poll_until(lambda: len(harness.sends) == 200)
    for id, peer in peers.items():
        assert peer.take_frame() == f"request {id}".encode()
        peer.deliver(f"answer {id}".encode())
    harness.poll_until(lambda: len(harness.receives) == 200)
    assert dict(harness.receives) == {id: f"answer {id}".encode() for id in peers}


def test_activity_moves_a_connection_to_the_end_of_the_order() -> None:
    idle = IdleTimes(100)
    idle.touch("a", 0)
    idle.touch("b", 10)
    idle.touch("a", 20)
    assert idle.next_expiry_ms() == 110
    assert idle.take_expired(109) == []
    assert idle.take_expired(120) == ["b", "a"]
    assert idle.next_expiry_ms() is None


def test_a_removed_connection_does_not_expire() -> None:
    idle = IdleTimes(100)
    idle.touch("a", 0)
    idle.forget("a")
    assert idle.take_expired(1e9) == []


def test_iteration_starts_with_the_longest_idle() -> None:
    idle = IdleTimes(1000)
    for now_ms, id in enumerate(["a", "b", "a"]):
        idle.touch(id, now_ms)
    assert list(idle.by_age()) == [("b", 1), ("a", 2)]
