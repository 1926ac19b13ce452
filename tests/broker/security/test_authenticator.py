"""The SASL state machine: orders of requests, refusals and renewals, as verified with Apache Kafka 4.3.1."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcli.broker.handlers import api_versions
from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.security.authenticator import Authenticator, Refusal, ServerMechanism, State
from kcli.broker.serving.request_context import CloseConnection, RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import AuthenticationError
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.list_offsets import ListOffsetsRequest
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kcli.protocol.wire import Request
from kcli.secret import Secret
from kcli.security.jaas import JaasEntry
from kcli.security.sasl.exchange import Identity, ServerExchange
from kcli.security.sasl.plain import plain_server
from kcli.security.sasl.scram import ScramClient, scram_credential, scram_server

PASSWORDS = {"alice": "pw", "bob": "pw"}
ALICE, BOB, WRONG = b"\0alice\0pw", b"\0bob\0pw", b"\0alice\0wrong"
HOUR_MS = 3_600_000


def plain() -> ServerExchange:
    return plain_server(lambda user, password: PASSWORDS.get(user) == password)


def timed(expires_at_wall_ms: int, *, by_token: bool = False) -> ServerMechanism:
    """A mechanism that accepts everyone as alice until a time."""

    def start() -> ServerExchange:
        yield b""
        return Identity("alice", b"final", expires_at_wall_ms, by_token)

    return ServerMechanism(start)


class Story:
    """One connection with a manual clock."""

    def __init__(self, **mechanisms: ServerMechanism) -> None:
        known = {name.replace("_", "-"): mechanism for name, mechanism in mechanisms.items()}
        self.authenticator = Authenticator(known or {"PLAIN": ServerMechanism(plain)}, self._versions)
        self.now_ms = 5_000.0

    @staticmethod
    def _versions(request: Any, context: RequestContext) -> Any:
        cluster = SimpleNamespace(features={}, supported_features={}, features_epoch=-1)
        broker: Any = SimpleNamespace(apis=HANDLERS, cluster=cluster)
        return api_versions.handle(broker, request, context)

    def ask(self, request: Request[Any], version: int) -> Any:
        """Return the response, or the Refusal."""
        now_wall_ms = int(self.now_ms)
        context = RequestContext(request.API_KEY, version, 1, "c", "1", "127.0.0.1", self.now_ms, now_wall_ms)
        return self.authenticator.handle(request, context)

    def versions(self, version: int = 3) -> Any:
        return self.ask(ApiVersionsRequest(client_software_name="c", client_software_version="1"), version)

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, message: bytes, version: int = 2) -> Any:
        return self.ask(SaslAuthenticateRequest(auth_bytes=message), version)

    def log_in(self, message: bytes = ALICE, mechanism: str = "PLAIN") -> Any:
        assert self.handshake(mechanism).error_code == 0
        return self.authenticate(message)

    def renew(self, message: bytes = ALICE, mechanism: str = "PLAIN") -> Any:
        assert self.authenticator.begin_renewal(self.now_ms)
        return self.log_in(message, mechanism)


def refused(answer: Any) -> tuple[int, str | None]:
    assert isinstance(answer, Refusal), answer
    return answer.response.error_code, getattr(answer.response, "error_message", None)  # type: ignore[attr-defined]


def test_versions_handshake_and_exchange_authenticate() -> None:
    story = Story()
    assert len(story.versions().api_keys) > 30
    handshake = story.handshake()
    assert (handshake.error_code, handshake.mechanisms) == (0, ["PLAIN"])
    assert not story.authenticator.is_complete
    response = story.authenticate(ALICE)
    assert (response.error_code, response.error_message, response.auth_bytes) == (0, "", b"")
    assert response.session_lifetime_ms == 0
    assert story.authenticator.is_complete
    assert (story.authenticator.principal, story.authenticator.is_token) == ("User:alice", False)
    assert not story.authenticator.begin_renewal(1e12)
    assert not story.authenticator.is_expired(1e12)


@pytest.mark.parametrize("version", range(5))
def test_one_request_for_versions_is_answered_and_a_second_one_closes_the_connection(version: int) -> None:
    story = Story()
    assert story.versions(version).error_code == 0
    with pytest.raises(CloseConnection):
        story.versions(version)


def test_unknown_version_of_the_request_for_versions_may_be_repeated() -> None:
    story = Story()
    assert story.ask(ApiVersionsRequest(), 99).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert story.versions().error_code == 0
    assert story.log_in().error_code == 0


def test_handshake_may_be_the_first_request() -> None:
    assert Story().log_in().error_code == 0


@pytest.mark.parametrize("first", [None, "versions"])
@pytest.mark.parametrize("request_", [MetadataRequest(topics=[]), SaslAuthenticateRequest(auth_bytes=ALICE)])
def test_other_requests_before_the_handshake_close_the_connection(request_: Any, first: str | None) -> None:
    story = Story()
    if first:
        story.versions()
    with pytest.raises(CloseConnection):
        story.ask(request_, 1)


def test_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    story = Story(PLAIN=ServerMechanism(plain), SCRAM_SHA_256=ServerMechanism(plain))
    answer = story.handshake("plain")
    assert refused(answer)[0] == 33
    assert answer.response.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert not story.authenticator.is_complete


def test_wrong_password_is_refused_with_kafkas_message() -> None:
    story = Story()
    assert refused(story.log_in(WRONG)) == (58, "Authentication failed: Invalid username or password")
    assert story.authenticator.principal == "User:ANONYMOUS"


def test_other_requests_within_the_exchange_are_refused_with_their_own_error() -> None:
    story = Story()
    story.handshake()
    assert refused(story.ask(HeartbeatRequest(), 4)) == (34, None)
    story = Story()
    story.handshake()
    with pytest.raises(CloseConnection):
        story.ask(ListOffsetsRequest(replica_id=-1, topics=[]), 5)


def test_bare_frames_follow_version_0_of_the_handshake() -> None:
    story = Story()
    assert story.handshake(version=0).error_code == 0
    assert story.authenticator.expects_bare_frame
    assert story.authenticator.handle_bare_frame(bytearray(ALICE), 0, 0) == b""
    assert story.authenticator.principal == "User:alice"


def test_refused_bare_frame_closes_the_connection_without_an_answer() -> None:
    story = Story()
    story.handshake(version=0)
    with pytest.raises(CloseConnection, match="Invalid username or password"):
        story.authenticator.handle_bare_frame(WRONG, 0, 0)


@pytest.mark.parametrize("is_bare", [False, True])
def test_scram_needs_two_rounds_and_proves_the_server(is_bare: bool) -> None:
    known = scram_credential("SCRAM-SHA-256", "pw")
    story = Story(
        SCRAM_SHA_256=ServerMechanism(
            lambda: scram_server("SCRAM-SHA-256", lambda user, is_token: known if user == "alice" else None)
        )
    )
    login = JaasEntry("", "required", {"username": Secret("alice"), "password": Secret("pw")})
    client = ScramClient("SCRAM-SHA-256", login).start("localhost")
    story.handshake("SCRAM-SHA-256", 0 if is_bare else 1)

    def answer(message: bytes) -> bytes:
        if is_bare:
            return story.authenticator.handle_bare_frame(message, 0, 0)
        return bytes(story.authenticate(message).auth_bytes)

    message = client.send(answer(next(client)))
    assert not story.authenticator.is_complete
    with pytest.raises(StopIteration):
        client.send(answer(message))
    assert story.authenticator.principal == "User:alice"


def test_wrong_scram_password_is_refused_like_an_unknown_user() -> None:
    story = Story(SCRAM_SHA_512=ServerMechanism(lambda: scram_server("SCRAM-SHA-512", lambda *_: None)))
    sentence = (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
    )
    assert refused(story.log_in(b"n,,n=carol,r=abc", "SCRAM-SHA-512")) == (58, sentence)


# ---- sessions with an end (KIP-368) ----


def renewable() -> Story:
    story = Story(PLAIN=ServerMechanism(plain, 3000), OTHER=ServerMechanism(plain, 3000))
    assert story.log_in().session_lifetime_ms == 3000
    return story


def test_session_ends_after_connections_max_reauth_ms() -> None:
    story = renewable()
    assert not story.authenticator.is_expired(story.now_ms + 3000)
    assert story.authenticator.is_expired(story.now_ms + 3001)


@pytest.mark.parametrize(
    ("expires_in_ms", "max_reauth_ms", "lifetime_ms"),
    [(HOUR_MS, 0, HOUR_MS), (HOUR_MS, 3000, 3000), (1000, 3000, 1000), (-5, 0, 0)],
)
def test_session_lasts_as_long_as_the_credential_and_the_limit(
    expires_in_ms: int, max_reauth_ms: int, lifetime_ms: int
) -> None:
    mechanism = timed(5000 + expires_in_ms, by_token=True)._replace(max_reauth_ms=max_reauth_ms)
    story = Story(OAUTHBEARER=mechanism)
    response = story.log_in(b"token", "OAUTHBEARER")
    assert (response.session_lifetime_ms, response.auth_bytes) == (lifetime_ms, b"final")
    assert story.authenticator.is_expired(story.now_ms + lifetime_ms + 1)
    assert story.authenticator.is_token


def test_handshake_renews_the_session_even_after_its_end() -> None:
    story = renewable()
    story.now_ms += 10_000
    assert story.authenticator.is_expired(story.now_ms)
    assert story.renew().session_lifetime_ms == 3000
    assert not story.authenticator.is_expired(story.now_ms)
    assert story.authenticator.is_complete


def test_second_renewal_within_a_second_goes_to_the_handler_which_refuses_it() -> None:
    story = renewable()
    story.renew()
    story.now_ms += 999
    assert not story.authenticator.begin_renewal(story.now_ms)
    assert story.authenticator.is_complete
    story.now_ms += 1
    assert story.authenticator.begin_renewal(story.now_ms)


def test_renewal_must_not_change_the_principal() -> None:
    story = renewable()
    sentence = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert refused(story.renew(BOB)) == (58, sentence)
    assert story.authenticator.principal == "User:alice"


def test_other_mechanism_is_accepted_and_then_the_connection_is_closed() -> None:
    story = renewable()
    assert story.authenticator.begin_renewal(story.now_ms)
    assert story.handshake("OTHER").error_code == 0
    assert story.authenticator.state is State.WRONG_MECHANISM
    with pytest.raises(CloseConnection):
        story.authenticate(ALICE)


def test_request_for_versions_closes_the_connection_during_a_renewal() -> None:
    story = renewable()
    assert story.authenticator.begin_renewal(story.now_ms)
    with pytest.raises(CloseConnection):
        story.versions()


def test_refusal_of_a_renewal_says_re_authentication() -> None:
    def start() -> ServerExchange:
        yield b""
        raise AuthenticationError("Authentication failed during authentication due to invalid credentials")

    story = renewable()
    story.authenticator._mechanisms = {"PLAIN": ServerMechanism(start)}
    _, message = refused(story.renew())
    assert message == "Authentication failed during re-authentication due to invalid credentials"


# ---- hostile clients ----


@pytest.mark.parametrize("message", [b"", b"\0", b"\0\0\0\0", b"\xff" * 100, b"a" * 500_000, b"n,,n=a,r=b"])
def test_malformed_tokens_are_refused(message: bytes) -> None:
    assert refused(Story().log_in(message))[0] == 58
