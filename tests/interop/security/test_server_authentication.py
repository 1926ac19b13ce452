"""Raw requests to secured listeners, answered alike by Apache Kafka and kcli's broker: SASL, SCRAM users and tokens."""

from __future__ import annotations

import base64
import hashlib
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.error_codes import ErrorCode
from kcli.protocol.headers import encode_request
from kcli.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kcli.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kcli.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kcli.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kcli.secret import Secret
from kcli.security.jaas import JaasEntry
from kcli.security.sasl.scram import ScramClient
from tests.broker.wire import Wire
from tests.conftest import BOTH
from tests.secured_kafka import PLAIN_MODULE, SCRAM_MODULE, USERS, SecuredKafka, jaas

CLOSED = "closed"
NOBODY = "nobody"


class Broker(NamedTuple):
    """The addresses of the listeners SASL and REAUTH, and a function that makes new names."""

    sasl: str
    reauth: str
    plain: str
    new_name: Callable[[str], str]


@pytest.fixture(scope="module", params=BOTH)
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    if request.param == "apache":
        kafka: SecuredKafka = request.getfixturevalue("secured_kafka")
        addresses = [f"127.0.0.1:{kafka.ports[name]}" for name in ("SASL", "REAUTH", "PLAINTEXT")]
        yield Broker(*addresses, kafka.new_name)
        return
    users = {f"user_{user}": password for user, password in USERS.items()}
    names = ("SASL", "REAUTH")
    with EmbeddedBroker(
        listeners="PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,REAUTH://127.0.0.1:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,REAUTH:SASL_PLAINTEXT",
        sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        delegation_token_secret_key="key of tokens",
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:admin;User:ANONYMOUS",
        **{
            "listener.name.reauth.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.reauth.scram-sha-256.connections.max.reauth.ms": "3000",
        },
        **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": jaas(PLAIN_MODULE, **users) for name in names},
        **{
            f"listener.name.{name.lower()}.scram-sha-{bits}.sasl.jaas.config": jaas(SCRAM_MODULE, **users)
            for name in names
            for bits in (256, 512)
        },
    ) as ours:
        count = iter(range(1000))
        addresses = [ours.addresses[name] for name in ("SASL", "REAUTH", "PLAINTEXT")]
        yield Broker(*addresses, lambda prefix: f"{prefix}-{next(count)}")


def plain(user: str, password: str | None = None, authorization_id: str = "") -> bytes:
    return f"{authorization_id}\0{user}\0{USERS[user] if password is None else password}".encode()


def outcome(wire: Wire, request: Any, version: int) -> Any:
    """Return the response, or CLOSED."""
    try:
        return wire.ask(request, version)
    except ConnectionError:
        return CLOSED
    except AssertionError as error:
        if "closed the connection after 0" not in str(error):
            raise
        return CLOSED


def handshake(wire: Wire, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return outcome(wire, SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(wire: Wire, message: bytes, version: int = 2) -> Any:
    return outcome(wire, SaslAuthenticateRequest(auth_bytes=message), version)


@contextmanager
def logged_in(address: str, user: str) -> Iterator[Wire]:
    with Wire(address) as wire:
        assert handshake(wire).error_code == 0
        assert authenticate(wire, plain(user)).error_code == 0
        yield wire


def scram(wire: Wire, user: str, password: str, mechanism: str = "SCRAM-SHA-256", *, by_token: bool = False) -> Any:
    """Return the last answer of a whole exchange, or the first one that is an error."""
    answer = handshake(wire, mechanism)
    if answer == CLOSED or answer.error_code:
        return answer
    options = {"username": user, "password": password, **({"tokenauth": "true"} if by_token else {})}
    login = JaasEntry("", "required", {name: Secret(value) for name, value in options.items()})
    client = ScramClient(mechanism, login).start("localhost")
    message = next(client)
    while True:
        answer = authenticate(wire, message)
        if answer == CLOSED or answer.error_code:
            return answer
        try:
            message = client.send(bytes(answer.auth_bytes))
        except StopIteration:
            return answer


# ---- the state machine ----


@pytest.mark.parametrize("version", [0, 1])
def test_handshake_lists_the_mechanisms(broker: Broker, version: int) -> None:
    with Wire(broker.sasl) as wire:
        answer = handshake(wire, version=version)
        assert answer.error_code == 0
        assert {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} <= set(answer.mechanisms)


def test_unknown_mechanism_is_refused_with_the_enabled_ones_and_the_connection_closed(broker: Broker) -> None:
    with Wire(broker.sasl) as wire:
        answer = handshake(wire, "plain")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert "PLAIN" in answer.mechanisms
        assert handshake(wire) == CLOSED


def test_versions_are_answered_once(broker: Broker) -> None:
    versions = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    with Wire(broker.sasl) as wire:
        assert outcome(wire, versions, 3).error_code == 0
        assert outcome(wire, versions, 3) == CLOSED
    with Wire(broker.sasl) as wire:
        wire.frame(struct.pack(">hhihx", 18, 99, 1, -1))  # an unknown version is answered in v0, and may be repeated
        assert struct.unpack(">ih", wire.read_frame()[:6]) == (1, 35)
        assert outcome(wire, versions, 4).error_code == 0
        assert handshake(wire).error_code == 0
        assert authenticate(wire, plain("alice")).error_code == 0
        assert outcome(wire, versions, 3).error_code == 0


@pytest.mark.parametrize("request_", [MetadataRequest(topics=[]), SaslAuthenticateRequest(auth_bytes=b"\0a\0b")])
@pytest.mark.parametrize("is_first", [True, False])
def test_other_requests_before_the_handshake_close_the_connection(
    broker: Broker, request_: Any, is_first: bool
) -> None:
    with Wire(broker.sasl) as wire:
        if not is_first:
            assert outcome(wire, ApiVersionsRequest(), 0).error_code == 0
        assert outcome(wire, request_, 1) == CLOSED


def test_other_request_within_the_exchange_is_refused(broker: Broker) -> None:
    with Wire(broker.sasl) as wire:
        assert handshake(wire).error_code == 0
        answer = outcome(wire, HeartbeatRequest(group_id="g"), 3)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert authenticate(wire, plain("alice")) == CLOSED


@pytest.mark.parametrize("version", [0, 1, 2])
def test_right_password_is_accepted_and_a_later_handshake_refused(broker: Broker, version: int) -> None:
    with Wire(broker.sasl) as wire:
        assert handshake(wire).error_code == 0
        answer = authenticate(wire, plain("alice"), version)
        assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
        assert answer.session_lifetime_ms == 0
        assert handshake(wire).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert authenticate(wire, plain("alice")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert outcome(wire, MetadataRequest(topics=[]), 9).brokers


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (plain("alice", "wrong"), "Authentication failed: Invalid username or password"),
        (plain("alice", "pw").replace(b"alice", b"nobody"), "Authentication failed: Invalid username or password"),
        (b"\0\0pw", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (plain("alice", authorization_id="alice"), None),
        (
            plain("alice", authorization_id="bob"),
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_plain_is_answered_in_kafkas_words(broker: Broker, message: bytes, sentence: str | None) -> None:
    with Wire(broker.sasl) as wire:
        handshake(wire)
        answer = authenticate(wire, message)
        assert (answer.error_code, answer.error_message) == (58 if sentence else 0, sentence or "")
        assert (outcome(wire, MetadataRequest(topics=[]), 9) == CLOSED) == bool(sentence)


@pytest.mark.parametrize("message", [b"", b"\0", b"alice", b"\0\0\0\0", b"\xff\xfe"])
def test_malformed_plain_message_is_refused(broker: Broker, message: bytes) -> None:
    with Wire(broker.sasl) as wire:
        handshake(wire)
        assert authenticate(wire, message).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_bare_frames_follow_version_0_of_the_handshake(broker: Broker) -> None:
    with Wire(broker.sasl) as wire:
        assert handshake(wire, version=0).error_code == 0
        assert wire.frame(plain("alice")).read_frame() == b""
        assert outcome(wire, MetadataRequest(topics=[]), 9).brokers
    with Wire(broker.sasl) as wire:
        assert handshake(wire, version=0).error_code == 0
        assert wire.frame(plain("alice", "wrong")).seconds_until_closed() >= 0


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_accepts_the_password_only(broker: Broker, mechanism: str) -> None:
    with Wire(broker.sasl) as wire:
        assert scram(wire, "alice", USERS["alice"], mechanism).error_code == 0
        assert outcome(wire, MetadataRequest(topics=[]), 9).brokers
    sentence = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    for user in ("alice", NOBODY):
        with Wire(broker.sasl) as wire:
            answer = scram(wire, user, "wrong", mechanism)
            assert (answer.error_code, answer.error_message) == (58, sentence)


@pytest.mark.parametrize(
    "message",
    [b"", b"y,,n=alice,r=abc", b"n,,n=a=b,r=abc", b"n,a=bob,n=alice,r=abc", b"n,,r=abc,n=alice", b"n,,n=alice"],
)
def test_malformed_scram_message_is_refused(broker: Broker, message: bytes) -> None:
    with Wire(broker.sasl) as wire:
        handshake(wire, "SCRAM-SHA-256")
        assert authenticate(wire, message).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_request_beyond_the_limit_before_the_authentication_closes_the_connection(broker: Broker) -> None:
    with Wire(broker.sasl) as wire:
        handshake(wire)
        frame = encode_request(SaslAuthenticateRequest(auth_bytes=b"x" * 524_288), 2, 1, "c")
        wire.raw(struct.pack(">i", len(frame)))
        assert wire.seconds_until_closed() < 5
    with Wire(broker.sasl) as wire:
        handshake(wire)
        assert authenticate(wire, b"x" * 524_000).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


# ---- re-authentication ----


def test_session_is_renewed_on_the_same_connection(broker: Broker) -> None:
    with Wire(broker.reauth) as wire:
        for _ in range(2):
            assert scram(wire, "alice", USERS["alice"]).session_lifetime_ms == 3000
        assert outcome(wire, MetadataRequest(topics=[]), 9).brokers
        assert handshake(wire, "SCRAM-SHA-256").error_code == ErrorCode.ILLEGAL_SASL_STATE, "within a second"
        assert outcome(wire, MetadataRequest(topics=[]), 9).brokers


def test_renewal_must_not_change_the_principal(broker: Broker) -> None:
    with Wire(broker.reauth) as wire:
        scram(wire, "alice", USERS["alice"])
        answer = scram(wire, "bob", USERS["bob"])
        sentence = "Cannot change principals during re-authentication from User.alice: User.bob"
        assert (answer.error_code, answer.error_message) == (58, sentence)
        assert outcome(wire, MetadataRequest(topics=[]), 9) == CLOSED


def test_wrong_password_of_a_renewal_closes_the_connection(broker: Broker) -> None:
    with Wire(broker.reauth) as wire:
        scram(wire, "alice", USERS["alice"])
        answer = scram(wire, "alice", "wrong")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "during re-authentication due to invalid credentials" in answer.error_message
        assert outcome(wire, MetadataRequest(topics=[]), 9) == CLOSED


def test_other_requests_during_a_renewal_are_refused(broker: Broker) -> None:
    with Wire(broker.reauth) as wire:
        scram(wire, "alice", USERS["alice"])
        assert handshake(wire, "SCRAM-SHA-256").error_code == 0
        assert outcome(wire, HeartbeatRequest(group_id="g"), 3).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert handshake(wire, "SCRAM-SHA-256") == CLOSED


# ---- SCRAM users ----


def upsertion(user: str, mechanism: int = 1, iterations: int = 4096, password: bytes = b"pw") -> Any:
    salted = hashlib.pbkdf2_hmac({2: "sha512"}.get(mechanism, "sha256"), password, b"salty", iterations)
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=b"salty", salted_password=salted
    )


def alter(wire: Wire, *requested: Any) -> list[tuple[str, int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[one for one in requested if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in requested if isinstance(one, ScramCredentialUpsertion)],
    )
    return sorted((row.user, row.error_code, row.error_message) for row in wire.ask(request, 0).results)


def described(wire: Wire, *users: str) -> list[tuple[str, int, str | None, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users])
    answer = wire.ask(request, 0)
    assert (answer.error_code, answer.error_message) == (0, "")
    return sorted(
        (
            row.user,
            row.error_code,
            row.error_message,
            sorted((info.mechanism, info.iterations) for info in row.credential_infos),
        )
        for row in answer.results
    )


def test_users_are_created_log_in_and_are_removed(broker: Broker) -> None:
    user = broker.new_name("user")
    with logged_in(broker.sasl, "admin") as wire:
        for requested in (upsertion(user), upsertion(user, 2, 8192)):
            assert alter(wire, requested) == [(user, 0, None)]
        until(lambda: len(described(wire, user)[0][3]) == 2)
        assert described(wire, user) == [(user, 0, "", [(1, 4096), (2, 8192)])]
        until(lambda: login_code(broker, user) == 0)
        assert alter(wire, ScramCredentialDeletion(name=user, mechanism=1)) == [(user, 0, None)]
        until(lambda: described(wire, user) == [(user, 0, "", [(2, 8192)])])
        until(lambda: login_code(broker, user) == 58)


def login_code(broker: Broker, user: str) -> int:
    """Return the error code of a login. Apache's broker describes a user before it applies the credentials."""
    with Wire(broker.sasl) as own:
        return int(scram(own, user, "pw").error_code)


def until(condition: Callable[[], bool]) -> None:
    """Wait for the condition: Apache's controller answers before its broker knows the change."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the change is not seen"


def test_invalid_users_are_refused_in_kafkas_words(broker: Broker) -> None:
    user = broker.new_name("user")
    with logged_in(broker.sasl, "admin") as wire:
        for requested, code, sentence in (
            (upsertion(user, iterations=4095), 93, "Too few iterations"),
            (upsertion(user, iterations=16_385), 93, "Too many iterations"),
            (upsertion(""), 93, "Username must not be empty"),
            (upsertion(user, 3), 33, "Unknown SCRAM mechanism"),
            (
                ScramCredentialDeletion(name=user, mechanism=1),
                91,
                "Attempt to delete a user credential that does not exist",
            ),
        ):
            assert alter(wire, requested) == [(requested.name, code, sentence)]
        twice = "A user credential cannot be altered twice in the same request"
        for other in (upsertion(user), upsertion(user, 2)):
            assert alter(wire, upsertion(user), other) == [(user, 92, twice)]
        assert alter(wire, upsertion(user)) == [(user, 0, None)]
        until(lambda: described(wire, user)[0][1] == 0)
        deletion = ScramCredentialDeletion(name=user, mechanism=1)
        assert alter(wire, deletion, upsertion(user, 2)) == [(user, 92, twice)]
        assert alter(wire, deletion) == [(user, 0, None)]
        until(lambda: described(wire, user)[0][1] == 91)
        missing = f"Attempt to describe a user credential that does not exist: {user}"
        assert described(wire, user) == [(user, 91, missing, [])]
        repeated = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        assert described(wire, user, user) == [(user, 92, repeated, [])]


def test_users_without_rights_neither_see_nor_change_users(broker: Broker) -> None:
    with logged_in(broker.sasl, "alice") as wire:
        assert [row[:2] for row in alter(wire, upsertion("bob", password=b"hijacked"))] == [("bob", 31)]
        request = DescribeUserScramCredentialsRequest(users=[UserName(name="bob")])
        assert wire.ask(request, 0).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


# ---- delegation tokens ----


def create(wire: Wire, *renewers: str, lifetime_ms: int = -1, kind: str = "User", owner: str | None = None) -> Any:
    listed = [CreatableRenewers(principal_type=kind, principal_name=name) for name in renewers]
    return wire.ask(
        CreateDelegationTokenRequest(
            owner_principal_type="User" if owner else None,
            owner_principal_name=owner,
            renewers=listed,
            max_lifetime_ms=lifetime_ms,
        ),
        3,
    )


def token_ids(wire: Wire, *owners: str, all_of_them: bool = False) -> list[str]:
    named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    answer = wire.ask(DescribeDelegationTokenRequest(owners=None if all_of_them else named), 3)
    assert answer.error_code == 0
    return [token.token_id for token in answer.tokens]


def renew(wire: Wire, hmac: bytes, period_ms: int = -1) -> tuple[int, int]:
    answer = wire.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), 2)
    return answer.error_code, answer.expiry_timestamp_ms


def expire(wire: Wire, hmac: bytes, period_ms: int = -1) -> tuple[int, int]:
    answer = wire.ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), 2)
    return answer.error_code, answer.expiry_timestamp_ms


def test_token_authenticates_its_owner_for_the_rest_of_its_life(broker: Broker) -> None:
    with logged_in(broker.sasl, "alice") as alice:
        token = create(alice, lifetime_ms=600_000)
        assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "alice", "alice")
        assert token.expiry_timestamp_ms == token.max_timestamp_ms == token.issue_timestamp_ms + 600_000
        until(lambda: token.token_id in token_ids(alice, "alice"))
        password = base64.b64encode(token.hmac).decode()
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            with Wire(broker.sasl) as wire:
                answer = scram(wire, token.token_id, password, mechanism, by_token=True)
                assert 0 < answer.session_lifetime_ms <= 600_000
                assert create(wire).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        with Wire(broker.sasl) as wire:
            assert scram(wire, token.token_id, password).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED, (
                "without tokenauth"
            )
        with Wire(broker.sasl) as wire:
            assert (
                scram(wire, token.token_id, "wrong", by_token=True).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            )
        assert expire(alice, token.hmac)[0] == 0
        until(lambda: token.token_id not in token_ids(alice, "alice"))
        with Wire(broker.sasl) as wire:
            assert (
                scram(wire, token.token_id, password, by_token=True).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            )


def test_rules_of_renewal_and_expiry(broker: Broker) -> None:
    with logged_in(broker.sasl, "alice") as alice, logged_in(broker.sasl, "bob") as bob:
        token = create(alice, "bob")
        until(lambda: token.token_id in token_ids(bob, "alice"))
        other = create(alice)
        until(lambda: other.token_id in token_ids(alice, "alice"))
        assert renew(bob, other.hmac) == (63, 0)
        assert expire(bob, other.hmac) == (63, 0)
        assert renew(alice, b"no such token") == (62, 0)
        assert expire(alice, b"no such token") == (62, 0)
        code, expires_ms = renew(bob, token.hmac, 1000)
        assert (code, expires_ms < token.expiry_timestamp_ms) == (0, True)
        code, expires_ms = expire(bob, token.hmac, 50_000)
        assert (code, expires_ms <= token.max_timestamp_ms) == (0, True)
        for one in (token, other):
            assert expire(alice, one.hmac)[0] == 0


def test_tokens_are_visible_to_those_whom_they_concern(broker: Broker) -> None:
    with logged_in(broker.sasl, "alice") as alice, logged_in(broker.sasl, "bob") as bob:
        shared, own = create(alice, "bob"), create(alice)
        until(lambda: own.token_id in token_ids(alice, "alice"))
        assert {shared.token_id, own.token_id} <= set(token_ids(alice, all_of_them=True))
        assert token_ids(bob, all_of_them=True) == [shared.token_id]
        assert token_ids(bob, "alice") == [shared.token_id]
        assert token_ids(alice) == [], "an empty list of owners"
        with logged_in(broker.sasl, "admin") as admin:
            assert {shared.token_id, own.token_id} <= set(token_ids(admin, "alice"))
        for one in (shared, own):
            assert expire(alice, one.hmac)[0] == 0
        until(lambda: token_ids(alice, "alice") == [])


def test_requests_for_tokens_that_are_refused(broker: Broker) -> None:
    with Wire(broker.plain) as wire:
        assert create(wire).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert renew(wire, b"x") == (64, -1)
        assert expire(wire, b"x") == (64, -1)
        assert (
            wire.ask(DescribeDelegationTokenRequest(owners=None), 3).error_code
            == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        )
    with logged_in(broker.sasl, "alice") as alice:
        refused = create(alice, "group", kind="Group")
        assert (refused.error_code, refused.issue_timestamp_ms, refused.token_id) == (67, -1, "")
        denied = create(alice, owner="bob")
        assert (denied.error_code, denied.principal_name, denied.token_requester_principal_name) == (65, "bob", "alice")
