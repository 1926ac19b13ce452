"""A member of a classic group: who it is, what it supports, and what it is waiting for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.pending import Pending

if TYPE_CHECKING:
    from kcli.protocol.messages.join_group import JoinGroupResponse
    from kcli.protocol.messages.sync_group import SyncGroupResponse

Protocols = tuple[tuple[str, bytes], ...]  # assignors by name with the member's metadata, most wanted first


@dataclass(eq=False)
class Member:
    """`group_instance_id` marks a static member (KIP-345). `join` and `sync` are the parked requests, if any.

    `is_new` until the member's first join is answered: till then it cannot heartbeat, and may be dropped while parked.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    join: Pending[JoinGroupResponse] | None = None
    sync: Pending[SyncGroupResponse] | None = None

    def __repr__(self) -> str:
        static = f" instance={self.group_instance_id}" if self.is_static else ""
        waits = " joining" if self.join else " syncing" if self.sync else ""
        return f"<Member {self.member_id}{static}{waits} supports={[name for name, _ in self.protocols]}>"

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_excused(self) -> bool:
        """Whether the session time-out does not count: a parked member cannot heartbeat. A new one is not excused."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """What the member said under this protocol. KeyError for one that it does not support."""
        return dict(reversed(self.protocols))[protocol or ""]

    def vote(self, candidates: Collection[str]) -> str:
        """The candidate that this member likes best."""
        return next(name for name, _ in self.protocols if name in candidates)


def new_member_id(name: str) -> str:
    """An id that nobody had before: the instance's or client's name and a random UUID, as Kafka makes them."""
    import uuid  # takes milliseconds, which a broker without groups need not wait for

    return f"{name}-{uuid.uuid4()}"
