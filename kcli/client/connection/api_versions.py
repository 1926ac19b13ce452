"""The version of an API to use with a broker: the ApiVersions handshake (KIP-35, KIP-511) and the selection. Pure."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from kcli import __version__
from kcli.error_codes import ErrorCode
from kcli.errors import UnsupportedVersion
from kcli.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.registry import ApiKey
from kcli.protocol.wire import Message

#: API key -> lowest and highest version that a broker supports.
Versions = dict[int, tuple[int, int]]

HIGHEST = ApiVersionsRequest.VERSIONS[1]


class Offer(NamedTuple):
    """The answer of a broker: its versions, and the finalized features of its cluster by name (KIP-584).

    `features_epoch` grows with each change of the features; -1: the broker does not report features.
    """

    versions: Versions
    features: dict[str, int]
    features_epoch: int


def negotiate(
    version: int = HIGHEST,
) -> Generator[tuple[ApiVersionsRequest, int], ApiVersionsResponse, Offer]:
    """Run the handshake: yield a request and its version, receive the response, return the broker's offer.

    A broker that does not know our version of ApiVersions responds with error 35 in v0; the second request then uses
    the version that the response names, or 0.
    """
    request = ApiVersionsRequest(client_software_name="kcli", client_software_version=__version__)
    response = yield request, version
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
        response = yield request, _offered_version(response, below=version)
    if response.error_code:
        raise response.broker_error(response.error_code, api="ApiVersions")
    versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    features = {feature.name: feature.max_version_level for feature in response.finalized_features}
    return Offer(versions, features, response.finalized_features_epoch)


def _offered_version(response: ApiVersionsResponse, *, below: int) -> int:
    """The version of ApiVersions that an error response names; 0, which every broker supports, if it names none."""
    offered = next((api.max_version for api in response.api_keys if api.api_key == ApiVersionsRequest.API_KEY), 0)
    return offered if 0 < offered < below else 0


def choose_version(
    request: type[Message],
    broker: Versions,
    *,
    lowest: int | None = None,
    highest: int | None = None,
    node: object = "",
) -> int:
    """Return the highest common version between `lowest` and `highest`. UnsupportedVersion names both ranges."""
    first, last = request.VERSIONS
    first = first if lowest is None else max(first, lowest)
    last = last if highest is None else min(last, highest)
    api = request.__name__.removesuffix("Request")
    offered = broker.get(request.API_KEY)
    if offered is None and ApiKey.BROKER_REGISTRATION in broker and ApiKey.METADATA not in broker:
        raise UnsupportedVersion(f"{node} is a controller, not a broker; connect to the port of a broker's listener")
    if offered is None:
        raise UnsupportedVersion(f"broker {node} does not support {api}; kcli requires {_range(first, last)}")
    version = min(last, offered[1])
    if version < max(first, offered[0]):
        raise UnsupportedVersion(
            f"broker {node} supports {api} {_range(*offered)}, but kcli requires {_range(first, last)}"
        )
    return version


def _range(first: int, last: int) -> str:
    return f"version {first}" if first == last else f"versions {first} to {last}"
