"""A classic group: its members, its generation and the rules among them. Pure: no clock, no timer, nobody is told."""

from __future__ import annotations

from kcli.broker.group.expiry import GroupFacts
from kcli.broker.group.members import Member, Protocols
from kcli.broker.group.protocols import can_join, choose_protocol, subscribed_topics
from kcli.broker.group.states import TRANSITIONS, GroupEvent, GroupState, next_state
from kcli.error_codes import ErrorCode


class Group:
    """What is known of one group.

    `pending_ids` were handed out (error 79) to clients that have not joined with them yet; `pending_sync` are the
    members of this generation that have not asked for their assignment yet. `state_since_ms` is wall clock, -1 unknown.
    `protocol_type` is None for a group that only ever committed offsets.
    """

    def __init__(self, group_id: str, *, now_wall_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms = now_wall_ms
        self.is_first_round = False  # of a group that was Empty: its join phase takes the initial delay
        self.somebody_came = False  # a new member during the first round
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}  # group.instance.id -> member id
        self.pending_ids: set[str] = set()
        self.pending_sync: set[str] = set()
        self.subscribed_topics: frozenset[str] | None = None

    def __repr__(self) -> str:
        return (
            f"<Group {self.group_id!r} {self.state.value} generation={self.generation_id} protocol={self.protocol} "
            f"members={len(self.members)} pending={len(self.pending_ids)}>"
        )

    # ---- states ----

    def can(self, event: GroupEvent) -> bool:
        return (self.state, event) in TRANSITIONS

    def move(self, event: GroupEvent, now_wall_ms: int) -> None:
        """Go to the next state. ValueError when the event cannot happen now."""
        new = next_state(self.state, event)
        if new is GroupState.PREPARING:
            self.is_first_round, self.somebody_came = self.state is GroupState.EMPTY, False
        self.state, self.state_since_ms = new, now_wall_ms

    def start_generation(self, now_wall_ms: int) -> None:
        """End the join phase: the next generation, with the protocol that its members vote for, or of nobody."""
        self.generation_id += 1
        self.protocol = choose_protocol(self.members.values()) if self.members else None
        self.learn_topics()
        self.pending_sync = set(self.members)
        self.move(GroupEvent.ALL_JOINED if self.members else GroupEvent.ALL_LEFT, now_wall_ms)

    def learn_topics(self) -> None:
        """Read the members' subscriptions, as far as they are a consumer's."""
        self.subscribed_topics = subscribed_topics(self.protocol_type, self.protocol, self.members.values())

    # ---- members ----

    def add(self, member: Member, protocol_type: str) -> None:
        """Take in a member; the first one leads, and says what type of group this is."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_ids[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending_ids.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Forget a member or an id that was handed out. A leader is followed by the longest-standing member."""
        gone = self.members.pop(member_id, None)
        if gone is not None and gone.group_instance_id is not None:
            self.static_ids.pop(gone.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_ids.discard(member_id)
        self.pending_sync.discard(member_id)

    def replace(self, old: Member, new: Member) -> None:
        """Put a static member under its new id in the place of the old one, also as leader."""
        self.members = {m.member_id: m for m in (new if m is old else m for m in self.members.values())}
        if new.group_instance_id is not None:
            self.static_ids[new.group_instance_id] = new.member_id
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id
        self.pending_sync.discard(old.member_id)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is among those who joined; False when nobody has."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.join is None:
            joined = [m for m in self.members.values() if m.join is not None]
            if not joined:
                return False
            self.leader_id = joined[0].member_id
        return leader is not None

    @property
    def awaiting_join(self) -> int:
        """How many members' joins are parked."""
        return sum(m.join is not None for m in self.members.values())

    @property
    def has_all_joined(self) -> bool:
        """Whether the join phase has nobody left to wait for."""
        return not self.pending_ids and all(m.join is not None for m in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks for."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    # ---- rules ----

    def accepts(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether somebody with these protocols fits in; if not, error 23."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return self.protocol_type == protocol_type and can_join(self.members.values(), protocols)

    def has_room_for(self, member_id: str, max_size: int) -> bool:
        """Whether one more, or this known member, stays within `group.max.size`.

        In the join phase those count who have joined: the last ones of a group that has become too large are left out.
        """
        known = self.members.get(member_id)
        if self.state is GroupState.PREPARING:
            return (known is not None and known.join is not None) or self.awaiting_join < max_size
        if self.state in (GroupState.COMPLETING, GroupState.STABLE):
            return known is not None or len(self.members) < max_size
        return True

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Is this a member, and if static: still the holder of its instance id (or 82, fenced by a newer one)?"""
        if group_instance_id is not None:
            holder = self.static_ids.get(group_instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def facts(self) -> GroupFacts:
        """What the expiry of offsets must know."""
        return GroupFacts(self.state.value, self.protocol_type, self.subscribed_topics, self.state_since_ms)
