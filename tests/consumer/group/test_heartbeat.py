"""The timers of a classic member, and the heartbeat thread."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from kcli.client.config import ClientConfig, ConsumerConfig
from kcli.client.connect import connect
from kcli.client.request_future import RequestFuture
from kcli.consumer.group.heartbeat import Heartbeat, HeartbeatThread, NextBeat
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.structs import Node


def beating(now_ms: float = 0.0) -> Heartbeat:
    config = ConsumerConfig.from_properties(
        {
            "group.id": "g",
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": 1_000,
            "max.poll.interval.ms": 5_000,
            "retry.backoff.ms": 10,
        }
    )
    return Heartbeat(config, now_ms)


def test_the_first_heartbeat_is_due_after_an_interval() -> None:
    heartbeat = beating(now_ms=500)
    assert (heartbeat.is_due(599), heartbeat.is_due(600), heartbeat.next_ms()) == (False, True, 600)


def test_a_failed_heartbeat_is_due_after_an_increasing_backoff() -> None:
    heartbeat = beating()
    heartbeat.sent(100)
    heartbeat.failed(110)
    assert heartbeat.due_ms == pytest.approx(120, abs=2)
    heartbeat.sent(120)
    heartbeat.failed(130)
    assert heartbeat.due_ms == pytest.approx(150, abs=4)


def test_only_responses_extend_the_session() -> None:
    heartbeat = beating()
    for now_ms in range(100, 1_000, 100):
        heartbeat.sent(now_ms)
    assert heartbeat.session_is_over(1_000)
    heartbeat.answered(1_000)
    assert not heartbeat.session_is_over(1_999)


def test_a_new_coordinator_restarts_the_session() -> None:
    heartbeat = beating()
    heartbeat.coordinator_changed(990)
    assert not heartbeat.session_is_over(1_500)


def test_a_poll_restarts_the_poll_timer_only() -> None:
    heartbeat = beating()
    heartbeat.polled(4_000)
    assert (heartbeat.poll_is_overdue(8_999), heartbeat.poll_is_overdue(9_000)) == (False, True)


# --- the thread


@pytest.fixture
def client() -> Any:
    config = ClientConfig.from_properties({"bootstrap.servers": "127.0.0.1:1"})
    with connect(config) as client:
        yield client


class Beats:
    """A `beat` function that counts its calls."""

    def __init__(self, wait_ms: float) -> None:
        self.times: list[float] = []
        self._wait_ms = wait_ms
        self._called = threading.Semaphore(0)

    def __call__(self, now_ms: float) -> NextBeat:
        self.times.append(now_ms)
        self._called.release()
        return NextBeat(now_ms + self._wait_ms)

    def within(self, seconds: float) -> bool:
        """Wait for the next call."""
        return self._called.acquire(timeout=seconds)


def test_the_thread_calls_beat_when_due_and_ends_at_stop(client: Any) -> None:
    beat = Beats(wait_ms=20)
    thread = HeartbeatThread(client, beat, "g")
    thread.start()
    thread.start()
    assert all(beat.within(10) for _ in range(3))
    thread.stop()
    thread.stop()
    while beat.within(0):
        pass
    assert not beat.within(0.06)
    assert all(second - first >= 19 for first, second in itertools.pairwise(beat.times))


def test_a_thread_with_nothing_to_do_waits_for_wake(client: Any) -> None:
    beat = Beats(wait_ms=float("inf"))
    thread = HeartbeatThread(client, beat, "g")
    thread.start()
    assert beat.within(10)
    assert not beat.within(0.05)
    thread.wake()
    assert beat.within(10)
    thread.stop()


def test_an_exception_of_beat_is_kept_as_failure(client: Any) -> None:
    def beat(now_ms: float) -> NextBeat:
        raise RuntimeError("a bug")

    thread = HeartbeatThread(client, beat, "g")
    thread.start()
    assert thread._thread is not None
    thread._thread.join(10)
    assert isinstance(thread.failure, RuntimeError)
    thread.stop()


def test_the_thread_drives_the_network_only_while_no_other_thread_does(client: Any) -> None:
    """The thread does not interfere with a poll of the application."""
    served: list[bool] = []
    was_tried, was_served = threading.Event(), threading.Event()
    really_serve = client.serve

    def serve(awaited: Any, timeout_ms: float) -> bool:
        served.append(really_serve(awaited, timeout_ms))
        was_tried.set()
        if served[-1]:
            was_served.set()
        return served[-1]

    client.serve = serve
    awaited: RequestFuture[Any] = RequestFuture()
    thread = HeartbeatThread(client, lambda now_ms: NextBeat(now_ms + 10_000, awaited), "g")
    over: RequestFuture[Any] = RequestFuture()
    probe: RequestFuture[Any] = client.send(Node(-1, "127.0.0.1", 1), ListGroupsRequest())
    probe.add_done_callback(
        lambda _: (thread.start(), was_tried.wait(10), over.complete(None))
    )  # the poll runs meanwhile
    assert client.poll(until=over, timeout_ms=60_000)
    assert served[0] is False
    assert was_served.wait(10)
    thread.stop()
