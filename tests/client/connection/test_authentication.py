"""SASL with brokers: the requests of a handshake, refusals, the renewal of sessions, hostile brokers.

A `FakeCluster` with the server's side of the mechanisms; the messages of KIP-43, KIP-152 and KIP-368.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.client.connection.authentication import MAX_MESSAGE_BYTES, authenticate, one_line
from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.requests import ask_any, ask_node
from kcli.error_codes import ErrorCode
from kcli.errors import AuthenticationError, KcliError, TimeoutExpired
from kcli.protocol.headers import encode_response
from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.protocol.registry import ApiKey
from kcli.security.sasl import ServerExchange
from kcli.security.sasl.plain import plain_server
from kcli.security.sasl.scram import scram_credential, scram_server
from tests.client.fake_cluster import FakeCluster, failure_of
from tests.network.memory import MemoryPeer

PASSWORD = "correct horse"
PLAIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_jaas_config": f'some.LoginModule required username="alice" password="{PASSWORD}";',
}
ALL = {17: (0, 1), 36: (0, 2)}


def exchanges(mechanism: str) -> ServerExchange:
    if mechanism == "PLAIN":
        return plain_server(lambda user, password: (user, password) == ("alice", PASSWORD))
    credential = scram_credential(mechanism, PASSWORD)
    return scram_server(mechanism, lambda user, by_token: credential if user == "alice" else None)


class SecuredCluster(FakeCluster):
    """A cluster whose brokers demand SASL, and close a connection after another first request, as Kafka does.

    `lifetime_ms` is that of the sessions. `log` has (peer, what arrived) for all requests.
    """

    def __init__(self, *addresses: str, mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256")) -> None:
        super().__init__(*(addresses or ("a:9093",)))
        self.mechanisms = mechanisms
        self.lifetime_ms = 0
        self.new_exchange: Callable[[str], ServerExchange] = exchanges
        self._running: dict[MemoryPeer, tuple[str, ServerExchange | None]] = {}
        self._session_ends: dict[MemoryPeer, float] = {}
        self.answers[ApiKey.SASL_HANDSHAKE] = self._handshake
        self.answers[ApiKey.SASL_AUTHENTICATE] = self._authenticate
        self.answers[ApiKey.LIST_GROUPS] = lambda peer, request, version: ListGroupsResponse()
        for key in (ApiKey.METADATA, ApiKey.LIST_GROUPS):
            self.answers[key] = partial(self._guarded, self.answers[key])

    def secured(
        self, mechanism: str = "SCRAM-SHA-256", password: str = PASSWORD, bootstrap: str = "a:9093", **properties: Any
    ) -> ConsumerNetworkClient:
        """A client with these credentials of alice."""
        return self.connect(
            bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_jaas_config=f'some.LoginModule required username="alice" password="{password}";',
            **properties,
        )

    def keys(self) -> list[int]:
        """The API keys of all requests so far."""
        return [asked.request.API_KEY for asked in self.asked]

    def _guarded(self, answer: Callable[..., Any], peer: MemoryPeer, request: Any, version: int) -> Any:
        if self._session_ends.get(peer, float("-inf")) <= self.clock.now_ms():
            peer.hang_up()
            return None
        return answer(peer, request, version)

    def _handshake(self, peer: MemoryPeer, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        if request.mechanism not in self.mechanisms:
            return SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(self.mechanisms)
            )
        exchange = self.new_exchange(request.mechanism)
        next(exchange)
        self._running[peer] = request.mechanism, exchange
        return SaslHandshakeResponse(mechanisms=list(self.mechanisms))

    def _authenticate(
        self, peer: MemoryPeer, request: SaslAuthenticateRequest, version: int
    ) -> SaslAuthenticateResponse:
        _, exchange = self._running[peer]
        assert exchange is not None
        try:
            return SaslAuthenticateResponse(auth_bytes=exchange.send(request.auth_bytes))
        except AuthenticationError as error:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=error.message
            )
        except StopIteration as end:
            self._session_ends[peer] = self.clock.now_ms() + (self.lifetime_ms or float("inf"))
            return SaslAuthenticateResponse(auth_bytes=end.value.final, session_lifetime_ms=self.lifetime_ms)


# The steps


class Scripted:
    """A mechanism that sends these messages, and notes the answers."""

    name = "TEST"
    user = None

    def __init__(self, *messages: bytes) -> None:
        self.messages = messages
        self.received: list[bytes] = []

    def start(self, host: str) -> Generator[bytes, bytes, None]:
        for message in self.messages:
            self.received.append((yield message))


def error_of(steps: Generator[Any, Any, Any], *responses: Any) -> str:
    """Return the error with which the steps end after these responses."""
    next(steps)

    def pass_all() -> None:
        for response in responses:
            steps.send(response)

    return failure_of(pass_all).message


def test_the_steps_are_one_handshake_and_the_messages_of_the_mechanism() -> None:
    mechanism = Scripted(b"one", b"two")
    steps = authenticate(mechanism, "a", ALL)
    request, version = next(steps)
    assert (request, version) == (SaslHandshakeRequest(mechanism="TEST"), 1)
    assert steps.send(SaslHandshakeResponse()) == (SaslAuthenticateRequest(auth_bytes=b"one"), 2)
    assert steps.send(SaslAuthenticateResponse(auth_bytes=b"1")) == (SaslAuthenticateRequest(auth_bytes=b"two"), 2)
    with pytest.raises(StopIteration) as end:
        steps.send(SaslAuthenticateResponse(auth_bytes=b"2", session_lifetime_ms=3_600_000))
    assert end.value.value == 3_600_000
    assert mechanism.received == [b"1", b"2"]


@pytest.mark.parametrize("highest", [0, 1, 2])
def test_the_highest_version_of_sasl_authenticate_is_used(highest: int) -> None:
    steps = authenticate(Scripted(b"one"), "a", {17: (0, 1), 36: (0, highest)})
    next(steps)
    assert steps.send(SaslHandshakeResponse())[1] == highest


@pytest.mark.parametrize("versions", [{17: (0, 0)}, {17: (0, 1)}, {3: (0, 12)}], ids=["v0", "no-36", "no-sasl"])
def test_a_broker_before_sasl_authenticate_is_refused(versions: dict[int, tuple[int, int]]) -> None:
    steps = authenticate(Scripted(b"one"), "a", versions)

    def pass_all() -> None:
        steps.send(None)
        steps.send(SaslHandshakeResponse())

    error = failure_of(pass_all)
    assert isinstance(error, AuthenticationError)
    assert str(error).endswith(" as brokers from Kafka 1.0 on do")


def test_the_refusals_name_cause_and_cure() -> None:
    def refusal(name: str, *responses: Any) -> str:
        mechanism = Scripted(b"one")
        mechanism.name = name
        return error_of(authenticate(mechanism, "a", ALL), *responses)

    fine = SaslHandshakeResponse()
    assert refusal(
        "GSSAPI",
        SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["PLAIN", "SCRAM-SHA-256"]),
    ) == (
        "the broker does not offer the SASL mechanism GSSAPI; set sasl.mechanism to one that it offers: "
        "PLAIN, SCRAM-SHA-256"
    )
    assert refusal("PLAIN", SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)) == (
        "the listener does not use SASL; use the port of a SASL listener, or set security.protocol=PLAINTEXT"
    )
    told = "Authentication failed: Invalid username or password"
    assert refusal(
        "PLAIN", fine, SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=told)
    ) == (f"SASL PLAIN: {told}; check username and password")
    told = "Cannot change principals during re-authentication from User.a: User.b"
    assert refusal(
        "PLAIN", fine, SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=told)
    ) == (f"SASL PLAIN: {told}; new credentials must have the same principal, or start again")
    assert refusal(
        "PLAIN", fine, SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=None)
    ) == ("SASL PLAIN: ILLEGAL_SASL_STATE: the request is not valid at this point of the SASL exchange")


@pytest.mark.parametrize(
    ("name", "message", "secret"),
    [
        ("PLAIN", b"\0alice\0marked-secret", "marked-secret"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer marked.to-ken\x01\x01", "marked.to-ken"),
    ],
)
def test_a_secret_that_the_broker_repeats_is_not_shown(name: str, message: bytes, secret: str) -> None:
    mechanism = Scripted(message)
    mechanism.name = name
    refused = SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=f"no: {message.decode()}"
    )
    error = error_of(authenticate(mechanism, "a", ALL), SaslHandshakeResponse(), refused)
    assert error.startswith(f"SASL {name}: the broker refused the credentials; check")
    assert secret not in error


def test_a_broker_that_never_ends_the_exchange_or_sends_too_much_is_refused() -> None:
    def endless() -> Generator[bytes, bytes, None]:
        while True:
            yield b"more"

    mechanism = Scripted()
    mechanism.start = lambda host: endless()  # type: ignore[method-assign]
    fine = [SaslHandshakeResponse()]
    assert "not complete after 20 messages" in error_of(
        authenticate(mechanism, "a", ALL), *fine, *[SaslAuthenticateResponse()] * 21
    )
    large = SaslAuthenticateResponse(auth_bytes=bytes(MAX_MESSAGE_BYTES + 1))
    assert "sent a message of 1048577 bytes" in error_of(authenticate(Scripted(b"one"), "a", ALL), *fine, large)


def test_a_text_of_a_broker_is_one_short_line() -> None:
    assert one_line("a\r\n\x1b[31mred\x00\t b") == "a [31mred b"
    assert one_line("x" * 1_000) == "x" * 300 + "..."


# New connections


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_requests_follow_one_api_versions_and_the_exchange(mechanism: str) -> None:
    cluster = SecuredCluster()
    ask_any(cluster.secured(mechanism), ListGroupsRequest(), 1_000)
    steps = [36] if mechanism == "PLAIN" else [36, 36]
    assert cluster.keys() == [18, 17, *steps, 16]
    assert [asked.version for asked in cluster.asked[1:-1]] == [1] + [2] * len(steps)


def test_each_connection_authenticates_and_a_bootstrap_connection_is_adopted() -> None:
    cluster = SecuredCluster("a:9093", "b:9093")
    client = cluster.secured("PLAIN")
    nodes = client.ensure_fresh_metadata(1_000).nodes
    for node in nodes.values():
        ask_node(client, node, ListGroupsRequest(), 1_000)
    assert cluster.keys() == [18, 17, 36, 3, 16, 18, 17, 36, 16]
    assert client.metrics.connections == 2


REFUSALS: list[tuple[dict[str, str], str]] = [
    ({"password": "wrong"}, "a:9093: SASL SCRAM-SHA-256: Authentication failed during authentication due to invalid "),
    (
        {"mechanism": "PLAIN", "password": "wrong"},
        "a:9093: SASL PLAIN: Authentication failed: Invalid username ",
    ),
    ({"mechanism": "SCRAM-SHA-512"}, "a:9093: the broker does not offer the SASL mechanism SCRAM-SHA-512; set sasl."),
]

CALLS: dict[str, Callable[[ConsumerNetworkClient], object]] = {
    "any node": lambda client: ask_any(client, ListGroupsRequest(), 9_000),
    "metadata": lambda client: client.ensure_fresh_metadata(9_000),
    "topics": lambda client: client.topics_metadata(["t"], 9_000),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("how", "sentence"), REFUSALS)
def test_a_refusal_ends_a_call_at_once(
    how: dict[str, str], sentence: str, call: Callable[[ConsumerNetworkClient], object]
) -> None:
    cluster = SecuredCluster()
    error = failure_of(lambda: call(cluster.secured(**how)))
    assert type(error) is AuthenticationError
    assert str(error).startswith(sentence)
    assert PASSWORD not in str(error)
    assert cluster.clock.now_ms() == 0
    assert len(cluster.selector.peers) == 1
    assert cluster.selector.peers[0].closed


def test_a_refusal_ends_a_call_also_with_several_bootstrap_servers_and_addresses() -> None:
    cluster = SecuredCluster()
    cluster.hosts["a"] = ["10.0.0.1", "10.0.0.2"]
    client = cluster.secured(password="wrong", bootstrap="a:9093,b:9093,c:9093")
    failure_of(lambda: client.ensure_fresh_metadata(9_000))
    assert len(cluster.selector.peers) == 1


def test_the_next_call_tries_again_after_the_backoff() -> None:
    cluster = SecuredCluster()
    client = cluster.secured(password="wrong")
    for attempts in (1, 2, 3):
        error = failure_of(lambda: client.ensure_fresh_metadata(client.clock.now_ms() + 9_000))
        assert isinstance(error, AuthenticationError)
        assert len(cluster.selector.peers) == attempts
    assert cluster.clock.now_ms() < 1_000


def test_a_refusal_by_one_broker_fails_its_requests_only() -> None:
    cluster = SecuredCluster("a:9093", "b:9093")
    client = cluster.secured("PLAIN")
    nodes = client.ensure_fresh_metadata(1_000).nodes
    cluster.new_exchange = lambda mechanism: plain_server(lambda user, password: False)
    error = failure_of(lambda: ask_node(client, nodes[2], ListGroupsRequest(), 9_000))
    assert isinstance(error, AuthenticationError)
    assert str(error).startswith("b:9093: SASL PLAIN: Authentication failed")
    client.ensure_fresh_metadata(9_000)
    ask_node(client, nodes[1], ListGroupsRequest(), 9_000)
    assert cluster.clock.now_ms() == 0


def test_a_broker_with_a_wrong_signature_is_refused() -> None:
    def impostor(mechanism: str) -> ServerExchange:
        credential = scram_credential(mechanism, PASSWORD)._replace(server_key=bytes(32))
        return scram_server(mechanism, lambda user, by_token: credential)

    cluster = SecuredCluster()
    cluster.new_exchange = impostor
    error = failure_of(lambda: ask_any(cluster.secured(), ListGroupsRequest(), 9_000))
    assert isinstance(error, AuthenticationError)
    assert "signature" in str(error)
    assert not cluster.requests(ApiKey.LIST_GROUPS)


def test_a_listener_that_demands_sasl_is_refused_after_three_silent_closes() -> None:
    cluster = SecuredCluster()
    error = failure_of(lambda: ask_any(cluster.connect("a:9093"), ListGroupsRequest(), 9_000))
    assert isinstance(error, AuthenticationError)
    assert str(error) == (
        "a:9093: closed by a:9093 at the first request, as listeners with SASL do; set security.protocol=SASL_PLAINTEXT"
    )
    assert len(cluster.selector.peers) == 3
    assert cluster.clock.now_ms() < 1_000


def test_a_broker_that_has_answered_is_not_taken_for_one_that_demands_sasl() -> None:
    cluster = FakeCluster("a:9092")
    client = cluster.connect("a:9092")
    client.ensure_fresh_metadata(1_000)
    cluster.answers[ApiKey.LIST_GROUPS] = lambda peer, request, version: peer.hang_up()
    error = failure_of(lambda: ask_any(client, ListGroupsRequest(), 3_000))
    assert isinstance(error, TimeoutExpired)
    assert "SASL" not in str(error)


def test_a_client_without_tls_explains_a_listener_with_tls() -> None:
    """The alert that Kafka's TLS listeners send after a plain ApiVersions request."""
    for properties, cure in (({}, "SSL or SASL_SSL"), (PLAIN, "SASL_SSL")):
        cluster = FakeCluster("a:9093")
        alert = bytes.fromhex("15030300020250")
        cluster.answers[ApiKey.API_VERSIONS] = lambda peer, request, version, alert=alert: peer.deliver_bytes(alert)
        client = cluster.connect("a:9093", **properties)
        error = failure_of(lambda client=client: ask_any(client, ListGroupsRequest(), 9_000))
        assert isinstance(error, AuthenticationError)
        assert str(error) == f"a:9093: the listener expects TLS; set security.protocol={cure}"
        assert cluster.clock.now_ms() == 0


# Brokers that stall, close, or send something else


STEPS = [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]


@pytest.mark.parametrize("key", STEPS, ids=lambda key: key.name)
def test_a_broker_that_stalls_in_a_step_ends_in_a_timeout(key: ApiKey) -> None:
    cluster = SecuredCluster()
    cluster.answers[key] = lambda peer, request, version: None
    error = failure_of(lambda: ask_any(cluster.secured(), ListGroupsRequest(), 5_000))
    assert isinstance(error, TimeoutExpired)
    awaited = "no response for" if key == ApiKey.API_VERSIONS else "SASL SCRAM-SHA-256 is not complete after 5000 ms"
    assert f"no broker answered at a:9093: connected, but {awaited}" in str(error)
    assert cluster.clock.now_ms() == 5_000


@pytest.mark.parametrize("key", STEPS[1:], ids=lambda key: key.name)
def test_a_broker_that_closes_in_a_step_is_tried_again(key: ApiKey) -> None:
    cluster = SecuredCluster()
    cluster.answers[key] = lambda peer, request, version: peer.hang_up()
    error = failure_of(lambda: ask_any(cluster.secured(), ListGroupsRequest(), 5_000))
    assert isinstance(error, TimeoutExpired)
    assert "closed by a:9093 during SASL SCRAM-SHA-256" in str(error)
    assert len(cluster.selector.peers) > 3


GARBAGE: dict[str, bytes] = {
    "wrong correlation id": b"\0\0\xff\xff" + bytes(20),
    "truncated": b"",
    "length beyond the end": b"\0\0" + b"\x7f" * 12,
}


@pytest.mark.parametrize("key", STEPS[1:], ids=lambda key: key.name)
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_a_malformed_response_in_a_step_is_an_error_at_the_deadline(key: ApiKey, garbage: bytes) -> None:
    cluster = SecuredCluster()

    def answer(peer: MemoryPeer, request: Any, version: int) -> bytes:
        correlation_id = cluster.asked[-1].correlation_id
        return garbage if garbage[:4] == b"\0\0\xff\xff" else correlation_id.to_bytes(4, "big") + garbage

    cluster.answers[key] = answer
    error = failure_of(lambda: ask_any(cluster.secured(), ListGroupsRequest(), 5_000))
    assert isinstance(error, TimeoutExpired)
    assert "a:9093 (node -1) sent a response that is not valid" in str(error)


CHALLENGES = {
    "empty": b"",
    "binary": bytes(range(256)),
    "no attributes": b"hello",
    "another nonce": b"r=abc,s=QSXCR+Q6sek8bf92,i=4096",
    "many iterations": b"r=NONCE,s=QSXCR+Q6sek8bf92,i=999999999",
    "few iterations": b"r=NONCE,s=QSXCR+Q6sek8bf92,i=1",
    "negative iterations": b"r=NONCE,s=QSXCR+Q6sek8bf92,i=-4096",
    "salt": b"r=NONCE,s=%%%,i=4096",
    "long": b"r=NONCE,s=" + b"A" * 100_000 + b",i=4096",
}


@pytest.mark.parametrize("challenge", CHALLENGES.values(), ids=CHALLENGES)
def test_a_malformed_challenge_is_refused_at_once_in_one_line(challenge: bytes) -> None:
    cluster = SecuredCluster()

    def answer(peer: MemoryPeer, request: SaslAuthenticateRequest, version: int) -> SaslAuthenticateResponse:
        nonce = request.auth_bytes.partition(b"r=")[2]
        return SaslAuthenticateResponse(auth_bytes=challenge.replace(b"NONCE", nonce + b"more"))

    cluster.answers[ApiKey.SASL_AUTHENTICATE] = answer
    error = failure_of(lambda: ask_any(cluster.secured(), ListGroupsRequest(), 5_000))
    assert isinstance(error, AuthenticationError)
    assert str(error).startswith("a:9093: SASL SCRAM-SHA-256: ")
    assert len(str(error)) < 400
    assert str(error).isprintable()
    assert cluster.clock.now_ms() == 0


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@settings(max_examples=60, deadline=None)
@given(code=st.sampled_from([0, 0, 34, 58, 999]), told=st.none() | st.text(), answer=st.binary(max_size=80))
def test_any_answer_of_a_broker_ends_in_one_line(mechanism: str, code: int, told: str | None, answer: bytes) -> None:
    cluster = SecuredCluster()
    cluster.answers[ApiKey.SASL_AUTHENTICATE] = lambda peer, request, version: SaslAuthenticateResponse(
        error_code=code, error_message=told, auth_bytes=answer
    )
    call = partial(ask_any, cluster.secured(mechanism), ListGroupsRequest(), 5_000)
    is_success = mechanism == "PLAIN" and not code and not answer
    if not is_success:
        error = failure_of(call)
        assert isinstance(error, AuthenticationError)
        assert str(error).isprintable()
        assert PASSWORD not in str(error)


# The renewal of sessions (KIP-368)


def ask_every(cluster: SecuredCluster, client: ConsumerNetworkClient, pause_ms: float, times: int) -> None:
    for _ in range(times):
        ask_any(client, ListGroupsRequest(), client.clock.now_ms() + 1_000)
        cluster.clock.advance(pause_ms)


def test_a_session_is_renewed_on_the_same_connection_before_its_end() -> None:
    cluster = SecuredCluster()
    cluster.lifetime_ms = 3_000
    ask_every(cluster, cluster.secured(), 100, 100)
    assert len(cluster.selector.peers) == 1
    renewals = [index for index, key in enumerate(cluster.keys()) if key == 17]
    assert len(renewals) == 4  # once in the beginning, and every 2.7 s of ten seconds
    assert cluster.keys().count(18) == 1
    assert cluster.keys().count(16) == 100


def test_a_session_without_end_is_not_renewed() -> None:
    cluster = SecuredCluster()
    ask_every(cluster, cluster.secured(), 3_600_000, 3)
    assert cluster.keys().count(17) == 1


def test_the_session_of_an_idle_connection_is_renewed_before_its_next_request() -> None:
    cluster = SecuredCluster()
    cluster.lifetime_ms = 3_000
    ask_every(cluster, cluster.secured(), 60_000, 3)
    assert len(cluster.selector.peers) == 1
    assert cluster.keys() == [18, *[17, 36, 36, 16] * 3]


def test_responses_in_flight_are_awaited_and_no_request_is_sent_during_the_renewal() -> None:
    cluster = SecuredCluster()
    cluster.lifetime_ms = 1_000
    client = cluster.secured("PLAIN")
    node = client.ensure_fresh_metadata(1_000).nodes[1]
    cluster.clock.advance(800)
    answer = cluster.answers[ApiKey.LIST_GROUPS]
    cluster.answers[ApiKey.LIST_GROUPS] = lambda peer, request, version: None
    slow = client.send(node, ListGroupsRequest())
    client.poll(timeout_ms=0)
    correlation_id = cluster.asked[-1].correlation_id
    cluster.clock.advance(150)
    cluster.answers[ApiKey.LIST_GROUPS] = answer
    waiting = client.send(node, ListGroupsRequest())
    client.poll(timeout_ms=10)
    assert cluster.keys() == [18, 17, 36, 3, 16]  # the session is ending, and a response is missing
    assert client.negotiated(1) is not None

    cluster.selector.peers[0].deliver(encode_response(ListGroupsResponse(), cluster.asked[-1].version, correlation_id))
    client.wait(waiting, client.clock.now_ms() + 1_000)
    assert slow.succeeded
    assert cluster.keys() == [18, 17, 36, 3, 16, 17, 36, 16]
    assert len(cluster.selector.peers) == 1
    assert client.metrics.connections == 1


def test_withdrawn_credentials_end_the_calls_at_the_renewal() -> None:
    cluster = SecuredCluster()
    cluster.lifetime_ms = 1_000
    client = cluster.secured("PLAIN")
    node = client.ensure_fresh_metadata(1_000).nodes[1]
    cluster.new_exchange = lambda mechanism: plain_server(lambda user, password: False)
    cluster.clock.advance(950)
    errors: list[KcliError] = [
        failure_of(lambda: ask_node(client, node, ListGroupsRequest(), client.clock.now_ms() + 9_000)),
        failure_of(lambda: client.ensure_fresh_metadata(client.clock.now_ms() + 9_000)),
    ]
    assert [type(error) for error in errors] == [AuthenticationError] * 2
    assert cluster.clock.now_ms() < 2_000


def test_a_connection_that_the_broker_closes_during_the_renewal_is_made_again() -> None:
    cluster = SecuredCluster()
    cluster.lifetime_ms = 1_000
    client = cluster.secured("PLAIN")
    ask_any(client, ListGroupsRequest(), 1_000)
    answer = cluster.answers[ApiKey.SASL_HANDSHAKE]

    def close_once(peer: MemoryPeer, request: Any, version: int) -> Any:
        cluster.answers[ApiKey.SASL_HANDSHAKE] = answer
        peer.hang_up()

    cluster.answers[ApiKey.SASL_HANDSHAKE] = close_once
    cluster.clock.advance(950)
    ask_any(client, ListGroupsRequest(), client.clock.now_ms() + 1_000)
    assert len(cluster.selector.peers) == 2
    assert client.metrics.connections == 1


def test_each_renewal_begins_a_new_exchange() -> None:
    """A mechanism may have other credentials by then, as OAUTHBEARER has a new token."""
    cluster = SecuredCluster(mechanisms=("SCRAM-SHA-256",))
    cluster.lifetime_ms = 1_000
    ask_every(cluster, cluster.secured(), 950, 2)
    first = [a.request.auth_bytes for a in cluster.requests(ApiKey.SASL_AUTHENTICATE)][::2]
    assert len(set(first)) == 2


def test_a_short_session_is_not_renewed_sooner_than_brokers_allow() -> None:
    """A token that is about to expire gives a session of less than a second, the least time between renewals."""
    cluster = SecuredCluster()
    cluster.lifetime_ms = 400
    client = cluster.secured("PLAIN")
    times = []
    for _ in range(20):
        ask_any(client, ListGroupsRequest(), client.clock.now_ms() + 2_000)
        times.append(client.clock.now_ms())
        cluster.clock.advance(100)
    assert len(cluster.selector.peers) == 1
    assert cluster.keys().count(17) == 1 + times[-1] // 1_000
    assert cluster.keys().count(16) == 20
