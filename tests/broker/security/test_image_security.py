"""ACLs, SCRAM users and delegation tokens of a node follow the image of the metadata log."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kcli.broker.cluster.image import MetadataImage
from kcli.broker.config import BrokerConfig
from kcli.broker.security.allow_all import AllowAll
from kcli.broker.security.authorizer import AclBinding, Authorizer
from kcli.broker.security.image_security import ImageSecurity
from kcli.protocol import metadata_records as records
from kcli.protocol.acls import AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.secret import Secret
from kcli.security.sasl.scram import scram_credential
from tests.broker.node.images import apply, image_of

SHA_256 = "SCRAM-SHA-256"
READ_ORDERS = AclBinding(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW
)
HOUR_MS = 3_600_000


def acl(number: int, binding: AclBinding) -> Any:
    return records.AccessControlEntryRecord(id=UUID(int=number), **binding._asdict())


def scram(user: str, password: str) -> Any:
    made = scram_credential(SHA_256, password)
    return records.UserScramCredentialRecord(
        name=user,
        mechanism=1,
        salt=made.salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=made.iterations,
    )


def token(id: str, expires_ms: int = HOUR_MS) -> Any:
    return records.DelegationTokenRecord(
        owner="User:alice",
        requester="User:alice",
        renewers=["User:bob"],
        issue_timestamp=1,
        max_timestamp=2 * HOUR_MS,
        expiration_timestamp=expires_ms,
        token_id=id,
    )


class Secured:
    def __init__(self, *known: Any) -> None:
        self.image = image_of(*known)
        config = BrokerConfig.from_properties({"delegation.token.secret.key": "key of this test"})
        self.authorizer = Authorizer()
        self.security = ImageSecurity(self.image, config, self.authorizer)

    def apply(self, *changed: Any) -> None:
        self.security.apply(self.image, apply(self.image, *changed))

    def iterations(self, user: str) -> int | None:
        known = self.security.credentials.credential(SHA_256, user)
        return None if known is None else known.iterations

    def tokens(self, now_ms: int = 2) -> dict[str, int]:
        return {token.token_id: token.expiration_timestamp for token in self.security.tokens.current(now_ms)}


def test_acls_follow_the_log() -> None:
    node = Secured(acl(1, READ_ORDERS))
    assert node.authorizer.bindings == (READ_ORDERS,)
    other = READ_ORDERS._replace(resource_name="clicks")
    node.apply(acl(2, other))
    assert node.authorizer.bindings == (READ_ORDERS, other)
    node.apply(records.RemoveAccessControlEntryRecord(id=UUID(int=1)))
    assert node.authorizer.bindings == (other,)


def test_a_node_without_an_authorizer_has_no_acls() -> None:
    authorizer = AllowAll()
    ImageSecurity(image_of(acl(1, READ_ORDERS)), BrokerConfig.from_properties({}), authorizer)
    assert authorizer.bindings == ()


def test_scram_users_follow_the_log() -> None:
    node = Secured(scram("alice", "old"))
    first = node.security.credentials.credential(SHA_256, "alice")
    node.apply(scram("bob", "secret"), scram("alice", "new"))
    assert node.security.credentials.users() == ["alice", "bob"]
    assert node.security.credentials.credential(SHA_256, "alice") != first
    node.apply(records.RemoveUserScramCredentialRecord(name="bob", mechanism=1))
    assert node.security.credentials.users() == ["alice"]


def test_users_of_a_listener_are_known_until_the_log_has_another_password() -> None:
    node = Secured()
    node.security.credentials.ensure(SHA_256, {"alice": Secret("own"), "carol": Secret("own")})
    own = node.security.credentials.credential(SHA_256, "alice")
    node.apply(scram("alice", "of the log"))
    assert node.security.credentials.credential(SHA_256, "alice") != own
    assert node.security.credentials.users() == ["alice", "carol"]
    node.security.credentials.ensure(SHA_256, {"alice": Secret("own")})
    assert node.security.credentials.credential(SHA_256, "alice") != own
    node.apply(records.RemoveUserScramCredentialRecord(name="alice", mechanism=1))
    assert node.security.credentials.users() == ["alice", "carol"]


def test_tokens_follow_the_log() -> None:
    node = Secured(token("t1"))
    assert node.tokens() == {"t1": HOUR_MS}
    assert node.security.tokens.credential(SHA_256, "t1", now_ms=2) is not None
    node.apply(token("t1", expires_ms=HOUR_MS + 5), token("t2"))
    assert node.tokens() == {"t1": HOUR_MS + 5, "t2": HOUR_MS}
    credential = node.security.tokens.credential(SHA_256, "t1", now_ms=2)
    assert credential is not None
    assert (credential.owner, credential.expires_at_wall_ms) == ("alice", HOUR_MS + 5)
    node.apply(records.RemoveDelegationTokenRecord(token_id="t1"))
    assert node.tokens() == {"t2": HOUR_MS}
    assert node.security.tokens.credential(SHA_256, "t1", now_ms=2) is None


def test_expired_tokens_are_not_shown_before_the_controller_removes_them() -> None:
    node = Secured(token("t1", expires_ms=10), token("t2"))
    assert node.tokens(now_ms=11) == {"t2": HOUR_MS}


def test_an_image_of_a_snapshot_replaces_everything() -> None:
    node = Secured(acl(1, READ_ORDERS), scram("alice", "a"), token("t1"))
    image = image_of(scram("bob", "b"))
    node.security.apply(image, apply(MetadataImage()))
    assert node.authorizer.bindings == ()
    assert node.security.credentials.users() == ["bob"]
    assert node.tokens() == {}
