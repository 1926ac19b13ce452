"""ACLs, SCRAM users, delegation tokens and the rights that decisions need."""

from __future__ import annotations

from typing import Any

from kcli.error_codes import ErrorCode
from kcli.protocol.acls import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kcli.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kcli.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kcli.protocol.metadata_records import (
    AccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from tests.broker.controller.quorum import Quorum

ADMIN, ALICE = "User:admin", "User:alice"
SECURED: dict[str, Any] = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:admin;User:ANONYMOUS",
}


def acl(operation: AclOperation, kind: ResourceType = ResourceType.CLUSTER, name: str = CLUSTER_NAME) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=ALICE,
        host="*",
        operation=operation,
        permission_type=AclPermissionType.ALLOW,
    )


def test_acls_are_records_and_decide_about_the_next_request() -> None:
    quorum = Quorum(**SECURED).start(1)
    request = UnregisterBrokerRequest(broker_id=9)
    assert quorum.send(request, principal=ALICE).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    creation = CreateAclsRequest(creations=[acl(AclOperation.ALTER)] * 2)
    assert [one.error_code for one in quorum.send(creation, principal=ADMIN).results] == [0, 0]
    [record] = quorum.records
    assert type(record) is AccessControlEntryRecord
    assert record.id.int
    assert quorum.send(creation, principal=ADMIN).results[0].error_code == 0
    assert quorum.records == []
    assert quorum.send(request, principal=ALICE).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED

    quorum.restart()
    quorum.tick()
    assert quorum.send(request, principal=ALICE).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    every = DeleteAclsFilter(
        resource_type_filter=ResourceType.ANY,
        pattern_type_filter=PatternType.ANY,
        operation=AclOperation.ANY,
        permission_type=AclPermissionType.ANY,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
    )
    [removed] = quorum.send(DeleteAclsRequest(filters=[every]), principal=ADMIN).filter_results
    assert [one.principal for one in removed.matching_acls] == [ALICE]
    assert not quorum.controller.image.acls
    assert quorum.send(request, principal=ALICE).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_rights_on_topics_are_asked_for_the_forwarded_client() -> None:
    quorum = Quorum(**SECURED).start(1)
    assert quorum.create("t", principal=ALICE).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    quorum.send(CreateAclsRequest(creations=[acl(AclOperation.CREATE, ResourceType.TOPIC, "t")]), principal=ADMIN)
    result = quorum.create("t", principal=ALICE)
    assert (result.error_code, result.topic_config_error_code) == (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_without_an_authorizer_there_are_no_acls() -> None:
    response = Quorum().send(CreateAclsRequest(creations=[acl(AclOperation.READ)]))
    assert response.results[0].error_code == ErrorCode.SECURITY_DISABLED


def test_scram_users_are_records_without_passwords() -> None:
    quorum = Quorum()
    upsertion = ScramCredentialUpsertion(
        name="u", mechanism=1, iterations=4096, salt=b"s" * 20, salted_password=b"p" * 32
    )
    assert quorum.send(AlterUserScramCredentialsRequest(upsertions=[upsertion])).results[0].error_code == 0
    [record] = quorum.records
    assert type(record) is UserScramCredentialRecord
    assert (record.name, record.mechanism, record.iterations, len(record.stored_key)) == ("u", 1, 4096, 32)
    assert record.stored_key != upsertion.salted_password != record.server_key

    deletion = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="u", mechanism=1)])
    assert quorum.send(deletion).results[0].error_code == 0
    assert quorum.records == [RemoveUserScramCredentialRecord(name="u", mechanism=1)]
    assert quorum.send(deletion).results[0].error_code == ErrorCode.RESOURCE_NOT_FOUND


def test_delegation_tokens_are_issued_renewed_and_removed() -> None:
    quorum = Quorum(delegation_token_secret_key="key")
    create = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type="User", principal_name="bob")], max_lifetime_ms=10_000
    )
    assert quorum.send(create).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED  # anonymous
    token = quorum.send(create, principal=ALICE)
    [record] = quorum.records
    assert (record.token_id, record.owner, record.renewers) == (token.token_id, ALICE, ["User:bob"])
    assert record.max_timestamp == quorum.clock.wall_ms() + 10_000

    quorum.restart()
    renew = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=5000)
    assert quorum.send(renew, principal="User:eve").error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert quorum.send(renew, principal="User:bob").expiry_timestamp_ms == quorum.clock.wall_ms() + 5000
    expire = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
    assert quorum.send(expire, principal=ALICE).error_code == 0
    assert quorum.records == [RemoveDelegationTokenRecord(token_id=token.token_id)]


def test_expired_tokens_are_removed_with_the_next_request() -> None:
    quorum = Quorum(delegation_token_secret_key="key")
    create = CreateDelegationTokenRequest(max_lifetime_ms=1000)
    first = quorum.send(create, principal=ALICE)
    quorum.clock.advance(1001)
    second = quorum.send(create, principal=ALICE)
    assert list(quorum.controller.image.tokens) == [second.token_id]
    assert first.token_id != second.token_id
