"""The numbers of ACLs, equal to Kafka's (tests/vectors/tables.txt)."""

from __future__ import annotations

from kcli.protocol import acls
from tests.protocol.golden import table


def test_numbers_are_kafkas() -> None:
    kafkas = {(enum, int(number), name) for enum, number, name in table("acl")}
    enums = (acls.ResourceType, acls.PatternType, acls.AclOperation, acls.AclPermissionType)
    assert {(enum.__name__, int(one), one.name) for enum in enums for one in enum} == kafkas


def test_operations_of_resources_are_kafkas() -> None:
    kafkas = {name: operations for name, *operations in table("operations")}
    assert {
        kind.name: [one.name for one in sorted(found)] for kind, found in acls.SUPPORTED_OPERATIONS.items()
    } == kafkas


def test_bits_have_names() -> None:
    assert acls.operation_names(1 << 3 | 1 << 8) == ["READ", "DESCRIBE"]
    assert acls.operation_names(1 << 30) == ["30"]
    assert acls.operation_names(0) == []
