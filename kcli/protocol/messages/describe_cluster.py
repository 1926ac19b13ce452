"""DescribeCluster (60): the cluster id, its controller and its brokers (KIP-700)."""

from kcli.protocol.wire import *


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest(Request["DescribeClusterResponse"]):
    """Ask for the cluster. v1: of its brokers (1) or its controllers (2); v2: fenced brokers too."""

    include_cluster_authorized_operations: Bool = False
    endpoint_type: Int8 = since(1, default=1)
    include_fenced_brokers: Bool = since(2, default=False)


@struct
class DescribeClusterBroker:
    """The address of a broker; v2: `is_fenced` is true for one that is registered but not serving."""

    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None
    is_fenced: Bool = since(2, default=False)


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(Message):
    """Id, controller and brokers of the cluster."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    endpoint_type: Int8 = since(1, default=1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: Array[DescribeClusterBroker] = []
    cluster_authorized_operations: Int32 = -2147483648
