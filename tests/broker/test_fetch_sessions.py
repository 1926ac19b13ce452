"""Fetch sessions, by the rules of KIP-227 and as Apache Kafka 4.3.1 was seen to answer (facts: fetch session row)."""

from __future__ import annotations

import itertools
from uuid import UUID

import pytest

from kcli.broker.fetch_sessions import EVICTION_MS, FetchContext, FetchSessionCache
from kcli.broker.partition import PartitionFetch, PartitionRead
from kcli.error_codes import ErrorCode

NO_ID = UUID(int=0)
QUIET = PartitionRead(high_watermark=10, last_stable_offset=10, log_start_offset=0)


def want(topic: str, partition: int = 0, offset: int = 0) -> PartitionFetch:
    return PartitionFetch(topic, NO_ID, partition, offset, 1000)


class Client:
    """Sends Fetches to a cache and notes what it is told."""

    def __init__(self, slots: int = 10) -> None:
        ids = itertools.count(100)
        self.cache = FetchSessionCache(slots, new_id=lambda: next(ids))
        self.now_ms = 0.0

    def begin(
        self, id: int, epoch: int, *wanted: PartitionFetch, forget: tuple = (), by_id: bool = False
    ) -> FetchContext:
        return self.cache.begin(id, epoch, wanted, forget, by_id=by_id, now_ms=self.now_ms)

    def fetch(
        self, id: int, epoch: int, *wanted: PartitionFetch, forget: tuple = (), reads: dict | None = None
    ) -> tuple[int, int, list[str]]:
        """Error, session id, and the topics of the response."""
        context = self.begin(id, epoch, *wanted, forget=forget)
        if context.error:
            return context.error, 0, []
        found = [(reads or {}).get(one.topic, QUIET) for one in context.requested]
        error, session, told = context.finish(found)
        return error, session, [context.requested[at].topic for at in told]

    def open(self, *topics: str) -> int:
        error, id, told = self.fetch(0, 0, *(want(topic) for topic in topics))
        assert (error, told) == (0, list(topics))
        return id


def news(size: int = 0, **values: int) -> PartitionRead:
    return QUIET._replace(records=bytes(size) if size else None, **values)  # type: ignore[arg-type]


def test_a_full_fetch_opens_a_session_and_the_next_ones_are_told_only_what_changed() -> None:
    client = Client()
    id = client.open("a", "b", "c")
    assert id != 0
    assert client.fetch(id, 1) == (0, id, [])
    assert client.fetch(id, 2, reads={"b": news(size=5)}) == (0, id, ["b"])
    assert client.fetch(id, 3, reads={"c": news(high_watermark=11)}) == (0, id, ["c"])
    assert client.fetch(id, 4, reads={"c": news(high_watermark=11)}) == (0, id, []), "told already"
    assert client.fetch(id, 5, reads={"a": news(log_start_offset=3), "c": news(high_watermark=11)}) == (0, id, ["a"])


def test_errors_are_always_told_and_so_is_their_end() -> None:
    client = Client()
    id = client.open("a", "b")
    gone = {"a": PartitionRead(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
    assert client.fetch(id, 1, reads=gone) == (0, id, ["a"])
    assert client.fetch(id, 2, reads=gone) == (0, id, ["a"])
    assert client.fetch(id, 3) == (0, id, ["a"])
    assert client.fetch(id, 4) == (0, id, [])
    assert client.fetch(id, 5, reads={"b": QUIET._replace(diverging=(0, 3))}) == (0, id, ["b"])


def test_partitions_are_added_changed_and_forgotten() -> None:
    client = Client()
    id = client.open("a", "b")
    assert client.fetch(id, 1, want("c"), forget=(("a", 0),)) == (0, id, ["c"])
    context = client.begin(id, 2, want("b", offset=7))
    assert [(one.topic, one.offset) for one in context.requested] == [("b", 7), ("c", 0)]


def test_what_gave_records_goes_last_so_that_all_get_their_turn() -> None:
    client = Client()
    id = client.open("a", "b", "c")
    client.fetch(id, 1, reads={"a": news(size=5)})
    assert [one.topic for one in client.begin(id, 2).requested] == ["b", "c", "a"]


def test_a_session_that_forgets_everything_is_over() -> None:
    client = Client()
    id = client.open("a")
    assert client.fetch(id, 1, forget=(("a", 0),)) == (0, 0, [])
    assert client.fetch(id, 2) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [])


def test_a_repeated_epoch_an_unknown_id_and_mixed_topic_ids_are_refused() -> None:
    client = Client()
    id = client.open("a")
    assert client.fetch(id, 1)[0] == 0
    assert client.fetch(id, 1) == (71, 0, []), "the same epoch twice"
    assert client.fetch(id, 3) == (71, 0, [])
    assert client.fetch(12345, 1) == (70, 0, [])
    assert client.begin(id, 2, by_id=True).error == 106
    assert client.fetch(id, 2)[0] == 0, "a refusal changes nothing"


def test_epoch_minus_one_closes_the_session_and_serves_a_full_fetch() -> None:
    client = Client()
    id = client.open("a")
    assert client.fetch(id, -1, want("a"), want("b")) == (0, 0, ["a", "b"])
    assert client.fetch(id, 1)[0] == 70
    assert client.cache.sessions == {}


def test_epoch_zero_with_an_id_replaces_the_session() -> None:
    client = Client()
    old = client.open("a")
    _, new, told = client.fetch(old, 0, want("b"))
    assert new not in (0, old)
    assert told == ["b"]
    assert list(client.cache.sessions) == [new]


def test_after_the_largest_epoch_comes_one() -> None:
    client = Client()
    id = client.open("a")
    client.cache.sessions[id].epoch = 2**31 - 1
    assert client.fetch(id, 2**31 - 1)[0] == 0
    assert client.fetch(id, 1)[0] == 0


def test_an_answer_that_came_too_late_for_its_session_says_so() -> None:
    """Two connections use one session: the first waits while the second goes on."""
    client = Client()
    id = client.open("a")
    waiting = client.begin(id, 1)
    assert client.fetch(id, 2)[0] == 0
    assert waiting.finish([QUIET]) == (71, 0, ())


def test_without_slots_every_fetch_is_a_full_one() -> None:
    client = Client(slots=0)
    assert client.fetch(0, 0, want("a")) == (0, 0, ["a"])


class TestEviction:
    def test_young_sessions_keep_their_slots(self) -> None:
        client = Client(slots=2)
        kept = [client.open("a"), client.open("b")]
        client.now_ms = EVICTION_MS
        client.fetch(kept[0], 1)
        client.fetch(kept[1], 1)
        assert client.fetch(0, 0, want("c"), want("d")) == (0, 0, ["c", "d"]), "served, without a session"
        assert list(client.cache.sessions) == kept

    def test_the_longest_unused_goes_when_it_is_stale(self) -> None:
        client = Client(slots=2)
        first, second = client.open("a"), client.open("b")
        client.now_ms = 1000
        client.fetch(first, 1)
        client.now_ms = EVICTION_MS + 1
        new = client.open("c")
        assert list(client.cache.sessions) == [first, new]
        assert client.fetch(second, 1)[0] == 70

    @pytest.mark.parametrize(("wanted", "survives"), [(1, True), (2, False), (3, False)])
    def test_an_old_small_session_makes_way_for_one_as_large(self, wanted: int, survives: bool) -> None:
        client = Client(slots=2)
        large, small = client.open("a", "b", "c"), client.open("d", "e")
        client.now_ms = EVICTION_MS + 1
        client.fetch(large, 1)
        client.fetch(small, 1)
        _, id, _ = client.fetch(0, 0, *(want(f"new{n}") for n in range(wanted)))
        assert (small in client.cache.sessions) == survives
        assert (id == 0) == survives
        assert large in client.cache.sessions


def test_random_ids_are_positive_and_differ() -> None:
    cache = FetchSessionCache(1000)
    for _ in range(500):
        cache.begin(0, 0, [want("a")], (), by_id=False, now_ms=0).finish([QUIET])
    assert len(cache.sessions) == 500
    assert all(0 < id < 2**31 for id in cache.sessions)
