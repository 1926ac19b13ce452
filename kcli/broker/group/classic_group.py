"""A classic group: members, generation, protocol and the rules between them. Pure: no clock, no timer, no responses.

Kafka's ClassicGroup and ClassicGroupMember (GroupMetadata and MemberMetadata before 4.0), with their conversion to and
from the group's record in __consumer_offsets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.group.expiry import CONSUMER, GroupFacts
from kcli.broker.group.states import TRANSITIONS, GroupEvent, GroupState, next_state
from kcli.broker.serving.pending import Pending
from kcli.error_codes import ErrorCode
from kcli.errors import ProtocolError
from kcli.protocol.offsets_topic import GroupMetadataValue, MemberMetadata

if TYPE_CHECKING:
    from kcli.protocol.messages.join_group import JoinGroupResponse
    from kcli.protocol.messages.sync_group import SyncGroupResponse

Protocols = tuple[tuple[str, bytes], ...]  # (assignor, the member's metadata for it), by preference


@dataclass(eq=False)
class ClassicGroupMember:
    """One member: its identity, timeouts, supported protocols, assignment and parked responses.

    `group_instance_id` marks a static member (KIP-345). `awaiting_join` and `awaiting_sync` are the pending responses
    of parked requests. `is_new` is true until the member's first JoinGroup is answered: until then it cannot
    heartbeat, and its session timeout applies although its request is parked.
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
    awaiting_join: Pending[JoinGroupResponse] | None = None
    awaiting_sync: Pending[SyncGroupResponse] | None = None

    def __repr__(self) -> str:
        static = f" instance={self.group_instance_id}" if self.is_static else ""
        parked = " joining" if self.awaiting_join else " syncing" if self.awaiting_sync else ""
        return f"<ClassicGroupMember {self.member_id}{static}{parked} supports={[name for name, _ in self.protocols]}>"

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """True if the session timeout is ignored: a member with a parked request cannot heartbeat.

        A new member's timeout is not ignored, because its client may have disconnected and joined under another id.
        """
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for this protocol. KeyError for a protocol that it does not support."""
        return dict(reversed(self.protocols))[protocol or ""]

    def vote(self, candidates: Collection[str]) -> str:
        """Return the candidate that comes first in the member's order of preference."""
        return next(name for name, _ in self.protocols if name in candidates)


def new_member_id(name: str) -> str:
    """Return a new member id as Kafka makes them: the instance id or client id, a dash and a random UUID."""
    import uuid  # takes milliseconds to import; a broker without groups does not need it

    return f"{name}-{uuid.uuid4()}"


# ---- protocols ----


def common_protocols(members: Collection[ClassicGroupMember]) -> list[str]:
    """Return the protocols that all members support."""
    counts = Counter(name for member in members for name in {name for name, _ in member.protocols})
    return [name for name, count in counts.items() if count == len(members)]


def choose_protocol(members: Collection[ClassicGroupMember]) -> str:
    """Return the common protocol with the most votes; the first one in a tie. Each member votes for its favourite.

    A common protocol exists as long as each member passed `can_join`.
    """
    candidates = set(common_protocols(members))
    votes = Counter(member.vote(candidates) for member in members)
    return max(votes, key=votes.__getitem__)


def can_join(members: Collection[ClassicGroupMember], protocols: Protocols) -> bool:
    """Return whether a member with these protocols shares at least one with all current members."""
    if not members:
        return bool(protocols)
    return not set(common_protocols(members)).isdisjoint(name for name, _ in protocols)


def subscribed_topics(
    protocol_type: str | None, protocol: str | None, members: Iterable[ClassicGroupMember]
) -> frozenset[str] | None:
    """Return all topics that the members of a consumer group subscribe to; None when they cannot be determined."""
    from kcli.protocol.consumer_protocol import decode_subscribed_topics

    members = list(members)
    if protocol_type != CONSUMER:
        return None
    if not members:
        return frozenset()
    if protocol is None:
        return None
    try:
        return frozenset(topic for m in members for topic in decode_subscribed_topics(m.metadata(protocol)))
    except ProtocolError:
        return None


class ClassicGroup:
    """State, generation and members of one group.

    `pending_join_ids` are member ids that were handed out with MEMBER_ID_REQUIRED and have not joined yet (KIP-394).
    `pending_sync_ids` are the members of this generation that have not sent SyncGroup yet.
    `state_since_ms` is wall clock time, -1 when unknown. `protocol_type` is None for a group that only commits offsets.
    """

    def __init__(self, group_id: str, *, now_wall_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms = now_wall_ms
        self.is_initial_rebalance = False  # the group was Empty, so the join phase takes the initial delay
        self.new_member_added = False  # a member joined during the current interval of the initial delay
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_member_ids: dict[str, str] = {}  # group.instance.id -> member id
        self.pending_join_ids: set[str] = set()
        self.pending_sync_ids: set[str] = set()
        self.subscribed_topics: frozenset[str] | None = None

    def __repr__(self) -> str:
        return (
            f"<ClassicGroup {self.group_id!r} {self.state.value} generation={self.generation_id} "
            f"protocol={self.protocol} members={len(self.members)} pending={len(self.pending_join_ids)}>"
        )

    # ---- states ----

    def can(self, event: GroupEvent) -> bool:
        return (self.state, event) in TRANSITIONS

    def move(self, event: GroupEvent, now_wall_ms: int) -> None:
        """Go to the next state. ValueError for an event that is not valid in this state."""
        new_state = next_state(self.state, event)
        if new_state is GroupState.PREPARING:
            self.is_initial_rebalance, self.new_member_added = self.state is GroupState.EMPTY, False
        self.state, self.state_since_ms = new_state, now_wall_ms

    def start_generation(self, now_wall_ms: int) -> None:
        """End the join phase: start the next generation with the protocol that its members vote for, or without any."""
        self.generation_id += 1
        self.protocol = choose_protocol(self.members.values()) if self.members else None
        self.update_subscribed_topics()
        self.pending_sync_ids = set(self.members)
        self.move(GroupEvent.ALL_JOINED if self.members else GroupEvent.ALL_LEFT, now_wall_ms)

    def update_subscribed_topics(self) -> None:
        """Decode the members' subscriptions, if this is a consumer group."""
        self.subscribed_topics = subscribed_topics(self.protocol_type, self.protocol, self.members.values())

    # ---- members ----

    def add(self, member: ClassicGroupMember, protocol_type: str) -> None:
        """Add a member. The first one becomes the leader and determines the group's protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_member_ids[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending_join_ids.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id. The oldest remaining member succeeds a leader."""
        removed = self.members.pop(member_id, None)
        if removed is not None and removed.group_instance_id is not None:
            self.static_member_ids.pop(removed.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join_ids.discard(member_id)
        self.pending_sync_ids.discard(member_id)

    def replace(self, old: ClassicGroupMember, new: ClassicGroupMember) -> None:
        """Replace a static member by itself under a new member id, also as leader. The order of members is kept."""
        self.members = {m.member_id: m for m in (new if m is old else m for m in self.members.values())}
        if new.group_instance_id is not None:
            self.static_member_ids[new.group_instance_id] = new.member_id
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id
        self.pending_sync_ids.discard(old.member_id)

    def elect_joined_leader(self) -> bool:
        """Ensure that the leader is one of the members that joined; False when no member has joined."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.awaiting_join is None:
            joined = [m for m in self.members.values() if m.awaiting_join is not None]
            if not joined:
                return False
            self.leader_id = joined[0].member_id
        return leader is not None

    @property
    def awaiting_join_count(self) -> int:
        """The number of members whose JoinGroup is parked."""
        return sum(m.awaiting_join is not None for m in self.members.values())

    @property
    def has_all_joined(self) -> bool:
        """True if all known members, and all pending member ids, have joined."""
        return not self.pending_join_ids and all(m.awaiting_join is not None for m in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of the members."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    # ---- rules ----

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols can join; if not, the error is INCONSISTENT_GROUP_PROTOCOL."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return self.protocol_type == protocol_type and can_join(self.members.values(), protocols)

    def has_room_for(self, member_id: str, max_size: int) -> bool:
        """Return whether the group stays within `group.max.size` with this (known or new) member.

        In the join phase only members that have joined count: when a group is too large, the last ones are refused.
        """
        member = self.members.get(member_id)
        if self.state is GroupState.PREPARING:
            return (member is not None and member.awaiting_join is not None) or self.awaiting_join_count < max_size
        if self.state in (GroupState.COMPLETING, GroupState.STABLE):
            return member is not None or len(self.members) < max_size
        return True

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE for a member that still holds its instance id, else UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if group_instance_id is not None:
            holder = self.static_member_ids.get(group_instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def facts(self) -> GroupFacts:
        """Return the facts that the expiry of offsets depends on."""
        return GroupFacts(self.state.value, self.protocol_type, self.subscribed_topics, self.state_since_ms)

    # ---- the group's record ----

    def to_record(self, assignments: Mapping[str, bytes] | None = None) -> GroupMetadataValue:
        """Return the group's record, with its current assignments or with `assignments` by member id.

        A member without an entry in `assignments` is assigned nothing.
        """
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol,
            leader=self.leader_id,
            current_state_timestamp=self.state_since_ms,
            members=[
                _member_to_record(
                    m, self.protocol, m.assignment if assignments is None else assignments.get(m.member_id, b"")
                )
                for m in self.members.values()
            ],
        )

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """Restore a group: Stable with its members, or Empty. Members keep only the chosen one of their protocols."""
        group = cls(group_id, now_wall_ms=value.current_state_timestamp)
        group.state = GroupState.STABLE if value.members else GroupState.EMPTY
        group.generation_id = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol = value.protocol
        group.leader_id = value.leader
        for record in value.members:
            group.add(_member_from_record(record, value.protocol or ""), value.protocol_type)
        group.update_subscribed_topics()
        return group


def _member_to_record(member: ClassicGroupMember, protocol: str | None, assignment: bytes) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignment,
    )


def _member_from_record(record: MemberMetadata, protocol: str) -> ClassicGroupMember:
    return ClassicGroupMember(
        member_id=record.member_id,
        group_instance_id=record.group_instance_id,
        client_id=record.client_id,
        client_host=record.client_host,
        rebalance_timeout_ms=record.session_timeout if record.rebalance_timeout == -1 else record.rebalance_timeout,
        session_timeout_ms=record.session_timeout,
        protocols=((protocol, record.subscription),),
        assignment=record.assignment,
    )
