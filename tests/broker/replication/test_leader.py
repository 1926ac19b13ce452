"""Stories of a leader: high watermark, in-sync replicas, acks=all, and its followers' fetches (KIP-497, KIP-966)."""

from __future__ import annotations

import errno
import re
from typing import Any

import pytest

from kcli.broker.log.producer_checks import NOT_VERIFIED
from kcli.broker.node.peers import PeerError
from kcli.broker.testing.memory_files import Fault
from kcli.broker.transaction.markers import TransactionMarker
from kcli.error_codes import ErrorCode
from kcli.protocol import metadata_records as records
from kcli.protocol.messages.fetch import ReplicaState
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.structs import TopicPartition
from tests.broker.replication.leader_rig import LeaderRig, fetched, produced
from tests.broker.rig import batch

T = TopicPartition("t", 0)
NONE, OUT_OF_RANGE, NOT_LEADER, TIMED_OUT = 0, 1, 6, 7
NOT_ENOUGH, NOT_ENOUGH_AFTER_APPEND, OLD_EPOCH, NEW_EPOCH = 19, 20, 74, 75
OUTDATED, INELIGIBLE = 95, 107
LAG_MS = 30_000


@pytest.fixture
def rig() -> LeaderRig:
    rig = LeaderRig()
    rig.new_topic()
    return rig


class TestRoles:
    def test_a_new_leader_is_told_once_per_epoch(self, rig: LeaderRig) -> None:
        rig.change(isr=[1, 2])
        rig.change(leader=1)
        assert rig.led == [(T, 0), (T, 1)]
        assert rig.partition("t").leader_epoch == 1

    def test_a_leader_becomes_a_follower_and_a_leader_again(self, rig: LeaderRig) -> None:
        rig.change(leader=2)
        assert (rig.led[-1], rig.fetchers.follows) == ((T, None), {T: (2, 1)})
        rig.change(leader=3)
        assert rig.fetchers.follows == {T: (3, 2)}
        rig.change(leader=-1)
        assert rig.fetchers.follows == {}
        rig.change(leader=1)
        assert (rig.led, rig.fetchers.follows) == ([(T, 0), (T, None), (T, 4)], {})

    def test_a_replica_that_moves_away_is_deleted(self, rig: LeaderRig) -> None:
        rig.change(replicas=[2, 3], isr=[2, 3], leader=2)
        assert (rig.replica_manager.partitions, rig.log_manager.logs, rig.led[-1]) == ({}, {}, (T, None))
        assert produced(rig.produce()).error_code == NOT_LEADER
        assert fetched(rig.consume(0)).error_code == NOT_LEADER

    def test_a_deleted_topic_is_unknown_and_may_be_created_again(self, rig: LeaderRig) -> None:
        waiting = rig.produce("old")
        id = rig.image.topics["t"].topic_id
        rig.publish(records.RemoveTopicRecord(topic_id=id))
        assert produced(waiting).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert rig.led[-1] == (T, None)
        rig.new_topic()
        assert rig.partition("t").log.log_end_offset == 0

    def test_records_that_the_first_image_does_not_assign_are_kept_outside_the_partitions(self, rig: LeaderRig) -> None:
        rig.new_topic("gone", [1])
        rig.produce("a", name="t", acks=1)
        other = rig.image
        rig.publish(records.RemoveTopicRecord(topic_id=other.topics["gone"].topic_id))
        rig.replica_manager.create_partition(TopicPartition("stray", 0), other.topics["t"].topic_id, rig.configs["t"])
        rig.restart()
        rig.replica_manager.partitions.clear()  # as after the start of a process
        rig.join()
        rig.files.faults.append(Fault("sync_dir", "", errno.EMFILE, times=2))  # it is tried again
        rig.publish()
        assert set(rig.log_manager.logs) == {T}
        assert rig.partition("t").log.log_end_offset == 1
        names = (name for name in rig.files.list(rig.log_manager.data_dir) if name.endswith(("-stray", "-delete")))
        assert sorted(re.sub("[0-9a-f]{32}", "ID", name) for name in names) == ["gone-0.ID-delete", "stray-0.ID-stray"]
        assert re.match(r"the cluster does not assign to this node: stray-0; .*-stray", rig.log_manager.reports[-1])


class TestHighWatermark:
    def test_it_waits_for_every_in_sync_replica(self, rig: LeaderRig) -> None:
        answer = rig.produce("a", "b")
        rig.replicate(2, 2)
        assert (rig.watermark, answer.is_there) == (0, False)
        rig.replicate(3, 1)
        assert (rig.watermark, answer.is_there) == (1, False)
        rig.replicate(3, 2)
        assert (rig.watermark, produced(answer).base_offset) == (2, 0)

    def test_consumers_do_not_read_above_it(self, rig: LeaderRig) -> None:
        rig.produce("a", acks=1)
        waiting = rig.consume(0)
        assert not waiting.is_there
        rig.replicate(2, 1)
        rig.replicate(3, 1)
        assert fetched(waiting).high_watermark == 1

    def test_a_follower_gets_records_above_it_at_once(self, rig: LeaderRig) -> None:
        waiting = rig.replicate(2, 0)
        assert not waiting.is_there
        rig.produce("a", acks=1)
        row = fetched(waiting)
        assert (row.high_watermark, bool(row.records), row.aborted_transactions) == (0, True, None)

    def test_a_follower_that_sends_its_high_watermark_learns_a_new_one_at_once(self, rig: LeaderRig) -> None:
        """KIP-1166. A follower that sends none waits, as those of Apache Kafka 4.3.1."""
        rig.produce("a", acks=1)
        old, new = rig.replicate(2, 1), rig.replicate(2, 1, high_watermark=0)
        assert not old.is_there
        assert not new.is_there
        rig.replicate(3, 1)
        assert fetched(new).high_watermark == 1
        assert not old.is_there
        assert fetched(rig.replicate(2, 1, high_watermark=0)).high_watermark == 1
        assert not rig.replicate(2, 1, high_watermark=1).is_there

    def test_a_session_tells_it_once(self, rig: LeaderRig) -> None:
        """The follower need not repeat in its session what the leader has sent."""
        rig.produce("a", acks=1)
        for node in (2, 3):
            rig.replicate(node, 1)
        request = rig.fetch_request(1, replica=ReplicaState(replica_id=2, replica_epoch=102), high_watermark=0)
        request.session_epoch = 0
        answer = rig.send(request, 18).value
        assert answer.responses[0].partitions[0].high_watermark == 1
        request.topics, request.session_id, request.session_epoch = [], answer.session_id, 1
        assert not rig.send(request, 18).is_there

    def test_the_last_follower_learns_it_with_the_answer(self, rig: LeaderRig) -> None:
        rig.produce("a", acks=1)
        rig.replicate(2, 1)
        assert fetched(rig.replicate(3, 1, wait_ms=0)).high_watermark == 1

    def test_it_stands_still_below_min_isr(self) -> None:
        rig = LeaderRig()
        rig.new_topic(min_isr=2)
        rig.produce("a", acks=1)
        rig.fence(3)
        rig.fence(2)
        rig.change(isr=[1])
        assert rig.watermark == 0
        rig.publish(rig.registration(2))
        rig.change(isr=[1, 2])
        rig.replicate(2, 1)
        assert rig.watermark == 1

    def test_a_topic_of_one_replica_is_never_below_min_isr(self) -> None:
        rig = LeaderRig()
        rig.new_topic(replicas=[1], min_isr=2)
        assert produced(rig.produce()).error_code == NONE
        assert rig.watermark == 1

    def test_the_caught_up_follower_outside_the_isr_holds_it_back_until_it_lags(self) -> None:
        """Otherwise a leader that is faster by a little keeps such a follower out for ever."""
        rig = LeaderRig()
        rig.new_topic(isr=[1, 2])
        rig.refusal = INELIGIBLE
        rig.replicate(3, 0)
        rig.settle()
        rig.produce("a", acks=1)
        rig.replicate(2, 1)
        assert rig.watermark == 0
        rig.wait(LAG_MS)
        rig.replicate(2, 1)
        rig.wait(LAG_MS / 2)
        assert rig.watermark == 1

    def test_a_fenced_follower_outside_the_isr_does_not_hold_it_back(self) -> None:
        rig = LeaderRig()
        rig.new_topic(isr=[1, 2])
        rig.refusal = INELIGIBLE
        rig.replicate(3, 0)
        rig.settle()
        rig.produce("a", acks=1)
        rig.replicate(2, 1)
        assert rig.watermark == 0
        rig.fence(3)
        assert rig.watermark == 1

    def test_a_new_leader_has_none_of_its_followers_positions(self, rig: LeaderRig) -> None:
        rig.produce("a", acks=1)
        rig.replicate(2, 1)
        rig.change(leader=2)
        rig.change(leader=1)
        rig.replicate(3, 1)
        assert rig.watermark == 0
        rig.replicate(2, 1)
        assert rig.watermark == 1

    def test_a_leader_in_between_makes_positions_unknown(self, rig: LeaderRig) -> None:
        """The metadata may arrive as one change, but the other leader may have had this follower truncate its log."""
        rig.produce("a", acks=1)
        rig.replicate(2, 1)
        topic_id = rig.partition("t").topic_id
        rig.publish(
            records.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2),
            records.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1),
        )
        rig.replicate(3, 1)
        assert rig.watermark == 0
        rig.replicate(2, 1)
        assert rig.watermark == 1


class TestAcksAll:
    def test_too_few_in_sync_replicas_refuse_it_before_the_append(self) -> None:
        rig = LeaderRig()
        rig.new_topic(min_isr=3, isr=[1, 2])
        assert produced(rig.produce()).error_code == NOT_ENOUGH
        assert rig.partition("t").log.log_end_offset == 0
        assert produced(rig.produce(acks=1)).error_code == NONE

    def test_too_few_in_sync_replicas_after_the_append(self) -> None:
        """The records are replicated, and then the ISR shrinks before the answer."""
        rig = LeaderRig()
        rig.new_topic(min_isr=3)
        answer = rig.produce()
        partition = rig.partition("t")
        rig.replicate(2, 1)
        partition.state = rig.state()._replace(isr=(1, 2))
        partition.log.advance_high_watermark(1)
        rig.replica_manager.complete_waiting(T)
        assert produced(answer).error_code == NOT_ENOUGH_AFTER_APPEND

    def test_an_isr_that_shrinks_below_the_minimum_times_out(self) -> None:
        """As Apache Kafka 4.3.1: the high watermark stands, so 20 is rare."""
        rig = LeaderRig()
        rig.new_topic(min_isr=2, replicas=[1, 2])
        answer = rig.produce(timeout_ms=1000)
        rig.change(isr=[1])
        assert not answer.is_there
        rig.wait(1000)
        assert produced(answer).error_code == TIMED_OUT

    def test_a_lost_leadership_ends_the_wait(self, rig: LeaderRig) -> None:
        answer = rig.produce()
        rig.change(leader=2)
        row = produced(answer)
        assert (row.error_code, row.current_leader.leader_id, row.current_leader.leader_epoch) == (NOT_LEADER, 2, 1)

    def test_a_shrunk_isr_completes_it(self, rig: LeaderRig) -> None:
        answer = rig.produce()
        rig.replicate(2, 1)
        rig.fence(3)
        assert not answer.is_there
        rig.change(isr=[1, 2])
        assert produced(answer).error_code == NONE


class TestIsr:
    def test_a_follower_that_lags_is_removed(self, rig: LeaderRig) -> None:
        answer = rig.produce(timeout_ms=100_000)
        for _ in range(4):
            rig.wait(LAG_MS / 2)
            rig.replicate(2, 1)
            rig.settle()
        assert (rig.proposals, rig.state().isr, rig.state().partition_epoch) == ([[1, 2]], (1, 2), 1)
        assert produced(answer).error_code == NONE

    def test_an_idle_follower_that_fetches_at_the_end_stays(self, rig: LeaderRig) -> None:
        for _ in range(5):
            rig.replicate(2, 0)
            rig.replicate(3, 0)
            rig.wait(LAG_MS / 2)
            rig.settle()
        assert rig.proposals == []

    def test_a_follower_that_keeps_up_with_a_busy_leader_stays(self, rig: LeaderRig) -> None:
        """It never reaches the end, but always the end that the leader had at its fetch before."""
        rig.produce(acks=1)
        for end in range(1, 9):
            for node in (2, 3):
                rig.replicate(node, end - 1)
            rig.produce(acks=1)
            rig.wait(LAG_MS / 3)
            rig.settle()
        assert rig.proposals == []

    def test_the_high_watermark_waits_for_the_old_isr_while_a_shrink_is_in_flight(self, rig: LeaderRig) -> None:
        rig.refusal = PeerError("cut")
        rig.produce(acks=1)
        rig.wait(LAG_MS / 2)
        rig.replicate(2, 1)
        rig.wait(LAG_MS / 2 + 1)
        assert rig.partition("t").proposal is not None
        assert rig.watermark == 0
        rig.refusal = None
        rig.settle(100)
        assert (rig.state().isr, rig.watermark) == ((1, 2), 1)

    @pytest.mark.parametrize("refusal", [PeerError("cut"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
    def test_an_isr_that_cannot_be_changed_is_reported_once(self, rig: LeaderRig, refusal: Any) -> None:
        rig.refusal = refusal
        rig.produce(acks=1)
        for _ in range(1000):
            rig.settle(60)
        reason = "cut" if isinstance(refusal, PeerError) else refusal.name
        report = f"the in-sync replicas of 1 partition cannot be changed at the controller: {reason}; trying again"
        assert rig.log_manager.reports.count(report) == 1
        rig.refusal = None
        rig.settle(100)
        assert rig.state().isr == (1,)

    def test_the_high_watermark_waits_for_the_new_isr_while_an_expansion_is_in_flight(self) -> None:
        rig = LeaderRig()
        rig.new_topic(isr=[1, 2])
        rig.refusal = PeerError("cut")
        rig.replicate(3, 0)
        rig.settle()
        assert rig.partition("t").proposal is not None
        rig.produce(acks=1)
        rig.replicate(2, 1)
        rig.wait(10 * LAG_MS)  # it lags, but the controller may have it in the ISR
        rig.replicate(2, 1)
        assert rig.watermark == 0

    def test_a_follower_joins_when_it_has_all_committed_records(self) -> None:
        rig = LeaderRig()
        rig.new_topic(isr=[1, 2])
        for n in range(2):
            rig.produce(acks=1)
            rig.replicate(2, n + 1)
        rig.replicate(3, 1)
        rig.settle()
        assert (rig.proposals, rig.watermark) == ([], 2)
        rig.replicate(3, 2)
        rig.settle()
        assert (rig.proposals, rig.state().isr) == ([[1, 2, 3]], (1, 2, 3))
        [request] = rig.requests
        [change] = request.topics[0].partitions
        assert (request.broker_id, request.broker_epoch) == (1, 101)
        assert (change.leader_epoch, change.partition_epoch, change.leader_recovery_state) == (0, 0, 0)
        assert [(one.broker_id, one.broker_epoch) for one in change.new_isr_with_epochs] == [
            (1, 101),
            (2, 102),
            (3, 103),
        ]

    def test_a_follower_must_have_all_records_before_this_leader_epoch(self, rig: LeaderRig) -> None:
        """They may be acknowledged, although the new leader's high watermark is lower."""
        rig.produce("a", acks=1)
        rig.produce("b", acks=1)
        rig.change(leader=1, isr=[1])
        rig.partition("t").log.high_watermark = 0
        rig.replicate(2, 1)
        rig.settle()
        assert rig.proposals == []
        rig.replicate(2, 2)
        rig.settle()
        assert rig.proposals == [[1, 2]]

    @pytest.mark.parametrize(
        "broker",
        [{"fenced": True}, {"in_controlled_shutdown": True}, {"epoch": 999}],
        ids=["fenced", "shutting down", "registered again since"],
    )
    def test_an_ineligible_follower_does_not_join(self, broker: dict[str, object]) -> None:
        rig = LeaderRig(brokers=(1, 2))
        rig.publish(rig.registration(3, **broker))  # type: ignore[arg-type]
        rig.new_topic(isr=[1, 2])
        rig.replicate(3, 0, epoch=999 if broker.get("epoch") is None else 1000)
        rig.settle()
        assert rig.proposals == []

    def test_a_proposal_that_races_with_an_append_is_sent_and_the_follower_catches_up(self) -> None:
        rig = LeaderRig()
        rig.new_topic(isr=[1, 2])
        rig.replicate(3, 0)
        answer = rig.produce()
        rig.replicate(2, 1)
        rig.settle()
        assert (rig.state().isr, answer.is_there) == ((1, 2, 3), False)
        rig.replicate(3, 1)
        assert produced(answer).error_code == NONE

    def test_one_proposal_is_in_flight_at_a_time(self) -> None:
        rig = LeaderRig()
        rig.new_topic(isr=[1])
        rig.refusal = PeerError("cut")
        rig.replicate(2, 0)
        rig.replicate(3, 0)
        rig.settle()
        rig.refusal = None
        rig.settle(100)
        assert rig.proposals == [[1, 2]]
        rig.replicate(3, 0)
        rig.settle()
        assert rig.proposals == [[1, 2], [1, 2, 3]]

    def test_partitions_are_batched_into_one_request(self, rig: LeaderRig) -> None:
        rig.new_topic("u")
        rig.settle(LAG_MS * 2)
        assert (len(rig.requests), rig.proposals) == (1, [[1], [1]])


class TestAnswersOfTheController:
    @pytest.fixture
    def rig(self) -> LeaderRig:
        rig = LeaderRig()
        rig.new_topic(isr=[1, 2])
        return rig

    def propose(self, rig: LeaderRig, refusal: int | PeerError | None) -> None:
        rig.refusal = refusal
        rig.replicate(3, 0)
        rig.settle()
        rig.refusal = None

    @pytest.mark.parametrize("code", [OLD_EPOCH, OUTDATED, 3, 100, 42, 108])
    def test_with_a_newer_state_at_the_controller_the_leader_waits_for_it(self, rig: LeaderRig, code: int) -> None:
        self.propose(rig, code)
        rig.settle(1000)
        rig.replicate(3, 0)
        rig.settle(1000)
        assert rig.proposals == [[1, 2, 3]]
        rig.change(isr=[1])
        rig.replicate(3, 0)
        rig.settle()
        assert rig.proposals == [[1, 2, 3], [1, 3]]

    @pytest.mark.parametrize("code", [INELIGIBLE, 55])
    def test_a_refusal_reverts_it(self, rig: LeaderRig, code: int) -> None:
        self.propose(rig, code)
        assert (rig.partition("t").proposal, rig.state().isr) == (None, (1, 2))

    @pytest.mark.parametrize("refusal", [-1, 41, PeerError("cut")], ids=str)
    def test_other_errors_are_tried_again_after_a_pause(self, rig: LeaderRig, refusal: int | PeerError) -> None:
        self.propose(rig, refusal)
        rig.settle(40)
        assert len(rig.requests) == 1
        rig.settle(20)
        assert (len(rig.requests), rig.state().isr) == (2, (1, 2, 3))

    def test_a_follower_that_restarts_meanwhile_is_proposed_as_it_was(self, rig: LeaderRig) -> None:
        """Its new process may have lost what made it join; the controller must see that it is another one."""
        self.propose(rig, PeerError("cut"))
        rig.publish(rig.registration(3, 203))
        rig.produce("a", acks=1)
        rig.replicate(3, 0, epoch=203)
        rig.settle(100)
        change = rig.requests[-1].topics[0].partitions[0]
        assert [(one.broker_id, one.broker_epoch) for one in change.new_isr_with_epochs] == [
            (1, 101),
            (2, -1),
            (3, 103),
        ]

    def test_an_answer_after_a_newer_state_changes_nothing(self, rig: LeaderRig) -> None:
        rig.network.pause(100)
        rig.replicate(3, 0)
        rig.settle()
        rig.change(isr=[1])
        rig.network.resume(100)
        rig.settle()
        assert (rig.state().isr, rig.state().partition_epoch) == ((1,), 1)

    def test_the_answer_may_come_before_the_metadata(self, rig: LeaderRig) -> None:
        self.propose(rig, None)
        assert rig.state().partition_epoch == 1
        rig.replica_manager.apply(rig.image)
        assert rig.state().isr == (1, 2, 3), "the image is older"
        rig.change(isr=[1, 2, 3])
        assert (rig.state().isr, rig.led) == ((1, 2, 3), [(T, 0)])


class TestFetchesOfReplicas:
    def test_epochs_of_the_leader(self, rig: LeaderRig) -> None:
        rig.change(leader=1)
        old, new = (fetched(rig.replicate(2, 0, current_leader_epoch=epoch)) for epoch in (0, 2))
        assert (old.error_code, new.error_code) == (OLD_EPOCH, NEW_EPOCH)
        assert (old.current_leader.leader_id, old.current_leader.leader_epoch) == (1, 1)

    def test_a_broker_without_a_replica(self, rig: LeaderRig) -> None:
        assert fetched(rig.replicate(9, 0)).error_code == NEW_EPOCH

    def test_a_broker_that_has_registered_again_since(self, rig: LeaderRig) -> None:
        """Its earlier process may still fetch, and must not count as a replica."""
        rig.produce(acks=1)
        rig.publish(rig.registration(2, 555))
        answer = rig.replicate(2, 1)
        row = fetched(answer)
        assert (row.error_code, row.current_leader.leader_id) == (NOT_LEADER, 1)
        assert answer.value.node_endpoints == [], "a replica knows the brokers from the metadata log"
        assert fetched(rig.replicate(2, 0, epoch=-1)).error_code == NONE
        assert fetched(rig.replicate(2, 0, epoch=555)).error_code == NONE

    def test_only_leaders_serve_replicas(self, rig: LeaderRig) -> None:
        rig.change(leader=2)
        assert fetched(rig.replicate(3, 0)).error_code == NOT_LEADER

    def test_a_debugging_consumer_may_ask_a_follower_for_offsets(self, rig: LeaderRig) -> None:
        rig.produce(acks=1)
        rig.change(leader=2)
        for replica_id, expected in ((-1, (NOT_LEADER, -1, -1)), (2, (NOT_LEADER, -1, -1)), (-2, (NONE, 1, 1))):
            topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=-1)])
            [row] = rig.ask(ListOffsetsRequest(replica_id=replica_id, topics=[topic]), 11).topics[0].partitions
            assert (row.error_code, row.offset, row.leader_epoch) == expected

    def test_a_lost_leadership_ends_the_wait(self, rig: LeaderRig) -> None:
        waiting = rig.replicate(2, 0)
        rig.change(leader=3)
        assert fetched(waiting).error_code == NOT_LEADER

    def test_a_position_above_the_end_or_below_the_start(self, rig: LeaderRig) -> None:
        assert fetched(rig.replicate(2, 1)).error_code == OUT_OF_RANGE
        assert rig.partition("t").followers[2].log_end == -1

    def test_a_follower_with_more_records_of_an_old_epoch_diverges(self, rig: LeaderRig) -> None:
        """An old leader returns with records of epoch 0 that nobody else has."""
        rig.produce("a", acks=1)
        rig.change(leader=1)
        rig.produce("b", acks=1)
        row = fetched(rig.replicate(2, 3, last_fetched_epoch=0))
        assert (row.error_code, row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (NONE, 0, 1)
        assert rig.partition("t").followers[2].log_end == -1, "its records are not those of the leader"
        assert fetched(rig.replicate(2, 1, last_fetched_epoch=0)).diverging_epoch.epoch == -1

    def test_a_follower_with_records_of_an_epoch_that_the_leader_does_not_have(self, rig: LeaderRig) -> None:
        """The leader of epoch 1 wrote a record that nobody got. The one of epoch 2 has not written yet."""
        rig.produce("a", acks=1)
        rig.change(leader=2)
        rig.change(leader=1)
        row = fetched(rig.replicate(2, 2, last_fetched_epoch=1))
        assert (row.error_code, row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (NONE, 0, 1)

    def test_an_epoch_above_all_is_out_of_range(self, rig: LeaderRig) -> None:
        assert fetched(rig.replicate(2, 0, last_fetched_epoch=9)).error_code == OUT_OF_RANGE


class TestUncleanElection:
    def test_the_leader_reports_that_it_has_recovered(self) -> None:
        rig = LeaderRig()
        rig.new_topic(isr=[1], leader_recovery_state=1)
        rig.settle()
        [change] = rig.requests[0].topics[0].partitions
        assert (rig.proposals, change.leader_recovery_state) == ([[1]], 0)
        assert not rig.state().is_recovering


class TestDeleteRecords:
    def delete(self, rig: LeaderRig, upto: int, timeout_ms: int = 1000) -> object:
        return rig.replica_manager.delete_records({T: upto}, timeout_ms=timeout_ms, now_ms=rig.clock.now_ms())

    @pytest.fixture
    def rig(self) -> LeaderRig:
        rig = LeaderRig()
        rig.new_topic()
        rig.produce("a", "b", acks=1)
        for node in (2, 3):
            rig.replicate(node, 2)
        return rig

    def test_it_waits_for_the_replicas(self, rig: LeaderRig) -> None:
        pending = self.delete(rig, -1)
        rig.replicate(2, 2, log_start_offset=2)
        rig.replicate(3, 2, log_start_offset=1)
        assert not pending.is_done  # type: ignore[attr-defined]
        rig.replicate(3, 2, log_start_offset=2)
        assert pending.value == {T: (0, 2)}  # type: ignore[attr-defined]

    def test_a_fenced_replica_is_not_waited_for(self, rig: LeaderRig) -> None:
        rig.publish(rig.registration(3, fenced=True))
        pending = self.delete(rig, 1)
        rig.replicate(2, 2, log_start_offset=1)
        assert pending.value == {T: (0, 1)}  # type: ignore[attr-defined]

    def test_a_replica_that_is_fenced_meanwhile_ends_the_wait(self, rig: LeaderRig) -> None:
        pending = self.delete(rig, 1)
        rig.replicate(2, 2, log_start_offset=1)
        assert not pending.is_done  # type: ignore[attr-defined]
        rig.fence(3)
        assert pending.value == {T: (0, 1)}  # type: ignore[attr-defined]

    def test_the_deadline_is_request_timed_out(self, rig: LeaderRig) -> None:
        pending = self.delete(rig, 1)
        rig.wait(1000)
        assert pending.value == {T: (TIMED_OUT, 0)}  # type: ignore[attr-defined]
        assert rig.partition("t").log.log_start_offset == 1

    def test_a_lost_leadership_ends_the_wait(self, rig: LeaderRig) -> None:
        pending = self.delete(rig, 1)
        rig.change(leader=2)
        assert pending.value == {T: (NOT_LEADER, -1)}  # type: ignore[attr-defined]


class TestNearestReplica:
    """KIP-392, with Kafka's RackAwareReplicaSelector."""

    @pytest.fixture
    def rig(self) -> LeaderRig:
        rig = LeaderRig(brokers=(), replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector")
        rig.publish(*(rig.registration(id, rack=rack) for id, rack in ((1, "a"), (2, "b"), (3, "b"))))
        rig.new_topic()
        rig.produce("x", acks=1)
        for node in (2, 3):
            rig.replicate(node, 1)
        return rig

    def test_a_consumer_is_sent_to_a_replica_in_its_rack(self, rig: LeaderRig) -> None:
        row = fetched(rig.consume(0, rack="b"))
        assert (row.preferred_read_replica in (2, 3), row.records, row.high_watermark) == (True, b"", 1)

    @pytest.mark.parametrize("rack", ["", "a", "elsewhere"])
    def test_others_read_from_the_leader(self, rig: LeaderRig, rack: str) -> None:
        row = fetched(rig.consume(0, rack=rack))
        assert (row.preferred_read_replica, bool(row.records)) == (-1, True)

    def test_a_replica_out_of_sync_or_without_the_offset_is_not_chosen(self, rig: LeaderRig) -> None:
        rig.change(isr=[1, 2])
        rig.produce("y", acks=1)
        rig.replicate(3, 2)
        assert fetched(rig.consume(1, rack="b")).preferred_read_replica == 2
        rig.change(isr=[1])
        assert fetched(rig.consume(0, rack="b")).preferred_read_replica == -1

    def test_a_follower_serves_consumers_up_to_its_high_watermark(self, rig: LeaderRig) -> None:
        rig.change(leader=2)
        assert fetched(rig.consume(0)).high_watermark == 1
        assert fetched(rig.consume(0, version=10)).error_code == NOT_LEADER, "it does not know of KIP-392"
        waiting = rig.consume(1)
        log = rig.partition("t").log
        log.append(memoryview(bytearray(batch("z"))), leader_epoch=1, now_wall_ms=rig.clock.wall_ms())
        rig.replica_manager.complete_waiting(T)
        assert not waiting.is_there
        log.advance_high_watermark(2)
        rig.replica_manager.complete_waiting(T)
        assert fetched(waiting).high_watermark == 2


class TestTransactions:
    """The last stable offset and the markers of a leader with followers."""

    COMMIT = TransactionMarker(5, 0, 0, is_commit=True)

    def write(self, rig: LeaderRig) -> None:
        """Append a batch of an open transaction at offset 0, and one without a transaction after it."""
        opened = batch("a", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
        log = rig.partition("t").log
        log.append(bytearray(opened), leader_epoch=0, now_wall_ms=rig.clock.wall_ms(), verification=NOT_VERIFIED)
        log.append(bytearray(batch("b")), leader_epoch=0, now_wall_ms=rig.clock.wall_ms())

    def followed(self, rig: LeaderRig, offset: int) -> None:
        for node in (2, 3):
            rig.replicate(node, offset)

    def test_reader_waits_until_the_marker_is_replicated(self, rig: LeaderRig) -> None:
        self.write(rig)
        self.followed(rig, 2)
        request = rig.fetch_request(0)
        request.isolation_level = 1
        waiting = rig.send(request, 18)
        uncommitted = fetched(rig.consume(0))
        assert (uncommitted.high_watermark, uncommitted.last_stable_offset) == (2, 0)
        markers = rig.replica_manager.append_markers(self.COMMIT, [T])
        assert not markers.is_done
        assert not waiting.is_there, "the marker may still be lost with this leader"
        self.followed(rig, 3)
        assert markers.value == {T: NONE}
        row = fetched(waiting)
        assert (row.high_watermark, row.last_stable_offset) == (3, 3)
        assert len(row.records or b"") == rig.partition("t").log.size_bytes

    def test_marker_that_is_not_replicated_in_time_times_out(self, rig: LeaderRig) -> None:
        self.write(rig)
        markers = rig.replica_manager.append_markers(self.COMMIT, [T])
        rig.wait(30_000)
        assert markers.value == {T: TIMED_OUT}

    def test_marker_is_refused_without_enough_replicas(self, rig: LeaderRig) -> None:
        rig.new_topic("strict", min_isr=2, isr=[1])
        tp = TopicPartition("strict", 0)
        assert rig.replica_manager.append_markers(self.COMMIT, [tp]).value == {tp: NOT_ENOUGH}

    def test_marker_is_refused_where_it_cannot_be_written(self, rig: LeaderRig) -> None:
        rig.change(leader=2)
        unknown = TopicPartition("none", 0)
        assert rig.replica_manager.append_markers(self.COMMIT, [T, unknown]).value == {T: NOT_LEADER, unknown: 3}

    def test_marker_waits_for_no_one_after_the_leadership_is_lost(self, rig: LeaderRig) -> None:
        self.write(rig)
        markers = rig.replica_manager.append_markers(self.COMMIT, [T])
        rig.change(leader=2)
        assert markers.value == {T: NOT_LEADER}

    def test_new_leader_knows_the_open_transaction_of_its_records(self, rig: LeaderRig) -> None:
        opened = batch("a", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
        rig.change(leader=2)
        log = rig.partition("t").log
        log.append_as_follower(bytearray(opened), leader_epoch=1, now_wall_ms=rig.clock.wall_ms())
        rig.change(leader=1)
        self.followed(rig, 1)
        assert (rig.watermark, log.last_stable_offset) == (1, 0)
        rig.replica_manager.append_markers(self.COMMIT, [T])
        self.followed(rig, 2)
        assert log.last_stable_offset == 2
