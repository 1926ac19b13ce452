"""ACLs in the data directory."""

from __future__ import annotations

import errno
import json

import pytest

from kcli.broker.config import STANDARD_AUTHORIZER
from kcli.broker.embedded import EmbeddedBroker
from kcli.broker.memory_files import Fault, MemoryFiles
from kcli.broker.security.acl_store import FILE_NAME, AclStore
from kcli.broker.security.authorizer import AclBinding, AclFilter, Authorizer
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.wire import Wire

READ_ORDERS = AclBinding(2, "orders", 3, "User:alice", "*", 3, 3)
WRITE_OR = AclBinding(2, "or", 4, "User:bob", "10.0.0.1", 4, 2)
EVERYTHING = AclFilter(1, None, 1, None, None, 1, 1)


class Disk:
    """A data directory in memory, and the reason why it failed."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.files.make_dir("/data")
        self.failed: list[str] = []

    def open(self) -> AclStore:
        return AclStore(self.files, "/data", Authorizer(), self.failed.append)


def test_acls_survive_a_restart_in_their_order() -> None:
    disk = Disk()
    disk.open().add([READ_ORDERS, WRITE_OR])
    disk.open().add([READ_ORDERS])
    assert disk.open().bindings == (READ_ORDERS, WRITE_OR)


def test_the_file_has_kafkas_names() -> None:
    disk = Disk()
    disk.open().add([WRITE_OR])
    assert json.loads(disk.files.read_bytes(f"/data/{FILE_NAME}"))["acls"] == [
        {
            "resource_type": "TOPIC",
            "resource_name": "or",
            "pattern_type": "PREFIXED",
            "principal": "User:bob",
            "host": "10.0.0.1",
            "operation": "WRITE",
            "permission_type": "DENY",
        }
    ]


def test_removed_acls_are_returned_per_filter_and_gone_after_a_restart() -> None:
    disk = Disk()
    store = disk.open()
    store.add([READ_ORDERS, WRITE_OR])
    alices = EVERYTHING._replace(principal="User:alice")
    assert store.remove([alices, EVERYTHING._replace(principal="User:carol"), alices]) == [
        [READ_ORDERS],
        [],
        [READ_ORDERS],
    ]
    assert store.bindings == disk.open().bindings == (WRITE_OR,)


def test_a_full_disk_refuses_the_change_and_the_old_acls_apply() -> None:
    disk = Disk()
    store = disk.open()
    store.add([READ_ORDERS])
    disk.files.faults.append(Fault("write_atomically", code=errno.ENOSPC))
    with pytest.raises(BrokerError) as refused:
        store.add([WRITE_OR])
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert store.bindings == (READ_ORDERS,)
    assert not disk.failed


def test_another_disk_error_takes_the_directory_offline() -> None:
    disk = Disk()
    store = disk.open()
    disk.files.faults.append(Fault("write_atomically"))
    with pytest.raises(BrokerError):
        store.add([READ_ORDERS])
    assert disk.failed


@pytest.mark.parametrize("damage", [b"{", b'{"version": 2, "acls": []}', b'{"version": 1, "acls": [{}]}', b"[]"])
def test_a_damaged_file_is_an_error_with_its_path(damage: bytes) -> None:
    disk = Disk()
    disk.files.write_atomically(f"/data/{FILE_NAME}", damage)
    with pytest.raises(ConfigError, match=f"/data/{FILE_NAME} is damaged"):
        disk.open()


def test_a_restarted_broker_decides_by_the_same_acls() -> None:
    denied = AclCreation(
        resource_type=2, resource_name="t", principal="User:ANONYMOUS", host="127.0.0.1", operation=8,
        permission_type=2,
    )  # fmt: skip
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("t", "u")])
    with EmbeddedBroker(authorizer_class_name=STANDARD_AUTHORIZER, allow_everyone_if_no_acl_found=True) as broker:
        with Wire(broker.address) as wire:
            assert wire.ask(CreateAclsRequest(creations=[denied]), 3).results[0].error_code == 0
        broker.create_topic("u")
        for _ in range(2):
            with Wire(broker.address) as wire:
                codes = {topic.name: topic.error_code for topic in wire.ask(request, 9).topics}
                assert codes == {"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "u": ErrorCode.NONE}
            broker.restart()
        broker.kill()
        (broker.data_dir / FILE_NAME).write_text("{")
        with pytest.raises(ConfigError, match=rf"{FILE_NAME} is damaged"):
            broker.start()
