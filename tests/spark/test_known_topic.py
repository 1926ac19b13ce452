"""The known topic has all cases that the pipelines look for."""

from __future__ import annotations

from collections import Counter

from tests.spark.known_topic import ABORTED, COMPACTED, DELETED, DELETED_BEFORE, KEPT, KnownTopic


def test_the_known_topic_has_all_required_cases(known_topic: KnownTopic) -> None:
    fates = Counter((it.partition, it.fate) for it in known_topic.written)
    assert fates == {
        (0, COMPACTED): 30,
        (0, KEPT): 419,
        (1, KEPT): 192,
        (2, DELETED): 39,
        (2, KEPT): 50,
        (2, ABORTED): 25,
    }
    assert known_topic.ends == {0: 449, 1: 192, 2: 118}
    assert known_topic.markers == {0: [], 1: [], 2: [24, 45, 66, 87]}
    assert known_topic.seen(2)[0].offset == DELETED_BEFORE
