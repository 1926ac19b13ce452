"""Requests with any values, of clients and of those who pretend to be brokers: answered or refused, and replayable."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest

from kcli.broker.cluster.features import SUPPORTED_FEATURES
from kcli.broker.cluster.snapshot_records import records_of
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import CloseConnection, error_response, read_request, response_parts
from kcli.errors import BrokerError, ProtocolError
from kcli.protocol.headers import encode_request
from kcli.protocol.messages.alter_partition import BrokerState, PartitionChange
from kcli.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature
from kcli.protocol.metadata_records import encode_record
from kcli.protocol.registry import ApiKey, request_type
from kcli.protocol.wire import FieldType, fields_of
from tests.broker.controller.test_controller_server import PRINCIPAL, Lab, create

REQUESTS = 4000
BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
TEXTS = [
    *("orders", "new", "", "x" * 250, "a b", "..", "__cluster_metadata", "1", "-1", "*", "é", "nan", "1e999"),
    *("min.insync.replicas", "cleanup.policy", "compact", "retention.ms", "follower.replication.throttled.replicas"),
    *("User:alice", "user", "client-id", "ip", "127.0.0.1", "producer_byte_rate", "SCRAM-SHA-256"),
    *("metadata.version", "kraft.version", "eligible.leader.replicas.version", "PLAINTEXT"),
]


class Chance:
    """Random requests, many of which know the epochs and topics of the controller."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.random = Random(seed)
        self.lab = lab

    def request(self, cls: type, version: int) -> Any:
        random, server = self.random, self.lab.server
        assert server is not None
        image = server.controller.image
        given = {}
        for field in fields_of(cls):
            if field.is_in(version) and random.random() < 0.88:
                is_null = field.may_be_null(version) and random.random() < 0.1
                given[field.name] = None if is_null else self.value(field.type, version)
        if "cluster_id" in given:
            given["cluster_id"] = server.cluster_id
        if "max_wait_ms" in given:
            given["max_wait_ms"] = 0
        if cls is BrokerState or {"broker_id", "broker_epoch"} <= given.keys():
            broker = random.choice(list(image.brokers.values()))
            given |= {"broker_id": broker.node_id, "broker_epoch": broker.epoch}
        if cls is PartitionChange and image.topics:
            topic = random.choice(list(image.topics.values()))
            number, state = random.choice(list(topic.partitions.items()))
            given |= {"partition_index": number, "leader_epoch": state.leader_epoch}
            given["partition_epoch"] = state.partition_epoch
        if cls is BrokerRegistrationRequest:
            given["incarnation_id"] = UUID(int=random.randrange(1, 4))
            given["features"] = [
                Feature(name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in SUPPORTED_FEATURES.items()
            ]
        return cls(**given)

    def value(self, type: FieldType, version: int) -> Any:
        random = self.random
        if type.element is not None:
            return [self.value(type.element, version) for _ in range(random.choice((0, 1, 1, 1, 2)))]
        if type.struct is not None:
            return self.request(type.struct, version)
        name = type.wire.name
        if name == "bool":
            return random.random() < 0.3
        if name == "string":
            return random.choice(TEXTS)
        if name in ("bytes", "records"):
            return random.choice((b"", b"\0", bytes(20), PRINCIPAL))
        if name == "uuid":
            return random.choice(self.ids())
        if name == "float64":
            return random.choice((0.0, -1.0, float("inf"), float("nan")))
        if name.startswith("uint"):
            return random.choice((0, 1, 65535))
        bits = BITS[type.wire.code]
        return random.choice((0, 1, 2, 3, -1, -2, 30, 100, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))))

    def ids(self) -> list[UUID]:
        assert self.lab.server is not None
        topics = self.lab.server.controller.image.topics.values()
        return [UUID(int=0), UUID(int=101), UUID(int=2**128 - 1), *(topic.topic_id for topic in topics)]


def exchange(lab: Lab, frame: bytearray) -> None:
    """Handle a frame as the server does. An exception of another kind than these is a defect."""
    server = lab.server
    assert server is not None
    clock = lab.clock
    try:
        request, context = read_request(frame, "1", "127.0.0.1", clock.now_ms(), clock.wall_ms(), served=server._served)
    except CloseConnection:
        return
    try:
        answer = server.handle(request, context)
    except CloseConnection:
        return
    except BrokerError as error:
        answer = error_response(context, error.code)
    if not isinstance(answer, Pending):
        assert answer is not None, request
        response_parts(answer, context, server._served)


def image_of(lab: Lab) -> list[bytes]:
    assert lab.server is not None
    return sorted(map(encode_record, records_of(lab.server.controller.image)))


@pytest.mark.parametrize("seed", [1, 2])
def test_requests_with_random_values_are_answered_and_survive_a_restart(seed: int) -> None:
    lab = Lab()
    server = lab.start()
    try:
        for node_id in (1, 2, 3):
            lab.register(node_id)
        lab.forward(create("orders"), 7)
        chance = Chance(lab, seed)
        # Without the APIs that remove brokers: the requests need the epoch of one.
        keys = sorted(set(server._served) - {int(ApiKey.UNREGISTER_BROKER)})
        for number in range(REQUESTS):
            key = chance.random.choice(keys)
            cls = request_type(key)
            version = chance.random.randint(*cls.VERSIONS)
            request = chance.request(cls, version)
            try:
                frame = bytearray(encode_request(request, version, 7, "c"))
            except ProtocolError:  # a value that this version cannot carry
                continue
            exchange(lab, frame)
            if number % 500 == 499:
                before = image_of(lab)
                if number % 1000 == 999:
                    server.write_snapshot()
                server = lab.start()
                assert image_of(lab) == before
        assert lab.messages == []
    finally:
        lab.stop()
