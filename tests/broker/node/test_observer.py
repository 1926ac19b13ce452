"""The observer of the metadata log, answered by a controller in memory."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kcli.broker.cluster.image import Changes, MetadataImage
from kcli.broker.node.observer import METADATA_TOPIC, METADATA_TOPIC_ID, Observer
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.timer import Timer
from kcli.clock import ManualClock
from kcli.error_codes import ErrorCode
from kcli.protocol import metadata_records as records
from kcli.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from kcli.protocol.messages.fetch_snapshot import FetchSnapshotResponse, PartitionSnapshot, TopicSnapshot
from kcli.protocol.records.builder import NewRecord, build_batch
from tests.broker.cluster.memory_peers import MemoryNetwork
from tests.broker.node.images import broker_record, topic_id, topic_records


def batch(offset: int, *applied: Any, epoch: int = 1) -> bytes:
    rows = [NewRecord(None, records.encode_record(record), 0) for record in applied]
    return build_batch(rows, base_offset=offset, leader_epoch=epoch)


class Controller:
    """Answers of a controller, in order: each fetch takes the next one; without one it waits."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timer = Timer()
        self.network = MemoryNetwork(self.clock, controller=0)
        self.network.serve(0, self._handle)
        self.answers: list[Any] = []
        self.published: list[Changes] = []
        self.controllers: list[Any] = []
        self.logged: list[str] = []
        self.applied: list[int] = []
        self.observer = Observer(
            self.network.peers(2),
            self.timer,
            self.clock,
            node_id=2,
            cluster_id="c",
            directory_id=UUID(int=5),
            publish=self._publish,
            on_applied=self.applied.append,
            on_controller=self.controllers.append,
            log=self.logged.append,
        )
        self.observer.start()

    @property
    def image(self) -> MetadataImage:
        return self.observer.image

    def _handle(self, request: Any, sender: int) -> Any:
        return self.answers.pop(0) if self.answers else Pending()

    def _publish(self, image: MetadataImage, changes: Changes) -> None:
        assert image is self.observer.image
        self.published.append(changes)

    def answer(self, *answers: Any) -> None:
        """Let the controller give these answers."""
        self.answers += answers
        self.network.run()

    def later(self, ms: float) -> None:
        self.clock.advance(ms)
        self.timer.advance(self.clock.now_ms())
        self.network.run()

    @property
    def asked(self) -> Any:
        """The partition in the last Fetch."""
        request = [request for _, _, request in self.network.delivered if isinstance(request, FetchRequest)][-1]
        assert request.topics[0].topic_id == METADATA_TOPIC_ID
        return request.topics[0].partitions[0]


def fetched(data: bytes = b"", high_watermark: int = 0, endpoints: list[NodeEndpoint] | None = None, **row: Any) -> Any:
    partition = PartitionData(high_watermark=high_watermark, records=data, **row)
    topic = FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[partition])
    return FetchResponse(responses=[topic], node_endpoints=endpoints or [])


def test_records_are_applied_below_the_high_watermark_only() -> None:
    scene = Controller()
    data = batch(0, broker_record(1)) + batch(1, broker_record(2))
    scene.answer(fetched(data, high_watermark=1))
    assert list(scene.image.brokers) == [1]
    assert (scene.asked.fetch_offset, scene.asked.last_fetched_epoch, scene.asked.high_watermark) == (2, 1, 1)
    scene.answers.append(fetched(high_watermark=2))
    scene.network.run()
    scene.later(6000)  # the waiting fetch times out, and the next one gets the answer
    scene.later(100)
    assert list(scene.image.brokers) == [1, 2]
    assert scene.applied[-1] == 1
    assert [list(changes.brokers) for changes in scene.published] == [[1], [2]]


def test_a_transaction_of_records_is_applied_as_a_whole() -> None:
    scene = Controller()
    begin = batch(0, records.BeginTransactionRecord(name="t"), broker_record(1))
    end = batch(2, broker_record(2), records.EndTransactionRecord())
    scene.answer(fetched(begin, 2), fetched(end, 4))
    assert scene.applied == [-1, 3]
    assert [list(changes.brokers) for changes in scene.published] == [[1, 2]]


def test_an_aborted_transaction_has_no_effect() -> None:
    scene = Controller()
    aborted = batch(0, records.BeginTransactionRecord(), broker_record(1), records.AbortTransactionRecord())
    scene.answer(fetched(aborted, 3))
    assert not scene.published
    assert scene.image.offset == 2


def test_the_epoch_of_the_leader_is_learned_from_its_first_answer() -> None:
    scene = Controller()
    leader = LeaderIdAndEpoch(leader_id=3000, leader_epoch=4)
    endpoint = NodeEndpoint(node_id=3000, host="c", port=9)
    scene.answer(
        fetched(error_code=ErrorCode.FENCED_LEADER_EPOCH, current_leader=leader, endpoints=[endpoint]),
        fetched(batch(0, broker_record(1)), 1),
    )
    assert scene.controllers == [("c", 9)]
    assert scene.asked.current_leader_epoch == 4
    assert list(scene.image.brokers) == [1]


def test_an_error_is_followed_by_a_pause_and_reported_once_as_is_its_end() -> None:
    scene = Controller()
    scene.answer(*[fetched(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 3, *[fetched()] * 2)
    assert len(scene.network.delivered) == 1
    scene.later(100)
    scene.later(100)
    assert len(scene.network.delivered) == 3
    assert scene.controllers == [None, None, None]
    scene.later(100)
    assert scene.logged == [
        f"the metadata log cannot be read: Fetch of {METADATA_TOPIC}: NOT_LEADER_OR_FOLLOWER; trying again",
        "the metadata log is read again",
    ]


def test_a_damaged_record_is_reported_once() -> None:
    scene = Controller()
    damaged = bytearray(batch(0, broker_record(1)))
    damaged[-1] ^= 1
    scene.answer(*[fetched(bytes(damaged), 1)] * 3)
    scene.later(100)
    scene.later(100)
    assert len(scene.network.delivered) == 3
    assert len(scene.logged) == 1


def test_records_that_the_controller_has_lost_are_dropped_before_they_are_applied() -> None:
    scene = Controller()
    lost = batch(0, broker_record(1)) + batch(1, broker_record(7))
    new = batch(1, broker_record(2), epoch=2)
    diverging = EpochEndOffset(epoch=1, end_offset=1)
    scene.answer(fetched(lost, 1), fetched(high_watermark=1, diverging_epoch=diverging), fetched(new, 2))
    assert list(scene.image.brokers) == [1, 2]


@pytest.mark.parametrize(
    "row",
    [
        {"diverging_epoch": EpochEndOffset(epoch=1, end_offset=1)},
        {"diverging_epoch": EpochEndOffset(epoch=0, end_offset=2)},
        {"snapshot_id": SnapshotId(end_offset=1, epoch=1)},
    ],
    ids=["shorter log", "other epoch", "older snapshot"],
)
def test_metadata_that_the_controller_has_lost_remain(row: dict[str, Any]) -> None:
    """Without them, the replicas of topics that were created since the controller's backup would be deleted."""
    scene = Controller()
    scene.answer(fetched(batch(0, *topic_records("orders", topic_id(1), [1, 2])), 2), *[fetched(**row)] * 3)
    scene.later(100)
    scene.later(100)
    assert (list(scene.image.topics), len(scene.published)) == (["orders"], 1)
    assert len(scene.logged) == 1
    assert "the controller has lost metadata" in scene.logged[0]
    assert len(scene.network.delivered) == 4


def snapshot_of(*applied: Any) -> bytes:
    count = len(applied) + 1
    footer = NewRecord(*records.encode_control_record(records.SnapshotFooterRecord()), 0)
    return batch(1, *applied) + build_batch([footer], base_offset=count, leader_epoch=1, control=True)


def section(snapshot: bytes, start: int = 0, end: int | None = None, **row: int) -> FetchSnapshotResponse:
    fields = {"size": len(snapshot), "position": start, "unaligned_records": snapshot[start:end], **row}
    topic = TopicSnapshot(name=METADATA_TOPIC, partitions=[PartitionSnapshot(**fields)])
    return FetchSnapshotResponse(topics=[topic])


def test_a_snapshot_replaces_the_image_and_reports_what_it_lacks() -> None:
    scene = Controller()
    old = batch(0, *topic_records("gone", topic_id(1), [1]), *topic_records("kept", topic_id(2), [1, 2]))
    snapshot = snapshot_of(broker_record(4), *topic_records("kept", topic_id(2), [1, 2]))
    half = len(snapshot) // 2
    scene.answer(
        fetched(old, 4),
        fetched(snapshot_id=SnapshotId(end_offset=900, epoch=3)),
        section(snapshot, 0, half),
        section(snapshot, half),
    )
    assert list(scene.image.topics) == ["kept"]
    assert (scene.asked.fetch_offset, scene.asked.last_fetched_epoch) == (900, 3)
    assert scene.applied[-1] == 899
    last = scene.published[-1]
    assert [topic.name for topic in last.removed_topics] == ["gone"]
    assert {str(tp) for tp in last.partitions} == {"kept-0"}


WHOLE = snapshot_of(broker_record(4))
FOOTER_BYTES = len(WHOLE) - len(batch(1, broker_record(4)))


@pytest.mark.parametrize(
    "answer",
    [
        section(WHOLE[:-FOOTER_BYTES]),
        section(WHOLE[:-1]),
        section(WHOLE + b"x"),
        section(WHOLE[:-1] + b"x"),
        section(b""),
        section(b"", size=1 << 40),
        section(WHOLE, size=10),
        section(WHOLE, size=1 << 40),
        section(WHOLE, position=5),
        FetchSnapshotResponse(),
    ],
)
def test_a_snapshot_that_is_not_whole_changes_nothing(answer: FetchSnapshotResponse) -> None:
    scene = Controller()
    scene.answer(fetched(batch(0, *topic_records("kept", topic_id(1), [1])), 2))
    scene.answers += [fetched(snapshot_id=SnapshotId(end_offset=900, epoch=3)), answer]
    scene.later(6000)  # the waiting fetch times out
    scene.later(100)
    assert list(scene.image.topics) == ["kept"]
    assert not scene.answers
    assert len(scene.published) == 1
    assert "FetchSnapshot of __cluster_metadata: " in scene.logged[-1]

    scene.answers += [fetched(snapshot_id=SnapshotId(end_offset=900, epoch=3)), section(WHOLE)]
    scene.later(200)
    assert list(scene.image.brokers) == [4]


def test_a_damaged_batch_is_fetched_again() -> None:
    scene = Controller()
    whole = batch(1, broker_record(2))
    scene.answer(fetched(batch(0, broker_record(1)) + whole[:-1] + b"x", 2))
    assert list(scene.image.brokers) == []
    assert "the checksum of the leader's batch at offset 1 is wrong" in scene.logged[0]
    scene.answers.append(fetched(batch(0, broker_record(1)) + whole, 2))
    scene.later(100)
    assert list(scene.image.brokers) == [1, 2]


def test_records_that_are_left_out_are_fetched_again() -> None:
    """The checksum of a batch does not cover its offset."""
    scene = Controller()
    scene.answer(fetched(batch(0, broker_record(1)) + batch(5, broker_record(3)), 6))
    assert list(scene.image.brokers) == []
    assert "the records from offset 1 to 4 are missing" in scene.logged[0]
    scene.answers.append(fetched(batch(0, broker_record(1)) + batch(1, broker_record(2)), 2))
    scene.later(100)
    assert list(scene.image.brokers) == [1, 2]


def test_an_answer_of_an_older_leader_is_not_applied() -> None:
    scene = Controller()
    new, old = LeaderIdAndEpoch(leader_id=1, leader_epoch=4), LeaderIdAndEpoch(leader_id=2, leader_epoch=3)
    scene.answer(
        fetched(batch(0, broker_record(1)), 1, current_leader=new),
        fetched(batch(1, broker_record(2)), 2, current_leader=old),
    )
    assert list(scene.image.brokers) == [1]
    assert scene.observer.leader_epoch == 4


def test_an_unknown_record_does_not_hide_those_after_it() -> None:
    scene = Controller()
    rows = [NewRecord(None, b"\x01\x7f\x00", 0), NewRecord(None, records.encode_record(broker_record(1)), 0)]
    scene.answer(fetched(build_batch(rows, leader_epoch=1), 2))
    assert list(scene.image.brokers) == [1]
    assert len(scene.logged) == 1


def test_a_record_that_cannot_be_decoded_is_reported_and_skipped() -> None:
    scene = Controller()
    unknown = build_batch([NewRecord(None, b"\x01\x7f\x00", 0)], leader_epoch=1)
    scene.answer(fetched(unknown + batch(1, broker_record(1)), 2))
    assert list(scene.image.brokers) == [1]
    assert len(scene.logged) == 1
