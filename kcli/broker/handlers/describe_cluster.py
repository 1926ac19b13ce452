"""DescribeCluster (60), v0-2: the cluster id and its brokers, from v2 also the fenced ones.

The controller in the response is a broker that forwards changes; -1 if it is not among the brokers. Deliberately
missing: the controller endpoint (error 114).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import cluster_operations
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_BROKERS, _CONTROLLERS = 1, 2
_NO_CONTROLLER = -1


def handle(broker: Broker, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Return the brokers; requests for controllers are refused."""
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
    brokers = cluster.brokers(context.listener, with_fenced=request.include_fenced_brokers)
    controller_id = cluster.controller_id
    response = DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=controller_id if any(node.node_id == controller_id for node in brokers) else _NO_CONTROLLER,
        brokers=[
            DescribeClusterBroker(
                broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack, is_fenced=node.is_fenced
            )
            for node in brokers
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(broker.authorizer, context)
    return response
