"""What is committed, fetched and deleted, with the outcome that Kafka 4.3.1 has. Numbers are its error codes.

Each story runs on our store and coordinator, on our broker and on Apache's.
"""

from __future__ import annotations

from uuid import UUID

from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.broker.group.lab import ask
from tests.broker.group.offsets_labs import OffsetsNotebook, commit, delete, fetch, fetch_group, rows_of
from tests.broker.group.requests import enter, heartbeat, join, leave, settle_alone, subscribed_to, sync

UNKNOWN_ID = UUID(int=77)


def simple_commits_are_fetched_in_every_version(lab: OffsetsNotebook) -> None:
    group, client = lab.new_group(), lab.connect()
    topic, topic_id = lab.new_topic()
    for version in range(2, 11):
        key = topic_id if version >= 10 else topic
        epoch = version if version >= 6 else -1
        assert commit(client, group, {key: [(0, version, epoch, f"v{version}"), (1, 7)]}, version) == [
            (key, [(0, 0), (1, 0)])
        ]
        for asked in range(1, 11):
            name = topic_id if asked >= 10 else topic
            told = epoch if asked >= 5 else -1
            assert fetch(client, group, {name: [1, 0, 5]}, asked) == (
                0,
                [(name, [(1, 7, -1, "", 0), (0, version, told, f"v{version}", 0), (5, -1, -1, "", 0)])],
            )


def all_offsets_of_a_group_in_every_version(lab: OffsetsNotebook) -> None:
    group, client = lab.new_group(), lab.connect()
    first, first_id = lab.new_topic()
    second, second_id = lab.new_topic()
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


def unknown_topics_and_partitions_are_refused_one_by_one(lab: OffsetsNotebook) -> None:
    group, client = lab.new_group(), lab.connect()
    topic, topic_id = lab.new_topic()
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
    # Where nothing else is left, the group is not even looked at.
    assert commit(client, "no such group", {"nope": [(0, 1)]}, generation=5) == [("nope", [(0, 3)])]
    assert commit(client, "no such group", {}) == []


def unknown_groups(lab: OffsetsNotebook) -> None:
    group, client = lab.new_group(), lab.connect()
    topic, topic_id = lab.new_topic()
    for version, error in ((2, 22), (8, 22), (9, 69)):
        answer = commit(client, group, {topic: [(0, 5)]}, version, generation=5, member="m")
        assert answer == [(topic, [(0, error)])]
    assert commit(client, group, {topic_id: [(0, 5)]}, 10, generation=5, member="m") == [(topic_id, [(0, 69)])]
    assert fetch(client, group, {topic: [0]}) == (0, [(topic, [(0, -1, -1, "", 0)])])
    assert fetch(client, group, {}) == (0, [])
    assert delete(client, group, {topic: [0]}) == (69, [])
    assert delete(client, group, {"nope": [0]}) == (69, [])
    assert delete(client, "", {topic: [0]}) == (24, [])
    assert _listed(lab, group) == []
    # Without a generation anybody may, whatever else is said.
    assert commit(client, group, {topic: [(0, 5)]}, member="m", instance="i") == [(topic, [(0, 0)])]
    assert _listed(lab, group) == [("", "Empty")]


def a_simple_group_knows_no_members(lab: OffsetsNotebook) -> None:
    group, client = lab.new_group(), lab.connect()
    topic, _ = lab.new_topic()
    commit(client, group, {topic: [(0, 5)]})
    for generation, member in ((3, "m"), (0, "m"), (0, "")):
        assert commit(client, group, {topic: [(0, 6)]}, generation=generation, member=member) == [(topic, [(0, 25)])]
    assert fetch(client, group, {topic: [0]}) == (0, [(topic, [(0, 5, -1, "", 0)])])


def the_group_without_a_name_keeps_offsets_too(lab: OffsetsNotebook) -> None:
    client = lab.connect()
    topic, _ = lab.new_topic()
    assert commit(client, "", {topic: [(0, 5)]}) == [(topic, [(0, 0)])]
    assert fetch(client, "", {topic: [0]}) == (0, [(topic, [(0, 5, -1, "", 0)])])


def notes_have_a_limit_in_characters_of_java(lab: OffsetsNotebook) -> None:
    group, client = lab.new_group(), lab.connect()
    topic, _ = lab.new_topic()
    for fits, too_long in (("m" * 4096, "m" * 4097), ("ä" * 4096, "ä" * 4097), ("😀" * 2048, "😀" * 2049)):
        assert commit(client, group, {topic: [(0, 5, -1, too_long), (1, 6, -1, fits)]}) == [(topic, [(0, 12), (1, 0)])]
        assert fetch(client, group, {topic: [0, 1]}) == (0, [(topic, [(0, -1, -1, "", 0), (1, 6, -1, fits, 0)])])
    assert commit(client, group, {topic: [(0, 5, -1, None)]}) == [(topic, [(0, 0)])]
    assert fetch(client, group, {topic: [0]}) == (0, [(topic, [(0, 5, -1, "", 0)])])


def any_number_is_an_offset(lab: OffsetsNotebook) -> None:
    group, client = lab.new_group(), lab.connect()
    topic, _ = lab.new_topic()
    assert commit(client, group, {topic: [(0, -5, -7), (1, 2**63 - 1)]}) == [(topic, [(0, 0), (1, 0)])]
    rows = [(0, -5, -7, "", 0), (1, 2**63 - 1, -1, "", 0)]
    assert fetch(client, group, {topic: [0, 1]}) == (0, [(topic, rows)])


def a_partition_named_twice(lab: OffsetsNotebook) -> None:
    group, client = lab.new_group(), lab.connect()
    topic, _ = lab.new_topic()
    assert commit(client, group, {topic: [(0, 1), (0, 3), (0, 2)]}) == [(topic, [(0, 0), (0, 0), (0, 0)])]
    assert fetch(client, group, {topic: [0, 0]}) == (0, [(topic, [(0, 2, -1, "", 0), (0, 2, -1, "", 0)])])


def a_commit_too_large_for_the_log_leaves_nothing(lab: OffsetsNotebook) -> None:
    group, client = lab.new_group(), lab.connect()
    topic, _ = lab.new_topic()
    ((_, rows),) = commit(client, group, {topic: [(0, n, -1, "m" * 4096) for n in range(300)]})
    assert rows == [(0, -1)] * 300
    assert fetch(client, group, None) == (0, [])
    assert _listed(lab, group) == []


def many_groups_in_one_request(lab: OffsetsNotebook) -> None:
    client = lab.connect()
    groups = [lab.new_group() for _ in range(3)]
    topic, topic_id = lab.new_topic()
    for offset, group in enumerate(groups[:2]):
        commit(client, group, {topic: [(0, offset)]})
    for version, name in ((8, topic), (9, topic), (10, topic_id)):
        asked = [fetch_group(groups[0], None), fetch_group(groups[1], {name: [0]}), fetch_group(groups[2], {name: [1]})]
        answer = ask(client, OffsetFetchRequest(groups=asked, require_stable=True), version)
        assert [(g.group_id, g.error_code, rows_of(g.topics)) for g in answer.groups] == [
            (groups[0], 0, [(name, [(0, 0, -1, "", 0)])]),
            (groups[1], 0, [(name, [(0, 1, -1, "", 0)])]),
            (groups[2], 0, [(name, [(1, -1, -1, "", 0)])]),
        ]
    assert ask(client, OffsetFetchRequest(groups=[])).groups == []


def members_commit_in_their_generation(lab: OffsetsNotebook) -> None:
    group, client, admin = lab.new_group(), lab.connect(), lab.connect()
    topic, topic_id = lab.new_topic()
    member, generation = settle_alone(client, group)

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

    second = lab.connect()
    enter(second, group)
    assert second.is_waiting()
    assert ask(client, heartbeat(group, generation, member)).error_code == 27
    assert try_commit(generation, member) == 0  # PreparingRebalance: the old generation still counts
    generation = ask(client, join(group, member)).generation_id
    assert try_commit(generation, member) == 27  # CompletingRebalance: nobody knows yet who reads what
    assert try_commit(generation - 1, member) == 22
    assert try_commit(-1, "") == 25
    assert delete(admin, group, {topic: [0]}) == (0, [(topic, [(0, 0)])])


def offsets_of_topics_that_members_read_are_not_deleted(lab: OffsetsNotebook) -> None:
    group, client, admin = lab.new_group(), lab.connect(), lab.connect()
    read, _ = lab.new_topic()
    other, _ = lab.new_topic()
    # "orders" is in `join`'s default subscription; here it is the new topic that is read.
    member, generation = settle_alone(client, group, protocols=(("range", subscribed_to(read)),))
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


def offsets_of_other_groups_with_members_are_not_deleted(lab: OffsetsNotebook) -> None:
    client = lab.connect()
    topic, _ = lab.new_topic()
    workers, unreadable = lab.new_group(), lab.new_group()

    enter(client, workers, protocol_type="connect")
    joined = client.receive()
    ask(client, sync(workers, joined.generation_id, joined.member_id, protocol_type="connect"))
    assert delete(client, workers, {topic: [0]}) == (68, [])

    enter(client, unreadable, protocols=(("range", b"\0\0zz"),))
    joined = client.receive()
    ask(client, sync(unreadable, joined.generation_id, joined.member_id))
    assert delete(client, unreadable, {topic: [0]}) == (0, [(topic, [(0, 86)])])


def a_deleted_topic_takes_its_offsets_with_it(lab: OffsetsNotebook) -> None:
    group, client = lab.new_group(), lab.connect()
    topic, topic_id = lab.new_topic()
    other, _ = lab.new_topic()
    commit(client, group, {topic: [(0, 5), (1, 6)], other: [(0, 7)]})
    lab.delete_topic(topic)

    assert fetch(client, group, None) == (0, [(other, [(0, 7, -1, "", 0)])])
    assert fetch(client, group, {topic: [0]}) == (0, [(topic, [(0, -1, -1, "", 0)])])
    assert fetch(client, group, {topic_id: [0]}, 10) == (0, [(topic_id, [(0, -1, -1, "", 100)])])
    assert commit(client, group, {topic: [(0, 5)]}) == [(topic, [(0, 3)])]

    new_id = lab.create_topic(topic)
    assert fetch(client, group, {new_id: [0]}, 10) == (0, [(new_id, [(0, -1, -1, "", 0)])])
    commit(client, group, {topic: [(0, 1)]})
    assert fetch(client, group, {new_id: [0]}, 10) == (0, [(new_id, [(0, 1, -1, "", 0)])])
    assert fetch(client, group, {topic_id: [0]}, 10) == (0, [(topic_id, [(0, -1, -1, "", 100)])])


def a_deleted_group_takes_its_offsets_with_it(lab: OffsetsNotebook) -> None:
    group, client = lab.new_group(), lab.connect()
    topic, _ = lab.new_topic()
    commit(client, group, {topic: [(0, 5)]})
    for error in (0, 69):
        (result,) = ask(client, DeleteGroupsRequest(groups_names=[group])).results
        assert result.error_code == error
        assert fetch(client, group, {topic: [0]}) == (0, [(topic, [(0, -1, -1, "", 0)])])
    assert _listed(lab, group) == []


def _listed(lab: OffsetsNotebook, group: str) -> list[tuple[str, str]]:
    """Not noted: what other tests left behind is listed, too."""
    answer = ask(lab._lab.connect(), ListGroupsRequest(), 4)
    return [(g.protocol_type, g.group_state) for g in answer.groups if g.group_id == group]


STORIES = [
    simple_commits_are_fetched_in_every_version,
    all_offsets_of_a_group_in_every_version,
    unknown_topics_and_partitions_are_refused_one_by_one,
    unknown_groups,
    a_simple_group_knows_no_members,
    the_group_without_a_name_keeps_offsets_too,
    notes_have_a_limit_in_characters_of_java,
    any_number_is_an_offset,
    a_partition_named_twice,
    a_commit_too_large_for_the_log_leaves_nothing,
    many_groups_in_one_request,
    members_commit_in_their_generation,
    offsets_of_topics_that_members_read_are_not_deleted,
    offsets_of_other_groups_with_members_are_not_deleted,
    a_deleted_topic_takes_its_offsets_with_it,
    a_deleted_group_takes_its_offsets_with_it,
]
