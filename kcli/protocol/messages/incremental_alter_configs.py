"""IncrementalAlterConfigs (44): single settings of topics, brokers and groups (KIP-339)."""

from kcli.protocol.messages.alter_configs import AlterConfigsResourceResponse
from kcli.protocol.wire import *


@struct
class AlterableConfig:
    """A change of a setting: 0 set, 1 delete, 2 append to its list, 3 subtract from its list."""

    name: String = ""
    config_operation: Int8 = 0
    value: NullableString = ""


@struct
class AlterConfigsResource:
    """A resource by type (2 topic, 4 broker, 16 client metrics, 32 group) and name, with its changes."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[AlterableConfig] = []


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Request["IncrementalAlterConfigsResponse"]):
    """Change settings of resources, or only validate the request."""

    resources: Array[AlterConfigsResource] = []
    validate_only: Bool = False


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Message):
    """The results by resource."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse] = []
