"""ISR changes that leaders of this node propose to the controller by AlterPartition (KIP-497).

Changes are batched: one request at a time is in flight, with one change of each partition. The answer of a partition
accepts the proposal, refuses it, or means that the metadata log will bring a newer state; everything else is retried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.broker.node.peers import PeerError
from kcli.broker.replication.repeated_failures import Backoff
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionChange,
    PartitionResult,
    TopicChange,
)
from kcli.structs import TopicPartition
from kcli.text import format_count

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.broker.node.peers import Peers
    from kcli.broker.partition import Proposal
    from kcli.broker.serving.timer import Timer
    from kcli.clock import Clock

_RETRY_MS = 50.0
_FAILURES_BEFORE_REPORT = 100  # in a row: after five seconds
# The controller has not tried it: the leader goes on with the state that it had.
_REFUSED = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
# The controller has a newer state, which the metadata log brings. Until then nothing more is proposed.
_OUTDATED = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class IsrChanges:
    """The proposals that are not answered yet. `on_accepted` is called after a partition got a new ISR."""

    def __init__(
        self,
        peers: Peers,
        timer: Timer,
        clock: Clock,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        on_accepted: Callable[[TopicPartition], None],
        report: Callable[[str], None],
    ) -> None:
        """`report` gets a sentence, once, about an error that lasts."""
        self.expanded = self.shrunk = 0
        self._peers = peers
        self._timer = timer
        self._clock = clock
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._on_accepted = on_accepted
        self._report = report
        self._backoff = Backoff(_RETRY_MS, _RETRY_MS)
        self._unsent: dict[TopicPartition, Proposal] = {}
        self._is_in_flight = False
        self._is_scheduled = False

    def __repr__(self) -> str:
        return f"<IsrChanges {len(self._unsent)} unsent{' in flight' if self._is_in_flight else ''}>"

    def submit(self, proposal: Proposal) -> None:
        """Send a proposal together with those that follow in the same iteration of the loop."""
        self._unsent[proposal.partition.tp] = proposal
        self._schedule(0.0)

    def _schedule(self, delay_ms: float) -> None:
        if not self._is_scheduled and not self._is_in_flight and self._unsent:
            self._is_scheduled = True
            self._timer.call_at(self._clock.now_ms() + delay_ms, self._send)

    def _send(self) -> None:
        self._is_scheduled = False
        proposals = {tp: change for tp, change in self._unsent.items() if change.partition.proposal is change}
        self._unsent = {}
        if not proposals:
            return
        self._is_in_flight = True
        request = AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), topics=self._topics(proposals)
        )
        self._peers.controller("isr changes").send(request, lambda answer: self._answered(proposals, answer))

    def _topics(self, proposals: dict[TopicPartition, Proposal]) -> list[TopicChange]:
        by_topic: dict[UUID, list[PartitionChange]] = {}
        for tp, (partition, isr, leader_epoch, partition_epoch, broker_epochs) in proposals.items():
            by_topic.setdefault(partition.topic_id, []).append(
                PartitionChange(
                    partition_index=tp.partition,
                    leader_epoch=leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=id, broker_epoch=broker_epochs.get(id, self._broker_epoch()))
                        for id in isr
                    ],
                    partition_epoch=partition_epoch,
                )
            )
        return [TopicChange(topic_id=id, partitions=changes) for id, changes in by_topic.items()]

    def _answered(self, proposals: dict[TopicPartition, Proposal], answer: AlterPartitionResponse | PeerError) -> None:
        self._is_in_flight = False
        results: dict[tuple[UUID, int], PartitionResult] = {}
        if isinstance(answer, AlterPartitionResponse) and not answer.error_code:
            results = {
                (topic.topic_id, row.partition_index): row for topic in answer.topics for row in topic.partitions
            }
        problem = str(answer) if isinstance(answer, PeerError) else _name(answer.error_code)
        failed = 0
        for tp, proposal in proposals.items():
            if proposal.partition.proposal is not proposal:  # the partition has a newer state
                continue
            result = results.get((proposal.partition.topic_id, tp.partition))
            if result is None or not self._apply(tp, proposal, result):
                failed += 1
                if result is not None:
                    problem = _name(result.error_code)
                self._unsent.setdefault(tp, proposal)
        self._pause(failed, problem)

    def _pause(self, failed: int, problem: str) -> None:
        """Send the next proposals, after a pause if some have failed."""
        now_ms = self._clock.now_ms()
        if not failed:
            self._backoff.succeeded()
        elif self._backoff.failed(problem, now_ms, report_after=_FAILURES_BEFORE_REPORT):
            self._report(
                f"the in-sync replicas of {format_count(failed, 'partition')} cannot be changed at the controller: "
                f"{problem}; trying again"
            )
        self._schedule(max(self._backoff.ready_ms - now_ms, 0.0))

    def _apply(self, tp: TopicPartition, proposal: Proposal, result: PartitionResult) -> bool:
        """Apply the answer of one partition; False if the proposal must be sent again."""
        partition, code = proposal.partition, result.error_code
        if not code:
            before = len(partition.state.isr) if partition.state is not None else 0
            self.expanded += len(result.isr) > before
            self.shrunk += len(result.isr) < before
            partition.accept(
                result.isr, result.leader_epoch, result.partition_epoch, bool(result.leader_recovery_state)
            )
            self._on_accepted(tp)
        elif code in _REFUSED:
            partition.proposal = None
        elif code not in _OUTDATED:
            return False
        return True


def _name(code: int) -> str:
    return ErrorCode.of(code).name
