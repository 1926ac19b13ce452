"""`Membership`: what a consumer knows of being a member of a group, however the group assigns its partitions.

Two ways to be one: `ConsumerCoordinator` (classic: the members assign) and `ConsumerMembership` (KIP-848: the broker
does). Both send and take what is due in `poll`, in the caller's thread, where the rebalance callbacks run as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from kcli.error_codes import ErrorCode
    from kcli.structs import TopicPartition


class Generation(NamedTuple):
    """Which membership a request speaks for. `id`: the generation, or the member's epoch (KIP-848); -1: none.

    `protocol`: the name of the strategy that the group has chosen; None where the broker assigns.
    """

    id: int = -1
    member_id: str = ""
    protocol: str | None = None


NO_GENERATION = Generation()


def _nothing(partitions: list[TopicPartition]) -> None:
    pass


class RebalanceHooks(NamedTuple):
    """What is called in the caller's thread when partitions come and go; lists are sorted and never empty but
    `on_assigned`'s, which is called at the end of every rebalance.

    `before_revocation` runs before `on_revoked`: the last moment to commit. After `on_lost` somebody else may have the
    partitions already, so there is nothing left to commit.
    """

    on_assigned: Callable[[list[TopicPartition]], None] = _nothing
    on_revoked: Callable[[list[TopicPartition]], None] = _nothing
    on_lost: Callable[[list[TopicPartition]], None] = _nothing
    before_revocation: Callable[[list[TopicPartition]], None] = _nothing


class Membership(Protocol):
    """One consumer's membership in its group. Times are milliseconds of the client's steady clock."""

    @property
    def generation(self) -> Generation:
        """What a commit must carry; `NO_GENERATION` while not a member."""

    @property
    def instance_id(self) -> str | None:
        """`group.instance.id` of a static member."""

    @property
    def state(self) -> str:
        """Where it is in the life of a member, in a word for a person."""

    def poll(self, now_ms: float) -> None:
        """Send what is due, take what was answered, run callbacks; never waits for the network itself.

        Raises what trying again would not help: BrokerError (FENCED_INSTANCE_ID, GROUP_AUTHORIZATION_FAILED,
        INCONSISTENT_GROUP_PROTOCOL, ...), and what a callback raised.
        """

    def next_ms(self) -> float:
        """When `poll` has something to do though nothing arrives."""

    def is_stable(self) -> bool:
        """A member with its assignment; commits for its generation are welcome."""

    def is_doubtful(self, now_ms: float) -> bool:
        """The partitions may belong to others by now: no heartbeat of a whole session has been answered, or the
        membership is gone and `on_lost` still to come. Nothing of them may be handed out meanwhile."""

    def request_rejoin(self, reason: str) -> None:
        """Join again with the next poll (classic), or tell the broker everything again (KIP-848)."""

    def commit_refused(self, code: ErrorCode, generation: Generation) -> None:
        """A commit that spoke for `generation` was refused with `code`: what that means for the membership."""

    def leave(self, reason: str, deadline_ms: float) -> None:
        """Give up the partitions (callbacks run) and leave the group, which a static member does not (KIP-345)."""

    def close(self, deadline_ms: float) -> None:
        """`leave` for good; safe to call twice."""


class Failures:
    """Of one rebalance. Partitions come and go whatever a callback raises, so that it is told only at the end."""

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    def __repr__(self) -> str:
        return f"<Failures {self._errors}>"

    def of(self, call: Callable[..., object], *arguments: object) -> None:
        """Call; what it raises is kept."""
        try:
            call(*arguments)
        except Exception as error:
            self._errors.append(error)

    def raise_first(self) -> None:
        """Raise the first error there was, if any."""
        if self._errors:
            raise self._errors[0]
