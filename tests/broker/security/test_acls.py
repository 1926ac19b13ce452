"""ACLs of a broker alone, in its metadata log."""

from __future__ import annotations

import errno

import pytest

from kcli.broker.cluster.decide.delete_acls import remove_acls
from kcli.broker.config import STANDARD_AUTHORIZER
from kcli.broker.security.authorizer import AclBinding, AclFilter, Authorizer
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.broker.testing.memory_files import Fault
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.single_broker import Node
from tests.broker.wire import Wire

READ_ORDERS = AclBinding(2, "orders", 3, "User:alice", "*", 3, 3)
WRITE_OR = AclBinding(2, "or", 4, "User:bob", "10.0.0.1", 4, 2)
EVERYTHING = AclFilter(1, None, 1, None, None, 1, 1)


class Secured(Node):
    """A broker alone with an authorizer."""

    def start(self) -> None:
        self.authorizer = Authorizer()
        super().start()
        _ = self.alone.security

    def remove(self, *filters: AclFilter) -> list[list[AclBinding]]:
        return self.alone.change(lambda draft: remove_acls(draft, filters))


def test_acls_survive_a_restart_in_their_order() -> None:
    broker = Secured()
    broker.alone.add_acls([READ_ORDERS, WRITE_OR])
    broker.alone.add_acls([READ_ORDERS])
    assert broker.authorizer.bindings == (READ_ORDERS, WRITE_OR)
    broker.restart()
    assert broker.authorizer.bindings == (READ_ORDERS, WRITE_OR)


def test_removed_acls_are_returned_per_filter_and_gone_after_a_restart() -> None:
    broker = Secured()
    broker.alone.add_acls([READ_ORDERS, WRITE_OR])
    alices = EVERYTHING._replace(principal="User:alice")
    assert broker.remove(alices, EVERYTHING._replace(principal="User:carol"), alices) == [
        [READ_ORDERS],
        [],
        [READ_ORDERS],
    ]
    assert broker.authorizer.bindings == (WRITE_OR,)
    broker.restart()
    assert broker.authorizer.bindings == (WRITE_OR,)


def test_a_full_disk_refuses_the_change_and_the_old_acls_apply() -> None:
    broker = Secured()
    broker.alone.add_acls([READ_ORDERS])
    broker.files.faults.append(Fault("append", code=errno.ENOSPC))
    with pytest.raises(BrokerError) as refused:
        broker.alone.add_acls([WRITE_OR])
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.authorizer.bindings == (READ_ORDERS,)
    assert broker.log_manager.failed is None


def test_another_disk_error_takes_the_directory_offline() -> None:
    broker = Secured()
    broker.files.faults.append(Fault("append"))
    with pytest.raises(BrokerError):
        broker.alone.add_acls([READ_ORDERS])
    assert broker.log_manager.failed


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
