"""ApiVersions (18), v0-4: the APIs and versions in the table of handlers.

An unknown version gets error 35 in the v0 format, with the versions of ApiVersions only (KIP-511). Produce is
advertised from v0, as in Apache Kafka for old librdkafka, although requests below v3 close the connection.
The features are those that the broker supports and those that its cluster has finalized (KIP-584). Before v4 a
supported feature that may be off (level 0) cannot be in the response (KIP-1022).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.api_table import HANDLERS, ApiTable
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kcli.protocol.registry import ApiKey

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster.view import ClusterView

_ADVERTISED_FROM = {int(ApiKey.PRODUCE): 0}
_FIRST_WITH_LEVEL_0 = 4
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")


def handle(broker: Broker, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.api_version not in range(*_served_versions()):
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_advertised(int(ApiKey.API_VERSIONS), HANDLERS)]
        )
    if context.api_version >= 3 and not (
        is_software_name(request.client_software_name) and is_software_name(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = ApiVersionsResponse(api_keys=[_advertised(key, broker.apis) for key in sorted(broker.apis)])
    _add_features(response, broker.cluster, context.api_version)
    return response


def _add_features(response: ApiVersionsResponse, cluster: ClusterView, version: int) -> None:
    response.supported_features = [
        SupportedFeatureKey(name=name, min_version=first, max_version=last)
        for name, (first, last) in cluster.supported_features.items()
        if first > 0 or version >= _FIRST_WITH_LEVEL_0
    ]
    response.finalized_features_epoch = cluster.features_epoch
    response.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in cluster.features.items()
    ]


def is_software_name(name: str) -> bool:
    """Return True for letters and digits, with dashes and dots between them (KIP-511)."""
    return (
        name[:1] in _LETTERS and name[-1:] in _LETTERS and _LETTERS.issuperset(name.replace("-", "").replace(".", ""))
    )


def _advertised(key: int, apis: ApiTable) -> ApiVersion:
    served = apis[key]
    first = _ADVERTISED_FROM.get(key, served.first_version)
    return ApiVersion(api_key=key, min_version=first, max_version=served.last_version)


def _served_versions() -> tuple[int, int]:
    served = HANDLERS[int(ApiKey.API_VERSIONS)]
    return served.first_version, served.last_version + 1
