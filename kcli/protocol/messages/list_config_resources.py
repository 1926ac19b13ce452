"""ListConfigResources (74): the resources that have settings (KIP-1142)."""

from kcli.protocol.wire import *


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"]):
    """Ask for resources: in v0 client metrics, in v1 those of the named types (none named: all types)."""

    resource_types: Array[Int8] = since(1, default=[])


@struct
class ConfigResource:
    """A resource by name and (v1) type: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""

    resource_name: String = ""
    resource_type: Int8 = since(1, default=16, ignorable=True)


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse(Message):
    """The resources."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: Array[ConfigResource] = []
