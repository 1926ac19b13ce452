"""Images of clusters for tests: records applied one by one, as a node does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kcli.broker.cluster.image import Changes, MetadataImage
from kcli.protocol import metadata_records as records


def topic_id(number: int) -> UUID:
    return UUID(int=1000 + number)


def broker_record(node: int, *, fenced: bool = False, port: int = 0, rack: str | None = None) -> Any:
    """Return the registration of a broker with one PLAINTEXT listener on 127.0.0.1."""
    end_point = records.BrokerEndpoint(
        name="PLAINTEXT", host="127.0.0.1", port=port or 9090 + node, security_protocol=0
    )
    return records.RegisterBrokerRecord(
        broker_id=node,
        broker_epoch=100 + node,
        incarnation_id=UUID(int=node),
        end_points=[end_point],
        rack=rack,
        fenced=fenced,
    )


def partition_record(
    topic: UUID,
    number: int,
    replicas: Sequence[int],
    *,
    isr: Sequence[int] = (),
    leader: int | None = None,
    **fields: Any,
) -> Any:
    """Return the record of a partition; by default all replicas are in sync and the first one leads."""
    return records.PartitionRecord(
        topic_id=topic,
        partition_id=number,
        replicas=list(replicas),
        isr=list(isr or replicas),
        leader=replicas[0] if leader is None else leader,
        **{"leader_epoch": 0, "partition_epoch": 0, **fields},
    )


def topic_records(name: str, id: UUID, *partitions: Sequence[int]) -> list[Any]:
    """Return the records of a topic whose partitions have these replicas."""
    rows = [partition_record(id, number, replicas) for number, replicas in enumerate(partitions)]
    return [records.TopicRecord(name=name, topic_id=id), *rows]


def config_record(kind: int, resource: str, name: str, value: str | None) -> Any:
    return records.ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def apply(image: MetadataImage, *applied: Any) -> Changes:
    """Apply records and return what they have changed."""
    changes = Changes()
    for record in applied:
        image.apply(record, changes)
    return changes


def image_of(*applied: Any) -> MetadataImage:
    image = MetadataImage()
    apply(image, *applied)
    return image
