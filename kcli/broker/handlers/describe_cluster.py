"""DescribeCluster (60), v0-2: the cluster id and its one broker, which is also the controller.

Deliberately missing: the controller endpoint (error 114), and fenced brokers (v2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import cluster_operations
from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_BROKERS, _CONTROLLERS = 1, 2


def handle(broker: Broker, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Return the one broker; requests for controllers are refused."""
    if request.endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="This is a broker endpoint, not a controller endpoint",
        )
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"{request.endpoint_type} is not a valid endpoint type",
        )
    cluster = broker.cluster
    host, port = cluster.address(context.listener)
    rack = broker.config.broker_rack
    response = DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.node_id,
        brokers=[DescribeClusterBroker(broker_id=cluster.node_id, host=host, port=port, rack=rack)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(broker.authorizer, context)
    return response
