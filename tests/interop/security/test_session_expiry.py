"""A topic is followed while sessions end every three seconds: nothing is lost or doubled, connections remain."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.bench.session_soak import follow
from tests.secured_kafka import REAUTH_MS, SecuredKafka

SECONDS = 12
SESSIONS = SECONDS * 1000 // REAUTH_MS


@pytest.mark.slow
def test_sessions_are_renewed_while_a_topic_is_followed(secured_kafka: SecuredKafka, our_secured: SecuredKafka) -> None:
    cases = [(kafka, group) for kafka in (our_secured, secured_kafka) for group in (False, True)]
    for kafka, group in cases:
        follow(kafka, 0.1, group=group)  # the first member waits for the creation of the offsets topic
    with ThreadPoolExecutor(len(cases)) as pool:
        for followed in pool.map(lambda case: follow(case[0], SECONDS, group=case[1]), cases):
            assert followed.lines == followed.expected
            # A reader has one connection, a member two. On a busy machine one request may come after a session's end.
            assert followed.connections <= 3 < SESSIONS
