"""Decisions by ACLs: the rules of Kafka's StandardAuthorizer (KIP-11, KIP-290, KIP-679)."""

from __future__ import annotations

import socket

import pytest

from kcli.broker.security.allow_all import AllowAll
from kcli.broker.security.authorizer import AclBinding, AclFilter, Authorizer
from kcli.broker.serving.request_context import RequestContext
from kcli.protocol.acls import SUPPORTED_OPERATIONS, AclOperation, AclPermissionType, PatternType, ResourceType

READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
ANY = 1


def client(name: str = "alice", host: str = "10.0.0.1") -> RequestContext:
    return RequestContext(3, 12, 1, None, "c", host, 0, 0, f"User:{name}")


def acl(
    name: str = "orders",
    operation: AclOperation = READ,
    permission: AclPermissionType = ALLOW,
    *,
    pattern: PatternType = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    kind: ResourceType = TOPIC,
) -> AclBinding:
    return AclBinding(kind, name, pattern, principal, host, operation, permission)


def allows(authorizer: Authorizer, operation: AclOperation, name: str = "orders", kind: ResourceType = TOPIC) -> bool:
    return authorizer.allows(client(), operation, kind, name)


def test_without_an_acl_everything_is_denied() -> None:
    assert not allows(Authorizer(), READ)


def test_an_acl_allows_its_operation_on_its_resource_only() -> None:
    authorizer = Authorizer([acl()])
    assert allows(authorizer, READ)
    assert not allows(authorizer, WRITE)
    assert not allows(authorizer, READ, "orders2")
    assert not allows(authorizer, READ, "orders", GROUP)
    assert not authorizer.allows(client("bob"), READ, TOPIC, "orders")


@pytest.mark.parametrize(
    ("pattern", "name", "matching", "others"),
    [
        (LITERAL, "*", ["orders", "*", "x"], []),
        (PREFIXED, "ord", ["ord", "orders"], ["or", "border"]),
        (PREFIXED, "*", ["*", "*x"], ["orders"]),
        (LITERAL, "ord", ["ord"], ["orders", "or"]),
    ],
)
def test_patterns(pattern: PatternType, name: str, matching: list[str], others: list[str]) -> None:
    authorizer = Authorizer([acl(name, pattern=pattern)])
    assert [one for one in matching + others if allows(authorizer, READ, one)] == matching


def test_a_denial_wins_over_every_permission() -> None:
    for denial in (acl(permission=DENY), acl("o", permission=DENY, pattern=PREFIXED), acl("*", ALL, DENY)):
        for order in ([acl(), denial], [denial, acl()]):
            assert not allows(Authorizer(order), READ)


@pytest.mark.parametrize("operation", list(SUPPORTED_OPERATIONS[TOPIC]))
def test_implied_operations_are_those_of_kafka(operation: AclOperation) -> None:
    authorizer = Authorizer([acl(operation=operation)])
    implied = {
        READ: {DESCRIBE},
        WRITE: {DESCRIBE},
        AclOperation.DELETE: {DESCRIBE},
        AclOperation.ALTER: {DESCRIBE},
        AclOperation.ALTER_CONFIGS: {AclOperation.DESCRIBE_CONFIGS},
    }.get(operation, set())
    assert {one for one in SUPPORTED_OPERATIONS[TOPIC] if allows(authorizer, one)} == {operation} | implied


def test_a_denial_implies_nothing() -> None:
    authorizer = Authorizer([acl(operation=ALL), acl(operation=READ, permission=DENY)])
    assert not allows(authorizer, READ)
    assert allows(authorizer, DESCRIBE)


def test_all_stands_for_every_operation() -> None:
    authorizer = Authorizer([acl(operation=ALL)])
    assert all(allows(authorizer, one) for one in SUPPORTED_OPERATIONS[TOPIC])
    assert not allows(Authorizer([acl(operation=ALL), acl(operation=ALL, permission=DENY)]), DESCRIBE)


def test_principal_and_host_must_match() -> None:
    assert allows(Authorizer([acl(principal="User:*")]), READ)
    assert not allows(Authorizer([acl(principal="User:al*")]), READ)
    assert not allows(Authorizer([acl(principal="Group:alice")]), READ)
    assert allows(Authorizer([acl(host="10.0.0.1")]), READ)
    assert not allows(Authorizer([acl(host="10.0.0.2")]), READ)
    assert not allows(Authorizer([acl(), acl(host="10.0.0.1", permission=DENY)]), READ)
    assert allows(Authorizer([acl(), acl(host="10.0.0.2", permission=DENY)]), READ)


def interface_number(name: str) -> int:
    if name not in ("lo", "eth7"):
        raise OSError(f"no interface with this name: {name}")
    return 1 if name == "lo" else 7


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.1", "::ffff:10.0.0.1"),  # of an IPv6 socket
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::FFFF:A00:1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),  # Java's InetAddress.getHostAddress()
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:DB8:0:0:0:0:0:a", "2001:db8::a"),
        ("fe80:0:0:0:0:0:0:1", "fe80::1%eth7"),  # the address in each scope
        ("fe80:0:0:0:0:0:0:1%eth7", "fe80::1%eth7"),
        ("fe80::1%1", "fe80::1%lo"),
    ],
)
def test_every_notation_of_an_address_is_the_same_host(
    monkeypatch: pytest.MonkeyPatch, host: str, address: str
) -> None:
    monkeypatch.setattr(socket, "if_nametoindex", interface_number)
    here, elsewhere = client(host=address), client(host="10.0.0.2")
    everyone = acl()
    for authorizer, allowed in (
        (Authorizer([everyone, acl(host=host, permission=DENY)]), (False, True)),
        (Authorizer([acl(host=host)]), (True, False)),
    ):
        assert (
            authorizer.allows(here, READ, TOPIC, "orders"),
            authorizer.allows(elsewhere, READ, TOPIC, "orders"),
        ) == allowed
        assert (authorizer.allows_any(here, READ, TOPIC), authorizer.allows_any(elsewhere, READ, TOPIC)) == allowed


@pytest.mark.parametrize("host", ["fe80::1%eth8", "fe80::2", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "1::2::3", ":"])
def test_another_address_or_scope_is_another_host(host: str) -> None:
    assert not Authorizer([acl(host=host)]).allows(client(host="fe80::1%eth7"), READ, TOPIC, "orders")


def test_a_filter_finds_an_address_in_each_notation() -> None:
    condition = AclFilter(ANY, None, ANY, None, "0:0:0:0:0:0:0:1", ANY, ANY)
    bindings = [acl(host="::1"), acl(host="0:0:0:0:0:0:0:1"), acl(host="::2"), acl()]
    assert [condition.matches(binding) for binding in bindings] == [True, True, False, False]


def test_super_users_may_do_everything() -> None:
    authorizer = Authorizer([acl("*", ALL, DENY, principal="User:*")], super_users=["User:alice"])
    assert allows(authorizer, WRITE)
    assert not authorizer.allows(client("bob"), WRITE, TOPIC, "orders")


def test_resources_without_an_acl_can_be_open_to_everyone() -> None:
    authorizer = Authorizer([acl("orders", principal="User:bob")], allow_without_acl=True)
    assert allows(authorizer, WRITE, "others")
    assert not allows(authorizer, WRITE, "orders")
    assert not allows(Authorizer([acl("*", principal="User:bob")], allow_without_acl=True), WRITE, "others")


def test_a_changed_acl_changes_the_next_decision() -> None:
    authorizer = Authorizer([acl()])
    assert allows(authorizer, READ)
    authorizer.replace([acl(permission=DENY)])
    assert not allows(authorizer, READ)
    authorizer.replace([])
    assert not allows(authorizer, READ)


@pytest.mark.parametrize(
    ("bindings", "allowed"),
    [
        ([], False),
        ([acl("x", WRITE)], True),
        ([acl("x", ALL)], True),
        ([acl("x", READ)], False),
        ([acl("x", WRITE, principal="User:bob")], False),
        ([acl("x", WRITE, host="10.9.9.9")], False),
        ([acl("x", WRITE, kind=GROUP)], False),
        ([acl("x", WRITE), acl("x", WRITE, DENY)], False),
        ([acl("x", WRITE), acl("x", ALL, DENY, pattern=PREFIXED)], False),
        ([acl("xy", WRITE, pattern=PREFIXED), acl("xy", WRITE, DENY)], True),
        ([acl("xy", WRITE, pattern=PREFIXED), acl("x", WRITE, DENY, pattern=PREFIXED)], False),
        ([acl("x", WRITE), acl("*", WRITE, DENY)], False),
        ([acl("*", WRITE), acl("x", WRITE, DENY, pattern=PREFIXED)], True),
        ([acl("*", WRITE), acl("*", WRITE, DENY)], False),
    ],
)
def test_writing_to_any_topic(bindings: list[AclBinding], allowed: bool) -> None:
    assert Authorizer(bindings).allows_any(client(), WRITE, TOPIC) is allowed


def test_operations_are_a_bit_field() -> None:
    authorizer = Authorizer([acl()])
    assert authorizer.operations(client(), TOPIC, "orders") == 1 << READ | 1 << DESCRIBE
    assert authorizer.operations(client("bob"), TOPIC, "orders") == 0
    assert AllowAll().operations(client(), TOPIC, "orders") == 0b110111111000


@pytest.mark.parametrize(
    ("condition", "matching"),
    [
        (AclFilter(ANY, None, ANY, None, None, ANY, ANY), "abcd"),
        (AclFilter(TOPIC, None, ANY, None, None, ANY, ANY), "abc"),
        (AclFilter(TOPIC, "orders", LITERAL, None, None, ANY, ANY), "a"),
        (AclFilter(TOPIC, "orders", ANY, None, None, ANY, ANY), "a"),
        (AclFilter(TOPIC, "ord", ANY, None, None, ANY, ANY), "b"),
        (AclFilter(TOPIC, "ord", LITERAL, None, None, ANY, ANY), ""),
        (AclFilter(TOPIC, "orders", PatternType.MATCH, None, None, ANY, ANY), "abc"),
        (AclFilter(TOPIC, "orange", PatternType.MATCH, None, None, ANY, ANY), "c"),
        (AclFilter(TOPIC, None, PatternType.MATCH, None, None, ANY, ANY), "abc"),
        (AclFilter(TOPIC, None, PREFIXED, None, None, ANY, ANY), "b"),
        (AclFilter(ANY, None, ANY, "User:bob", None, ANY, ANY), "c"),
        (AclFilter(ANY, None, ANY, None, "10.0.0.9", ANY, ANY), "d"),
        (AclFilter(ANY, None, ANY, None, None, WRITE, ANY), "c"),
        (AclFilter(ANY, None, ANY, None, None, ALL, ANY), ""),
        (AclFilter(ANY, None, ANY, None, None, ANY, DENY), "c"),
        (AclFilter(0, None, ANY, None, None, ANY, ANY), ""),
        (AclFilter(ANY, "", ANY, None, None, ANY, ANY), ""),
    ],
)
def test_filters(condition: AclFilter, matching: str) -> None:
    bindings = {
        "a": acl(),
        "b": acl("ord", pattern=PREFIXED),
        "c": acl("*", WRITE, DENY, principal="User:bob"),
        "d": acl("orders", host="10.0.0.9", kind=GROUP),
    }
    assert "".join(name for name, binding in bindings.items() if condition.matches(binding)) == matching
