"""What the broker lacks is in one list, which the README repeats and the table of APIs confirms."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.broker.cluster.limits import MISSING, Missing, sentence
from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.node.forwarding import FORWARDED, NODE_APIS

ROOT = Path(__file__).parent.parent.parent.parent
# Of the API keys of Apache Kafka 4.3, 0 to 92, those that a broker does not serve to clients.
_BETWEEN_SERVERS = {4, 5, 6, 7, 56, 58, 59, 62, 63, 64, 67, 70, 73}


def test_the_readme_has_the_limits() -> None:
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"Limits: {sentence()[0].lower()}{sentence()[1:]}" in text


@pytest.mark.parametrize("missing", MISSING, ids=lambda missing: missing.name)
def test_what_is_missing_is_not_served(missing: Missing) -> None:
    assert not set(missing.api_keys) & (HANDLERS.keys() | NODE_APIS.keys() | FORWARDED)


def test_every_api_that_is_not_served_is_in_the_list() -> None:
    listed = {key for missing in MISSING for key in missing.api_keys}
    assert set(range(93)) - HANDLERS.keys() - _BETWEEN_SERVERS == listed
