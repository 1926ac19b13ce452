"""Requests that a controller decides about, on a single broker: it makes the decision of kcli's controller itself.

- UpdateFeatures (57), v0-2. share.version and streams.version are deliberately missing: those groups are not served.
- ElectLeaders (43), v0-2, and AlterPartitionReassignments (45), v0-1: the only broker has the only replica and leads
  it, so that nothing can change; each partition gets its result.
- AlterClientQuotas (49), v0-1.

The decision is made by an image of this broker as the only one of its cluster. A node forwards these requests.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kcli.broker.controller.controller import Controller
from kcli.broker.metadata.cluster_values import Registration, TopicState
from kcli.broker.metadata.image import BROKER_CONFIG, TOPIC_CONFIG, Changes, MetadataImage
from kcli.broker.request_context import RequestContext
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster_state import ClusterState
    from kcli.protocol.wire import Message, Request

_NO_ID = UUID(int=0)


def handle(broker: Broker, request: Request[Any], context: RequestContext) -> Message:
    """Decide, and store the result. BrokerError for an error of the whole request that is not in the response."""
    cluster: ClusterState = broker.cluster  # type: ignore[assignment]
    controller = Controller(broker.config, cluster.cluster_id, random=Random())
    controller.image, controller.authorizer = _image(cluster), broker.authorizer
    decision = controller.handle(request, context)
    if decision.records:
        image = controller.image
        for record in decision.records:
            image.apply(record, Changes())
        configs = {name: values for (kind, name), values in image.configs.items() if kind == BROKER_CONFIG}
        cluster.follow(image.features, image.quotas, configs)
    assert decision.response is not None
    return decision.response


def _image(cluster: ClusterState) -> MetadataImage:
    """Return the state of this broker as the records of a metadata log would describe it."""
    image, own_id = MetadataImage(), cluster.node_id
    image.brokers[own_id] = Registration(
        own_id, 0, _NO_ID, features=dict(cluster.supported_features), is_fenced=False, log_dirs=(_NO_ID,)
    )
    for topic in cluster.topics.values():
        states = {
            number: state
            for number in range(topic.partitions)
            if (state := cluster.partition_state(TopicPartition(topic.name, number))) is not None
        }
        image.topics[topic.name] = TopicState(topic.name, topic.topic_id, states)
        image.names[topic.topic_id] = topic.name
        image.configs[TOPIC_CONFIG, topic.name] = topic.configs
    for name, configs in cluster.dynamic.changed.items():
        image.configs[BROKER_CONFIG, name] = configs
    image.features = dict(cluster.features)
    image.quotas = dict(cluster.quotas)
    return image
