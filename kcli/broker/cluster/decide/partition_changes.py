"""Changes to partitions that brokers and clients ask for: ISRs, elections, reassignments and log directories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.cluster.decide.elections import ONLINE, PREFERRED, UNCLEAN, Target
from kcli.broker.cluster.decide.partitions import elect_where, election_for, remove_from_isrs, topic_setting
from kcli.broker.cluster.image import NO_LEADER, MetadataImage, PartitionState, TopicState
from kcli.broker.cluster.topic_rules import check_replicas
from kcli.broker.controller.registrations import check_epoch
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionChange,
    PartitionResult,
    TopicResult,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.draft import Draft
    from kcli.broker.config import BrokerConfig
    from kcli.protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        ReassignablePartition,
    )
    from kcli.protocol.messages.assign_replicas_to_dirs import (
        AssignReplicasToDirsRequest,
        AssignReplicasToDirsResponse,
    )
    from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

_FIRST_WITH_EPOCHS = 3
_ANY_EPOCH = -1
_RECOVERING = 1
_ELECTIONS = {0: PREFERRED, 1: UNCLEAN}
_LAST_OF_ELECTIONS = 2  # versions of ElectLeaders


# ---- AlterPartition ----


def alter_partitions(
    draft: Draft, config: BrokerConfig, request: AlterPartitionRequest, version: int
) -> AlterPartitionResponse:
    """Change ISRs as their leaders propose (KIP-497, KIP-841, KIP-903). BrokerError for a stale broker epoch."""
    check_epoch(draft.image, request.broker_id, request.broker_epoch)
    topics = []
    for requested in request.topics:
        rows = []
        for change in requested.partitions:
            if version < _FIRST_WITH_EPOCHS:
                change.new_isr_with_epochs = [BrokerState(broker_id=replica) for replica in change.new_isr]
            try:
                topic = draft.image.topic_or_error(requested.topic_id)
                rows.append(_alter_partition(draft, config, request.broker_id, topic, change))
            except BrokerError as error:
                rows.append(PartitionResult(partition_index=change.partition_index, error_code=error.code))
        topics.append(TopicResult(topic_id=requested.topic_id, partitions=rows))
    return AlterPartitionResponse(topics=topics)


def _alter_partition(
    draft: Draft, config: BrokerConfig, leader: int, topic: TopicState, change: PartitionChange
) -> PartitionResult:
    number = change.partition_index
    state = topic.partitions.get(number)
    if state is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    _check_proposal(draft.image, state, leader, change)
    isr = [replica.broker_id for replica in change.new_isr_with_epochs]
    target = Target(isr=isr, is_recovering=change.leader_recovery_state == _RECOVERING)
    record = election_for(draft.image, config, topic.name).change(topic.topic_id, number, state, target)
    if record is not None:
        draft.write(record)
        state = draft.image.topics[topic.name].partitions[number]
        if state.leader != leader:
            # The change has ended a reassignment that takes the partition from its leader.
            raise BrokerError(ErrorCode.NEW_LEADER_ELECTED)
    return PartitionResult(
        partition_index=number,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        leader_recovery_state=int(state.is_recovering),
        partition_epoch=state.partition_epoch,
    )


def _check_proposal(image: MetadataImage, state: PartitionState, leader: int, change: PartitionChange) -> None:
    """Refuse an ISR with the code that Kafka's controller returns."""
    if change.leader_epoch > state.leader_epoch or change.partition_epoch > state.partition_epoch:
        raise BrokerError(ErrorCode.NOT_CONTROLLER)  # the leader knows more than this controller
    if change.leader_epoch < state.leader_epoch:
        raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH)
    if leader != state.leader:
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    if change.partition_epoch < state.partition_epoch:
        raise BrokerError(ErrorCode.INVALID_UPDATE_VERSION)
    isr = [replica.broker_id for replica in change.new_isr_with_epochs]
    is_recovering = change.leader_recovery_state == _RECOVERING
    if (
        len(set(isr)) < len(isr)
        or not set(isr) <= set(state.replicas)
        or leader not in isr
        or (is_recovering and len(isr) > 1)
        or (is_recovering and not state.is_recovering)
    ):
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    if not all(_may_join(image, replica) for replica in change.new_isr_with_epochs):
        raise BrokerError(ErrorCode.INELIGIBLE_REPLICA)


def _may_join(image: MetadataImage, replica: BrokerState) -> bool:
    """Return whether a replica is active and of the incarnation that the leader has seen."""
    broker = image.brokers.get(replica.broker_id)
    return broker is not None and broker.is_active and replica.broker_epoch in (_ANY_EPOCH, broker.epoch)


# ---- elections ----


def elect_leaders(draft: Draft, config: BrokerConfig, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect the preferred replica, or any active one, as leader of partitions (KIP-460).

    If all partitions are asked for, those that need no election are not in the response.
    """
    from kcli.protocol.messages import elect_leaders as messages

    requested = request.topic_partitions
    kind = _ELECTIONS.get(request.election_type)
    if kind is None and requested != []:
        unknown = BrokerError(ErrorCode.INVALID_REQUEST, f"{request.election_type} is not an election type")
        return elections_failed(request, unknown)
    if requested is None:
        requested = [
            messages.TopicPartitions(topic=name, partitions=sorted(topic.partitions))
            for name, topic in draft.image.topics.items()
        ]
    results = []
    for topic in requested:
        rows = []
        for number in topic.partitions:
            try:
                _elect(draft, config, TopicPartition(topic.topic, number), kind)
                rows.append(messages.PartitionResult(partition_id=number, error_message=None))
            except BrokerError as error:
                if request.topic_partitions is None and error.code == ErrorCode.ELECTION_NOT_NEEDED:
                    continue
                rows.append(
                    messages.PartitionResult(partition_id=number, error_code=error.code, error_message=error.detail)
                )
        results.append(messages.ReplicaElectionResult(topic=topic.topic, partition_result=rows))
    return messages.ElectLeadersResponse(replica_election_results=results)


def elections_failed(
    request: ElectLeadersRequest, error: BrokerError, version: int = _LAST_OF_ELECTIONS
) -> ElectLeadersResponse:
    """Return the error of the whole request, also in the row of each partition: v0 has no other place for it."""
    from kcli.protocol.messages import elect_leaders as messages

    return messages.ElectLeadersResponse(
        error_code=error.code if version else ErrorCode.NONE,
        replica_election_results=[
            messages.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    messages.PartitionResult(partition_id=number, error_code=error.code, error_message=error.detail)
                    for number in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _elect(draft: Draft, config: BrokerConfig, tp: TopicPartition, kind: str | None) -> None:
    state = _partition(draft.image, tp)
    is_preferred = kind == PREFERRED
    if state.leader == state.replicas[0] if is_preferred else state.leader != NO_LEADER:
        raise BrokerError(ErrorCode.ELECTION_NOT_NEEDED)
    topic = draft.image.topics[tp.topic]
    record = election_for(draft.image, config, tp.topic, kind=kind).change(topic.topic_id, tp.partition, state)
    if record is None:
        raise BrokerError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if is_preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
    draft.write(record)


def balance_leaders(draft: Draft, config: BrokerConfig) -> None:
    """Elect the preferred replicas where others lead, as far as they are in sync."""
    elect_where(draft, config, lambda state: state.leader != state.replicas[0], kind=PREFERRED)


def elect_uncleanly(draft: Draft, config: BrokerConfig) -> None:
    """Elect any active replica in partitions without leader, if unclean.leader.election.enable of the topic is true."""
    elect_where(draft, config, lambda state: state.leader == NO_LEADER, only=UNCLEAN)


# ---- reassignments ----


def alter_reassignments(
    draft: Draft, config: BrokerConfig, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin and cancel reassignments (KIP-455)."""
    from kcli.protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsResponse,
        ReassignablePartitionResponse,
        ReassignableTopicResponse,
    )

    if not request.topics:
        return AlterPartitionReassignmentsResponse()
    may_resize = request.allow_replication_factor_change
    responses = []
    for topic in request.topics:
        rows = []
        for partition in topic.partitions:
            row = ReassignablePartitionResponse(partition_index=partition.partition_index, error_message=None)
            try:
                _reassign(draft, config, TopicPartition(topic.name, partition.partition_index), partition, may_resize)
            except BrokerError as error:
                row.error_code = error.code
                if error.code != ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
                    row.error_message = error.detail
            rows.append(row)
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=rows))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_resize, error_message=None, responses=responses
    )


def reassignments_failed(
    request: AlterPartitionReassignmentsRequest, error: BrokerError, _version: int
) -> AlterPartitionReassignmentsResponse:
    """Return the error of the whole request, also in the row of each partition."""
    from kcli.protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsResponse,
        ReassignablePartitionResponse,
        ReassignableTopicResponse,
    )

    code, text = error.code, error.detail
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=text,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=code, error_message=text
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _reassign(
    draft: Draft, config: BrokerConfig, tp: TopicPartition, requested: ReassignablePartition, may_resize: bool
) -> None:
    state = _partition(draft.image, tp)
    if requested.replicas is None:
        kind, target = None, _cancelled(draft.image, config, tp, state)
    else:
        kind, target = ONLINE, _moved(draft.image, state, requested.replicas, may_resize)
    topic_id = draft.image.topics[tp.topic].topic_id
    election = election_for(draft.image, config, tp.topic, kind=kind)
    if (record := election.change(topic_id, tp.partition, state, target)) is not None:
        draft.write(record)


def _moved(image: MetadataImage, state: PartitionState, replicas: Sequence[int], may_resize: bool) -> Target:
    check_replicas(replicas, image.brokers)
    if not may_resize:
        current = {*state.replicas, *state.adding} - set(state.removing)
        if len(current) != len(replicas):
            raise BrokerError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The partition has {len(current)} replica(s), and the request would give it {len(replicas)}",
            )
    removing = sorted(set(state.replicas) - set(replicas))
    # Replicas that an earlier reassignment adds stay added: they may be out of sync, and cancelling removes them.
    adding = sorted(set(replicas) - (set(state.replicas) - set(state.adding)))
    return Target(replicas=[*replicas, *removing], adding=adding, removing=removing)


def _cancelled(image: MetadataImage, config: BrokerConfig, tp: TopicPartition, state: PartitionState) -> Target:
    if not state.is_reassigning:
        raise BrokerError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = [replica for replica in state.replicas if replica not in state.adding]
    isr = [replica for replica in state.isr if replica not in state.adding]
    if not isr:
        if not replicas or not topic_setting(image, config, tp.topic, "unclean.leader.election.enable"):
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The reassignment of {tp} cannot be cancelled: that would need an unclean leader election",
            )
        isr = replicas[:1]
    return Target(isr=isr, replicas=replicas, adding=(), removing=())


# ---- log directories ----


def assign_directories(
    draft: Draft, config: BrokerConfig, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    """Note in which log directory the replicas of a broker are (KIP-858). BrokerError for a stale broker epoch."""
    from kcli.protocol.messages.assign_replicas_to_dirs import (
        AssignReplicasToDirsResponse,
        DirectoryResult,
        PartitionResult,
        TopicResult,
    )

    broker = check_epoch(draft.image, request.broker_id, request.broker_epoch)
    directories = []
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            rows = []
            for partition in topic.partitions:
                code = _assign(
                    draft, config, request.broker_id, directory.id, topic.topic_id, partition.partition_index
                )
                rows.append(PartitionResult(partition_index=partition.partition_index, error_code=code))
            topics.append(TopicResult(topic_id=topic.topic_id, partitions=rows))
        directories.append(DirectoryResult(id=directory.id, topics=topics))
    offline = [directory.id for directory in request.directories if directory.id not in broker.log_dirs]
    if offline:
        remove_from_isrs(draft, config, request.broker_id, directories=offline)
    return AssignReplicasToDirsResponse(directories=directories)


def _assign(
    draft: Draft, config: BrokerConfig, node_id: int, directory: UUID, topic_id: UUID, number: int
) -> ErrorCode:
    topic = draft.image.topic_by_id(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    state = topic.partitions.get(number)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if node_id not in state.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    election = election_for(draft.image, config, topic.name, kind=ONLINE)
    record = election.change(topic_id, number, state, Target(directories={node_id: directory}))
    if record is not None:
        draft.write(record)
    return ErrorCode.NONE


def _partition(image: MetadataImage, tp: TopicPartition) -> PartitionState:
    state = image.partition(tp)
    if state is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {tp}")
    return state
