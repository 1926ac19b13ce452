"""The APIs of SCRAM users (KIP-554) and delegation tokens (KIP-48): Apache Kafka's codes and messages, and storage."""

from __future__ import annotations

import base64
import errno
import stat
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.files import DiskFiles
from kcli.broker.security.acl_rules import allow
from kcli.broker.security.authorizer import Authorizer
from kcli.broker.serving.request_context import RequestContext
from kcli.broker.testing.memory_files import Fault
from kcli.error_codes import ErrorCode
from kcli.protocol.codec import decode, encode
from kcli.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kcli.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kcli.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kcli.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kcli.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kcli.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kcli.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kcli.protocol.metadata_records import DelegationTokenRecord
from kcli.protocol.wire import Request
from kcli.secret import Secret
from kcli.security.sasl.scram import scram_credential
from tests.broker.single_broker import DATA, Node

LOG = "/data/__cluster_metadata-0/00000000000000000000.log"
LISTENERS = {
    "listeners": "PLAINTEXT://:1,SSL://:2,SASL_SSL://:3",
    "delegation.token.secret.key": "key",
    "delegation.token.max.lifetime.ms": "1000000",
    "delegation.token.expiry.time.ms": "100000",
}
DAY_MS = 86_400_000


class Users(Node):
    """A broker alone; `ask` sends a request of a principal."""

    def __init__(self, files: Any = None, data_dir: str = DATA, **properties: str) -> None:
        super().__init__(files, data_dir, **{**LISTENERS, **properties})

    def protocol_of(self, context: RequestContext) -> str:
        return self.config.protocol_of(context.listener)

    @property
    def credentials(self) -> Any:
        return self.alone.security.credentials

    @property
    def tokens(self) -> Any:
        return self.alone.security.tokens

    def ask(
        self,
        request: Request[Any],
        version: int,
        principal: str = "User:alice",
        listener: str = "SASL_SSL",
        is_token: bool = False,
    ) -> Any:
        key = request.API_KEY
        context = RequestContext(
            key, version, 1, "c", "1", "10.0.0.1", self.clock.now_ms(), self.clock.wall_ms(), principal, listener,
            is_token,
        )  # fmt: skip
        arrived = decode(type(request), encode(request, version), version)
        response = self.answer(arrived, context)
        return decode(type(response), encode(response, version), version)

    # ---- SCRAM users ----

    def alter(
        self, *requested: ScramCredentialUpsertion | ScramCredentialDeletion
    ) -> dict[str, tuple[int, str | None]]:
        request = AlterUserScramCredentialsRequest(
            deletions=[one for one in requested if isinstance(one, ScramCredentialDeletion)],
            upsertions=[one for one in requested if isinstance(one, ScramCredentialUpsertion)],
        )
        return {row.user: (row.error_code, row.error_message) for row in self.ask(request, 0).results}

    def described(self, *users: str) -> dict[str, Any]:
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users])
        return {
            row.user: row.error_message or {info.mechanism: info.iterations for info in row.credential_infos}
            for row in self.ask(request, 0).results
        }

    # ---- tokens ----

    def create(self, principal: str = "User:alice", max_lifetime_ms: int = -1, *renewers: str, **asked: Any) -> Any:
        listed = [CreatableRenewers(principal_type="User", principal_name=name) for name in renewers]
        request = CreateDelegationTokenRequest(renewers=listed, max_lifetime_ms=max_lifetime_ms)
        return self.ask(request, 3, principal, **asked)

    def described_tokens(self, principal: str = "User:alice", *owners: str) -> list[str]:
        named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
        response = self.ask(DescribeDelegationTokenRequest(owners=named if owners else None), 3, principal)
        assert response.error_code == 0
        return [token.token_id for token in response.tokens]


def upsertion(user: str = "alice", mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    import hashlib

    salted = hashlib.pbkdf2_hmac({1: "sha256", 2: "sha512"}.get(mechanism, "sha256"), b"pw", b"salt", iterations)
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def test_users_are_set_described_and_removed() -> None:
    broker = Users()
    assert broker.alter(upsertion(), upsertion("bob")) == {"alice": (0, None), "bob": (0, None)}
    assert broker.alter(upsertion("bob", 2, 8192)) == {"bob": (0, None)}
    assert broker.described() == {"alice": {1: 4096}, "bob": {1: 4096, 2: 8192}}
    broker.restart()
    assert broker.described("bob") == {"bob": {1: 4096, 2: 8192}}
    assert broker.credentials.credential("SCRAM-SHA-256", "alice") == scram_credential(
        "SCRAM-SHA-256", "pw", 4096, b"salt"
    )
    assert broker.alter(ScramCredentialDeletion(name="bob", mechanism=1)) == {"bob": (0, None)}
    assert broker.described() == {"alice": {1: 4096}, "bob": {2: 8192}}


def test_unknown_and_repeated_users_are_errors_of_their_rows() -> None:
    broker = Users()
    broker.alter(upsertion())
    assert broker.described("carol", "alice") == {
        "carol": "Attempt to describe a user credential that does not exist: carol",
        "alice": {1: 4096},
    }
    request = DescribeUserScramCredentialsRequest(users=[UserName(name="alice"), UserName(name="alice")])
    assert [row.error_code for row in broker.ask(request, 0).results] == [92]


@pytest.mark.parametrize(
    ("requested", "code", "message"),
    [
        (upsertion(iterations=4095), 93, "Too few iterations"),
        (upsertion(iterations=16_385), 93, "Too many iterations"),
        (upsertion(""), 93, "Username must not be empty"),
        (upsertion(mechanism=3), 33, "Unknown SCRAM mechanism"),
        (
            ScramCredentialDeletion(name="alice", mechanism=2),
            91,
            "Attempt to delete a user credential that does not exist",
        ),
    ],
)
def test_invalid_changes_are_refused_per_user(requested: Any, code: int, message: str) -> None:
    broker = Users()
    answered = broker.alter(requested, upsertion("bob"))
    assert answered == {requested.name: (code, message), "bob": (0, None)}
    assert broker.described() == {"bob": {1: 4096}}


def test_user_cannot_be_altered_twice_in_a_request() -> None:
    broker = Users()
    sentence = "A user credential cannot be altered twice in the same request"
    assert broker.alter(upsertion(), upsertion(), upsertion("bob")) == {"alice": (92, sentence), "bob": (0, None)}
    assert broker.alter(upsertion("bob", 2), ScramCredentialDeletion(name="bob", mechanism=1)) == {
        "bob": (92, sentence)
    }


def test_users_of_the_cluster_need_rights_on_it() -> None:
    broker = Users()
    broker.authorizer = Authorizer([allow("alice", "DESCRIBE", cluster=True)])
    assert broker.alter(upsertion("bob"))["bob"][0] == 31
    assert broker.described() == {}
    assert (
        broker.ask(DescribeUserScramCredentialsRequest(users=None), 0, "User:carol").error_code
        == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    broker.authorizer = Authorizer([allow("alice", "ALTER", cluster=True)])
    assert broker.alter(upsertion("bob"))["bob"][0] == 0
    assert broker.described("bob") == {"bob": {1: 4096}}


def test_quotas_are_described_as_none() -> None:
    """kafka-configs.sh asks for them before it lists users."""
    broker = Users()
    answer = broker.ask(DescribeClientQuotasRequest(), 1)
    assert (answer.error_code, answer.entries) == (0, [])
    broker.authorizer = Authorizer()
    answer = broker.ask(DescribeClientQuotasRequest(), 1)
    assert (answer.error_code, answer.entries) == (31, None)


def test_no_password_is_in_the_data_directory() -> None:
    broker = Users()
    broker.credentials.ensure("SCRAM-SHA-256", {"alice": Secret("pw of alice")})
    stored = broker.files.read_bytes(LOG)
    assert b"pw of alice" not in stored
    assert b"alice" in stored


def test_only_the_owner_can_read_the_log_with_the_credentials(tmp_path: Path) -> None:
    """With the keys of a user, a thief can act as the broker towards that user."""
    (tmp_path / "data").mkdir()
    broker = Users(DiskFiles(), str(tmp_path / "data"))
    broker.alter(upsertion())
    files = list((tmp_path / "data/__cluster_metadata-0").iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in files if path.suffix == ".log"} == {0o600}


def test_known_passwords_are_kept_and_other_ones_replaced() -> None:
    broker = Users()
    for password in ("one", "one", "two"):
        before = broker.credentials.credential("SCRAM-SHA-256", "alice")
        broker.credentials.ensure("SCRAM-SHA-256", {"alice": Secret(password)})
        after = broker.credentials.credential("SCRAM-SHA-256", "alice")
        assert (before == after) == (before is not None and password == "one")


def test_full_disk_refuses_a_change_as_a_whole() -> None:
    broker = Users()
    broker.alter(upsertion())

    broker.files.faults.append(Fault("append", LOG, errno.ENOSPC, times=2))
    assert broker.alter(upsertion("bob"))["bob"][0] == 56
    assert broker.described() == {"alice": {1: 4096}}
    assert broker.create().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.described_tokens() == []
    assert broker.log_manager.failed is None


# ---- delegation tokens ----


def test_token_has_the_lifetimes_of_the_broker() -> None:
    broker = Users()
    now_ms = broker.clock.wall_ms()
    token = broker.create()
    assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "alice", "alice")
    assert (token.issue_timestamp_ms, token.max_timestamp_ms) == (now_ms, now_ms + 1_000_000)
    assert token.expiry_timestamp_ms == now_ms + 100_000
    short = broker.create("User:alice", 5000)
    assert (short.max_timestamp_ms, short.expiry_timestamp_ms) == (now_ms + 5000, now_ms + 5000)
    assert broker.create("User:alice", 10 * DAY_MS).max_timestamp_ms == now_ms + 1_000_000


def test_token_authenticates_its_owner_until_it_expires() -> None:
    broker = Users()
    token = broker.create()
    broker.restart()  # the HMAC follows from the key, so it survives a restart
    known = broker.tokens.credential("SCRAM-SHA-512", token.token_id, broker.clock.wall_ms())
    assert known is not None
    assert (known.owner, known.expires_at_wall_ms) == ("alice", token.expiry_timestamp_ms)
    password = base64.b64encode(token.hmac).decode()
    assert known.stored_key == scram_credential("SCRAM-SHA-512", password, known.iterations, known.salt).stored_key
    assert broker.tokens.credential("SCRAM-SHA-512", token.token_id, token.expiry_timestamp_ms + 1) is None
    assert broker.tokens.credential("SCRAM-SHA-512", "other", 0) is None
    assert base64.b64encode(token.hmac) not in broker.files.read_bytes(LOG)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"listener": "PLAINTEXT"}, 64),
        ({"listener": "SSL", "principal": "User:ANONYMOUS"}, 64),
        ({"listener": "SASL_SSL", "is_token": True}, 64),
        ({"listener": "SSL", "principal": "User:alice"}, 0),
    ],
)
def test_clients_without_an_identity_of_their_own_get_no_tokens(asked: dict[str, Any], code: int) -> None:
    broker = Users()
    hmac = broker.create().hmac
    assert broker.create(**asked).error_code == code
    requests: list[tuple[Any, int]] = [
        (RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=-1), 2),
        (ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1), 2),
        (DescribeDelegationTokenRequest(owners=None), 3),
    ]
    for request, version in requests:
        assert broker.ask(request, version, **asked).error_code == code


def test_tokens_are_disabled_without_a_secret_key() -> None:
    broker = Users()
    del broker.properties["delegation.token.secret.key"]
    broker.restart()
    assert (broker.create().error_code, broker.create().expiry_timestamp_ms) == (61, -1)
    assert broker.ask(RenewDelegationTokenRequest(hmac=b"x"), 2).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert (
        broker.ask(DescribeDelegationTokenRequest(owners=None), 3).error_code
        == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    )


def test_renewers_must_be_users() -> None:
    request = CreateDelegationTokenRequest(renewers=[CreatableRenewers(principal_type="Group", principal_name="g")])
    assert Users().ask(request, 3).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_only_owner_requester_and_renewers_renew_and_expire() -> None:
    broker = Users()
    token = broker.create("User:alice", -1, "bob")
    broker.clock.advance(50_000)
    now_ms = broker.clock.wall_ms()

    def renew(principal: str, period_ms: int = -1) -> tuple[int, int]:
        response = broker.ask(RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=period_ms), 2, principal)
        return response.error_code, response.expiry_timestamp_ms

    assert renew("User:carol") == (63, 0)
    assert renew("User:bob") == (0, now_ms + 100_000)
    assert renew("User:alice", 2000) == (0, now_ms + 2000)
    assert broker.ask(RenewDelegationTokenRequest(hmac=b"other"), 2).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    broker.clock.advance(2001)
    assert renew("User:alice") == (66, 0)


def test_expiry_is_at_once_or_after_a_period() -> None:
    broker = Users()
    token, other = broker.create(), broker.create()
    now_ms = broker.clock.wall_ms()

    def expire(hmac: bytes, period_ms: int, principal: str = "User:alice") -> tuple[int, int]:
        response = broker.ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), 2, principal)
        return response.error_code, response.expiry_timestamp_ms

    assert expire(token.hmac, 0, "User:carol") == (63, 0)
    assert expire(token.hmac, 3000) == (0, now_ms + 3000)
    assert expire(token.hmac, -1) == (0, now_ms)
    assert expire(token.hmac, -1) == (62, 0)
    assert broker.described_tokens() == [other.token_id]
    broker.restart()
    assert broker.described_tokens() == [other.token_id]


def test_tokens_are_described_to_those_whom_they_concern() -> None:
    broker = Users()
    broker.authorizer = Authorizer()
    alices = broker.create("User:alice", -1, "bob").token_id
    carols = broker.create("User:carol").token_id
    assert broker.described_tokens("User:alice") == [alices]
    assert broker.described_tokens("User:bob") == [alices]
    assert broker.described_tokens("User:bob", "carol") == []
    assert broker.described_tokens("User:dave") == []
    assert broker.ask(DescribeDelegationTokenRequest(owners=[]), 3).tokens == []
    broker.authorizer = Authorizer([allow("dave", "DESCRIBE", delegation_token=carols)])
    assert broker.described_tokens("User:dave") == [carols]
    broker.authorizer = Authorizer([allow("dave", "DESCRIBE_TOKENS", user="User:alice")])
    assert broker.described_tokens("User:dave") == [alices]
    broker.clock.advance(DAY_MS)
    assert broker.described_tokens("User:alice") == []


def test_token_for_another_owner_needs_the_right_to_create_it() -> None:
    broker = Users()
    broker.authorizer = Authorizer([allow("alice", "CREATE_TOKENS", user="User:bob")])
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob", max_lifetime_ms=-1)
    token = broker.ask(request, 3)
    assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "bob", "alice")
    assert broker.ask(request, 3, "User:carol").error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert broker.described_tokens("User:alice") == [token.token_id], "the requester"
    known = broker.tokens.credential("SCRAM-SHA-256", token.token_id, broker.clock.wall_ms())
    assert known is not None
    assert known.owner == "bob"


def test_repr_of_tokens_has_no_secret() -> None:
    token = DelegationTokenRecord(token_id="id", owner="User:alice", requester="User:alice")
    broker = Users()
    assert base64.b64encode(broker.tokens.hmac("id")).decode() not in repr(token)
