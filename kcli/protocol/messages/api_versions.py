"""ApiVersions (18): the APIs and versions of a broker; the first request on a connection (KIP-35, KIP-511)."""

from kcli.protocol.wire import *


@message(key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    """Ask for the broker's versions. v3 names the client software (KIP-511); flexible from v3 on."""

    client_software_name: String = since(3, default="", ignorable=True)
    client_software_version: String = since(3, default="", ignorable=True)


@struct
class ApiVersion:
    """The range of versions of one API that a broker supports."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class SupportedFeatureKey:
    """The levels of a cluster feature that this broker supports."""

    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class FinalizedFeatureKey:
    """The finalized levels of a cluster feature."""

    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


@message(key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse(Message):
    """The broker's version ranges and features. v3 adds the features (KIP-584); v4 allows features whose minimum is 0.

    Its header is v0 in every version. A broker answers an unknown version with error 35 in v0.
    """

    error_code: Int16 = 0
    api_keys: Array[ApiVersion] = []
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    supported_features: Array[SupportedFeatureKey] = since(3, default=[], tag=0, ignorable=True)
    finalized_features_epoch: Int64 = since(3, default=-1, tag=1, ignorable=True)
    finalized_features: Array[FinalizedFeatureKey] = since(3, default=[], tag=2, ignorable=True)
    zk_migration_ready: Bool = since(3, default=False, tag=3, ignorable=True)
