"""Work in slices: other requests are served between the batches of one that takes long."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from kcli.broker.serving.long_work import SLICE_MS, LongWork
from kcli.broker.serving.timer import Timer
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.clock import ManualClock
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord
from tests.broker.wire import Wire

PARTITIONS = 8


class Bench:
    """Work whose steps take a given time each; `done` has the names of the steps in their order."""

    def __init__(self) -> None:
        self.clock = ManualClock(now_ms=1000)
        self.timer = Timer()
        self.work = LongWork(self.clock, self.timer)
        self.done: list[str] = []

    def steps(self, name: str, count: int, step_ms: float) -> Generator[None, None, str]:
        for number in range(count):
            self.clock.advance(step_ms)
            self.done.append(f"{name}{number}")
            yield
        return name

    def iterate(self) -> None:
        """Run the due tasks, as one iteration of the loop does."""
        self.clock.advance(1)
        self.timer.advance(self.clock.now_ms())


def test_short_work_is_done_at_once() -> None:
    bench = Bench()
    assert bench.work.run(bench.steps("a", 10, SLICE_MS / 20)).value == "a"
    assert len(bench.timer) == 0


def test_long_work_pauses_after_each_slice_and_takes_turns() -> None:
    bench = Bench()
    first = bench.work.run(bench.steps("a", 3, SLICE_MS))
    second = bench.work.run(bench.steps("b", 4, SLICE_MS / 2))
    assert bench.done == ["a0", "b0", "b1"]
    slices = []
    while len(bench.timer):
        before = len(bench.done)
        bench.iterate()
        slices.append(bench.done[before:])
    assert slices == [["a1"], ["b2", "b3"], ["a2"], [], []]
    assert (first.value, second.value) == ("a", "b")


def test_an_error_ends_its_own_work_only() -> None:
    bench = Bench()

    def failing() -> Generator[None, None, str]:
        yield from bench.steps("a", 1, SLICE_MS)
        raise OSError("disk")

    bench.work.run(failing())
    other = bench.work.run(bench.steps("b", 2, SLICE_MS))
    with pytest.raises(OSError, match="disk"):
        bench.iterate()
    bench.iterate()
    bench.iterate()
    assert other.value == "b"


def answered_meanwhile(broker: EmbeddedBroker, request: ProduceRequest | ListOffsetsRequest, version: int) -> int:
    """Return the number of requests of another client that are answered while this one is being handled."""
    is_done = threading.Event()

    def ask() -> None:
        with Wire(broker.address) as wire:
            wire.sock.settimeout(120)
            response = wire.ask(request, version)
            rows = response.responses[0].partition_responses if version == 9 else response.topics[0].partitions
            assert [row.error_code for row in rows] == [0] * PARTITIONS
            is_done.set()

    thread = threading.Thread(target=ask)
    with Wire(broker.address) as other:
        other.ask(ApiVersionsRequest(), 0)
        thread.start()
        count = 0
        while not is_done.is_set() and thread.is_alive():
            other.ask(ApiVersionsRequest(), 0)
            count += not is_done.is_set()
        thread.join()
    assert is_done.is_set()
    return count


@pytest.mark.slow
@pytest.mark.parametrize("acks", [1, -1])
def test_others_are_served_between_batches_that_are_large_in_memory(acks: int) -> None:
    """Each batch of some kilobytes takes the broker a tenth of a second and more; a request has many."""
    with EmbeddedBroker() as broker:
        broker.create_topic("t", PARTITIONS)
        data = build_batch([NewRecord(None, bytes(100 << 20), 1_700_000_000_000)], compression="zstd")
        produce = ProduceRequest(
            acks=acks,
            timeout_ms=60_000,
            topic_data=[
                TopicProduceData(
                    name="t",
                    partition_data=[PartitionProduceData(index=number, records=data) for number in range(PARTITIONS)],
                )
            ],
        )
        assert answered_meanwhile(broker, produce, 9) >= PARTITIONS - 2
        look_up = ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(
                    name="t",
                    partitions=[ListOffsetsPartition(partition_index=n, timestamp=1) for n in range(PARTITIONS)],
                )
            ]
        )
        assert answered_meanwhile(broker, look_up, 5) >= PARTITIONS - 2


@pytest.mark.slow
def test_a_refused_batch_among_large_ones_closes_the_connection_without_acks() -> None:
    with EmbeddedBroker() as broker, Wire(broker.address) as wire:
        broker.create_topic("t", 2)
        data = build_batch([NewRecord(None, bytes(100 << 20), 1_700_000_000_000)], compression="zstd")
        partitions = [PartitionProduceData(index=0, records=data), PartitionProduceData(index=1, records=data[:-1])]
        topics = [TopicProduceData(name="t", partition_data=partitions)]
        wire.request(ProduceRequest(acks=0, timeout_ms=5000, topic_data=topics), 9)
        assert wire.seconds_until_closed() < 20
