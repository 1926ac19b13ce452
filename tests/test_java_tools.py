"""Warnings of tools that share a JVM."""

from __future__ import annotations

import pytest

from tests.java_tools import own_warnings

GONE = (
    "[2026-11-21 18:15:54,742] WARN [AdminClient clientId=adminclient-2] Connection to node -1 (/127.0.0.1:17805) "
    "could not be established. Node may not be available. (org.apache.kafka.clients.NetworkClient)\n"
)


@pytest.mark.parametrize(("words", "kept"), [(["--bootstrap-server", "127.0.0.1:17805"], True), (["--files"], False)])
def test_only_warnings_about_the_tools_own_broker_are_kept(words: list[str], kept: bool) -> None:
    others = "Non-consecutive offsets in 0.log\n  -1 is followed by 3900\n"
    assert own_warnings(GONE + others, words) == (GONE if kept else "") + others
