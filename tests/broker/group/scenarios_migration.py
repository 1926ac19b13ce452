"""Scenarios of groups with members of both protocols, and of requests about consumer groups (KIP-848).

Each runs on the coordinator, on our broker and on Apache Kafka 4.3.1. Numbers are Kafka's error codes.
"""

from __future__ import annotations

from typing import Any

from kcli.error_codes import ErrorCode
from kcli.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.broker.group import requests
from tests.broker.group.consumer_groups_harness import ConsumerGroupsRecorder, Member
from tests.broker.group.harness import ask
from tests.broker.group.offsets_harness import commit, delete, fetch, fetch_group

Protocols = tuple[tuple[str, bytes], ...]


def subscription(*topics: str, owned: dict[str, list[int]] | None = None, generation: int = -1) -> bytes:
    parts = [TopicPartitions(topic=name, partitions=numbers) for name, numbers in (owned or {}).items()]
    return encode_subscription(Subscription(topics=list(topics), owned_partitions=parts, generation_id=generation))


def partitions(assignment: bytes) -> dict[str, list[int]]:
    return {one.topic: sorted(one.partitions) for one in decode_assignment(assignment).assigned_partitions}


class ClassicMember:
    """A client of the classic protocol. It keeps its generation."""

    def __init__(
        self, broker: ConsumerGroupsRecorder, member_id: str, group: str, *topics: str, instance: str | None = None
    ) -> None:
        self.connection = broker.connect()
        self.member_id = member_id
        self.group = group
        self.topics = topics
        self.instance = instance
        self.generation = -1

    def join(self, *, owned: dict[str, list[int]] | None = None, version: int | None = None, **fields: Any) -> Any:
        """Join and return the response."""
        metadata = subscription(*self.topics, owned=owned, generation=self.generation)
        fields = {"protocols": (("range", metadata),), "instance": self.instance, **fields}
        answer = ask(self.connection, requests.join(self.group, self.member_id, **fields), version)
        if not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, **fields: Any) -> Any:
        fields = {"instance": self.instance, "generation": self.generation, **fields}
        generation = fields.pop("generation")
        return ask(self.connection, requests.sync(self.group, generation, self.member_id, **fields))

    def joined(self, **fields: Any) -> dict[str, list[int]]:
        """Join and sync; return the assigned partitions."""
        answer = self.join(**fields)
        assert answer.error_code == 0, answer
        return partitions(self.sync().assignment)

    def beat(self) -> int:
        request = requests.heartbeat(self.group, self.generation, self.member_id, self.instance)
        return ask(self.connection, request).error_code

    def leave(self) -> Any:
        who = self.member_id if self.instance is None else (self.member_id, self.instance)
        return ask(self.connection, requests.leave(self.group, who))


def consumer_and_classic(
    broker: ConsumerGroupsRecorder, partition_count: int
) -> tuple[str, str, Member, ClassicMember]:
    """Return a new topic, a group, its consumer member "a", which has joined, and a classic member, which has not."""
    topic, _ = broker.new_topic(partition_count)
    group = broker.new_group()
    member = Member(broker, "a", group)
    member.join([topic])
    return topic, group, member, ClassicMember(broker, "c", group, topic)


def describe(broker: ConsumerGroupsRecorder, *groups: str, **fields: Any) -> Any:
    request = ConsumerGroupDescribeRequest(group_ids=list(groups), **fields)
    return ask(broker.connect(), request).groups


def state_of(broker: ConsumerGroupsRecorder, group: str) -> str:
    return describe(broker, group)[0].group_state


def describe_classic(broker: ConsumerGroupsRecorder, group: str) -> str:
    return ask(broker.connect(), DescribeGroupsRequest(groups=[group])).groups[0].group_state


def classic_group(
    broker: ConsumerGroupsRecorder, topic: str, *, numbers: tuple[int, ...] = (0, 1), **fields: Any
) -> ClassicMember:
    """Return the only member of a Stable classic group, to which it has assigned these partitions."""
    member = ClassicMember(broker, "", broker.new_group(), topic)
    member.member_id = requests.request_member_id(member.connection, member.group)
    assert member.join(**fields).error_code == 0
    assigned = encode_assignment(Assignment(assigned_partitions=[TopicPartitions(topic=topic, partitions=[*numbers])]))
    assert member.sync(assignments={member.member_id: assigned}).error_code == 0
    return member


# ---- requests about consumer groups ----


def groups_are_described(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(4)
    other, _ = broker.new_topic(1)
    group, empty = broker.new_group(), broker.new_group()
    Member(broker, "a", group, instance_id="box").join([topic, other], rack_id="r1", server_assignor="range")
    Member(broker, "b", group).join([topic])
    leaving = Member(broker, "c", empty)
    leaving.join([topic])
    leaving.leave()
    classic = classic_group(broker, topic)
    rows = describe(broker, group, "nobody", "", empty, classic.group)
    assert sorted(row.error_code for row in rows) == [0, 0, 24, 69, 69]
    (allowed,) = describe(broker, group, include_authorized_operations=True)
    assert allowed.authorized_operations > 0
    ask(broker.connect(), ConsumerGroupDescribeRequest(group_ids=[group]), 0)


def a_group_is_described_while_it_reconciles(broker: ConsumerGroupsRecorder) -> None:
    topic, topic_id = broker.new_topic(4)
    group = broker.new_group()
    first, second = Member(broker, "a", group), Member(broker, "b", group)
    first.join([topic])
    second.join([topic])
    assert state_of(broker, group) == "Reconciling"
    revoking = first.beat(topic_partitions=[])
    assert state_of(broker, group) == "Reconciling"
    first.beat(owns=revoking if revoking.assignment else {topic_id: [0, 1]})
    second.beat()
    first.beat()
    assert state_of(broker, group) == "Stable"


def a_group_without_an_assignment_is_assigning(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group = broker.new_group(assignment_ms=10_000)
    Member(broker, "a", group).join([topic])
    Member(broker, "b", group).join([topic])
    assert state_of(broker, group) == "Assigning"


def classic_descriptions_do_not_know_consumer_groups(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group = broker.new_group()
    Member(broker, "a", group).join([topic])
    for version in (5, 6):
        ask(broker.connect(), DescribeGroupsRequest(groups=[group, "nobody"]), version)


def groups_are_listed_by_type_and_state(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group, empty = broker.new_group(), broker.new_group()
    Member(broker, "a", group).join([topic])
    leaving = Member(broker, "b", empty)
    leaving.join([topic])
    leaving.leave()
    classic_group(broker, topic)
    client = broker.connect()
    for types in ([], ["consumer"], ["Classic"], ["share"], ["nothing"], ["consumer", "classic"]):
        ask(client, ListGroupsRequest(types_filter=types))
    for states in (["stable"], ["Empty"], ["Assigning"], ["nothing"]):
        ask(client, ListGroupsRequest(states_filter=states, types_filter=["consumer"]))
    ask(client, ListGroupsRequest(), 4)


def only_empty_consumer_groups_are_deleted(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group, client = broker.new_group(), broker.connect()
    member = Member(broker, "a", group)
    member.join([topic])
    commit(client, group, {topic: [(0, 7)]}, member="a", generation=2)
    assert ask(client, DeleteGroupsRequest(groups_names=[group])).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert fetch(client, group, {topic: [0]})[1][0][1][0][1] == 7
    assert ask(client, DeleteGroupsRequest(groups_names=[group])).results[0].error_code == 0
    assert ask(client, DeleteGroupsRequest(groups_names=[group])).results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    describe(broker, group)
    fetch(client, group, {topic: [0]})


# ---- offsets ----


def a_member_commits_in_its_epoch(broker: ConsumerGroupsRecorder) -> None:
    topic, topic_id = broker.new_topic(4)
    group, client = broker.new_group(), broker.connect()
    member = Member(broker, "a", group)
    member.join([topic])
    assert commit(client, group, {topic: [(0, 5)]}, member="a", generation=2) == [(topic, [(0, 0)])]
    assert commit(client, group, {topic_id: [(1, 6)]}, 10, member="a", generation=2) == [(topic_id, [(1, 0)])]
    assert commit(client, group, {topic: [(0, 9)]}, member="a", generation=3) == [(topic, [(0, 113)])]
    assert commit(client, group, {topic: [(0, 9)]}, member="a", generation=1) == [(topic, [(0, 113)])]
    assert commit(client, group, {topic: [(0, 9)]}, member="b", generation=2) == [(topic, [(0, 25)])]
    assert commit(client, group, {topic: [(0, 9)]}) == [(topic, [(0, 25)])]
    assert commit(client, group, {topic: [(0, 9)]}, 8, member="a", generation=2) == [(topic, [(0, 35)])]
    assert commit(client, group, {topic: [(0, 9)]}, 8, member="b", generation=2) == [(topic, [(0, 25)])]
    fetch(client, group, {topic: [0, 1]})


def a_member_behind_its_epoch_commits_what_it_has_had_since(broker: ConsumerGroupsRecorder) -> None:
    topic, topic_id = broker.new_topic(4)
    group, client = broker.new_group(), broker.connect()
    first, second = Member(broker, "a", group), Member(broker, "b", group)
    first.join([topic])
    second.join([topic])
    shrunk = first.beat()
    kept = shrunk.assignment.topic_partitions[0].partitions
    lost = [number for number in range(4) if number not in kept]
    assert commit(client, group, {topic: [(lost[0], 5)]}, member="a", generation=2)[0][1][0][1] == 0
    assert first.beat(owns=shrunk).member_epoch == 3
    second.beat()
    assert commit(client, group, {topic: [(kept[0], 6)]}, member="a", generation=2)[0][1][0][1] == 0
    assert commit(client, group, {topic: [(lost[0], 7)]}, member="a", generation=2)[0][1][0][1] == 113
    rows = [(kept[0], 8), (lost[0], 8)]
    assert {code for _, code in commit(client, group, {topic: rows}, member="a", generation=2)[0][1]} == {113}
    assert commit(client, group, {topic_id: [(lost[0], 9)]}, 10, member="b", generation=2)[0][1][0][1] == 113
    assert commit(client, group, {topic: [(lost[0], 9)]}, member="b", generation=3)[0][1][0][1] == 0
    fetch(client, group, None)


def administrators_commit_while_a_consumer_group_is_empty(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group, client = broker.new_group(), broker.connect()
    member = Member(broker, "a", group)
    member.join([topic])
    assert commit(client, group, {topic: [(0, 5)]}) == [(topic, [(0, 25)])]
    member.leave()
    assert commit(client, group, {topic: [(0, 5)]}) == [(topic, [(0, 0)])]
    assert commit(client, group, {topic: [(0, 5)]}, member="a", generation=2) == [(topic, [(0, 25)])]
    assert commit(client, group, {topic: [(0, 6)]}, 7) == [(topic, [(0, 0)])]
    fetch(client, group, {topic: [0]})


def a_member_fetches_in_its_epoch(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group, client = broker.new_group(), broker.connect()
    Member(broker, "a", group).join([topic])
    classic = ClassicMember(broker, "c", group, topic)
    classic.joined()
    commit(client, group, {topic: [(0, 5)]}, member="a", generation=2)
    for member_id, epoch in (("a", 2), ("a", 1), ("a", 3), ("b", 2), (None, -1), ("", -1), ("c", 9)):
        asked = fetch_group(group, {topic: [0]})
        asked.member_id, asked.member_epoch = member_id, epoch
        ask(client, OffsetFetchRequest(groups=[asked]), 9)
    everything = fetch_group(group, None)
    everything.member_id, everything.member_epoch = "a", 7
    ask(client, OffsetFetchRequest(groups=[everything]), 9)


def offsets_of_subscribed_topics_are_not_deleted(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    other, _ = broker.new_topic(2)
    group, client = broker.new_group(), broker.connect()
    member = Member(broker, "a", group)
    member.join([topic])
    commit(client, group, {topic: [(0, 5)], other: [(0, 6)]}, member="a", generation=2)
    assert delete(client, group, {topic: [0], other: [0]})[1] == [(topic, [(0, 86)]), (other, [(0, 0)])]
    member.leave()
    assert delete(client, group, {topic: [0]})[1] == [(topic, [(0, 0)])]


def commits_of_unknown_groups_with_an_epoch_are_refused(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group, client = broker.new_group(), broker.connect()
    assert commit(client, group, {topic: [(0, 5)]}, member="a", generation=2) == [(topic, [(0, 69)])]
    assert commit(client, group, {topic: [(0, 5)]}, 8, member="a", generation=2) == [(topic, [(0, 22)])]
    describe(broker, group)


# ---- regular expressions ----


def expressions_that_are_not_valid_are_refused(broker: ConsumerGroupsRecorder) -> None:
    group = broker.new_group()
    for regex in ("(", "a)", "[z-a]", "a**", "(?=a)", "\\", "a{1001}", "[[:foo:]]"):
        assert (
            Member(broker, "a", group).join(None, subscribed_topic_regex=regex).error_code
            == ErrorCode.INVALID_REGULAR_EXPRESSION
        )
    describe(broker, group)


def a_member_gets_the_topics_of_its_expression(broker: ConsumerGroupsRecorder) -> None:
    first, _ = broker.new_topic(2)
    second, _ = broker.new_topic(1)
    group = broker.new_group()
    member = Member(broker, "a", group)
    answer = member.join(None, subscribed_topic_regex=f"{first}|{second}")
    assert (answer.error_code, answer.assignment.topic_partitions) == (0, [])
    found = broker.beat_until_assigned(member)
    assert len(found.assignment.topic_partitions) == 2
    describe(broker, group)
    other = Member(broker, "b", group)
    assert other.join(None, subscribed_topic_regex=f"{first}|{second}").member_epoch == member.epoch + 1


def an_expression_without_topics_assigns_nothing(broker: ConsumerGroupsRecorder) -> None:
    broker.new_topic(2)
    group = broker.new_group()
    member = Member(broker, "a", group)
    member.join(None, subscribed_topic_regex="no-such-topic.*")
    broker.pause(300)
    member.beat()
    describe(broker, group)


def names_replace_an_expression(broker: ConsumerGroupsRecorder) -> None:
    first, _ = broker.new_topic(2)
    second, _ = broker.new_topic(1)
    group = broker.new_group()
    member = Member(broker, "a", group)
    member.join(None, subscribed_topic_regex=first)
    assert broker.beat_until_assigned(member).assignment.topic_partitions
    member.beat(subscribed_topic_names=[second], subscribed_topic_regex="")
    described = describe(broker, group)
    assert described[0].members[0].subscribed_topic_names == [second]
    member.beat(topic_partitions=[])
    describe(broker, group)


def names_and_an_expression_add_up(broker: ConsumerGroupsRecorder) -> None:
    first, _ = broker.new_topic(2)
    second, _ = broker.new_topic(1)
    group = broker.new_group()
    member = Member(broker, "a", group)
    assert len(member.join([first], subscribed_topic_regex=second).assignment.topic_partitions) == 1
    assert len(broker.beat_until_assigned(member).assignment.topic_partitions) == 2


# ---- from classic to consumer ----


def a_consumer_member_joins_an_empty_classic_group(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    classic = classic_group(broker, topic)
    classic.leave()
    commit(broker.connect(), classic.group, {topic: [(0, 5)]})
    assert Member(broker, "a", classic.group).join([topic]).member_epoch == 2
    fetch(broker.connect(), classic.group, {topic: [0]})
    describe(broker, classic.group)


def a_consumer_member_joins_a_group_that_has_only_offsets(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group, client = broker.new_group(), broker.connect()
    commit(client, group, {topic: [(0, 5)]})
    assert Member(broker, "a", group).join([topic]).member_epoch == 2
    fetch(client, group, {topic: [0]})
    describe(broker, group)


def heartbeats_of_consumer_members_do_not_find_classic_groups(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    classic = classic_group(broker, topic)
    member = Member(broker, "a", classic.group)
    member.epoch = 5
    assert member.beat().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert member.leave().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert classic.beat() == 0


def a_classic_group_goes_on_when_a_consumer_member_joins(broker: ConsumerGroupsRecorder) -> None:
    topic, topic_id = broker.new_topic(4)
    classic = classic_group(broker, topic, numbers=(0, 1, 2, 3))
    group = classic.group
    member = Member(broker, "a", group)
    joined = member.join([topic])
    assert (joined.error_code, joined.assignment.topic_partitions) == (0, [])
    describe(broker, group)
    assert classic.beat() == 27
    assert classic.sync().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    kept = classic.joined(owned={topic: [0, 1, 2, 3]})
    assert len(kept[topic]) == 2
    describe(broker, group)
    assert classic.beat() == 27  # it has to join again without what it gave up
    assert classic.joined(owned=kept) == kept
    assert classic.beat() == 0
    assert member.beat(topic_partitions=[]).assignment.topic_partitions[0].topic_id == topic_id
    describe(broker, group)
    assert describe_classic(broker, group) == "Dead"


def a_stable_classic_group_of_two_is_converted(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(4)
    first = classic_group(broker, topic, numbers=(0, 1, 2, 3))
    second = ClassicMember(broker, "", first.group, topic)
    second.member_id = requests.request_member_id(second.connection, first.group)
    metadata = subscription(topic)
    second.connection.send(requests.join(first.group, second.member_id, protocols=(("range", metadata),)))
    assert second.connection.is_waiting()
    assert first.beat() == 27
    assert first.join().error_code == 0
    second.generation = second.connection.receive().generation_id
    shares = {
        one.member_id: encode_assignment(
            Assignment(assigned_partitions=[TopicPartitions(topic=topic, partitions=part)])
        )
        for one, part in ((first, [0, 1]), (second, [2, 3]))
    }
    assert first.sync(assignments=shares).error_code == 0
    assert second.sync().error_code == 0
    member = Member(broker, "a", first.group)
    member.join([topic])
    assert {first.beat(), second.beat()} == {27}
    assert first.join().error_code == 0


def groups_of_other_kinds_are_not_converted(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    for fields in (
        {"protocol_type": "connect", "protocols": (("v1", b"x"),)},
        {"protocol_type": "consumer", "protocols": (("range", b"\xff\xff"),)},
    ):
        client, group = broker.connect(), broker.new_group()
        member_id = requests.start_join(client, group, **fields)
        generation = client.receive().generation_id
        given = {member_id: b""}
        assert ask(client, requests.sync(group, generation, member_id, given), 4).error_code == 0
        assert Member(broker, "a", group).join([topic]).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert describe_classic(broker, group) == "Stable"


def an_assignment_with_user_data_is_not_converted(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    member = ClassicMember(broker, "", broker.new_group(), topic)
    member.member_id = requests.request_member_id(member.connection, member.group)
    member.join()
    mine = encode_assignment(Assignment(user_data=b"mine"))
    assert member.sync(assignments={member.member_id: mine}).error_code == 0
    assert Member(broker, "a", member.group).join([topic]).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert member.beat() == 0


def requests_that_wait_are_told_to_join_again(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    first = classic_group(broker, topic)
    second = ClassicMember(broker, "", first.group, topic)
    second.member_id = requests.request_member_id(second.connection, first.group)
    second.connection.send(requests.join(first.group, second.member_id, protocols=(("range", subscription(topic)),)))
    assert second.connection.is_waiting()
    Member(broker, "a", first.group).join([topic])
    assert second.connection.receive().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert first.beat() == 27
    assert first.join().error_code == 0


# ---- classic members of consumer groups ----


def a_classic_member_joins_a_consumer_group(broker: ConsumerGroupsRecorder) -> None:
    topic, group, member, classic = consumer_and_classic(broker, 4)
    assert classic.joined() == {}
    assert classic.beat() == 0  # it waits for the other's partitions
    shrunk = member.beat()
    member.beat(owns=shrunk)
    assert classic.beat() == 27
    assert len(classic.joined()[topic]) == 2
    assert classic.beat() == 0
    describe(broker, group)
    assert commit(broker.connect(), group, {topic: [(0, 5)]}, member="c", generation=classic.generation + 1)[0][1] == [
        (0, 22)
    ]


def a_classic_member_without_an_id_gets_one_first(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group = broker.new_group()
    Member(broker, "a", group).join([topic])
    classic = ClassicMember(broker, "", group, topic)
    answer = classic.join()
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    broker.known_id(answer.member_id)
    old = ClassicMember(broker, "", group, topic)
    joined = old.join(version=3)
    broker.known_id(joined.member_id)
    assert joined.error_code == 0


def other_protocols_do_not_join_a_consumer_group(broker: ConsumerGroupsRecorder) -> None:
    topic, group, _, classic = consumer_and_classic(broker, 2)
    assert classic.join(protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert classic.join(protocols=()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    classic.joined()
    other = ClassicMember(broker, "d", group, topic)
    assert other.join(protocols=(("sticky", subscription(topic)),)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert other.join(protocols=(("sticky", subscription(topic)), ("range", subscription(topic)))).error_code == 0


def requests_of_classic_members_are_checked(broker: ConsumerGroupsRecorder) -> None:
    _, group, _, classic = consumer_and_classic(broker, 2)
    classic.joined()
    client, generation = broker.connect(), classic.generation
    for who, at, instance in (("nobody", 2, None), ("a", 2, None), ("c", generation + 1, None), ("c", 2, "box")):
        ask(client, requests.heartbeat(group, at, who, instance))
        ask(client, requests.sync(group, at, who, instance=instance))
    ask(client, requests.sync(group, generation, "c", protocol="sticky"))
    ask(client, requests.sync(group, generation, "c", protocol_type="connect"))
    ask(client, requests.sync(group, generation, "c", {"c": b"mine"}))
    ask(client, requests.leave(group, "nobody", ("", "box"), ("c", "box")))
    describe(broker, group)


def a_classic_member_that_subscribes_anew_raises_the_epoch(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    other, _ = broker.new_topic(2)
    group = broker.new_group()
    member = Member(broker, "a", group)
    member.join([topic])
    classic = ClassicMember(broker, "c", group, other)
    given = classic.joined()
    assert given == {other: [0, 1]}
    classic.topics = (topic,)
    assert classic.joined(owned=given) == {}
    describe(broker, group)


def a_classic_static_member_comes_back(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    other, _ = broker.new_topic(2)
    group = broker.new_group()
    Member(broker, "a", group).join([topic])
    before = ClassicMember(broker, "", group, other, instance="box")
    first = before.join()
    broker.known_id(first.member_id)
    assert partitions(before.sync().assignment) == {other: [0, 1]}
    after = ClassicMember(broker, "", group, other, instance="box")
    back = after.join()
    broker.known_id(back.member_id)
    assert partitions(after.sync().assignment) == {other: [0, 1]}
    assert before.beat() == 82
    assert before.sync().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert before.join().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert after.beat() == 0


def static_members_change_the_protocol(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group = broker.new_group()
    Member(broker, "a", group).join([topic])
    classic = ClassicMember(broker, "", group, topic, instance="box")
    broker.known_id(classic.join().member_id)
    upgraded = Member(broker, "b", group, instance_id="box")
    assert upgraded.join([topic]).error_code == 0
    assert classic.beat() == 82
    again = ClassicMember(broker, "", group, topic, instance="box")
    joined = again.join()
    broker.known_id(joined.member_id)
    assert joined.error_code == 0
    assert upgraded.beat().error_code == ErrorCode.FENCED_INSTANCE_ID
    describe(broker, group)


def administrators_remove_members_of_both_protocols(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group, client = broker.new_group(), broker.connect()
    first, second = Member(broker, "a", group), Member(broker, "b", group, instance_id="box")
    first.join([topic])
    second.join([topic])
    ClassicMember(broker, "c", group, topic).joined()
    answer = ask(client, requests.leave(group, ("", "box"), "c", "nobody"))
    assert sorted(one.error_code for one in answer.members) == [0, 0, 25]
    assert second.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    describe(broker, group)
    ask(client, requests.leave(group, "a"))
    assert state_of(broker, group) == "Empty"


def a_malformed_subscription_fails(broker: ConsumerGroupsRecorder) -> None:
    _, group, _, classic = consumer_and_classic(broker, 2)
    classic.join(protocols=(("range", b"\x00"),))
    describe(broker, group)


# ---- from consumer to classic ----


def a_group_is_classic_again_when_the_last_consumer_member_leaves(broker: ConsumerGroupsRecorder) -> None:
    _, group, member, classic = consumer_and_classic(broker, 4)
    classic.joined()
    member.leave()
    assert describe_classic(broker, group) == "PreparingRebalance"
    assert classic.beat() == 27
    assert classic.join().leader == "c"
    assert classic.sync(assignments={"c": b"all"}).assignment == b"all"
    assert describe_classic(broker, group) == "Stable"
    describe(broker, group)
    assert member.beat().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def the_last_consumer_member_expires(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group = broker.new_group(session_ms=2000)
    member = Member(broker, "a", group)
    member.join([topic])
    classic = ClassicMember(broker, "c", group, topic)
    classic.joined()
    broker.pause(3000)
    assert describe_classic(broker, group) == "PreparingRebalance"
    assert classic.join().error_code == 0
    assert member.beat().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def a_static_member_that_leaves_for_now_keeps_the_group_as_it_is(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group = broker.new_group()
    member = Member(broker, "a", group, instance_id="box")
    member.join([topic])
    classic = ClassicMember(broker, "c", group, topic)
    classic.joined()
    member.leave(-2)
    assert len(describe(broker, group)[0].members) == 2
    back = Member(broker, "b", group, instance_id="box")
    assert back.join([topic]).error_code == 0
    describe(broker, group)


def the_last_static_consumer_member_comes_back_as_a_classic_one(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group = broker.new_group()
    member = Member(broker, "a", group, instance_id="box")
    member.join([topic])
    classic = ClassicMember(broker, "", group, topic, instance="box")
    joined = classic.join()
    broker.known_id(joined.member_id)
    assert joined.error_code == 0
    classic.sync()
    describe_classic(broker, group)
    assert member.beat().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert classic.beat() == 0


def a_classic_member_joins_an_empty_consumer_group(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group, client = broker.new_group(), broker.connect()
    member = Member(broker, "a", group)
    member.join([topic])
    commit(client, group, {topic: [(0, 5)]}, member="a", generation=2)
    member.leave()
    requests.form_group_of_one(client, group)
    assert describe_classic(broker, group) == "Stable"
    fetch(client, group, {topic: [0]})
    describe(broker, group)


def requests_to_an_empty_consumer_group_find_no_member(broker: ConsumerGroupsRecorder) -> None:
    topic, _ = broker.new_topic(2)
    group, client = broker.new_group(), broker.connect()
    member = Member(broker, "a", group)
    member.join([topic])
    member.leave()
    ask(client, requests.heartbeat(group, 2, "a"))
    ask(client, requests.sync(group, 2, "a"))
    ask(client, requests.leave(group, "a", ("", "box")))
    describe(broker, group)


def a_classic_member_that_does_not_sync_is_removed(broker: ConsumerGroupsRecorder) -> None:
    _, group, _, classic = consumer_and_classic(broker, 2)
    assert classic.join(rebalance_ms=2000).error_code == 0
    broker.pause(3000)
    assert classic.beat() == 25
    describe(broker, group)


def a_classic_member_that_does_not_join_again_is_removed(broker: ConsumerGroupsRecorder) -> None:
    _, group, first, classic = consumer_and_classic(broker, 4)
    assert classic.joined(rebalance_ms=2000) == {}
    first.beat(owns=first.beat())
    assert classic.beat() == 27
    broker.pause(3000)
    assert classic.beat() == 25
    describe(broker, group)


def a_classic_member_expires(broker: ConsumerGroupsRecorder) -> None:
    _, group, _, classic = consumer_and_classic(broker, 2)
    classic.joined(session_ms=2000)
    broker.pause(3000)
    assert classic.beat() == 25
    describe(broker, group)


SCENARIOS = [
    groups_are_described,
    a_group_is_described_while_it_reconciles,
    a_group_without_an_assignment_is_assigning,
    classic_descriptions_do_not_know_consumer_groups,
    groups_are_listed_by_type_and_state,
    only_empty_consumer_groups_are_deleted,
    a_member_commits_in_its_epoch,
    a_member_behind_its_epoch_commits_what_it_has_had_since,
    administrators_commit_while_a_consumer_group_is_empty,
    a_member_fetches_in_its_epoch,
    offsets_of_subscribed_topics_are_not_deleted,
    commits_of_unknown_groups_with_an_epoch_are_refused,
    expressions_that_are_not_valid_are_refused,
    a_member_gets_the_topics_of_its_expression,
    an_expression_without_topics_assigns_nothing,
    names_replace_an_expression,
    names_and_an_expression_add_up,
    a_consumer_member_joins_an_empty_classic_group,
    a_consumer_member_joins_a_group_that_has_only_offsets,
    heartbeats_of_consumer_members_do_not_find_classic_groups,
    a_classic_group_goes_on_when_a_consumer_member_joins,
    a_stable_classic_group_of_two_is_converted,
    groups_of_other_kinds_are_not_converted,
    an_assignment_with_user_data_is_not_converted,
    requests_that_wait_are_told_to_join_again,
    a_classic_member_joins_a_consumer_group,
    a_classic_member_without_an_id_gets_one_first,
    other_protocols_do_not_join_a_consumer_group,
    requests_of_classic_members_are_checked,
    a_classic_member_that_subscribes_anew_raises_the_epoch,
    a_classic_static_member_comes_back,
    static_members_change_the_protocol,
    administrators_remove_members_of_both_protocols,
    a_malformed_subscription_fails,
    a_group_is_classic_again_when_the_last_consumer_member_leaves,
    the_last_consumer_member_expires,
    a_static_member_that_leaves_for_now_keeps_the_group_as_it_is,
    the_last_static_consumer_member_comes_back_as_a_classic_one,
    a_classic_member_joins_an_empty_consumer_group,
    requests_to_an_empty_consumer_group_find_no_member,
    a_classic_member_that_does_not_sync_is_removed,
    a_classic_member_that_does_not_join_again_is_removed,
    a_classic_member_expires,
]
