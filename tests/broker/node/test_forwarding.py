"""Requests forwarded to the controller, and producer ids from it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcli.broker.node.forwarding import FORWARDED, NODE_APIS, Forwarder, encode_principal
from kcli.broker.node.node import ControllerIds
from kcli.broker.serving.request_context import CloseConnection, EncodedResponse, RequestContext
from kcli.broker.serving.timer import Timer
from kcli.clock import ManualClock
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.codec import decode
from kcli.protocol.headers import decode_request_header, encode_response
from kcli.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kcli.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kcli.protocol.messages.update_features import UpdateFeaturesRequest
from kcli.protocol.registry import request_type
from tests.broker.cluster.memory_peers import MemoryNetwork

CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=3, replication_factor=1)])


def context(key: int, version: int, **facts: Any) -> RequestContext:
    return RequestContext(key, version, 77, "client", "c1", "10.0.0.7", 0, 0, **facts)


class Scene:
    """A forwarder whose controller answers with `answers`, in order."""

    def __init__(self, *answers: Any) -> None:
        self.clock = ManualClock()
        self.timer = Timer()
        self.network = MemoryNetwork(self.clock, controller=0)
        self.answers = list(answers)
        self.network.serve(0, lambda request, sender: self.answers.pop(0))
        self.forwarder = Forwarder(self.network.peers(2), self.timer, self.clock, timeout_ms=1000)

    def later(self, ms: float) -> None:
        self.clock.advance(ms)
        self.timer.advance(self.clock.now_ms())
        self.network.run()

    @property
    def envelopes(self) -> list[EnvelopeRequest]:
        return [request for _, _, request in self.network.delivered if isinstance(request, EnvelopeRequest)]


def test_the_controller_gets_the_request_as_the_client_sent_it_and_its_answer_is_passed_on() -> None:
    response = encode_response(CreateTopicsResponse(throttle_time_ms=9), 7, 77)
    scene = Scene(EnvelopeResponse(response_data=response))
    answer = scene.forwarder.forward(CREATE, context(19, 7, principal="User:alice"))
    scene.network.run()
    [envelope] = scene.envelopes
    header, at = decode_request_header(envelope.request_data)
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (19, 7, 77, "client")
    assert decode(CreateTopicsRequest, envelope.request_data, 7, at) == CREATE
    assert envelope.request_principal == b"\0\0\x05User\x06alice\0\0"
    assert envelope.client_host_address == bytes([10, 0, 0, 7])
    assert isinstance(answer.value, EncodedResponse)
    assert answer.value.data == response[4:]


def test_a_principal_is_serialized_as_by_kafka() -> None:
    """The bytes of Apache Kafka 4.3.1 for User:ANONYMOUS; a long name has a longer length."""
    assert encode_principal("User:ANONYMOUS") == b"\0\0\x05User\x0aANONYMOUS\0\0"
    assert encode_principal("User:" + "a" * 200, is_token=True)[7:9] == b"\xc9\x01"
    assert encode_principal("User:x", is_token=True)[-2:] == b"\1\0"


def test_a_request_waits_for_the_next_controller() -> None:
    response = encode_response(CreateTopicsResponse(), 7, 77)
    scene = Scene(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER), EnvelopeResponse(response_data=response))
    answer = scene.forwarder.forward(CREATE, context(19, 7))
    scene.network.run()
    assert not answer.is_done
    scene.later(100)
    assert isinstance(answer.value, EncodedResponse)


def test_without_a_controller_the_answer_is_an_error_or_the_connection_is_closed() -> None:
    scene = Scene()
    scene.network.controller = None
    with_code = scene.forwarder.forward(UpdateFeaturesRequest(), context(57, 2))
    without = scene.forwarder.forward(CREATE, context(19, 7))
    scene.network.run()
    for _ in range(12):
        scene.later(100)
    assert with_code.value.error_code == ErrorCode.REQUEST_TIMED_OUT  # type: ignore[union-attr]
    assert isinstance(without.value, CloseConnection)


def test_every_forwarded_api_is_advertised_in_versions_that_kcli_can_read() -> None:
    for key in FORWARDED:
        first, last = request_type(key).VERSIONS
        assert first <= NODE_APIS[key].first_version <= NODE_APIS[key].last_version <= last


def test_producer_ids_come_in_blocks_and_the_next_block_is_requested_early() -> None:
    clock = ManualClock()
    network = MemoryNetwork(clock, controller=0)
    starts = iter(range(5000, 9000, 1000))
    network.serve(0, lambda *_: AllocateProducerIdsResponse(producer_id_start=next(starts), producer_id_len=1000))
    lifecycle: Any = SimpleNamespace(epoch=33)
    ids = ControllerIds(network.peers(2), lifecycle, 2)
    with pytest.raises(BrokerError) as refused:
        ids.next()
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    network.run()
    given = []
    for _ in range(2500):
        given.append(ids.next())
        network.run()
    assert given == list(range(5000, 7500))
    assert [(one.broker_id, one.broker_epoch) for _, _, one in network.delivered] == [(2, 33)] * 3
