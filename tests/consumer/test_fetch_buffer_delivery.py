"""Delivery of responses: the number of waiting responses, and halts."""

from __future__ import annotations

import pytest

from kcli.consumer.fetch_buffer import CompletedFetch, FetchBuffer, Section
from kcli.consumer.subscription import FetchPosition, PartitionFailure, SubscriptionState
from kcli.errors import KcliError, RecordTooLarge
from kcli.protocol.records import decode
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.structs import TopicPartition

T0 = TopicPartition("t", 0)


def reading(offset: int = 0) -> tuple[SubscriptionState, FetchBuffer]:
    subscription = SubscriptionState()
    subscription.assign([T0])
    subscription.seek(T0, offset)
    return subscription, FetchBuffer(subscription, check_crcs=True)


def batches(base: int, count: int, size: int = 1) -> memoryview:
    codec = "zstd" if size > 1 else "none"
    return memoryview(
        b"".join(
            build_batch([NewRecord(None, b"x" * size, 0)], base_offset=base + i, compression=codec)
            for i in range(count)
        )
    )


def test_a_broker_is_fetched_from_again_once_its_response_is_started() -> None:
    subscription, buffer = reading()
    buffer.add(CompletedFetch(1, [Section(T0, batches(0, 100, 1 << 20), 0)], []))
    assert buffer.has_unstarted(1)
    buffer.start_next()
    assert not buffer.has_unstarted(1)
    buffer.take()
    assert len(buffer) == 1, "it is a response of several pieces"
    subscription.fetched(T0, 0, FetchPosition(100))
    buffer.add(CompletedFetch(1, [Section(T0, batches(100, 1), 100)], []))
    buffer.start_next()
    assert buffer.has_unstarted(1), "the next response waits, though pieces of the one before are still to come"
    while buffer:
        buffer.start_next()
        buffer.take()
    position = subscription.state(T0).position
    assert position is not None
    assert position.offset == 101


def test_a_failure_is_returned_after_earlier_records_and_halts_the_partition() -> None:
    subscription, buffer = reading()
    subscription.fetched(T0, 0, FetchPosition(3))
    buffer.add(CompletedFetch(1, [Section(T0, batches(0, 3), 0)], []))
    buffer.add(CompletedFetch(1, [], [PartitionFailure(T0, 3, KcliError("no more"))]))
    assert buffer.is_halted(T0, 3)
    assert [len(columns) for _, columns in buffer.take()] == [3]
    assert buffer.take_failures() == []
    buffer.take()
    assert [str(failure.error) for failure in buffer.take_failures()] == ["no more"]
    assert not buffer.is_halted(T0, 3)


def test_a_failure_of_an_old_position_is_dropped() -> None:
    subscription, buffer = reading()
    buffer.add(CompletedFetch(1, [], [PartitionFailure(T0, 0, KcliError("no more"))]))
    subscription.seek(T0, 9)
    assert not buffer.is_halted(T0, 9)
    buffer.take()
    assert buffer.take_failures() == []


def test_the_first_compressed_batch_sets_the_size_of_later_chunks() -> None:
    _, buffer = reading()
    buffer.add(CompletedFetch(1, [Section(T0, batches(0, 20, 1 << 20), 0)], []))
    counts = []
    while buffer:
        counts += [len(columns) for _, columns in buffer.take()]
    assert counts[0] == 1
    assert 6 <= max(counts) <= 10, "pieces are of about 8 MiB"
    assert sum(counts) == 20


def test_a_halt_ends_when_the_received_data_is_dropped() -> None:
    subscription, buffer = reading()
    buffer.add(CompletedFetch(1, [Section(T0, batches(0, 1)[:30], 0)], []))
    buffer.halt(T0, 0)
    subscription.pause(T0)
    buffer.take()
    subscription.resume(T0)
    assert not buffer.is_halted(T0, 0)


def test_a_section_that_memory_is_too_small_for_fails_with_its_place_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    other = TopicPartition("t", 1)
    subscription, buffer = reading()
    subscription.assign([T0, other])
    subscription.seek(T0, 7)
    subscription.seek(other, 0)

    def decode_small(sections: list[decode.RecordSection], **options: int) -> list[decode.DecodedSection]:
        if any(section.partition == 0 for section in sections):
            raise MemoryError
        return decode_sections(sections, **options)

    decode_sections = decode.decode_sections
    monkeypatch.setattr(decode, "decode_sections", decode_small)
    large = batches(7, 1)
    buffer.add(CompletedFetch(1, [Section(T0, large, 7), Section(other, batches(0, 2), 0)], []))
    assert [(tp, len(columns)) for tp, columns in buffer.take()] == [(other, 2)]
    (failure,) = buffer.take_failures()
    assert (failure.tp, failure.offset) == (T0, 7)
    assert isinstance(failure.error, RecordTooLarge)
    assert failure.error.evidence == {"topic": "t", "partition": 0, "offset": 7, "received": len(large)}
    assert f"not enough memory to decode {len(large)} bytes of t-0 from offset 7 on" in str(failure.error)
