"""SocketServer: order of requests, pending answers, quotas, test hooks, and failing handlers."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.broker.handlers import api_table
from kcli.broker.quotas import CONNECTION_RATE, ClientQuotas, Windows
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import CloseConnection, RequestContext
from kcli.broker.serving.server import Answer
from kcli.broker.testing.control import DROP, SILENCE, Delay, api_key
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.headers import decode_response
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.protocol.messages.metadata import MetadataRequest
from tests.broker.serving.server_rig import ServerRig, server_rig
from tests.broker.wire import Wire


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, last in ((3, 13), (12, 4)):
        monkeypatch.setitem(api_table.HANDLERS, key, api_table.ServedApi("none", 0, last))


def answer(wire: Wire) -> HeartbeatResponse:
    return decode_response(HeartbeatResponse, 4, wire.read_frame())[1]


def ask(rig: ServerRig, wire: Wire) -> HeartbeatResponse:
    wire.request(HeartbeatRequest(group_id="g"), 4)
    rig.poll()
    return answer(wire)


def test_request_reaches_its_handler_with_its_context() -> None:
    with server_rig() as rig:
        wire = rig.connect()
        rig.clock.advance(1234)
        assert ask(rig, wire).error_code == 0
        ((request, context),) = rig.handled
        assert request.group_id == "g"
        assert context[:5] == (12, 4, 1, "wire", context.connection_id)
        assert context[5:] == ("127.0.0.1", 1234, rig.clock.wall_ms(), "User:ANONYMOUS", "PLAINTEXT", False)


def test_pending_answer_blocks_only_its_own_connection() -> None:
    with server_rig() as rig:
        patient, other = rig.connect(), rig.connect()
        pending: Pending[HeartbeatResponse] = Pending()
        rig.handle = lambda request, context: pending if request.group_id == "later" else HeartbeatResponse()
        patient.request(HeartbeatRequest(group_id="later"), 4)
        patient.request(HeartbeatRequest(group_id="behind"), 4)
        rig.poll()
        assert ask(rig, other).error_code == 0
        assert [request.group_id for request, _ in rig.handled] == ["later", "g"]
        pending.complete(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        rig.poll()
        assert [answer(patient).error_code, answer(patient).error_code] == [27, 0]


@pytest.mark.parametrize("waits", [False, True])
def test_throttled_client_is_answered_and_read_again_after_its_time(waits: bool) -> None:
    """KIP-219. The other connections go on."""
    with server_rig() as rig:
        pending: Pending[HeartbeatResponse] = Pending()

        def throttle(request: HeartbeatRequest, context: RequestContext) -> Answer:
            if request.group_id == "slow":
                if not waits:
                    rig.server.throttle(context.connection_id, 100)
                    return HeartbeatResponse(throttle_time_ms=100)
                pending.on_done(lambda _: rig.server.throttle(context.connection_id, 100))
                return pending
            return HeartbeatResponse()

        rig.handle = throttle
        slow, other = rig.connect(), rig.connect()
        slow.request(HeartbeatRequest(group_id="slow"), 4)
        rig.poll()
        if waits:
            pending.complete(HeartbeatResponse(throttle_time_ms=100))
            rig.poll()
        assert answer(slow).throttle_time_ms == 100
        slow.request(HeartbeatRequest(group_id="next"), 4)
        assert ask(rig, other).error_code == 0
        assert [request.group_id for request, _ in rig.handled] == ["slow", "g"]
        rig.advance(100)
        assert answer(slow).error_code == 0


def test_throttled_client_may_disconnect() -> None:
    with server_rig() as rig:
        wire = rig.connect()
        assert ask(rig, wire).error_code == 0
        id = rig.handled[0][1].connection_id
        rig.server.throttle(id, 100)
        rig.server.throttle(id, 200)
        wire.sock.close()
        rig.selector.close(id)
        rig.server._release_quota(id)
        rig.advance(300)
        rig.server.throttle(id, 100)
        assert (len(rig.timer), rig.logged) == (0, [])


def test_answer_for_a_disconnected_client_is_dropped() -> None:
    with server_rig(idle_ms=1000) as rig:
        wire = rig.connect()
        pending: Pending[HeartbeatResponse] = Pending()
        rig.handle = lambda *_: pending
        wire.request(HeartbeatRequest(), 4)
        rig.poll()
        rig.advance(1000)
        assert len(rig.quotas) == 0
        pending.complete(HeartbeatResponse())
        rig.poll()
        assert rig.logged == []


def test_handler_result_none_sends_no_answer() -> None:
    with server_rig() as rig:
        wire = rig.connect()
        answers: list[Any] = [None, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)]
        rig.handle = lambda *_: answers.pop(0)
        wire.request(HeartbeatRequest(), 4)
        assert ask(rig, wire).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_broker_error_of_a_handler_is_sent_as_its_code() -> None:
    with server_rig() as rig:
        wire = rig.connect()

        def refuse(*_: Any) -> None:
            raise BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

        rig.handle = refuse
        assert ask(rig, wire).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert rig.logged == []


def test_exception_in_a_handler_is_logged_and_answered() -> None:
    with server_rig() as rig:
        wire = rig.connect()

        def fail(*_: Any) -> None:
            raise KeyError("oops")

        rig.handle = fail
        assert ask(rig, wire).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        ((text, bug),) = rig.logged
        assert "Heartbeat v4" in text
        assert isinstance(bug, KeyError)
        rig.handle = lambda *_: HeartbeatResponse()
        assert ask(rig, wire).error_code == 0


def test_exception_closes_the_connection_if_the_response_has_no_error_code() -> None:
    with server_rig() as rig:
        wire = rig.connect()
        rig.handle = lambda *_: 1 / 0  # type: ignore[return-value]
        wire.request(MetadataRequest(topics=[]), 1)
        rig.poll()
        wire.seconds_until_closed()
        assert len(rig.quotas) == 0


def test_response_that_cannot_be_encoded_is_logged() -> None:
    with server_rig() as rig:
        wire = rig.connect()
        rig.handle = lambda *_: HeartbeatResponse(error_code=ErrorCode.OFFSET_OUT_OF_RANGE << 20)
        wire.request(HeartbeatRequest(), 4)
        rig.poll()
        wire.seconds_until_closed()
        assert "returned a response that cannot be encoded" in rig.logged[0][0]


def test_handler_may_close_the_connection() -> None:
    with server_rig() as rig:
        wire = rig.connect()

        def close(*_: Any) -> None:
            raise CloseConnection("acks=0 and an error")

        rig.handle = close
        wire.request(HeartbeatRequest(), 4)
        rig.poll()
        wire.seconds_until_closed()


# ---- limits ----


def test_connections_above_the_limit_per_address_are_reset() -> None:
    with server_rig(max_per_ip=2) as rig:
        first, _ = rig.connect(), rig.connect()
        third = rig.connect(admitted=False)
        rig.poll()
        with pytest.raises(ConnectionResetError):
            third.sock.recv(1)
        first.sock.close()
        rig.poll_until(lambda: len(rig.quotas) == 1)
        assert ask(rig, rig.connect()).error_code == 0


def test_connections_above_the_total_limit_wait() -> None:
    with server_rig(max_connections=2) as rig:
        first, _ = rig.connect(), rig.connect()
        third = rig.connect(admitted=False)
        third.request(HeartbeatRequest(), 4)
        rig.poll()
        assert third.is_open(0.05)
        assert len(rig.quotas) == 2
        first.sock.close()
        rig.poll_until(lambda: rig.handled)
        rig.poll()
        assert answer(third).error_code == 0


def test_quietest_connection_is_evicted_unless_it_waits_for_an_answer() -> None:
    with server_rig(max_connections=2, evicts=True) as rig:
        parked, silent = rig.connect(), rig.connect()
        rig.handle = lambda request, _: Pending() if request.group_id == "parked" else HeartbeatResponse()
        parked.request(HeartbeatRequest(group_id="parked"), 4)
        rig.poll()
        rig.advance(5000)
        newcomer = rig.connect(admitted=False)
        rig.poll()
        silent.seconds_until_closed()
        assert ask(rig, newcomer).error_code == 0
        assert parked.is_open(0.05)
        too_soon = rig.connect(admitted=False)  # no connection has been quiet long enough
        rig.poll()
        too_soon.seconds_until_closed()


def test_exhausted_file_descriptors_pause_accepting(monkeypatch: pytest.MonkeyPatch) -> None:
    with server_rig() as rig:
        wire = rig.connect()
        listener = rig.selector._listeners[0]
        monkeypatch.setattr(listener, "accept", lambda: ([], OSError(24, "Too many open files")))
        released: list[bool] = []
        monkeypatch.setattr(rig.server, "_release_descriptors", lambda: released.append(True))
        late = rig.connect(admitted=False)
        rig.poll()
        assert rig.logged == [("cannot accept connections: Too many open files; trying again in 500 ms", None)]
        assert released == [True], "log files are closed"
        monkeypatch.undo()
        monkeypatch.setitem(api_table.HANDLERS, 12, api_table.ServedApi("none", 0, 4))
        assert ask(rig, wire).error_code == 0
        rig.advance(1000)
        assert ask(rig, late).error_code == 0


def test_idle_connections_are_closed() -> None:
    with server_rig(idle_ms=1000) as rig:
        wire = rig.connect()
        ask(rig, wire)
        rig.advance(999)
        assert len(rig.quotas) == 1
        rig.advance(1)
        wire.seconds_until_closed()
        assert len(rig.quotas) == 0


# ---- hooks ----


def test_requests_are_recorded() -> None:
    with server_rig() as rig:
        ask(rig, rig.connect())
        (seen,) = rig.control.requests
        assert (seen.api, seen.version, seen.client_id) == ("Heartbeat", 4, "wire")


def test_hook_applies_a_limited_number_of_times() -> None:
    with server_rig() as rig:
        wire = rig.connect()
        rig.control.on("Heartbeat", lambda *_: HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR), times=2)
        assert [ask(rig, wire).error_code for _ in range(3)] == [16, 16, 0]
        assert len(rig.handled) == 1


def test_hook_result_none_passes_to_the_next_hook() -> None:
    with server_rig() as rig:
        seen: list[str] = []
        rig.control.on(12, lambda request, _: seen.append(request.group_id))
        rig.control.on("heartbeat", lambda *_: HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR))
        rig.control.on("Metadata", lambda *_: DROP)
        assert ask(rig, rig.connect()).error_code == ErrorCode.NOT_COORDINATOR
        assert seen == ["g"]
        rig.control.off("Heartbeat")
        assert ask(rig, rig.connect()).error_code == 0
        rig.control.off()
        assert "nothing" in repr(rig.control)


def test_drop_closes_the_connection() -> None:
    with server_rig() as rig:
        rig.control.on("Heartbeat", lambda *_: DROP, times=1)
        wire = rig.connect()
        wire.request(HeartbeatRequest(), 4)
        rig.poll()
        wire.seconds_until_closed()
        assert ask(rig, rig.connect()).error_code == 0


def test_silence_never_answers() -> None:
    with server_rig() as rig:
        rig.control.on("Heartbeat", lambda *_: SILENCE, times=1)
        wire = rig.connect()
        wire.request(HeartbeatRequest(), 4)
        wire.request(HeartbeatRequest(), 4)
        rig.poll()
        assert wire.is_open(0.05)
        assert rig.handled == []


def test_delay_handles_the_request_later() -> None:
    with server_rig() as rig:
        rig.control.on("Heartbeat", lambda *_: Delay(500), times=1)
        wire = rig.connect()
        wire.request(HeartbeatRequest(), 4)
        rig.poll()
        rig.advance(499)
        assert rig.handled == []
        rig.advance(1)
        assert answer(wire).error_code == 0


def test_api_is_given_by_name_or_key() -> None:
    assert api_key("ListOffsets") == api_key("list_offsets") == api_key(2) == 2
    with pytest.raises(ValueError, match="'Heart'"):
        api_key("Heart")


class TestQuotas:
    """Quotas of addresses (KIP-612) and of the time of requests (KIP-124)."""

    def test_a_connection_over_the_rate_of_its_address_is_held_and_then_closed(self) -> None:
        limits = {(("ip", None),): {"connection_creation_rate": 1e9}, (("ip", "127.0.0.1"),): {CONNECTION_RATE: 0.1}}
        with server_rig() as rig:
            quotas = ClientQuotas(Windows(11, 1000.0), limits)
            rig.server.client_quotas = lambda: quotas
            assert ask(rig, rig.connect()).error_code == 0
            held = rig.connect()
            held.request(HeartbeatRequest(group_id="g"), 4)
            rig.poll()
            assert len(rig.handled) == 1
            rig.advance(9_000)
            assert len(rig.quotas) == 2
            rig.advance(1_500)
            assert not held.is_open()
            assert len(rig.quotas) == 1
            rig.advance(1_000)
            assert ask(rig, rig.connect()).error_code == 0

    def test_the_time_of_requests_over_the_quota_is_told_and_the_client_waits(self) -> None:
        limits = {(("user", None),): {"request_percentage": 5.0}}
        with server_rig() as rig:
            quotas = ClientQuotas(Windows(11, 1000.0), limits)
            rig.server.client_quotas = lambda: quotas

            def slow(request: Any, context: RequestContext) -> Answer:
                rig.clock.advance(600)
                return HeartbeatResponse()

            rig.handle = slow
            wire = rig.connect()
            assert 0 < ask(rig, wire).throttle_time_ms <= 1000
            wire.request(HeartbeatRequest(group_id="g"), 4)
            rig.poll()
            assert len(rig.handled) == 1
            rig.advance(1_000)
            assert len(rig.handled) == 2

    def test_without_a_quota_of_the_client_its_time_does_not_count(self) -> None:
        limits = {(("user", "alice"),): {"request_percentage": 0.1}}
        with server_rig() as rig:
            quotas = ClientQuotas(Windows(11, 1000.0), limits)
            rig.server.client_quotas = lambda: quotas
            rig.handle = lambda request, context: rig.clock.advance(600) or HeartbeatResponse()
            assert ask(rig, rig.connect()).throttle_time_ms == 0
