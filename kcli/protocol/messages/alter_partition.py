"""AlterPartition (56): a leader proposes a new ISR to the controller (KIP-497, KIP-841, KIP-903)."""

from kcli.protocol.wire import *


@struct
class BrokerState:
    """A broker of the ISR with the broker epoch that its leader has seen in its fetches; -1 if unknown."""

    broker_id: Int32 = since(3, default=0)
    broker_epoch: Int64 = since(3, default=-1)


@struct
class PartitionChange:
    """The proposed ISR. `partition_epoch` is the one that the leader knows: another one is refused (95)."""

    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: Array[Int32] = since(until=2, default=[])
    new_isr_with_epochs: Array[BrokerState] = since(3, default=[])
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32 = 0


@struct
class TopicChange:
    """The partitions of a topic."""

    topic_id: Uuid = since(default_factory=zero_uuid)
    partitions: Array[PartitionChange] = []


@message(key=56, versions="2-3", flexible="0+")
class AlterPartitionRequest(Request["AlterPartitionResponse"]):
    """Propose ISRs. v3: with broker epochs. `leader_recovery_state` 0: recovered; 1: recovering (KIP-704)."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: Array[TopicChange] = []


@struct
class PartitionResult:
    """The state of the partition after the change, or the error."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: Array[Int32] = []
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32 = 0


@struct
class TopicResult:
    """The partitions of a topic."""

    topic_id: Uuid = since(default_factory=zero_uuid)
    partitions: Array[PartitionResult] = []


@message(key=56, versions="2-3", flexible="0+")
class AlterPartitionResponse(Message):
    """The new states by partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: Array[TopicResult] = []
