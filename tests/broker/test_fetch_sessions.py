"""Incremental fetch sessions (KIP-227), as observed on Apache Kafka 4.3.1."""

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
    """A client that sends Fetch requests to a session cache."""

    def __init__(self, slots: int = 10) -> None:
        ids = itertools.count(100)
        self.cache = FetchSessionCache(slots, new_id=lambda: next(ids))
        self.now_ms = 0.0

    def begin(
        self, id: int, epoch: int, *requested: PartitionFetch, forget: tuple = (), by_id: bool = False
    ) -> FetchContext:
        return self.cache.begin(id, epoch, requested, forget, by_id=by_id, now_ms=self.now_ms)

    def fetch(
        self, id: int, epoch: int, *requested: PartitionFetch, forget: tuple = (), reads: dict | None = None
    ) -> tuple[int, int, list[str]]:
        """Return error, session id, and the topics in the response."""
        context = self.begin(id, epoch, *requested, forget=forget)
        if context.error:
            return context.error, 0, []
        answers = [(reads or {}).get(one.topic, QUIET) for one in context.requested]
        error, session, included = context.finish(answers)
        return error, session, [context.requested[at].topic for at in included]

    def open(self, *topics: str) -> int:
        error, id, topics_sent = self.fetch(0, 0, *(want(topic) for topic in topics))
        assert (error, topics_sent) == (0, list(topics))
        return id


def changed(size: int = 0, **values: int) -> PartitionRead:
    return QUIET._replace(records=bytes(size) if size else None, **values)  # type: ignore[arg-type]


def test_full_fetch_opens_a_session_and_later_ones_get_only_changes() -> None:
    client = Client()
    id = client.open("a", "b", "c")
    assert id != 0
    assert client.fetch(id, 1) == (0, id, [])
    assert client.fetch(id, 2, reads={"b": changed(size=5)}) == (0, id, ["b"])
    assert client.fetch(id, 3, reads={"c": changed(high_watermark=11)}) == (0, id, ["c"])
    assert client.fetch(id, 4, reads={"c": changed(high_watermark=11)}) == (0, id, []), "sent before"
    assert client.fetch(id, 5, reads={"a": changed(log_start_offset=3), "c": changed(high_watermark=11)}) == (
        0,
        id,
        ["a"],
    )


def test_errors_and_the_first_answer_after_them_are_always_sent() -> None:
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


def test_partition_with_records_moves_to_the_end() -> None:
    client = Client()
    id = client.open("a", "b", "c")
    client.fetch(id, 1, reads={"a": changed(size=5)})
    assert [one.topic for one in client.begin(id, 2).requested] == ["b", "c", "a"]


def test_session_without_partitions_is_closed() -> None:
    client = Client()
    id = client.open("a")
    assert client.fetch(id, 1, forget=(("a", 0),)) == (0, 0, [])
    assert client.fetch(id, 2) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [])


def test_repeated_epoch_unknown_id_and_mixed_topic_ids_are_refused() -> None:
    client = Client()
    id = client.open("a")
    assert client.fetch(id, 1)[0] == 0
    assert client.fetch(id, 1) == (71, 0, []), "repeated epoch"
    assert client.fetch(id, 3) == (71, 0, [])
    assert client.fetch(12345, 1) == (70, 0, [])
    assert client.begin(id, 2, by_id=True).error == 106
    assert client.fetch(id, 2)[0] == 0, "a refused request changes nothing"


def test_final_epoch_closes_the_session_and_serves_a_full_fetch() -> None:
    client = Client()
    id = client.open("a")
    assert client.fetch(id, -1, want("a"), want("b")) == (0, 0, ["a", "b"])
    assert client.fetch(id, 1)[0] == 70
    assert client.cache.sessions == {}


def test_initial_epoch_with_an_id_replaces_the_session() -> None:
    client = Client()
    old = client.open("a")
    _, new, topics_sent = client.fetch(old, 0, want("b"))
    assert new not in (0, old)
    assert topics_sent == ["b"]
    assert list(client.cache.sessions) == [new]


def test_epoch_wraps_around_to_one() -> None:
    client = Client()
    id = client.open("a")
    client.cache.sessions[id].epoch = 2**31 - 1
    assert client.fetch(id, 2**31 - 1)[0] == 0
    assert client.fetch(id, 1)[0] == 0


def test_answer_for_an_outdated_session_epoch_is_an_error() -> None:
    """Two connections use one session: the second advances the epoch while the first waits."""
    client = Client()
    id = client.open("a")
    waiting = client.begin(id, 1)
    assert client.fetch(id, 2)[0] == 0
    assert waiting.finish([QUIET]) == (71, 0, ())


def test_without_slots_every_fetch_is_full() -> None:
    client = Client(slots=0)
    assert client.fetch(0, 0, want("a")) == (0, 0, ["a"])


class TestEviction:
    def test_young_sessions_are_not_evicted(self) -> None:
        client = Client(slots=2)
        kept = [client.open("a"), client.open("b")]
        client.now_ms = EVICTION_MS
        client.fetch(kept[0], 1)
        client.fetch(kept[1], 1)
        assert client.fetch(0, 0, want("c"), want("d")) == (0, 0, ["c", "d"]), "served without a session"
        assert list(client.cache.sessions) == kept

    def test_stale_least_recently_used_session_is_evicted(self) -> None:
        client = Client(slots=2)
        first, second = client.open("a"), client.open("b")
        client.now_ms = 1000
        client.fetch(first, 1)
        client.now_ms = EVICTION_MS + 1
        new = client.open("c")
        assert list(client.cache.sessions) == [first, new]
        assert client.fetch(second, 1)[0] == 70

    @pytest.mark.parametrize(("partitions", "survives"), [(1, True), (2, False), (3, False)])
    def test_old_session_is_evicted_for_one_of_at_least_its_size(self, partitions: int, survives: bool) -> None:
        client = Client(slots=2)
        large, small = client.open("a", "b", "c"), client.open("d", "e")
        client.now_ms = EVICTION_MS + 1
        client.fetch(large, 1)
        client.fetch(small, 1)
        _, id, _ = client.fetch(0, 0, *(want(f"new{n}") for n in range(partitions)))
        assert (small in client.cache.sessions) == survives
        assert (id == 0) == survives
        assert large in client.cache.sessions


def test_random_session_ids_are_positive_and_unique() -> None:
    cache = FetchSessionCache(1000)
    for _ in range(500):
        cache.begin(0, 0, [want("a")], (), by_id=False, now_ms=0).finish([QUIET])
    assert len(cache.sessions) == 500
    assert all(0 < id < 2**31 for id in cache.sessions)
