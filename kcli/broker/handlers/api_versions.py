"""ApiVersions (18), v0-4: the APIs and versions in the table of handlers.

An unknown version gets error 35 in the v0 format, with the versions of ApiVersions only (KIP-511). Produce is
advertised from v0, as in Apache Kafka for old librdkafka, although requests below v3 close the connection.
Deliberately missing: cluster features (KIP-584), so their list is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.registry import ApiKey

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_ADVERTISED_FROM = {int(ApiKey.PRODUCE): 0}
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")


def handle(broker: Broker, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.api_version not in range(*_served_versions()):
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_advertised(int(ApiKey.API_VERSIONS))]
        )
    if context.api_version >= 3 and not (
        is_software_name(request.client_software_name) and is_software_name(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(api_keys=[_advertised(key) for key in sorted(HANDLERS)])


def is_software_name(name: str) -> bool:
    """Return True for letters and digits, with dashes and dots between them (KIP-511)."""
    return (
        name[:1] in _LETTERS and name[-1:] in _LETTERS and _LETTERS.issuperset(name.replace("-", "").replace(".", ""))
    )


def _advertised(key: int) -> ApiVersion:
    served = HANDLERS[key]
    first = _ADVERTISED_FROM.get(key, served.first_version)
    return ApiVersion(api_key=key, min_version=first, max_version=served.last_version)


def _served_versions() -> tuple[int, int]:
    served = HANDLERS[int(ApiKey.API_VERSIONS)]
    return served.first_version, served.last_version + 1
