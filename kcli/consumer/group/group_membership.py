"""`Membership`: the interface of a group membership, independent of the group protocol.

Two implementations: `ConsumerCoordinator` (classic: the leader assigns partitions) and `ConsumerMembership` (KIP-848:
the broker assigns). Both send requests and handle responses in `poll`, in the caller's thread, where the rebalance
callbacks run too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from kcli.error_codes import ErrorCode
    from kcli.structs import TopicPartition


class Generation(NamedTuple):
    """The membership that a request belongs to. `id`: the generation, or the member epoch (KIP-848); -1: none.

    `protocol`: the assignor that the group has chosen; None where the broker assigns.
    """

    id: int = -1
    member_id: str = ""
    protocol: str | None = None


NO_GENERATION = Generation()


def _nothing(partitions: list[TopicPartition]) -> None:
    pass


class RebalanceHooks(NamedTuple):
    """Callbacks of a rebalance, called in the caller's thread with sorted lists.

    Lists are never empty, except that of `on_assigned`, which is called at the end of every rebalance.
    `before_revocation` runs before `on_revoked`, as the last chance to commit. After `on_lost` another member may own
    the partitions, so a commit is useless.
    """

    on_assigned: Callable[[list[TopicPartition]], None] = _nothing
    on_revoked: Callable[[list[TopicPartition]], None] = _nothing
    on_lost: Callable[[list[TopicPartition]], None] = _nothing
    before_revocation: Callable[[list[TopicPartition]], None] = _nothing


class Membership(Protocol):
    """The membership of one consumer in its group. Times are milliseconds of the client's monotonic clock."""

    @property
    def generation(self) -> Generation:
        """The generation for commits; `NO_GENERATION` while not a member."""

    @property
    def instance_id(self) -> str | None:
        """`group.instance.id` of a static member."""

    @property
    def state(self) -> str:
        """The state in the life of a member, for display."""

    def poll(self, now_ms: float) -> None:
        """Send due requests, handle responses, run callbacks. Does not wait for the network.

        Raise a fatal error: BrokerError (FENCED_INSTANCE_ID, GROUP_AUTHORIZATION_FAILED, INCONSISTENT_GROUP_PROTOCOL,
        ...), and exceptions of callbacks.
        """

    def next_ms(self) -> float:
        """Return the time at which `poll` has something to do."""

    def is_stable(self) -> bool:
        """True if the member has its assignment and may commit."""

    def may_get_first_partitions(self, now_ms: float) -> bool:
        """True if the member has no partitions, and other members may be about to give some up for it.

        In an incremental rebalance the first assignment of a new member is empty while others revoke partitions. It is
        not known whether they do; a member is given partitions within about two heartbeat intervals.
        """

    def may_be_expelled(self, now_ms: float) -> bool:
        """True if the partitions may belong to other members, so that no records may be returned.

        True when no heartbeat of a whole session was answered, or when the membership has ended and `on_lost` has not
        run yet.
        """

    def request_rejoin(self, reason: str) -> None:
        """Join again with the next poll (classic), or send all fields to the broker again (KIP-848)."""

    def commit_refused(self, code: ErrorCode, generation: Generation) -> None:
        """React to the refusal of a commit that was sent for `generation`."""

    def leave(self, reason: str, deadline_ms: float) -> None:
        """Revoke the partitions (callbacks run) and leave the group. A static member does not leave (KIP-345)."""


#: Heartbeat intervals that a member without partitions waits for others to give some up: one until they learn of it,
#: one until this member learns of the next rebalance.
INTERVALS_WITHOUT_PARTITIONS = 2


class CallbackErrors:
    """The exceptions of the callbacks of one rebalance.

    They do not stop the change of partitions, and are raised after it.
    """

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    def __repr__(self) -> str:
        return f"<CallbackErrors {self._errors}>"

    def run(self, call: Callable[..., object], *arguments: object) -> None:
        """Run a callback and keep its exception."""
        try:
            call(*arguments)
        except Exception as error:
            self._errors.append(error)

    def raise_first(self) -> None:
        """Raise the first exception, if any."""
        if self._errors:
            raise self._errors[0]
