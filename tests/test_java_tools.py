"""Tools that share a JVM do not hear of each other's brokers."""

from __future__ import annotations

import pytest

from tests.java_tools import without_others

GONE = (
    "[2026-11-21 18:15:54,742] WARN [AdminClient clientId=adminclient-2] Connection to node -1 (/127.0.0.1:17805) "
    "could not be established. Node may not be available. (org.apache.kafka.clients.NetworkClient)\n"
)


@pytest.mark.parametrize(("words", "told"), [(["--bootstrap-server", "127.0.0.1:17805"], True), (["--files"], False)])
def test_only_the_tools_own_broker_is_complained_of(words: list[str], told: bool) -> None:
    others = "Non-consecutive offsets in 0.log\n  -1 is followed by 3900\n"
    assert without_others(GONE + others, words) == (GONE if told else "") + others
