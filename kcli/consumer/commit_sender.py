"""`CommitSender`: one OffsetCommit on its way: signed for the membership, sent, and its answer judged.

Judging happens in the caller's thread only, whoever drives the network: it may move the membership.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kcli.consumer import commit_requests
from kcli.consumer.commit_requests import Reaction
from kcli.consumer.group.membership import NO_GENERATION
from kcli.errors import KcliError
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
    from kcli.consumer.group.membership import Generation, Membership
    from kcli.consumer.subscription import SubscriptionState
    from kcli.protocol.messages.offset_commit import OffsetCommitResponse
    from kcli.structs import Node

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Callback = Callable[[Offsets, "KcliError | None"], None]

_OF_THE_MEMBERSHIP = (Reaction.REBALANCING, Reaction.STALE, Reaction.GONE, Reaction.FENCED)


class Commit:
    """One request to be: its offsets, when to give up sending it, and, once it is sent, where, for whom, its answer."""

    __slots__ = ("answer", "callback", "error", "generation", "give_up_ms", "node", "offsets", "reaction", "settled")

    def __init__(self, offsets: Offsets, callback: Callback | None, give_up_ms: float) -> None:
        self.offsets = offsets
        self.callback = callback
        self.give_up_ms = give_up_ms
        self.answer: RequestFuture[OffsetCommitResponse] | None = None
        self.generation: Generation | None = None
        self.node: Node | None = None
        self.settled = False
        self.error: KcliError | None = None
        self.reaction: Reaction | None = None  # None: nobody has answered

    @property
    def waits(self) -> bool:
        """Not sent yet."""
        return self.answer is None and not self.settled

    def settle(self, error: KcliError | None = None) -> None:
        """It is over."""
        self.settled, self.error = True, error


class CommitSender:
    """Signs and sends commits of one consumer, and judges what is answered."""

    def __init__(
        self,
        client: ConsumerNetworkClient,
        lookup: CoordinatorLookup,
        membership: Callable[[], Membership | None],
        subscription: SubscriptionState,
        group: str,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._membership = membership
        self._subscription = subscription
        self._group = group

    def _member(self) -> Membership | None:
        return None if self._subscription.mode == "assigned" else self._membership()

    def generation(self) -> Generation:
        """What a commit sent now is signed with."""
        member = self._member()
        return NO_GENERATION if member is None else member.generation

    def may_commit(self) -> bool:
        """A commit would not be refused before it is sent."""
        member = self._member()
        return member is None or (member.generation.member_id != "" and member.is_stable())

    def send(self, commit: Commit, node: Node, *, revoking: bool = False) -> None:
        """Send it, or settle it at once when there is nobody to send it for."""
        member, generation = self._member(), self.generation()
        if member is not None and not generation.member_id:
            commit.settle(commit_requests.not_a_member(self._group))
        elif member is not None and not revoking and not member.is_stable():
            # An answer to JoinGroup may bring the next generation at any moment: under that one, what is committed now
            # could be of partitions that belong to others.
            commit.settle(commit_requests.rebalancing(self._group))
        else:
            instance_id = None if member is None else member.instance_id
            request = commit_requests.commit_request(self._group, commit.offsets, generation, instance_id)
            commit.generation, commit.node = generation, node
            commit.answer = self._client.send(node, request, max_version=commit_requests.NEWEST_VERSION)

    def judge(self, commit: Commit) -> None:
        """Judge an answer, if there is one that was not judged yet."""
        if commit.settled or commit.answer is None or not commit.answer.done:
            return
        error = commit.answer.error
        if error is not None:
            commit.settle(error)
            if error.retriable:
                self._lookup.lost(str(error), commit.node)
            return
        refusal = commit_requests.read_refusal(commit.offsets, commit.answer.value())
        commit.settle(None if refusal is None else self._refused(commit, refusal))

    def _refused(self, commit: Commit, refusal: commit_requests.Refusal) -> KcliError:
        assert commit.generation is not None
        commit.reaction = refusal.reaction
        if refusal.reaction is Reaction.FIND:
            self._lookup.lost(f"OffsetCommit was answered with {refusal.code.name}", commit.node)
        member = self._member()
        is_member = member is not None and commit.generation.member_id != ""
        has_moved_on = member is not None and member.generation != commit.generation and not member.is_stable()
        error = commit_requests.error_of(refusal, self._group, is_member=is_member, has_moved_on=has_moved_on)
        if member is not None and refusal.reaction in _OF_THE_MEMBERSHIP:
            member.commit_refused(refusal.code, commit.generation)
        return error
