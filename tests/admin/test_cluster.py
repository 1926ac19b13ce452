"""API versions that kcli and a broker have in common."""

from __future__ import annotations

import pytest

from kcli.admin.cluster import VersionRange, highest_common, own_versions
from kcli.protocol.messages.create_topics import CreateTopicsRequest


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [
        ((0, 9), (0, 4), 4),
        ((3, 9), (0, 12), 9),
        ((3, 9), (0, 2), None),
        ((0, 2), (3, 9), None),
        (None, (0, 2), None),
        ((0, 2), None, None),
    ],
)
def test_the_highest_common_version_is_used(
    ours: tuple[int, int] | None, theirs: tuple[int, int] | None, agreed: int | None
) -> None:
    def side(versions: tuple[int, int] | None) -> VersionRange | None:
        return None if versions is None else VersionRange(*versions)

    assert highest_common(side(ours), side(theirs)) == agreed


def test_own_versions_are_those_of_the_messages() -> None:
    assert own_versions()[CreateTopicsRequest.API_KEY] == CreateTopicsRequest.VERSIONS
    assert len(own_versions()) >= 29
