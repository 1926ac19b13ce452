"""The ApiVersions handshake and the selection of a version, without a network."""

from collections.abc import Generator
from typing import Any

import pytest

from kcli.client.connection.api_versions import HIGHEST, choose_version, negotiate
from kcli.errors import BrokerError, UnsupportedVersion
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.messages.metadata import MetadataRequest

UNSUPPORTED = 35


def versions_response(*versions: tuple[int, int, int], error: int = 0) -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in versions]
    return ApiVersionsResponse(error_code=error, api_keys=keys)


def finish(steps: Generator[Any, Any, Any], response: ApiVersionsResponse) -> Any:
    with pytest.raises(StopIteration) as end:
        steps.send(response)
    return end.value.value


def test_the_newest_version_is_requested_and_the_versions_are_returned() -> None:
    steps = negotiate()
    request, version = next(steps)
    assert version == HIGHEST == 4
    assert (request.client_software_name, request.client_software_version[:2]) == ("kcli", "0.")
    assert finish(steps, versions_response((1, 4, 18), (18, 0, 4))).versions == {1: (4, 18), 18: (0, 4)}


@pytest.mark.parametrize(
    ("refusal", "next_version"),
    [
        (versions_response((18, 0, 2), error=UNSUPPORTED), 2),
        (versions_response(error=UNSUPPORTED), 0),
        (versions_response((18, 0, 9), error=UNSUPPORTED), 0),
        (versions_response((3, 0, 1), error=UNSUPPORTED), 0),
    ],
    ids=["its highest version", "no version (before 2.4)", "an impossible version", "only other APIs"],
)
def test_the_second_request_uses_a_version_that_the_broker_supports(
    refusal: ApiVersionsResponse, next_version: int
) -> None:
    steps = negotiate()
    next(steps)
    assert steps.send(refusal)[1] == next_version
    assert finish(steps, versions_response((3, 0, 8))).versions == {3: (0, 8)}


def test_a_second_refusal_and_any_other_error_end_the_handshake() -> None:
    for version, error in ((4, UNSUPPORTED), (0, UNSUPPORTED), (4, 42)):
        steps = negotiate(version)
        next(steps)
        if version and error == UNSUPPORTED:
            steps.send(versions_response(error=error))
        with pytest.raises(BrokerError, match="request ApiVersions"):
            steps.send(versions_response(error=error))


def test_the_highest_common_version_is_chosen() -> None:
    first, last = FetchRequest.VERSIONS
    assert choose_version(FetchRequest, {1: (0, 99)}) == last
    assert choose_version(FetchRequest, {1: (0, 11)}) == 11
    assert choose_version(FetchRequest, {1: (0, 99)}, highest=12) == 12
    assert choose_version(FetchRequest, {1: (first, first)}) == first


@pytest.mark.parametrize(
    ("offered", "bounds", "sentence"),
    [
        ({1: (0, 3)}, {}, "broker b:1 supports Fetch versions 0 to 3, but kcli requires versions 4 to 18"),
        ({1: (19, 20)}, {}, "broker b:1 supports Fetch versions 19 to 20, but kcli requires versions 4 to 18"),
        (
            {1: (4, 11)},
            {"lowest": 13},
            "broker b:1 supports Fetch versions 4 to 11, but kcli requires versions 13 to 18",
        ),
        ({1: (13, 18)}, {"highest": 4}, "broker b:1 supports Fetch versions 13 to 18, but kcli requires version 4"),
        ({}, {}, "broker b:1 does not support Fetch; kcli requires versions 4 to 18"),
    ],
)
def test_the_error_without_common_version_names_both_ranges(
    offered: dict[int, tuple[int, int]], bounds: dict[str, int], sentence: str
) -> None:
    with pytest.raises(UnsupportedVersion) as error:
        choose_version(FetchRequest, offered, node="b:1", **bounds)
    assert str(error.value) == sentence


def test_the_port_of_a_controller_is_named_as_the_cause() -> None:
    """A controller of KRaft answers ApiVersions with BrokerRegistration (62) and without Metadata (3)."""
    with pytest.raises(UnsupportedVersion, match="is a controller, not a broker; connect to the port of a"):
        choose_version(MetadataRequest, {18: (0, 4), 62: (0, 4)}, node="c:9093")
    with pytest.raises(UnsupportedVersion, match="does not support Metadata"):
        choose_version(MetadataRequest, {18: (0, 4)}, node="c:9093")
