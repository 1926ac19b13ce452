"""DescribeConfigs (32): the settings of topics, brokers and groups, with the source of each value."""

from kcli.protocol.wire import *


@struct
class DescribeConfigsResource:
    """A resource by type (2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group) and name; null keys: all."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: NullableArray[String] = []


@message(key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest(Request["DescribeConfigsResponse"]):
    """Ask for the settings of resources. v1 adds synonyms, v3 documentation."""

    resources: Array[DescribeConfigsResource] = []
    include_synonyms: Bool = False
    include_documentation: Bool = since(3, default=False)


@struct
class DescribeConfigsSynonym:
    """Another source of this value; in order of precedence."""

    name: String = ""
    value: NullableString = ""
    source: Int8 = 0


@struct
class DescribeConfigsResourceResult:
    """A setting: its value (null if sensitive), source, type and documentation (v3)."""

    name: String = ""
    value: NullableString = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: Array[DescribeConfigsSynonym] = []
    config_type: Int8 = since(3, default=0, ignorable=True)
    documentation: NullableString = since(3, default="", ignorable=True)


@struct
class DescribeConfigsResult:
    """The settings of one resource, or the error for it."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[DescribeConfigsResourceResult] = []


@message(key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse(Message):
    """The settings by resource."""

    throttle_time_ms: Int32 = 0
    results: Array[DescribeConfigsResult] = []
