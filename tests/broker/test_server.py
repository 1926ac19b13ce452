"""The server by itself: turns, answers that come later, limits, hooks, and handlers that go wrong."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.broker.control import DROP, SILENCE, Delay, api_key
from kcli.broker.handlers import api_table
from kcli.broker.pending import Pending
from kcli.broker.request_context import CloseConnection
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.headers import decode_response
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.protocol.messages.metadata import MetadataRequest
from tests.broker.room import Room, room
from tests.broker.wire import Wire


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, last in ((3, 13), (12, 4)):
        monkeypatch.setitem(api_table.HANDLERS, key, api_table.ServedApi("none", 0, last))


def answer(wire: Wire) -> HeartbeatResponse:
    return decode_response(HeartbeatResponse, 4, wire.read_frame())[1]


def ask(room: Room, wire: Wire) -> HeartbeatResponse:
    wire.request(HeartbeatRequest(group_id="g"), 4)
    room.poll()
    return answer(wire)


def test_a_request_reaches_its_handler_with_what_is_known_of_it() -> None:
    with room() as here:
        wire = here.connect()
        here.clock.advance(1234)
        assert ask(here, wire).error_code == 0
        ((request, context),) = here.handled
        assert request.group_id == "g"
        assert context._replace(connection_id="") == (12, 4, 1, "wire", "", "127.0.0.1", 1234, here.clock.wall_ms())


def test_while_one_request_waits_the_next_of_that_connection_waits_and_others_do_not() -> None:
    with room() as here:
        patient, other = here.connect(), here.connect()
        pending: Pending[HeartbeatResponse] = Pending()
        here.handle = lambda request, context: pending if request.group_id == "later" else HeartbeatResponse()
        patient.request(HeartbeatRequest(group_id="later"), 4)
        patient.request(HeartbeatRequest(group_id="behind"), 4)
        here.poll()
        assert ask(here, other).error_code == 0
        assert [request.group_id for request, _ in here.handled] == ["later", "g"]
        pending.complete(HeartbeatResponse(error_code=27))
        here.poll()
        assert [answer(patient).error_code, answer(patient).error_code] == [27, 0]


def test_an_answer_for_a_client_that_is_gone_is_dropped() -> None:
    with room(idle_ms=1000) as here:
        wire = here.connect()
        pending: Pending[HeartbeatResponse] = Pending()
        here.handle = lambda *_: pending
        wire.request(HeartbeatRequest(), 4)
        here.poll()
        here.let_pass(1000)
        assert len(here.quotas) == 0
        pending.complete(HeartbeatResponse())
        here.poll()
        assert here.complaints == []


def test_none_is_no_answer_and_the_connection_goes_on() -> None:
    with room() as here:
        wire = here.connect()
        answers: list[Any] = [None, HeartbeatResponse(error_code=25)]
        here.handle = lambda *_: answers.pop(0)
        wire.request(HeartbeatRequest(), 4)
        assert ask(here, wire).error_code == 25


def test_a_handler_that_refuses_is_answered_for() -> None:
    with room() as here:
        wire = here.connect()

        def refuse(*_: Any) -> None:
            raise BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

        here.handle = refuse
        assert ask(here, wire).error_code == 30
        assert here.complaints == []


def test_a_bug_in_a_handler_is_told_and_answered_with_unknown_server_error() -> None:
    with room() as here:
        wire = here.connect()

        def stumble(*_: Any) -> None:
            raise KeyError("oops")

        here.handle = stumble
        assert ask(here, wire).error_code == -1
        ((text, bug),) = here.complaints
        assert "Heartbeat v4" in text
        assert isinstance(bug, KeyError)
        here.handle = lambda *_: HeartbeatResponse()
        assert ask(here, wire).error_code == 0


def test_a_bug_where_no_response_can_say_so_ends_the_connection() -> None:
    with room() as here:
        wire = here.connect()
        here.handle = lambda *_: 1 / 0  # type: ignore[return-value]
        wire.request(MetadataRequest(topics=[]), 1)
        here.poll()
        wire.seconds_until_closed()
        assert len(here.quotas) == 0


def test_an_answer_that_its_version_cannot_carry_is_told() -> None:
    with room() as here:
        wire = here.connect()
        here.handle = lambda *_: HeartbeatResponse(error_code=1 << 20)
        wire.request(HeartbeatRequest(), 4)
        here.poll()
        wire.seconds_until_closed()
        assert "returned a response that cannot be encoded" in here.complaints[0][0]


def test_a_handler_may_close() -> None:
    with room() as here:
        wire = here.connect()

        def close(*_: Any) -> None:
            raise CloseConnection("acks=0 and an error")

        here.handle = close
        wire.request(HeartbeatRequest(), 4)
        here.poll()
        wire.seconds_until_closed()


# ---- limits ----


def test_beyond_the_limit_of_an_address_connections_are_reset() -> None:
    with room(max_per_ip=2) as here:
        first, _ = here.connect(), here.connect()
        third = here.connect(admitted=False)
        here.poll()
        with pytest.raises(ConnectionResetError):
            third.sock.recv(1)
        first.sock.close()
        here.poll_until(lambda: len(here.quotas) == 1)
        assert ask(here, here.connect()).error_code == 0


def test_beyond_the_limit_of_all_a_connection_waits_until_one_ends() -> None:
    with room(max_connections=2) as here:
        first, _ = here.connect(), here.connect()
        third = here.connect(admitted=False)
        third.request(HeartbeatRequest(), 4)
        here.poll()
        assert third.is_open(0.05)
        assert len(here.quotas) == 2
        first.sock.close()
        here.poll_until(lambda: here.handled)
        here.poll()
        assert answer(third).error_code == 0


def test_where_files_run_short_the_quietest_makes_room_but_nobody_who_waits_for_an_answer() -> None:
    with room(max_connections=2, evicts=True) as here:
        parked, silent = here.connect(), here.connect()
        here.handle = lambda request, _: Pending() if request.group_id == "parked" else HeartbeatResponse()
        parked.request(HeartbeatRequest(group_id="parked"), 4)
        here.poll()
        here.let_pass(5000)
        newcomer = here.connect(admitted=False)
        here.poll()
        silent.seconds_until_closed()
        assert ask(here, newcomer).error_code == 0
        assert parked.is_open(0.05)
        too_soon = here.connect(admitted=False)  # nobody has been quiet for long
        here.poll()
        too_soon.seconds_until_closed()


def test_running_out_of_file_descriptors_pauses_the_accepting(monkeypatch: pytest.MonkeyPatch) -> None:
    with room() as here:
        wire = here.connect()
        listener = here.selector._listeners[0]
        monkeypatch.setattr(listener, "accept", lambda: ([], OSError(24, "Too many open files")))
        late = here.connect(admitted=False)
        here.poll()
        assert here.complaints == [("cannot accept connections: Too many open files; trying again in 500 ms", None)]
        monkeypatch.undo()
        api_table.HANDLERS[12] = api_table.ServedApi("none", 0, 4)
        try:
            assert ask(here, wire).error_code == 0
            here.let_pass(1000)
            assert ask(here, late).error_code == 0
        finally:
            del api_table.HANDLERS[12]


def test_idle_connections_are_ended() -> None:
    with room(idle_ms=1000) as here:
        wire = here.connect()
        ask(here, wire)
        here.let_pass(999)
        assert len(here.quotas) == 1
        here.let_pass(1)
        wire.seconds_until_closed()
        assert len(here.quotas) == 0


# ---- hooks ----


def test_requests_are_noted() -> None:
    with room() as here:
        ask(here, here.connect())
        (seen,) = here.control.requests
        assert (seen.api, seen.version, seen.client_id) == ("Heartbeat", 4, "wire")


def test_a_hook_answers_so_many_times() -> None:
    with room() as here:
        wire = here.connect()
        here.control.on("Heartbeat", lambda *_: HeartbeatResponse(error_code=16), times=2)
        assert [ask(here, wire).error_code for _ in range(3)] == [16, 16, 0]
        assert len(here.handled) == 1


def test_a_hook_that_says_nothing_only_observes_and_the_next_is_asked() -> None:
    with room() as here:
        seen: list[str] = []
        here.control.on(12, lambda request, _: seen.append(request.group_id))
        here.control.on("heartbeat", lambda *_: HeartbeatResponse(error_code=16))
        here.control.on("Metadata", lambda *_: DROP)
        assert ask(here, here.connect()).error_code == 16
        assert seen == ["g"]
        here.control.off("Heartbeat")
        assert ask(here, here.connect()).error_code == 0
        here.control.off()
        assert "nothing" in repr(here.control)


def test_a_dropped_request_ends_the_connection() -> None:
    with room() as here:
        here.control.on("Heartbeat", lambda *_: DROP, times=1)
        wire = here.connect()
        wire.request(HeartbeatRequest(), 4)
        here.poll()
        wire.seconds_until_closed()
        assert ask(here, here.connect()).error_code == 0


def test_silence_is_kept_for_good() -> None:
    with room() as here:
        here.control.on("Heartbeat", lambda *_: SILENCE, times=1)
        wire = here.connect()
        wire.request(HeartbeatRequest(), 4)
        wire.request(HeartbeatRequest(), 4)
        here.poll()
        assert wire.is_open(0.05)
        assert here.handled == []


def test_a_delayed_request_is_handled_later() -> None:
    with room() as here:
        here.control.on("Heartbeat", lambda *_: Delay(500), times=1)
        wire = here.connect()
        wire.request(HeartbeatRequest(), 4)
        here.poll()
        here.let_pass(499)
        assert here.handled == []
        here.let_pass(1)
        assert answer(wire).error_code == 0


def test_an_api_is_known_by_name_and_by_key() -> None:
    assert api_key("ListOffsets") == api_key("list_offsets") == api_key(2) == 2
    with pytest.raises(ValueError, match="'Heart'"):
        api_key("Heart")
