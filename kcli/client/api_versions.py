"""Which version of an API to speak with a broker: the ApiVersions handshake (KIP-35, KIP-511) and the choice. Pure."""

from __future__ import annotations

from collections.abc import Generator

from kcli import __version__
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, UnsupportedVersion
from kcli.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.wire import Message

#: API key -> lowest and highest version that a broker speaks.
Versions = dict[int, tuple[int, int]]

HIGHEST = ApiVersionsRequest.VERSIONS[1]


def negotiate(
    version: int = HIGHEST,
) -> Generator[tuple[ApiVersionsRequest, int], ApiVersionsResponse, Versions]:
    """Yields what to send and in which version, receives the answer, returns what the broker speaks."""
    request = ApiVersionsRequest(client_software_name="kcli", client_software_version=__version__)
    response = yield request, version
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
        response = yield request, _told_version(response, below=version)
    if response.error_code:
        raise BrokerError(response.error_code, api="ApiVersions")
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


def _told_version(response: ApiVersionsResponse, *, below: int) -> int:
    """The version of ApiVersions that an error 35 names; 0, which every broker speaks, when it names none of use."""
    told = next((api.max_version for api in response.api_keys if api.api_key == ApiVersionsRequest.API_KEY), 0)
    return told if 0 < told < below else 0


def choose_version(
    request: type[Message],
    broker: Versions,
    *,
    lowest: int | None = None,
    highest: int | None = None,
    node: object = "",
) -> int:
    """The highest version between `lowest` and `highest` that both speak; UnsupportedVersion names both ranges."""
    first, last = request.VERSIONS
    first = first if lowest is None else max(first, lowest)
    last = last if highest is None else min(last, highest)
    api = request.__name__.removesuffix("Request")
    offered = broker.get(request.API_KEY)
    if offered is None:
        raise UnsupportedVersion(f"the broker {node} does not speak {api}, of which this needs {_range(first, last)}")
    version = min(last, offered[1])
    if version < max(first, offered[0]):
        raise UnsupportedVersion(
            f"the broker {node} speaks {api} {_range(*offered)}, but this needs {_range(first, last)}"
        )
    return version


def _range(first: int, last: int) -> str:
    return f"version {first}" if first == last else f"versions {first} to {last}"
