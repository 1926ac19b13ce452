"""Share sessions: ranges of acknowledgements, and the requests of a session (KIP-932)."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.consumer.share.share_consumer import decode_acquired
from kcli.consumer.share.share_session import (
    AcknowledgeType,
    PartitionId,
    Range,
    ShareSession,
    acknowledged_ranges,
    merged,
)
from kcli.errors import RecordTooLarge
from kcli.protocol.records import decode
from kcli.structs import TopicPartition

GAP, ACCEPT, RELEASE, REJECT = AcknowledgeType
ORDERS, BILLS = UUID(int=1), UUID(int=2)
A0, A1, B0 = PartitionId(ORDERS, 0), PartitionId(ORDERS, 1), PartitionId(BILLS, 0)


def test_an_offset_without_a_record_is_a_gap() -> None:
    ranges = merged(acknowledged_ranges([(10, 15)], [10, 11, 14], ACCEPT, None))
    assert ranges == [Range(10, 11, ACCEPT), Range(12, 13, GAP), Range(14, 14, ACCEPT), Range(15, 15, GAP)]


def test_records_after_the_last_printed_one_are_released() -> None:
    ranges = merged(acknowledged_ranges([(0, 2), (7, 9)], [0, 1, 2, 7, 8, 9], REJECT, 8))
    assert ranges == [Range(0, 2, REJECT), Range(7, 7, REJECT), Range(8, 9, RELEASE)]


def test_records_that_memory_is_too_small_for_fail_with_their_place_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_small(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(decode, "decode_sections", too_small)
    with pytest.raises(RecordTooLarge, match="not enough memory to decode 100 bytes of orders-3 from offset 7 on") as e:
        decode_acquired(TopicPartition("orders", 3), bytes(100), [(7, 9)], 1 << 20)
    assert e.value.evidence == {"topic": "orders", "partition": 3, "offset": 7, "received": 100}


@given(
    st.lists(st.integers(0, 60), unique=True).map(sorted),
    st.lists(st.integers(0, 60), unique=True, min_size=2).map(sorted),
    st.none() | st.integers(0, 60),
)
def test_each_acquired_offset_is_acknowledged_exactly_once(
    offsets: list[int], edges: list[int], released_from: int | None
) -> None:
    acquired = list(zip(edges[::2], [edge - 1 for edge in edges[1::2]], strict=False))
    acquired = [(first, last) for first, last in acquired if first <= last]
    found = merged(acknowledged_ranges(acquired, offsets, ACCEPT, released_from))
    types = {offset: it.type for it in found for offset in range(it.first, it.last + 1)}
    assert sum(it.last - it.first + 1 for it in found) == len(types)
    expected = {}
    for first, last in acquired:
        for offset in range(first, last + 1):
            is_released = released_from is not None and offset >= released_from
            expected[offset] = GAP if offset not in offsets else RELEASE if is_released else ACCEPT
    assert types == expected


def topics(request: object) -> dict[tuple[UUID, int], list[tuple[int, int, list[int]]]]:
    return {
        (topic.topic_id, it.partition_index): [
            (batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in it.acknowledgement_batches
        ]
        for topic in request.topics  # type: ignore[attr-defined]
        for it in topic.partitions
    }


def test_a_session_sends_each_partition_once_and_counts_its_epochs() -> None:
    session = ShareSession("workers", "m-1")
    assert not session.is_open
    first = session.fetch([A0, B0], {}, 500, 100)
    assert (first.share_session_epoch, topics(first)) == (0, {A0: [], B0: []})
    second = session.fetch([A0, A1, B0], {A0: [Range(0, 4, ACCEPT), Range(5, 5, ACCEPT)]}, 500, 100)
    assert (second.share_session_epoch, topics(second)) == (1, {A0: [(0, 5, [1])], A1: []})
    assert session.is_open


def test_a_partition_with_acknowledgements_leaves_the_session_one_request_later() -> None:
    session = ShareSession("workers", "m-1")
    session.fetch([A0, A1], {}, 500, 100)
    request = session.fetch([A1], {A0: [Range(0, 0, REJECT)]}, 500, 100)
    assert request.forgotten_topics_data == []
    assert topics(request) == {A0: [(0, 0, [3])]}
    (forgotten,) = session.fetch([A1], {}, 500, 100).forgotten_topics_data
    assert (forgotten.topic_id, forgotten.partitions) == (ORDERS, [0])


def test_after_a_reset_the_session_begins_again() -> None:
    session = ShareSession("workers", "m-1")
    session.fetch([A0], {}, 500, 100)
    session.reset()
    request = session.fetch([A0], {}, 500, 100)
    assert (request.share_session_epoch, topics(request)) == (0, {A0: []})


def test_the_closing_request_has_the_last_acknowledgements() -> None:
    session = ShareSession("workers", "m-1")
    session.fetch([A0], {}, 500, 100)
    request = session.closing({A0: [Range(3, 3, ACCEPT), Range(4, 9, RELEASE)]})
    assert request.share_session_epoch == -1
    assert topics(request) == {A0: [(3, 3, [1]), (4, 9, [2])]}
    assert not session.is_open


@pytest.mark.parametrize("type", [ACCEPT, RELEASE, REJECT])
def test_the_types_have_the_numbers_of_the_protocol(type: AcknowledgeType) -> None:
    """ShareFetchRequest: 0 Gap, 1 Accept, 2 Release, 3 Reject."""
    assert ["gap", "accept", "release", "reject"][type] == type.name.lower()
