"""DescribeCluster (60), v0-2: the cluster's id and its one broker, which is the controller as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.authorized_operations import CLUSTER_OPERATIONS
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
    """Only of brokers: this is no controller's port."""
    if request.endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="This port is for clients of brokers, not of controllers",
        )
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"There is no type {request.endpoint_type} of endpoints",
        )
    cluster = broker.cluster
    rack = broker.config.broker_rack
    response = DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.node_id,
        brokers=[DescribeClusterBroker(broker_id=cluster.node_id, host=cluster.host, port=cluster.port, rack=rack)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
