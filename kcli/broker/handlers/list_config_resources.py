"""ListConfigResources (74), v0-1: the resources with settings: topics, groups, client metrics and this broker.

Of groups and client metrics (the only type in v0) only those that have settings of their own are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.cluster.decide import config_resources as resources
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
    """Return the resources of the requested types; an unknown type is refused (35)."""
    if not broker.authorizer.allows_cluster(context, AclOperation.DESCRIBE_CONFIGS):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    types = set(request.resource_types) or set(resources.ALL)
    if context.api_version == 0:
        types = {resources.CLIENT_METRICS}
    if not types <= set(resources.ALL):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    cluster = broker.cluster
    this_broker = [str(cluster.node_id)]
    names = {
        resources.TOPIC: list(cluster.topics),
        resources.BROKER: this_broker,
        resources.BROKER_LOGGER: this_broker,
        resources.CLIENT_METRICS: list(cluster.image.resource_configs(resources.CLIENT_METRICS)),
        resources.GROUP: list(cluster.image.resource_configs(resources.GROUP)),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, of_kind in names.items()
            if kind in types
            for name in of_kind
        ]
    )
