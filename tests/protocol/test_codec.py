"""Rules of encoding beyond the golden bytes: errors, omitted fields, skipped fields."""

from uuid import UUID

import pytest

from kcli.errors import ProtocolError
from kcli.protocol.codec import decode, encode, encode_parts
from kcli.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.join_group import JoinGroupRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.wire import (
    Array,
    Float64,
    Int32,
    Message,
    Nullable,
    NullableArray,
    String,
    UInt16,
    UInt32,
    message,
    since,
    struct,
)


def test_bodies_written_by_kafka() -> None:
    one_group = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
    )

    # As kafka-clients 4.3.1 writes them.
    assert encode(ApiVersionsRequest(client_software_name="kcli", client_software_version="0.1"), 4).hex() == (
        "056b636c6904302e3100"
    )
    assert encode(ListGroupsRequest(states_filter=["Stable"], types_filter=["consumer"]), 5).hex() == (
        "0207537461626c650209636f6e73756d657200"
    )
    assert encode(OffsetFetchRequest(groups=[one_group], require_stable=True), 8).hex() == (
        "02026702027403000000000000000100000100"
    )


def test_an_unknown_version_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="FetchRequest has versions 4 to 18, not 3"):
        encode(FetchRequest(), 3)
    with pytest.raises(ProtocolError, match="FetchRequest has versions 4 to 18, not 19"):
        decode(FetchRequest, b"", 19)


def test_a_value_that_the_version_lacks_is_an_error_unless_ignorable() -> None:
    static = HeartbeatRequest(group_id="g", group_instance_id="i")
    racked = FetchRequest(rack_id="r")

    with pytest.raises(ProtocolError, match="cannot carry group_instance_id='i'") as caught:
        encode(static, 2)
    assert caught.value.evidence["message"] == "HeartbeatRequest v2"
    assert decode(HeartbeatRequest, encode(static, 3), 3) == static
    assert decode(FetchRequest, encode(racked, 10), 10) == FetchRequest()


def test_a_value_that_the_version_lacks_is_found_inside_arrays() -> None:
    diverged = PartitionData(diverging_epoch=EpochEndOffset(epoch=1))
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(), diverged])])

    with pytest.raises(ProtocolError) as caught:
        encode(response, 11)
    assert caught.value.evidence["field"] == "responses[0].partitions[1].diverging_epoch"


def test_null_is_an_error_if_the_version_does_not_allow_it() -> None:
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=UUID(int=7))])

    assert decode(MetadataRequest, encode(by_id, 12), 12) == by_id
    with pytest.raises(ProtocolError, match="a string cannot be null in this version"):
        encode(by_id, 9)
    with pytest.raises(ProtocolError, match="an array cannot be null in this version"):
        encode(MetadataRequest(topics=None), 0)
    with pytest.raises(ProtocolError, match="an array is null, which this version does not allow"):
        decode(MetadataRequest, b"\xff\xff\xff\xff", 0)
    with pytest.raises(ProtocolError, match="a string is null"):
        decode(HeartbeatRequest, b"\xff\xff" + bytes(8), 0)
    with pytest.raises(ProtocolError, match="a byte string is null"):
        decode(JoinGroupRequest, encode(JoinGroupRequest(), 6)[:-2] + b"\x02\x01\x00\x00\x00", 6)


@pytest.mark.parametrize("length", [b"\xff\xfe", b"\x80\x00"], ids=["-2", "-32768"])
def test_lengths_below_minus_one_are_errors(length: bytes) -> None:
    with pytest.raises(ProtocolError, match="is not a valid length") as caught:
        decode(HeartbeatRequest, length + bytes(20), 0)
    assert caught.value.evidence == {"position": 0, "field": "group_id", "message": "HeartbeatRequest v0"}


def test_any_negative_count_is_null_as_in_kafka() -> None:
    assert decode(MetadataRequest, b"\xff\xff\xff\xfe", 1).topics is None
    with pytest.raises(ProtocolError, match="an array is null, which this version does not allow"):
        decode(MetadataRequest, b"\xff\xff\xff\xfe", 0)


def test_numbers_that_do_not_fit_are_errors_with_the_field() -> None:
    with pytest.raises(ProtocolError, match="2147483648 is not an int32") as caught:
        encode(HeartbeatRequest(generation_id=2**31), 4)
    assert caught.value.evidence["field"] == "generation_id"
    with pytest.raises(ProtocolError, match="-2147483649 is not an int32"):
        encode(MetadataResponse(throttle_time_ms=-(2**31) - 1), 9)
    with pytest.raises(ProtocolError, match="a string of 40000 bytes is longer"):
        encode(HeartbeatRequest(group_id="g" * 40_000), 4)


def test_a_missing_byte_is_an_error_with_field_indices_and_position() -> None:
    partitions = [PartitionData(records=b"abc"), PartitionData(records=b"abc")]
    body = encode(FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)]), 4)

    with pytest.raises(ProtocolError) as caught:
        decode(FetchResponse, body[:-1], 4)

    assert caught.value.message == "the length of a record set is 3 bytes, but only 2 are left"
    assert caught.value.evidence == {
        "position": 78,
        "field": "responses[0].partitions[1].records",
        "message": "FetchResponse v4",
    }


def test_a_value_that_is_not_a_string_is_an_error_with_its_field() -> None:
    with pytest.raises(ProtocolError, match="5 is not a string") as caught:
        encode(HeartbeatRequest(group_id=5), 0)  # type: ignore[arg-type]
    assert caught.value.evidence["field"] == "group_id"


def test_a_string_of_invalid_utf8_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="a string is not valid UTF-8") as caught:
        decode(HeartbeatRequest, b"\0\x02\xff\xfe" + bytes(20), 0)
    assert caught.value.evidence["position"] == 2


def test_records_are_a_view_over_the_frame_and_are_not_copied_by_encode() -> None:
    batch = bytes(range(100))
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=batch)])]
    )

    assert any(part is batch for part in encode_parts(request, 9))
    frame = bytearray(encode(request, 9))
    records = decode(ProduceRequest, frame, 9).topic_data[0].partition_data[0].records

    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert records == batch


def test_bytes_like_values_of_any_type_are_encoded() -> None:
    def written(records: bytes | bytearray | memoryview) -> bytes:
        data = PartitionProduceData(records=records)
        return encode(ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[data])]), 9)

    assert written(bytearray(b"abc")) == written(memoryview(b"abc")) == written(b"abc")


# ---- tagged fields ----


def test_unknown_tagged_fields_are_skipped() -> None:
    body = encode(HeartbeatRequest(group_id="g"), 4)[:-1]

    assert decode(HeartbeatRequest, body + b"\x02\x07\x03abc\x63\x00", 4) == HeartbeatRequest(group_id="g")


@pytest.mark.parametrize(
    ("tags", "complaint"),
    [
        (b"\xff\xff\xff\xff\x0f", "the bytes end inside a varint"),
        (b"\x01\x07\xff\xff\xff\xff\x0f", "the length of tagged field 7 is 4294967295 bytes"),
        (b"\x01\x01\x09" + bytes(9), "a tagged field is longer than its value"),
        (b"\x01\x01\x07" + bytes(8), "the bytes end inside an int64"),
    ],
)
def test_an_inconsistent_tagged_section_is_an_error(tags: bytes, complaint: str) -> None:
    body = encode(ApiVersionsResponse(), 4)[:-1]

    with pytest.raises(ProtocolError, match=complaint):
        decode(ApiVersionsResponse, body + tags, 4)


def test_tagged_fields_are_encoded_in_tag_order_and_only_if_set() -> None:
    response = ApiVersionsResponse(zk_migration_ready=True, finalized_features_epoch=5)

    assert encode(ApiVersionsResponse(), 4).endswith(b"\0\0\0\0\x00")
    assert encode(response, 4).endswith(b"\x02" + b"\x01\x08" + bytes(7) + b"\x05" + b"\x03\x01\x01")
    assert decode(ApiVersionsResponse, encode(response, 4), 4) == response


# ---- what the vocabulary can say, though no message of ours does ----


@struct
class Inner:
    """A struct in Probe."""

    small: UInt16 = 0
    ratio: Float64 = 0.0


@struct
class Nothing:
    """A struct without bytes in classic versions."""

    later: Int32 = since(1, default=0)


@message(key=-1, versions="0-2", flexible="2+")
class Probe(Message):
    """Wire types of Kafka that no message uses."""

    large: UInt32 = 0
    maybe: Nullable[Inner] = None
    nothings: Array[Nothing] = []
    ratios: Array[Float64] = []
    names: NullableArray[String] = since(1, default=None)
    tagged: Nullable[Inner] = since(2, default_factory=Inner, tag=0)


def test_rare_types_are_decoded_as_encoded() -> None:
    probe = Probe(
        large=2**32 - 1,
        maybe=Inner(small=65535, ratio=-0.5),
        nothings=[Nothing(later=4)],
        ratios=[1.5, 2.0**100],
        names=["a", ""],
        tagged=None,
    )

    assert decode(Probe, encode(probe, 2), 2) == probe
    assert encode(Probe(large=1), 1).hex() == "00000001" + "ff" + "00000000" + "00000000" + "ffffffff"
    assert encode(Probe(maybe=Inner(small=2)), 0)[4:15].hex() == "01" + "0002" + "00" * 8


def test_the_count_of_empty_elements_is_bounded() -> None:
    with pytest.raises(ProtocolError, match="an array of 2147483647 elements does not fit in the 4 bytes left"):
        decode(Probe, bytes(4) + b"\xff" + b"\x7f\xff\xff\xff" + bytes(4), 0)


def test_an_array_of_numbers_rejects_values_that_do_not_fit() -> None:
    with pytest.raises(ProtocolError, match="an array holds a number that does not fit"):
        encode(Probe(ratios=["half"]), 0)  # type: ignore[list-item]
    with pytest.raises(ProtocolError, match="an array of 2147483647 elements does not fit"):
        decode(Probe, bytes(4) + b"\xff" + bytes(4) + b"\x7f\xff\xff\xff", 0)


@message(key=55, versions="0-2", flexible="0+")
class QuorumRequest(Message):
    @struct
    class TopicData:
        topic_name: String = ""

    topics: Array[TopicData] = []


@message(key=55, versions="0-2", flexible="0+")
class QuorumResponse(Message):
    @struct
    class TopicData:
        topic_name: String = ""
        leader_id: Int32 = -1

    topics: Array[TopicData] = []


def test_two_structs_of_one_name_are_declared_inside_their_messages() -> None:
    """TopicData is the name of two structs of DescribeQuorum."""
    request = QuorumRequest(topics=[QuorumRequest.TopicData(topic_name="t")])
    response = QuorumResponse(topics=[QuorumResponse.TopicData(topic_name="t", leader_id=3)])
    for sent in (request, response):
        assert decode(type(sent), encode(sent, 0), 0) == sent
    assert type(request.topics[0]) is not type(response.topics[0])
    assert repr(response) == "QuorumResponse(topics=[TopicData(topic_name='t', leader_id=3)])"
