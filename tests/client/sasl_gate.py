"""SASL PLAIN before any fake brokers: unauthenticated requests close the connection, sessions end."""

from __future__ import annotations

from typing import Any

from kcli.clock import Clock
from kcli.error_codes import ErrorCode
from kcli.protocol.codec import decode
from kcli.protocol.headers import decode_request_header, encode_response
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kcli.protocol.registry import ApiKey
from tests.network.memory import MemoryPeer, MemorySelector

PASSWORD = "correct horse"

#: The client properties of alice, with underscores.
ALICE = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_jaas_config": f'some.LoginModule required username="alice" password="{PASSWORD}";',
}


class SaslGate:
    """Demands SASL of the connections of a selector whose `respond` is set. `versions` gets the two APIs of SASL.

    `knows_alice`: the credentials of alice are valid. `lifetime_ms` is that of sessions; 0: they have no end.
    `renewals` counts authentications on an authenticated connection.
    """

    def __init__(
        self, selector: MemorySelector, versions: dict[Any, tuple[int, int]], clock: Clock, lifetime_ms: int = 0
    ) -> None:
        assert selector.respond is not None
        versions.update({ApiKey.SASL_HANDSHAKE: (0, 1), ApiKey.SASL_AUTHENTICATE: (0, 2)})
        self.knows_alice = True
        self.lifetime_ms = lifetime_ms
        self.renewals = 0
        self.expired = 0
        self._clock = clock
        self._respond = selector.respond
        self._ends_ms: dict[MemoryPeer, float] = {}
        selector.respond = self._filter

    def _filter(self, peer: MemoryPeer, frame: bytes) -> None:
        header, start = decode_request_header(frame)
        key = header.api_key
        answer: SaslHandshakeResponse | SaslAuthenticateResponse
        if key == ApiKey.SASL_HANDSHAKE:
            answer = SaslHandshakeResponse(mechanisms=["PLAIN"])
        elif key == ApiKey.SASL_AUTHENTICATE:
            answer = self._judge(peer, decode(SaslAuthenticateRequest, frame, header.api_version, start))
        elif key == ApiKey.API_VERSIONS or self._ends_ms.get(peer, float("-inf")) > self._clock.now_ms():
            return self._respond(peer, frame)
        else:
            self.expired += peer in self._ends_ms
            return peer.hang_up()
        return peer.deliver(encode_response(answer, header.api_version, header.correlation_id))

    def _judge(self, peer: MemoryPeer, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        if not self.knows_alice or request.auth_bytes != f"\0alice\0{PASSWORD}".encode():
            told = "Authentication failed: Invalid username or password"
            return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=told)
        self.renewals += peer in self._ends_ms
        self._ends_ms[peer] = self._clock.now_ms() + (self.lifetime_ms or float("inf"))
        return SaslAuthenticateResponse(session_lifetime_ms=self.lifetime_ms)
