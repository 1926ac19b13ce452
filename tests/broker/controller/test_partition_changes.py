"""Elections, ISR changes and reassignments, with the codes and results of Kafka's controller."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kcli.protocol.messages.alter_partition import AlterPartitionRequest, PartitionChange, TopicChange
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
)
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kcli.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kcli.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kcli.protocol.metadata_records import ProducerIdsRecord
from tests.broker.controller.conftest import MakeScene
from tests.broker.controller.quorum import SESSION_MS, Quorum, Scene, directory


def three_replicas(make_scene: MakeScene, *, elr: bool = True) -> Scene:
    quorum = make_scene(elr=elr).start(1, 2, 3)
    quorum.create("t", [1, 2, 3])
    return quorum


# ---- AlterPartition ----


def test_leader_shrinks_and_expands_the_isr_without_a_new_leader_epoch(make_scene: MakeScene) -> None:
    quorum = three_replicas(make_scene)
    shrunk = quorum.propose("t", [1, 2])
    assert (shrunk.error_code, shrunk.isr, shrunk.leader_id) == (0, [1, 2], 1)
    assert (shrunk.leader_epoch, shrunk.partition_epoch) == (0, 1)
    expanded = quorum.propose("t", [1, 2, 3])
    assert (expanded.isr, expanded.leader_epoch, expanded.partition_epoch) == ([1, 2, 3], 0, 2)


@pytest.mark.parametrize(
    ("isr", "fields", "code"),
    [
        ([1, 2], {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"partition_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ([1, 2], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1, 2], {"leader": 2}, ErrorCode.INVALID_REQUEST),
        ([2, 3], {}, ErrorCode.INVALID_REQUEST),
        ([1, 1], {}, ErrorCode.INVALID_REQUEST),
        ([1, 4], {}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"is_recovering": True}, ErrorCode.INVALID_REQUEST),
        ([1], {"is_recovering": True}, ErrorCode.INVALID_REQUEST),
        ([1, 2, 3], {"broker_epoch": 1}, ErrorCode.INELIGIBLE_REPLICA),
        ([1, 2, 3], {"broker_epoch": -1}, ErrorCode.NONE),
    ],
)
def test_proposed_isr_is_checked(
    make_scene: MakeScene, isr: list[int], fields: dict[str, Any], code: ErrorCode
) -> None:
    quorum = three_replicas(make_scene).start(4)
    quorum.propose("t", [1, 2])  # partition epoch 1
    assert quorum.propose("t", isr, **fields).error_code == code


def test_expansion_by_a_fenced_or_stopping_replica_is_refused(make_scene: MakeScene) -> None:
    quorum = three_replicas(make_scene)
    quorum.create("u", [3])
    quorum.kill(2)
    assert quorum.propose("t", [1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA
    quorum.beat(3, want_shut_down=True)
    assert quorum.propose("t", [1, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_expansion_by_the_previous_process_of_a_broker_is_refused(make_scene: MakeScene) -> None:
    quorum = three_replicas(make_scene)
    old_epoch = quorum.broker(3).epoch
    quorum.kill(3)
    quorum.start(3, incarnation=2)
    assert quorum.propose("t", [1, 2, 3], broker_epoch=old_epoch).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert quorum.propose("t", [1, 2, 3]).error_code == 0


def test_unknown_topics_and_partitions_have_their_own_codes(make_scene: MakeScene) -> None:
    quorum = three_replicas(make_scene)
    known = quorum.image.topics["t"].topic_id
    changes = [
        TopicChange(topic_id=one, partitions=[PartitionChange(partition_index=9)]) for one in (known, UUID(int=7))
    ]
    request = AlterPartitionRequest(broker_id=1, broker_epoch=quorum.broker(1).epoch, topics=changes)
    codes = [topic.partitions[0].error_code for topic in quorum.send(request).topics]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]
    request.broker_epoch = 0
    assert quorum.send(request).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_version_2_has_no_broker_epochs(make_scene: MakeScene) -> None:
    quorum = three_replicas(make_scene)
    change = PartitionChange(new_isr=[1, 3])
    topic_id = quorum.image.topics["t"].topic_id
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=quorum.broker(1).epoch,
        topics=[TopicChange(topic_id=topic_id, partitions=[change])],
    )
    assert quorum.send(request, 2).topics[0].partitions[0].isr == [1, 3]


# ---- elections ----


def test_next_leader_is_the_first_active_replica_of_the_isr_in_the_order_of_assignment(make_scene: MakeScene) -> None:
    quorum = three_replicas(make_scene)
    quorum.propose("t", [1, 3])
    quorum.kill(1)
    assert (quorum.partition("t").leader, quorum.partition("t").isr) == (3, (3,))


def test_without_elr_the_last_replica_stays_in_the_isr_and_leads_again(make_scene: MakeScene) -> None:
    quorum = three_replicas(make_scene, elr=False)
    for node_id in (1, 2, 3):
        quorum.kill(node_id)
    state = quorum.partition("t")
    assert (state.leader, state.isr, state.elr) == (-1, (3,), ())
    quorum.start(1, incarnation=2)
    assert quorum.partition("t").leader == -1
    quorum.start(3, incarnation=2)
    assert (quorum.partition("t").leader, quorum.partition("t").isr) == (3, (3,))
    assert not quorum.partition("t").is_recovering


def test_replicas_that_leave_an_isr_below_the_minimum_are_eligible_leaders(make_scene: MakeScene) -> None:
    quorum = make_scene().start(1, 2, 3)
    quorum.create("t", [1, 2, 3], configs={"min.insync.replicas": "2"})
    quorum.kill(3)
    assert (quorum.partition("t").isr, quorum.partition("t").elr) == ((1, 2), ())
    quorum.kill(2)
    assert (quorum.partition("t").isr, quorum.partition("t").elr) == ((1,), (2,))
    quorum.kill(1)
    state = quorum.partition("t")
    assert (state.leader, state.isr, set(state.elr), state.last_known_elr) == (-1, (), {1, 2}, (1,))

    assert not quorum.beat(2).is_fenced  # the same process: it was only slow
    state = quorum.partition("t")
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (2, (2,), (1,), ())
    assert not state.is_recovering
    quorum.beat(1)
    assert quorum.propose("t", [2, 1]).error_code == 0
    assert (quorum.partition("t").isr, quorum.partition("t").elr) == ((2, 1), ())


def test_unclean_stop_takes_a_replica_out_of_the_elr_and_the_last_leader_recovers(make_scene: MakeScene) -> None:
    quorum = make_scene().start(1, 2)
    quorum.create("t", [1, 2], configs={"min.insync.replicas": "2"})
    quorum.kill(2)
    quorum.kill(1)
    assert set(quorum.partition("t").elr) == {1, 2}
    assert quorum.partition("t").last_known_elr == (1,)
    quorum.start(2, incarnation=2)
    assert (quorum.partition("t").leader, quorum.partition("t").elr) == (-1, (1,))
    quorum.start(1, incarnation=2)
    state = quorum.partition("t")
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (1, (1,), (), ())
    assert state.is_recovering

    assert quorum.propose("t", [1, 2], is_recovering=True).error_code == ErrorCode.INVALID_REQUEST
    assert quorum.propose("t", [1]).leader_recovery_state == 0
    assert not quorum.partition("t").is_recovering
    assert quorum.propose("t", [1, 2]).isr == [1, 2]


def test_broker_with_the_epoch_of_its_clean_shutdown_stays_eligible() -> None:
    quorum = Quorum().start(1)
    quorum.create("t", [1])
    quorum.beat(1, want_shut_down=True)
    assert quorum.beat(1, want_shut_down=True).should_shut_down
    assert (quorum.partition("t").isr, quorum.partition("t").elr) == ((), (1,))
    epoch = quorum.broker(1).epoch
    quorum.clock.advance(SESSION_MS)
    quorum.start(1, incarnation=2, previous_broker_epoch=epoch)
    assert (quorum.partition("t").leader, quorum.partition("t").isr) == (1, (1,))
    assert not quorum.partition("t").is_recovering


def test_unclean_election_is_made_only_where_the_configuration_allows_it(make_scene: MakeScene) -> None:
    quorum = make_scene(elr=False).start(1, 2)
    unclean = {"unclean.leader.election.enable": "true"}
    quorum.create("safe", [1, 2])
    quorum.create("unsafe", [1, 2], configs=unclean)
    for topic in ("safe", "unsafe"):
        quorum.propose(topic, [1])
    quorum.kill(1)
    assert quorum.partition("safe").leader == -1
    state = quorum.partition("unsafe")
    assert (state.leader, state.isr, state.is_recovering) == (2, (2,), True)


def test_unclean_elections_that_are_allowed_later_are_made_periodically() -> None:
    quorum = Quorum(elr=False).start(1, 2)
    quorum.create("safe", [1, 2])
    quorum.propose("safe", [1])
    quorum.kill(1)
    change = AlterableConfig(name="unclean.leader.election.enable", value="true")
    resource = AlterConfigsResource(resource_type=2, resource_name="safe", configs=[change])
    quorum.send(IncrementalAlterConfigsRequest(resources=[resource]))
    assert quorum.partition("safe").leader == -1
    quorum.tick()
    quorum.clock.advance(300_000)
    quorum.beat(2)
    quorum.tick()
    assert quorum.partition("safe").leader == 2


def elect(quorum: Scene, kind: int, *partitions: int) -> list[int]:
    """Return the codes of the partitions of topic t; without partitions, those of all topics."""
    requested = [TopicPartitions(topic="t", partitions=list(partitions))] if partitions else None
    response = quorum.send(ElectLeadersRequest(election_type=kind, topic_partitions=requested))
    return [row.error_code for topic in response.replica_election_results for row in topic.partition_result]


def test_preferred_leader_is_elected_when_it_is_in_sync_again(make_scene: MakeScene) -> None:
    quorum = three_replicas(make_scene)
    assert elect(quorum, 0, 0) == [ErrorCode.ELECTION_NOT_NEEDED]
    assert elect(quorum, 0) == []
    quorum.kill(1)
    quorum.start(1, incarnation=2)
    assert elect(quorum, 0, 0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    quorum.propose("t", [2, 3, 1])
    assert elect(quorum, 0, 0, 7) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    state = quorum.partition("t")
    assert (state.leader, state.isr, state.is_recovering) == (1, (2, 3, 1), False)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_preferred_leaders_are_elected_periodically(is_enabled: bool) -> None:
    quorum = Quorum(auto_leader_rebalance_enable=is_enabled).start(1, 2, 3)
    quorum.create("t", [1, 2, 3])
    quorum.tick()
    quorum.kill(1)
    quorum.start(1, incarnation=2)
    quorum.propose("t", [2, 3, 1])
    leaders = {}
    for time_ms in range(3000, 400_000, 3000):
        quorum.clock.advance(3000)
        for node_id in (1, 2, 3):
            quorum.beat(node_id)
        quorum.tick()
        leaders.setdefault(quorum.partition("t").leader, time_ms)
    assert list(leaders) == ([2, 1] if is_enabled else [2])
    assert 280_000 < leaders.get(1, 290_000) < 303_000


def test_unclean_election_on_request(make_scene: MakeScene) -> None:
    quorum = make_scene(elr=False).start(1, 2)
    quorum.create("t", [1, 2])
    assert elect(quorum, 1, 0) == [ErrorCode.ELECTION_NOT_NEEDED]
    quorum.propose("t", [1])
    quorum.kill(1)
    assert elect(quorum, 1, 0) == [ErrorCode.NONE]
    assert (quorum.partition("t").leader, quorum.partition("t").is_recovering) == (2, True)
    quorum.kill(2)
    assert elect(quorum, 1, 0) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    assert (
        quorum.send(ElectLeadersRequest(election_type=7, topic_partitions=None)).error_code == ErrorCode.INVALID_REQUEST
    )


# ---- reassignments ----


def reassign(quorum: Scene, replicas: list[int] | None, **fields: Any) -> ReassignablePartitionResponse:
    topic = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])
    response = quorum.send(AlterPartitionReassignmentsRequest(topics=[topic], **fields))
    return response.responses[0].partitions[0]


def ongoing(quorum: Scene) -> list[tuple[list[int], list[int], list[int]]]:
    response = quorum.send(ListPartitionReassignmentsRequest())
    return [
        (one.replicas, one.adding_replicas, one.removing_replicas)
        for topic in response.topics
        for one in topic.partitions
    ]


def test_reassignment_ends_when_the_added_replicas_are_in_sync(make_scene: MakeScene) -> None:
    quorum = make_scene().start(1, 2, 3, 4)
    quorum.create("t", [1, 2])
    assert reassign(quorum, [3, 4]).error_code == 0
    state = quorum.partition("t")
    assert (state.replicas, state.adding, state.removing) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert (state.leader, state.leader_epoch) == (1, 0)
    assert state.directories == tuple(directory(one) for one in (3, 4, 1, 2))
    assert ongoing(quorum) == [([3, 4, 1, 2], [3, 4], [1, 2])]

    assert quorum.propose("t", [1, 2, 3]).error_code == 0
    assert quorum.partition("t").is_reassigning
    # The change ends the reassignment, and takes the partition from the leader that proposes it.
    assert quorum.propose("t", [1, 2, 3, 4]).error_code == ErrorCode.NEW_LEADER_ELECTED
    state = quorum.partition("t")
    assert (state.replicas, state.isr, state.leader, state.leader_epoch) == ((3, 4), (3, 4), 3, 1)
    assert not state.is_reassigning
    assert state.directories == (directory(3), directory(4))
    assert ongoing(quorum) == []


def test_leader_that_stays_gets_a_new_epoch_when_a_replica_is_removed(make_scene: MakeScene) -> None:
    quorum = three_replicas(make_scene)
    assert reassign(quorum, [1, 2]).error_code == 0  # nothing is added: it ends at once
    state = quorum.partition("t")
    assert (state.replicas, state.isr, state.leader, state.leader_epoch) == ((1, 2), (1, 2), 1, 1)


def test_new_order_of_replicas_is_no_reassignment(make_scene: MakeScene) -> None:
    quorum = three_replicas(make_scene)
    assert reassign(quorum, [3, 2, 1]).error_code == 0
    assert quorum.partition("t").replicas == (3, 2, 1)
    assert (quorum.partition("t").leader, quorum.partition("t").leader_epoch) == (1, 0)
    assert not quorum.partition("t").is_reassigning
    assert quorum.partition("t").directories == (directory(3), directory(2), directory(1))


def test_reassignment_can_be_cancelled(make_scene: MakeScene) -> None:
    quorum = make_scene().start(1, 2, 3)
    quorum.create("t", [1, 2])
    assert reassign(quorum, None).error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    reassign(quorum, [2, 3])
    assert reassign(quorum, None).error_code == 0
    state = quorum.partition("t")
    assert (sorted(state.replicas), state.isr, state.is_reassigning) == ([1, 2], (1, 2), False)
    assert state.leader_epoch == 1


def test_a_repeated_reassignment_can_still_be_cancelled(make_scene: MakeScene) -> None:
    """As `kafka-reassign-partitions --execute --additional` twice and --cancel."""
    quorum = make_scene().start(1, 2, 3)
    quorum.create("t", [1, 2])
    for target in ([2, 3], [2, 3], [3]):
        assert reassign(quorum, target).error_code == 0
        others = sorted({1, 2, 3} - set(target))
        assert ongoing(quorum) == [([*target, *others], [3], others)]
    assert reassign(quorum, None).error_code == 0
    state = quorum.partition("t")
    assert (sorted(state.replicas), state.isr, state.is_reassigning) == ([1, 2], (1, 2), False)


def test_a_changed_reassignment_waits_for_replicas_that_the_first_one_adds() -> None:
    """Apache Kafka 4.3.1 still has [1] as removing replicas here, and so removes a replica of the new target."""
    quorum = Quorum().start(1, 2, 3)
    quorum.create("t", [1, 2])
    reassign(quorum, [2, 3])
    assert reassign(quorum, [3, 2, 1]).error_code == 0
    assert ongoing(quorum) == [([3, 2, 1], [3], [])]
    assert quorum.propose("t", [1, 2, 3]).error_code == 0
    assert not quorum.partition("t").is_reassigning


def test_reassignment_back_to_the_old_replicas_ends_at_once() -> None:
    quorum = Quorum().start(1, 2, 3)
    quorum.create("t", [1, 2])
    reassign(quorum, [1, 3])
    assert reassign(quorum, [1, 2]).error_code == 0
    state = quorum.partition("t")
    assert (state.replicas, state.adding, state.removing) == ((1, 2), (), ())


def test_replica_that_a_reassignment_removes_is_no_eligible_leader() -> None:
    """It would be elected with an empty log when it returns."""
    quorum = Quorum().start(1, 2, 3, 4)
    quorum.create("t", [1, 2, 3], configs={"min.insync.replicas": "3"})
    quorum.kill(2, 3)
    assert set(quorum.partition("t").elr) == {2, 3}
    reassign(quorum, [1, 3, 4])
    quorum.propose("t", [1, 4])
    state = quorum.partition("t")
    assert (state.replicas, state.isr, state.elr) == ((1, 3, 4), (1, 4), (3,))


def test_cancelling_that_needs_an_unclean_election_is_refused(make_scene: MakeScene) -> None:
    quorum = make_scene(elr=False).start(1, 2, 3)
    quorum.create("t", [1])
    reassign(quorum, [2, 3])
    quorum.propose("t", [1, 2])
    quorum.kill(1)
    assert quorum.partition("t").isr == (2,)
    assert reassign(quorum, None).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("replicas", "fields", "code"),
    [
        ([], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2], {"allow_replication_factor_change": False}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ([3, 1, 2], {"allow_replication_factor_change": False}, ErrorCode.NONE),
    ],
)
def test_reassignment_is_checked(
    make_scene: MakeScene, replicas: list[int], fields: dict[str, Any], code: ErrorCode
) -> None:
    assert reassign(three_replicas(make_scene), replicas, **fields).error_code == code


# ---- others ----


def test_unregistered_broker_leaves_the_isr(make_scene: MakeScene) -> None:
    quorum = three_replicas(make_scene)
    assert quorum.send(UnregisterBrokerRequest(broker_id=1)).error_code == 0
    assert 1 not in quorum.image.brokers
    assert (quorum.partition("t").leader, quorum.partition("t").isr) == (2, (2, 3))
    assert quorum.send(UnregisterBrokerRequest(broker_id=1)).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_producer_ids_are_reserved_in_blocks_also_after_a_restart() -> None:
    quorum = Quorum().start(1)
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=quorum.broker(1).epoch)
    first = quorum.send(request)
    assert (first.producer_id_start, first.producer_id_len) == (0, 1000)
    assert quorum.records == [ProducerIdsRecord(broker_id=1, broker_epoch=request.broker_epoch, next_producer_id=1000)]
    quorum.restart()
    assert quorum.send(request).producer_id_start == 1000
    request.broker_epoch = 0
    assert quorum.send(request).error_code == ErrorCode.STALE_BROKER_EPOCH
