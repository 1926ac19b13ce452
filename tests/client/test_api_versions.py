"""The ApiVersions handshake and the choice of a version, without a network."""

from collections.abc import Generator
from typing import Any

import pytest

from kcli.client.api_versions import HIGHEST, choose_version, negotiate
from kcli.errors import BrokerError, UnsupportedVersion
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kcli.protocol.messages.fetch import FetchRequest

UNSUPPORTED = 35


def told(*versions: tuple[int, int, int], error: int = 0) -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in versions]
    return ApiVersionsResponse(error_code=error, api_keys=keys)


def finish(steps: Generator[Any, Any, Any], answer: ApiVersionsResponse) -> Any:
    with pytest.raises(StopIteration) as end:
        steps.send(answer)
    return end.value.value


def test_the_newest_version_is_asked_and_the_answer_is_a_table() -> None:
    steps = negotiate()
    request, version = next(steps)
    assert version == HIGHEST == 4
    assert (request.client_software_name, request.client_software_version[:2]) == ("kcli", "0.")
    assert finish(steps, told((1, 4, 18), (18, 0, 4))) == {1: (4, 18), 18: (0, 4)}


@pytest.mark.parametrize(
    ("refusal", "next_version"),
    [
        (told((18, 0, 2), error=UNSUPPORTED), 2),
        (told(error=UNSUPPORTED), 0),
        (told((18, 0, 9), error=UNSUPPORTED), 0),
        (told((3, 0, 1), error=UNSUPPORTED), 0),
    ],
    ids=["it tells its highest", "it tells nothing (before 2.4)", "it tells nonsense", "it tells of other APIs"],
)
def test_a_broker_that_does_not_know_the_version_is_asked_in_one_it_knows(
    refusal: ApiVersionsResponse, next_version: int
) -> None:
    steps = negotiate()
    next(steps)
    assert steps.send(refusal)[1] == next_version
    assert finish(steps, told((3, 0, 8))) == {3: (0, 8)}


def test_a_second_refusal_and_any_other_error_end_the_handshake() -> None:
    for version, error in ((4, UNSUPPORTED), (0, UNSUPPORTED), (4, 42)):
        steps = negotiate(version)
        next(steps)
        if version and error == UNSUPPORTED:
            steps.send(told(error=error))
        with pytest.raises(BrokerError, match="api=ApiVersions"):
            steps.send(told(error=error))


def test_the_highest_version_that_both_speak_is_chosen() -> None:
    first, last = FetchRequest.VERSIONS
    assert choose_version(FetchRequest, {1: (0, 99)}) == last
    assert choose_version(FetchRequest, {1: (0, 11)}) == 11
    assert choose_version(FetchRequest, {1: (0, 99)}, highest=12) == 12
    assert choose_version(FetchRequest, {1: (first, first)}) == first


@pytest.mark.parametrize(
    ("offered", "bounds", "sentence"),
    [
        ({1: (0, 3)}, {}, "the broker b:1 speaks Fetch versions 0 to 3, but this needs versions 4 to 18"),
        ({1: (19, 20)}, {}, "the broker b:1 speaks Fetch versions 19 to 20, but this needs versions 4 to 18"),
        (
            {1: (4, 11)},
            {"lowest": 13},
            "the broker b:1 speaks Fetch versions 4 to 11, but this needs versions 13 to 18",
        ),
        ({1: (13, 18)}, {"highest": 4}, "the broker b:1 speaks Fetch versions 13 to 18, but this needs version 4"),
        ({}, {}, "the broker b:1 does not speak Fetch, of which this needs versions 4 to 18"),
    ],
)
def test_no_common_version_names_both_ranges(
    offered: dict[int, tuple[int, int]], bounds: dict[str, int], sentence: str
) -> None:
    with pytest.raises(UnsupportedVersion) as error:
        choose_version(FetchRequest, offered, node="b:1", **bounds)
    assert str(error.value) == sentence
