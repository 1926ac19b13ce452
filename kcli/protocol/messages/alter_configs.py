"""AlterConfigs (33): replace all settings of topics and brokers; a setting not named returns to its default."""

from kcli.protocol.wire import *


@struct
class AlterableConfig:
    """A setting and its new value."""

    name: String = ""
    value: NullableString = ""


@struct
class AlterConfigsResource:
    """A resource by type (2 topic, 4 broker) and name, with all its new settings."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[AlterableConfig] = []


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest(Request["AlterConfigsResponse"]):
    """Replace the settings of resources, or only validate the request."""

    resources: Array[AlterConfigsResource] = []
    validate_only: Bool = False


@struct
class AlterConfigsResourceResponse:
    """The result for one resource."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse(Message):
    """The results by resource."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse] = []
