"""Records of a snapshot: an image that is made of them equals the one that they were taken of."""

from uuid import UUID

from kcli.broker.metadata.image import Changes, MetadataImage
from kcli.broker.metadata.snapshot_records import records_of
from kcli.protocol import metadata_records as records
from kcli.protocol.metadata_records import decode_record, encode_record

TOPIC, OTHER = UUID(int=7), UUID(int=8)
ENTITY = [records.EntityData(entity_type="user", entity_name=None)]

HISTORY = [
    records.FeatureLevelRecord(name="group.version", feature_level=1),
    records.FeatureLevelRecord(name="metadata.version", feature_level=30),
    records.RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=UUID(int=11),
        broker_epoch=5,
        end_points=[records.BrokerEndpoint(name="PLAINTEXT", host="a", port=9092)],
        features=[records.BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
        rack="r1",
        log_dirs=[UUID(int=12)],
    ),
    records.RegisterBrokerRecord(broker_id=2, broker_epoch=6, rack=None, cordoned_log_dirs=[UUID(int=13)]),
    records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1),
    records.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=6, in_controlled_shutdown=1),
    records.TopicRecord(name="orders", topic_id=TOPIC),
    records.PartitionRecord(partition_id=0, topic_id=TOPIC, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=0,
                            partition_epoch=0, directories=[UUID(int=12), UUID(int=1)]),
    records.PartitionRecord(partition_id=1, topic_id=TOPIC, replicas=[2, 1], isr=[2], leader=2, leader_epoch=3,
                            partition_epoch=9, leader_recovery_state=1, adding_replicas=[1], removing_replicas=[2]),
    records.PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1], leader=1, eligible_leader_replicas=[2],
                                  last_known_elr=[2]),
    records.TopicRecord(name="empty", topic_id=OTHER),
    records.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1000"),
    records.ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2"),
    records.ClientQuotaRecord(entity=ENTITY, key="request_percentage", value=12.5),
    records.ClientQuotaRecord(entity=ENTITY, key="producer_byte_rate", value=1000.0),
    records.ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=2000),
    records.AccessControlEntryRecord(id=UUID(int=20), resource_type=2, resource_name="orders", pattern_type=3,
                                     principal="User:a", host="*", operation=3, permission_type=3),
    records.UserScramCredentialRecord(name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v",
                                      iterations=4096),
    records.DelegationTokenRecord(owner="User:a", requester="User:a", token_id="t"),
]  # fmt: skip


def image_of(history: list[object]) -> MetadataImage:
    image = MetadataImage()
    for record in history:
        image.apply(record, Changes())
    return image


def test_the_records_of_an_image_make_an_equal_image() -> None:
    image = image_of(list(HISTORY))

    taken = [decode_record(encode_record(record)) for record in records_of(image)]

    assert vars(image_of(taken)) == vars(image)
    assert all(vars(image)[part] for part in vars(image) if part not in ("offset", "epoch"))


def test_the_metadata_version_is_first_because_it_decides_what_others_mean() -> None:
    first, *_ = records_of(image_of(list(HISTORY)))

    assert first == records.FeatureLevelRecord(name="metadata.version", feature_level=30)


def test_an_empty_image_has_no_records() -> None:
    assert list(records_of(MetadataImage())) == []
