"""Scenarios of committed, fetched and deleted offsets, with the outcome of Apache Kafka 4.3.1.

Each runs on the offset store and coordinator, on our broker and on Apache Kafka. Numbers are Kafka's error codes.
"""

from __future__ import annotations

from uuid import UUID

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.broker.group.harness import ask
from tests.broker.group.offsets_harness import OffsetsRecorder, commit, delete, fetch, fetch_group, rows_of
from tests.broker.group.requests import form_group_of_one, heartbeat, join, leave, start_join, subscribed_to, sync

UNKNOWN_ID = UUID(int=77)


def simple_commits_are_fetched_in_every_version(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    topic, topic_id = broker.new_topic()
    for version in range(2, 11):
        key = topic_id if version >= 10 else topic
        epoch = version if version >= 6 else -1
        assert commit(client, group, {key: [(0, version, epoch, f"v{version}"), (1, 7)]}, version) == [
            (key, [(0, 0), (1, 0)])
        ]
        for fetch_version in range(1, 11):
            name = topic_id if fetch_version >= 10 else topic
            expected = epoch if fetch_version >= 5 else -1
            assert fetch(client, group, {name: [1, 0, 5]}, fetch_version) == (
                0,
                [(name, [(1, 7, -1, "", 0), (0, version, expected, f"v{version}", 0), (5, -1, -1, "", 0)])],
            )


def all_offsets_of_a_group_are_fetched_in_every_version(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    first, first_id = broker.new_topic()
    second, second_id = broker.new_topic()
    commit(client, group, {first: [(0, 5, 3, "note"), (1, 6)], second: [(1, 7)]})
    for version in range(2, 11):
        names = (first_id, second_id) if version >= 10 else (first, second)
        error, topics = fetch(client, group, None, version)
        epoch = 3 if version >= 5 else -1
        assert error == 0
        assert {name: sorted(rows) for name, rows in topics} == {
            names[0]: [(0, 5, epoch, "note", 0), (1, 6, -1, "", 0)],
            names[1]: [(1, 7, -1, "", 0)],
        }
        assert fetch(client, group + "?", None, version) == (0, [])


def unknown_topics_and_partitions_have_errors_of_their_own(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    topic, topic_id = broker.new_topic()
    wanted = {"nope": [(0, 1)], topic: [(1, 8), (7, 5), (-1, 5)], "nope too": [(0, 1)]}
    assert commit(client, group, wanted) == [
        ("nope", [(0, 3)]),
        (topic, [(7, 3), (-1, 3), (1, 0)]),
        ("nope too", [(0, 3)]),
    ]
    by_id = {topic_id: [(0, 6), (9, 1)], UNKNOWN_ID: [(0, 1), (1, 2)]}
    assert commit(client, group, by_id, 10) == [(topic_id, [(9, 3), (0, 0)]), (UNKNOWN_ID, [(0, 100), (1, 100)])]
    assert fetch(client, group, {topic: [0, 1, 7], "nope": [0]}) == (
        0,
        [(topic, [(0, 6, -1, "", 0), (1, 8, -1, "", 0), (7, -1, -1, "", 0)]), ("nope", [(0, -1, -1, "", 0)])],
    )
    assert fetch(client, group, {UNKNOWN_ID: [0, 2], topic_id: [1]}, 10) == (
        0,
        [(topic_id, [(1, 8, -1, "", 0)]), (UNKNOWN_ID, [(0, -1, -1, "", 100), (2, -1, -1, "", 100)])],
    )
    # Without a valid partition the group is not checked.
    assert commit(client, "no such group", {"nope": [(0, 1)]}, generation=5) == [("nope", [(0, 3)])]
    assert commit(client, "no such group", {}) == []


def unknown_groups_in_every_request(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    topic, topic_id = broker.new_topic()
    for version, error in ((2, 22), (8, 22), (9, 69)):
        response = commit(client, group, {topic: [(0, 5)]}, version, generation=5, member="m")
        assert response == [(topic, [(0, error)])]
    assert commit(client, group, {topic_id: [(0, 5)]}, 10, generation=5, member="m") == [(topic_id, [(0, 69)])]
    assert fetch(client, group, {topic: [0]}) == (0, [(topic, [(0, -1, -1, "", 0)])])
    assert fetch(client, group, {}) == (0, [])
    assert delete(client, group, {topic: [0]}) == (69, [])
    assert delete(client, group, {"nope": [0]}) == (69, [])
    assert delete(client, "", {topic: [0]}) == (24, [])
    assert _listed(broker, group) == []
    # Without a generation the member id and instance id are ignored.
    assert commit(client, group, {topic: [(0, 5)]}, member="m", instance="i") == [(topic, [(0, 0)])]
    assert _listed(broker, group) == [("", "Empty")]


def simple_group_refuses_commits_of_members(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    topic, _ = broker.new_topic()
    commit(client, group, {topic: [(0, 5)]})
    for generation, member in ((3, "m"), (0, "m"), (0, "")):
        assert commit(client, group, {topic: [(0, 6)]}, generation=generation, member=member) == [(topic, [(0, 25)])]
    assert fetch(client, group, {topic: [0]}) == (0, [(topic, [(0, 5, -1, "", 0)])])


def group_with_an_empty_name_stores_offsets(broker: OffsetsRecorder) -> None:
    client = broker.connect()
    topic, _ = broker.new_topic()
    assert commit(client, "", {topic: [(0, 5)]}) == [(topic, [(0, 0)])]
    assert fetch(client, "", {topic: [0]}) == (0, [(topic, [(0, 5, -1, "", 0)])])


def metadata_length_is_limited_in_utf16_units(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    topic, _ = broker.new_topic()
    for fits, too_long in (("m" * 4096, "m" * 4097), ("ä" * 4096, "ä" * 4097), ("😀" * 2048, "😀" * 2049)):
        assert commit(client, group, {topic: [(0, 5, -1, too_long), (1, 6, -1, fits)]}) == [(topic, [(0, 12), (1, 0)])]
        assert fetch(client, group, {topic: [0, 1]}) == (0, [(topic, [(0, -1, -1, "", 0), (1, 6, -1, fits, 0)])])
    assert commit(client, group, {topic: [(0, 5, -1, None)]}) == [(topic, [(0, 0)])]
    assert fetch(client, group, {topic: [0]}) == (0, [(topic, [(0, 5, -1, "", 0)])])


def any_int64_is_a_valid_offset(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    topic, _ = broker.new_topic()
    assert commit(client, group, {topic: [(0, -5, -7), (1, 2**63 - 1)]}) == [(topic, [(0, 0), (1, 0)])]
    rows = [(0, -5, -7, "", 0), (1, 2**63 - 1, -1, "", 0)]
    assert fetch(client, group, {topic: [0, 1]}) == (0, [(topic, rows)])


def last_offset_of_a_repeated_partition_is_stored(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    topic, _ = broker.new_topic()
    assert commit(client, group, {topic: [(0, 1), (0, 3), (0, 2)]}) == [(topic, [(0, 0), (0, 0), (0, 0)])]
    assert fetch(client, group, {topic: [0, 0]}) == (0, [(topic, [(0, 2, -1, "", 0), (0, 2, -1, "", 0)])])


def commit_too_large_for_the_log_stores_nothing(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    topic, _ = broker.new_topic()
    ((_, rows),) = commit(client, group, {topic: [(0, n, -1, "m" * 4096) for n in range(300)]})
    assert rows == [(0, -1)] * 300
    assert fetch(client, group, None) == (0, [])
    assert _listed(broker, group) == []


def offsets_of_several_groups_are_fetched_in_one_request(broker: OffsetsRecorder) -> None:
    client = broker.connect()
    groups = [broker.new_group() for _ in range(3)]
    topic, topic_id = broker.new_topic()
    for offset, group in enumerate(groups[:2]):
        commit(client, group, {topic: [(0, offset)]})
    for version, name in ((8, topic), (9, topic), (10, topic_id)):
        requested = [
            fetch_group(groups[0], None),
            fetch_group(groups[1], {name: [0]}),
            fetch_group(groups[2], {name: [1]}),
        ]
        response = ask(client, OffsetFetchRequest(groups=requested, require_stable=True), version)
        assert [(g.group_id, g.error_code, rows_of(g.topics)) for g in response.groups] == [
            (groups[0], 0, [(name, [(0, 0, -1, "", 0)])]),
            (groups[1], 0, [(name, [(0, 1, -1, "", 0)])]),
            (groups[2], 0, [(name, [(1, -1, -1, "", 0)])]),
        ]
    assert ask(client, OffsetFetchRequest(groups=[])).groups == []


def members_commit_in_their_generation(broker: OffsetsRecorder) -> None:
    group, client, admin = broker.new_group(), broker.connect(), broker.connect()
    topic, topic_id = broker.new_topic()
    member, generation = form_group_of_one(client, group)

    def try_commit(generation: int, member: str, instance: str | None = None) -> int:
        ((_, ((_, error),)),) = commit(
            admin, group, {topic: [(0, 5)]}, generation=generation, member=member, instance=instance
        )
        return error

    assert try_commit(generation, member) == 0
    assert commit(client, group, {topic_id: [(0, 6)]}, 10, generation=generation, member=member) == [
        (topic_id, [(0, 0)])
    ]
    assert try_commit(generation + 1, member) == 22
    assert try_commit(-1, member) == 22
    assert try_commit(generation, "another") == 25
    assert try_commit(generation, member, "instance") == 25
    assert try_commit(-1, "") == 25
    assert fetch(client, group, {topic: [0]}) == (0, [(topic, [(0, 6, -1, "", 0)])])

    second = broker.connect()
    start_join(second, group)
    assert second.is_waiting()
    assert ask(client, heartbeat(group, generation, member)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert try_commit(generation, member) == 0  # PreparingRebalance: the old generation is still valid
    generation = ask(client, join(group, member)).generation_id
    assert try_commit(generation, member) == 27  # CompletingRebalance: the assignment is not known yet
    assert try_commit(generation - 1, member) == 22
    assert try_commit(-1, "") == 25
    assert delete(admin, group, {topic: [0]}) == (0, [(topic, [(0, 0)])])


def offsets_of_subscribed_topics_are_not_deleted(broker: OffsetsRecorder) -> None:
    group, client, admin = broker.new_group(), broker.connect(), broker.connect()
    read, _ = broker.new_topic()
    other, _ = broker.new_topic()
    # The default subscription of `join` is "orders"; here the members subscribe to the new topic.
    member, generation = form_group_of_one(client, group, protocols=(("range", subscribed_to(read)),))
    commit(client, group, {read: [(0, 5)], other: [(0, 6), (1, 7)]}, generation=generation, member=member)

    assert delete(admin, group, {read: [0, 9], other: [1, 1, 5], "nope": [0]}) == (
        0,
        [(read, [(9, 3), (0, 86)]), (other, [(5, 3), (1, 0), (1, 0)]), ("nope", [(0, 3)])],
    )
    assert fetch(admin, group, {read: [0], other: [0, 1]}) == (
        0,
        [(read, [(0, 5, -1, "", 0)]), (other, [(0, 6, -1, "", 0), (1, -1, -1, "", 0)])],
    )
    assert ask(client, leave(group, member)).members[0].error_code == 0
    assert delete(admin, group, {read: [0]}) == (0, [(read, [(0, 0)])])
    assert delete(admin, group, {read: [0]}) == (0, [(read, [(0, 0)])])
    assert fetch(admin, group, {read: [0]}) == (0, [(read, [(0, -1, -1, "", 0)])])


def offsets_of_groups_with_unknown_subscriptions_are_not_deleted(broker: OffsetsRecorder) -> None:
    client = broker.connect()
    topic, _ = broker.new_topic()
    workers, unreadable = broker.new_group(), broker.new_group()

    start_join(client, workers, protocol_type="connect")
    joined = client.receive()
    ask(client, sync(workers, joined.generation_id, joined.member_id, protocol_type="connect"))
    assert delete(client, workers, {topic: [0]}) == (68, [])

    start_join(client, unreadable, protocols=(("range", b"\0\0zz"),))
    joined = client.receive()
    ask(client, sync(unreadable, joined.generation_id, joined.member_id))
    assert delete(client, unreadable, {topic: [0]}) == (0, [(topic, [(0, 86)])])


def offsets_of_a_deleted_topic_are_deleted(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    topic, topic_id = broker.new_topic()
    other, _ = broker.new_topic()
    commit(client, group, {topic: [(0, 5), (1, 6)], other: [(0, 7)]})
    broker.delete_topic(topic)

    assert fetch(client, group, None) == (0, [(other, [(0, 7, -1, "", 0)])])
    assert fetch(client, group, {topic: [0]}) == (0, [(topic, [(0, -1, -1, "", 0)])])
    assert fetch(client, group, {topic_id: [0]}, 10) == (0, [(topic_id, [(0, -1, -1, "", 100)])])
    assert commit(client, group, {topic: [(0, 5)]}) == [(topic, [(0, 3)])]

    recreated_id = broker.create_topic(topic)
    assert fetch(client, group, {recreated_id: [0]}, 10) == (0, [(recreated_id, [(0, -1, -1, "", 0)])])
    commit(client, group, {topic: [(0, 1)]})
    assert fetch(client, group, {recreated_id: [0]}, 10) == (0, [(recreated_id, [(0, 1, -1, "", 0)])])
    assert fetch(client, group, {topic_id: [0]}, 10) == (0, [(topic_id, [(0, -1, -1, "", 100)])])


def offsets_of_a_deleted_group_are_deleted(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    topic, _ = broker.new_topic()
    commit(client, group, {topic: [(0, 5)]})
    for error in (0, 69):
        (result,) = ask(client, DeleteGroupsRequest(groups_names=[group])).results
        assert result.error_code == error
        assert fetch(client, group, {topic: [0]}) == (0, [(topic, [(0, -1, -1, "", 0)])])
    assert _listed(broker, group) == []


def _listed(broker: OffsetsRecorder, group: str) -> list[tuple[str, str]]:
    """Not recorded, because groups of other tests are listed, too."""
    response = ask(broker._harness.connect(), ListGroupsRequest(), 4)
    return [(g.protocol_type, g.group_state) for g in response.groups if g.group_id == group]


SCENARIOS = [
    simple_commits_are_fetched_in_every_version,
    all_offsets_of_a_group_are_fetched_in_every_version,
    unknown_topics_and_partitions_have_errors_of_their_own,
    unknown_groups_in_every_request,
    simple_group_refuses_commits_of_members,
    group_with_an_empty_name_stores_offsets,
    metadata_length_is_limited_in_utf16_units,
    any_int64_is_a_valid_offset,
    last_offset_of_a_repeated_partition_is_stored,
    commit_too_large_for_the_log_stores_nothing,
    offsets_of_several_groups_are_fetched_in_one_request,
    members_commit_in_their_generation,
    offsets_of_subscribed_topics_are_not_deleted,
    offsets_of_groups_with_unknown_subscriptions_are_not_deleted,
    offsets_of_a_deleted_topic_are_deleted,
    offsets_of_a_deleted_group_are_deleted,
]
