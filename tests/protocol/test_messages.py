"""Messages as values: keywords, defaults, equality and a short repr."""

import copy
import pickle
from uuid import UUID

import pytest

from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.fetch import EpochEndOffset, FetchRequest, FetchTopic, PartitionData, ReplicaState
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest


def test_every_field_is_optional_and_has_kafkas_default() -> None:
    request = FetchRequest()

    assert request.replica_id == -1
    assert request.max_bytes == 0x7FFFFFFF
    assert request.topics == []
    assert request.replica_state == ReplicaState(replica_id=-1, replica_epoch=-1)
    assert request.cluster_id is None
    assert FetchTopic().topic_id == UUID(int=0)
    assert MetadataRequest().allow_auto_topic_creation is True
    assert ConsumerGroupHeartbeatRequest().topic_partitions is None


def test_an_unknown_keyword_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="HeartbeatRequest has no field grup_id"):
        HeartbeatRequest(grup_id="g")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        HeartbeatRequest("g")  # type: ignore[call-arg]


def test_defaults_are_not_shared_between_messages() -> None:
    one, other = FetchRequest(), FetchRequest()

    one.topics.append(FetchTopic(topic="t"))
    one.replica_state.replica_id = 4

    assert other == FetchRequest()


def test_messages_compare_by_class_and_value() -> None:
    assert HeartbeatRequest(group_id="g") == HeartbeatRequest(group_id="g")
    assert HeartbeatRequest(group_id="g") != HeartbeatRequest(group_id="h")
    assert HeartbeatRequest() != HeartbeatResponse()
    assert PartitionData(records=b"abc") == PartitionData(records=memoryview(b"abc"))
    with pytest.raises(TypeError, match="unhashable"):
        hash(HeartbeatRequest())


def test_repr_hides_secrets() -> None:
    request = SaslAuthenticateRequest(auth_bytes=b"\0alice\0password")
    assert repr(request) == "SaslAuthenticateRequest(auth_bytes=[hidden])"


def test_repr_shows_fields_that_differ_from_the_default() -> None:
    data = PartitionData(
        partition_index=3, diverging_epoch=EpochEndOffset(epoch=2), records=memoryview(bytes(1_000_000))
    )

    assert repr(data) == (
        "PartitionData(partition_index=3, diverging_epoch=EpochEndOffset(epoch=2), records=<1000000 bytes>)"
    )
    assert repr(PartitionData(records=memoryview(b"abc"))) == "PartitionData(records=b'abc')"
    assert repr(HeartbeatRequest()) == "HeartbeatRequest()"


def test_messages_can_be_copied_and_pickled() -> None:
    request = FetchRequest(topics=[FetchTopic(topic="t", topic_id=UUID(int=7))])

    assert pickle.loads(pickle.dumps(request)) == request
    assert copy.deepcopy(request) == request


def test_a_class_has_its_key_and_versions() -> None:
    assert HeartbeatRequest.API_KEY == 12
    assert HeartbeatRequest.VERSIONS == (0, 4)
    assert HeartbeatRequest.FLEXIBLE == 4
    assert HeartbeatRequest.RESPONSE is HeartbeatResponse
