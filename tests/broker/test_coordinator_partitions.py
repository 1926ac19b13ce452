"""Coordinators that move with the leadership of __consumer_offsets, told on a cluster in memory.

Error codes are those of Apache Kafka 4.3.1: 14 while loading, 15 after the timeout, 16 where the group is not
coordinated.
"""

from __future__ import annotations

import os
from errno import EIO, EMFILE
from typing import Any

import pytest

from kcli.broker import coordinator_log
from kcli.broker.broker import BrokerFailed
from kcli.broker.security.allow_all import AllowAll
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.structs import OFFSETS_TOPIC, TopicPartition
from tests.broker.group.coordinating_cluster import (
    CoordinatingCluster,
    Coordinator,
    commit_error,
    commit_request,
    committed,
    fetch_request,
)
from tests.broker.group.requests import heartbeat, join, leave, sync
from tests.broker.transaction.harness import MemoryBroker

LOADING, TIMED_OUT, NOT_COORDINATOR, DENIED = 14, 15, 16, 30
OK, REBALANCE, ILLEGAL_GENERATION, UNKNOWN_MEMBER = 0, 27, 22, 25
OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)


@pytest.fixture
def cluster() -> CoordinatingCluster:
    return CoordinatingCluster()


def form_group(node: Coordinator, group: str = "readers") -> tuple[str, int]:
    """Become the only member of a Stable group; return the member id and the generation."""
    member_id = node.ask(join(group)).member_id
    joined = node.ask(join(group, member_id))
    assert joined.error_code == OK
    assert node.ask(sync(group, joined.generation_id, member_id, {member_id: b"all"})).error_code == OK
    return member_id, joined.generation_id


def keep_from(cluster: CoordinatingCluster, node: int) -> None:
    """Keep the followers from fetching from this node; its heartbeats go on."""
    for other in {1, 2, 3} - {node}:
        cluster.network.cut(node, other)


class TestAnswersWaitForReplicas:
    def test_a_commit_is_answered_when_the_in_sync_replicas_have_it(self, cluster: CoordinatingCluster) -> None:
        keep_from(cluster, 1)
        answer = cluster.node(1).send(commit_request(7))
        cluster.run(2000)
        assert not answer.is_there
        cluster.network.heal()
        cluster.run(1500)
        assert commit_error(answer.value) == OK

    def test_an_offset_that_is_not_replicated_is_not_shown(self, cluster: CoordinatingCluster) -> None:
        node = cluster.node(1)
        assert commit_error(node.ask(commit_request(5))) == OK
        keep_from(cluster, 1)
        node.send(commit_request(7))
        shown = node.send(fetch_request())
        cluster.run(1000)
        assert not shown.is_there
        cluster.network.heal()
        cluster.run(1500)
        assert committed(shown.value) == [("readers", OK, 7)]

    def test_what_replicas_do_not_have_in_time_is_refused(self, cluster: CoordinatingCluster) -> None:
        node = cluster.node(1)
        member_id, generation = form_group(node)
        keep_from(cluster, 1)
        commit = node.send(commit_request(7, generation=generation, member_id=member_id))
        shown = node.send(fetch_request())
        beat = node.send(heartbeat("readers", generation, member_id))
        cluster.run(4900)
        assert not commit.is_there
        assert not beat.is_there
        cluster.run(200)
        assert commit_error(commit.value) == TIMED_OUT
        assert committed(shown.value) == [("readers", NOT_COORDINATOR, -1)]
        assert beat.value.error_code == TIMED_OUT

    def test_a_commit_below_the_minimum_of_in_sync_replicas_is_refused(self) -> None:
        cluster = CoordinatingCluster(min_isr=3)
        cluster.member(2).kill()
        cluster.expire()
        assert len(cluster.state(OFFSETS).isr) == 2
        assert commit_error(cluster.node(1).ask(commit_request(7))) == TIMED_OUT


class TestMoving:
    def test_committed_offsets_are_at_the_next_coordinator(self, cluster: CoordinatingCluster) -> None:
        assert commit_error(cluster.node(1).ask(commit_request(7))) == OK
        cluster.member(1).kill()
        cluster.expire()
        node = cluster.coordinator()
        assert node.id != 1
        assert committed(node.ask(fetch_request())) == [("readers", OK, 7)]
        assert commit_error(node.ask(commit_request(9))) == OK
        cluster.member(1).start()
        cluster.run(3000)
        assert committed(cluster.node(1).ask(fetch_request())) == [("readers", NOT_COORDINATOR, -1)]

    def test_members_go_on_in_their_generation(self, cluster: CoordinatingCluster) -> None:
        member_id, generation = form_group(cluster.node(1))
        cluster.member(1).kill()
        cluster.expire()
        node = cluster.coordinator()
        assert node.ask(heartbeat("readers", generation, member_id)).error_code == OK
        commit = commit_request(3, generation=generation, member_id=member_id)
        assert commit_error(node.ask(commit)) == OK
        assert node.ask(heartbeat("readers", generation - 1, member_id)).error_code == ILLEGAL_GENERATION
        assert node.ask(leave("readers", member_id)).error_code == OK

    def test_a_commit_of_a_coordinator_that_was_cut_off_is_refused_and_lost(self, cluster: CoordinatingCluster) -> None:
        assert commit_error(cluster.node(1).ask(commit_request(5))) == OK
        old = cluster.node(1)
        keep_from(cluster, 1)
        cluster.network.cut(1, 0)
        cluster.run(1000)  # the fetches that wait at node 1 are answered
        lost = old.send(commit_request(7))
        cluster.expire()
        assert commit_error(lost.value) == TIMED_OUT
        node = cluster.coordinator()
        assert committed(node.ask(fetch_request())) == [("readers", OK, 5)]
        cluster.network.heal()
        cluster.run(5000)
        assert commit_error(old.ask(commit_request(8))) == NOT_COORDINATOR
        cluster.quorum.send(ElectLeadersRequest(election_type=0, topic_partitions=None))
        cluster.run(1000)
        assert cluster.coordinator() is old
        assert committed(old.ask(fetch_request())) == [("readers", OK, 5)]

    def test_waiting_requests_of_a_coordinator_that_is_replaced_are_refused(self, cluster: CoordinatingCluster) -> None:
        old = cluster.node(1)
        member_id, generation = form_group(old)
        other_id = old.ask(join("readers")).member_id
        joining = old.send(join("readers", other_id))
        assert old.ask(heartbeat("readers", generation, member_id)).error_code == REBALANCE
        cluster.network.pause(1)
        cluster.expire()
        node = cluster.coordinator()
        assert node is not old
        assert not joining.is_there
        cluster.network.resume(1)
        cluster.run(100)
        assert joining.value.error_code == NOT_COORDINATOR
        assert old.ask(heartbeat("readers", generation, member_id)).error_code == NOT_COORDINATOR
        assert node.ask(heartbeat("readers", generation, member_id)).error_code == OK  # the join was not stored
        assert node.ask(heartbeat("readers", generation, other_id)).error_code == UNKNOWN_MEMBER

    def test_the_sessions_of_members_end_at_one_coordinator_only(self, cluster: CoordinatingCluster) -> None:
        form_group(cluster.node(1))
        cluster.member(1).kill()
        cluster.expire()
        cluster.member(1).start()
        cluster.run(30_000, step_ms=100)
        (group,) = cluster.coordinator().ask(DescribeGroupsRequest(groups=["readers"])).groups
        assert (group.group_state, group.members) == ("Empty", [])

    def test_groups_come_back_with_a_preferred_election(self, cluster: CoordinatingCluster) -> None:
        cluster.member(1).kill()
        cluster.expire()
        member_id, generation = form_group(cluster.coordinator())
        cluster.member(1).start()
        cluster.run(5000)
        cluster.quorum.send(ElectLeadersRequest(election_type=0, topic_partitions=None))
        cluster.run(1000)
        assert cluster.coordinator().id == 1
        assert cluster.node(1).ask(heartbeat("readers", generation, member_id)).error_code == OK
        assert cluster.node(2).ask(heartbeat("readers", generation, member_id)).error_code == NOT_COORDINATOR

    def test_a_new_epoch_of_the_same_leader_keeps_the_groups(self, cluster: CoordinatingCluster) -> None:
        node = cluster.node(1)
        member_id = node.ask(join("readers")).member_id
        first = node.ask(join("readers", member_id))
        waiting = node.send(join("readers", node.ask(join("readers")).member_id))
        node.group_parts().partitions.on_leadership(0, 5)
        assert not waiting.is_there
        assert node.ask(heartbeat("readers", first.generation_id, member_id)).error_code == REBALANCE


class TestLoading:
    def test_requests_are_refused_with_14_until_the_log_is_read(
        self, cluster: CoordinatingCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        member_id, generation = form_group(cluster.node(1))
        for offset in range(5):
            commit = commit_request(offset, generation=generation, member_id=member_id)
            assert commit_error(cluster.node(1).ask(commit)) == OK
        monkeypatch.setattr(coordinator_log, "READ_BYTES", 1)
        node = cluster.node(2)
        partitions = node.group_parts().partitions
        partitions.on_leadership(0, 1)
        assert partitions.is_loading
        assert commit_error(node.send(commit_request(9)).value) == LOADING
        assert committed(node.send(fetch_request()).value) == [("readers", LOADING, -1)]
        assert node.send(join("readers")).value.error_code == LOADING
        assert node.send(ListGroupsRequest()).value.error_code == LOADING
        assert node.send(heartbeat("readers", generation, member_id)).value.error_code == OK  # as in Apache Kafka
        for _ in range(50):
            node.timer.advance(cluster.clock.now_ms())
        assert not partitions.is_loading
        assert [group.group_id for group in node.send(ListGroupsRequest()).value.groups] == ["readers"]
        partitions.on_leadership(0, None)

    def test_a_leadership_that_is_lost_while_loading_loads_nothing(
        self, cluster: CoordinatingCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for offset in range(5):
            assert commit_error(cluster.node(1).ask(commit_request(offset))) == OK
        monkeypatch.setattr(coordinator_log, "READ_BYTES", 1)
        node = cluster.node(2)
        partitions = node.group_parts().partitions
        partitions.on_leadership(0, 1)
        partitions.on_leadership(0, None)
        for _ in range(50):
            node.timer.advance(cluster.clock.now_ms())
        assert not partitions.is_loading
        assert node.send(ListGroupsRequest()).value.groups == []
        assert commit_error(node.send(commit_request(9)).value) == NOT_COORDINATOR

    def test_a_partition_that_cannot_be_opened_for_want_of_descriptors_is_read_again(
        self, cluster: CoordinatingCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert commit_error(cluster.node(1).ask(commit_request(7))) == OK
        node = cluster.node(2)
        partitions = node.group_parts().partitions
        with monkeypatch.context() as starved:
            starved.setattr(coordinator_log, "_read_sections", no_descriptors)
            partitions.on_leadership(0, 1)
            assert commit_error(node.send(commit_request(9)).value) == LOADING
        cluster.clock.advance(100)
        for _ in range(3):
            node.timer.advance(cluster.clock.now_ms())
        assert not partitions.is_loading
        assert [group.group_id for group in node.send(ListGroupsRequest()).value.groups] == ["readers"]
        partitions.on_leadership(0, None)


class TestAlone:
    """A broker alone is the leader of the partitions from their creation to their deletion."""

    def test_groups_have_no_coordinator_until_their_topic_exists(self) -> None:
        broker = MemoryBroker()
        assert committed(broker.ask(fetch_request(), 8)) == [("readers", NOT_COORDINATOR, -1)]
        broker.ask(FindCoordinatorRequest(coordinator_keys=["readers"]), 4)
        assert committed(broker.ask(fetch_request(), 8)) == [("readers", OK, -1)]

    def test_groups_are_forgotten_with_their_topic(self) -> None:
        broker = broker_with_offset(7)
        broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=OFFSETS_TOPIC)]), 6)
        assert committed(broker.ask(fetch_request(), 8)) == [("readers", NOT_COORDINATOR, -1)]
        broker.ask(FindCoordinatorRequest(coordinator_keys=["readers"]), 4)
        assert committed(broker.ask(fetch_request(), 8)) == [("readers", OK, -1)]
        assert broker.ask(ListGroupsRequest(), 5).groups == []

    def test_offsets_in_the_topic_of_offsets_do_not_create_it_again_when_it_is_deleted(self) -> None:
        broker = broker_with_offset(7)
        own = commit_request(1)
        own.topics[0].name = OFFSETS_TOPIC
        assert commit_error(broker.ask(own, 9)) == OK
        broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=OFFSETS_TOPIC)]), 6)
        assert OFFSETS_TOPIC not in broker.broker.cluster.topics

    def test_the_whole_log_is_read_before_clients_are_served(self, monkeypatch: pytest.MonkeyPatch) -> None:
        broker = broker_with_offset(*range(9))
        monkeypatch.setattr(coordinator_log, "READ_BYTES", 1)
        broker.restart()
        assert committed(broker.ask(fetch_request(), 8)) == [("readers", OK, 8)]

    def test_a_log_that_cannot_be_read_ends_the_start(self, monkeypatch: pytest.MonkeyPatch) -> None:
        broker = broker_with_offset(7)
        monkeypatch.setattr(coordinator_log, "_read_sections", bad_disk)
        with pytest.raises(BrokerFailed, match="Input/output error while using the log of __consumer_offsets-"):
            broker.restart()


def no_descriptors(log: object) -> None:
    raise OSError(EMFILE, os.strerror(EMFILE))


def bad_disk(log: object) -> None:
    raise OSError(EIO, os.strerror(EIO))


def broker_with_offset(*offsets: int) -> MemoryBroker:
    """Return a broker alone with a topic, and with a group that has committed these offsets, one after the other."""
    broker = MemoryBroker()
    broker.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]), 7)
    broker.ask(FindCoordinatorRequest(coordinator_keys=["readers"]), 4)
    for offset in offsets:
        assert commit_error(broker.ask(commit_request(offset), 9)) == OK
    return broker


class NoRights(AllowAll):
    """Nobody may do anything."""

    is_open = False

    def allows(self, *_: Any) -> bool:
        return False


class TestSeveralCoordinators:
    """ "a" is in partition 1, which node 2 leads; "b" is in partition 0, which node 1 leads."""

    @pytest.fixture
    def cluster(self) -> CoordinatingCluster:
        cluster = CoordinatingCluster([1, 2], [2, 1])
        assert (cluster.coordinator("a").id, cluster.coordinator("b").id) == (2, 1)
        return cluster

    def test_a_request_about_several_groups_has_an_error_for_those_of_other_coordinators(
        self, cluster: CoordinatingCluster
    ) -> None:
        for group, offset in (("a", 3), ("b", 4)):
            assert commit_error(cluster.coordinator(group).ask(commit_request(offset, group))) == OK
        node = cluster.coordinator("a")
        rows = committed(node.ask(fetch_request("b", "a")))
        assert rows == [("b", NOT_COORDINATOR, -1), ("a", OK, 3)]
        groups = node.ask(DescribeGroupsRequest(groups=["a", "b"])).groups
        assert [(one.group_id, one.error_code) for one in groups] == [("a", OK), ("b", NOT_COORDINATOR)]
        results = node.ask(DeleteGroupsRequest(groups_names=["a", "b", "a"])).results
        assert [(one.group_id, one.error_code) for one in results] == [("a", OK), ("b", NOT_COORDINATOR)]

    def test_a_client_without_the_right_is_denied_by_every_broker(self, cluster: CoordinatingCluster) -> None:
        """Kafka asks for the right before the coordinator."""
        node = cluster.node(1)
        assert node.ask(heartbeat("a", 1, "m")).error_code == NOT_COORDINATOR
        node.group_parts().authorizer = NoRights()
        requests = (join("a"), sync("a", 1, "m", {}), heartbeat("a", 1, "m"), leave("a", "m"))
        assert [node.ask(request).error_code for request in requests] == [DENIED] * 4
        assert commit_error(node.ask(commit_request(1, "a"))) == DENIED
        assert committed(node.ask(fetch_request("a")))[0][1] == DENIED
        assert node.ask(DescribeGroupsRequest(groups=["a"])).groups[0].error_code == DENIED
        assert node.ask(DeleteGroupsRequest(groups_names=["a"])).results[0].error_code == DENIED

    def test_only_the_groups_of_the_lost_partition_are_unloaded(self, cluster: CoordinatingCluster) -> None:
        for group, offset in (("a", 3), ("b", 4)):
            assert commit_error(cluster.coordinator(group).ask(commit_request(offset, group))) == OK
        cluster.member(2).kill()
        cluster.expire()
        node = cluster.node(1)
        assert committed(node.ask(fetch_request("a", "b"))) == [("a", OK, 3), ("b", OK, 4)]
        cluster.member(2).start()
        cluster.run(5000)
        cluster.quorum.send(ElectLeadersRequest(election_type=0, topic_partitions=None))
        cluster.run(1000)
        rows = committed(node.ask(fetch_request("a", "b")))
        assert rows == [("a", NOT_COORDINATOR, -1), ("b", OK, 4)]
        assert committed(cluster.node(2).ask(fetch_request("a"))) == [("a", OK, 3)]

    def test_a_coordinator_lists_its_own_groups_only(self, cluster: CoordinatingCluster) -> None:
        for group in ("a", "b"):
            form_group(cluster.coordinator(group), group)
            listed = cluster.coordinator(group).ask(ListGroupsRequest()).groups
            assert [one.group_id for one in listed] == [group]

    def test_offsets_of_a_deleted_topic_are_deleted_by_the_coordinator_and_not_by_others(
        self, cluster: CoordinatingCluster
    ) -> None:
        assert commit_error(cluster.coordinator("a").ask(commit_request(3, "a"))) == OK
        ends = {id: cluster.member(id).log_of(cluster.partition_of("a")).log_end_offset for id in (1, 2)}
        cluster.quorum.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")]))
        cluster.run(1000)
        assert committed(cluster.coordinator("a").ask(fetch_request("a"))) == [("a", OK, -1)]
        for id, end in ends.items():
            assert cluster.member(id).log_of(cluster.partition_of("a")).log_end_offset == end + 1

    def test_offsets_expire_at_the_coordinator_only(self, cluster: CoordinatingCluster) -> None:
        assert commit_error(cluster.coordinator("a").ask(commit_request(3, "a"))) == OK
        end = cluster.node(1).log_of(cluster.partition_of("a")).log_end_offset
        later_ms = cluster.clock.wall_ms() + 8 * 86_400_000
        assert cluster.node(1).group_parts().offsets.expire(later_ms) == []
        assert cluster.node(2).group_parts().offsets.expire(later_ms) == ["a"]
        cluster.run(1000)
        tombstones = 2  # of the offset and of the group
        assert cluster.node(1).log_of(cluster.partition_of("a")).log_end_offset == end + tombstones
