"""Replica fetchers in memory: what they ask, and what they do with the answers."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from kcli.broker.log.log_config import LogConfig
from kcli.broker.replication.repeated_failures import Backoff
from kcli.broker.testing.memory_files import Fault
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse
from kcli.structs import TopicPartition
from tests.broker.replication.fetching import TP, Replica, Replicas, topic_id

MANY = [TopicPartition("orders", number) for number in range(5)]


def pair(**properties: object) -> tuple[Replicas, Replica, Replica]:
    """A leader of epoch 0 and its follower."""
    cluster = Replicas(2, **properties)  # type: ignore[arg-type]
    leader, follower = cluster.nodes
    leader.lead(0)
    follower.follow(1, 0)
    return cluster, leader, follower


def same(*nodes: Replica) -> bool:
    """True if the replicas have the same bytes, offsets and epochs."""
    states = [
        (node.contents(), node.log().log_start_offset, node.log().log_end_offset, node.log().epochs.latest_epoch)
        for node in nodes
    ]
    return all(state == states[0] for state in states)


# ---- following ----


def test_follower_copies_the_log_and_the_high_watermark() -> None:
    cluster, leader, follower = pair()
    for number in range(30):
        leader.write(f"v{number}", "x" * 50)
    cluster.settle()
    assert same(leader, follower)
    assert follower.log().high_watermark == 60
    assert follower.completed
    leader.write("more", committed=False)
    cluster.settle()
    assert (follower.log().log_end_offset, follower.log().high_watermark) == (61, 60)


def test_requests_name_the_replica_its_registration_and_the_limits_of_the_settings() -> None:
    properties = {"replica_fetch_max_bytes": 7, "replica_fetch_min_bytes": 3, "replica_fetch_wait_max_ms": 11}
    cluster, leader, _ = pair(**properties, replica_fetch_response_max_bytes=99)
    leader.write("a", "b")
    cluster.run()
    first, second = cluster.fetches(2, 1)[:2]
    assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (2, 102)
    assert (first.max_wait_ms, first.min_bytes, first.max_bytes) == (11, 3, 99)
    row = first.topics[0].partitions[0]
    assert (row.current_leader_epoch, row.fetch_offset, row.last_fetched_epoch, row.log_start_offset) == (0, 0, -1, 0)
    assert row.partition_max_bytes == 7
    row = second.topics[0].partitions[0]
    assert (row.fetch_offset, row.last_fetched_epoch) == (2, 0)


def test_only_partitions_with_new_positions_are_in_the_requests_of_a_session() -> None:
    cluster = Replicas(2)
    leader, follower = cluster.nodes
    for tp in MANY:
        leader.lead(0, tp)
        follower.follow(1, 0, tp)
    cluster.run()
    leader.write("a", tp=MANY[3])
    cluster.run()
    requests = cluster.fetches(2, 1)
    named = [
        [(topic.topic_id, [row.partition for row in topic.partitions]) for topic in one.topics] for one in requests
    ]
    id = topic_id("orders")
    assert named[0] == [(id, [0, 1, 2, 3, 4])]
    assert [rows for rows in named[1:] if rows] == [[(id, [3])]]
    assert [(one.session_id, one.session_epoch) for one in requests] == [
        (0, 0), *((1, number) for number in range(1, len(requests)))
    ]  # fmt: skip


def test_stopped_partition_is_forgotten_by_the_session() -> None:
    cluster = Replicas(2)
    leader, follower = cluster.nodes
    for tp in MANY:
        leader.lead(0, tp)
        follower.follow(1, 0, tp)
    cluster.run()
    follower.fetchers.stop(MANY[1])
    leader.write("a", tp=MANY[1])
    cluster.settle()
    assert follower.log(MANY[1]).log_end_offset == 0
    forgotten = [topic.partitions for one in cluster.fetches(2, 1) for topic in one.forgotten_topics_data]
    assert forgotten == [[1]]
    follower.follow(1, 0, MANY[1])
    cluster.settle()
    assert follower.log(MANY[1]).log_end_offset == 1


def test_leader_without_room_for_a_session_is_asked_for_all_partitions_each_time() -> None:
    cluster, leader, follower = pair()
    leader.has_sessions = False
    for number in range(3):
        leader.write(f"{number}")
        cluster.run(30)
    assert same(leader, follower)
    assert {one.session_epoch for one in cluster.fetches(2, 1)} == {0}


def test_lost_session_is_opened_again_at_once() -> None:
    cluster, leader, follower = pair()
    cluster.run()
    leader.sessions.clear()
    leader.write("a")
    cluster.run()
    assert same(leader, follower)


def test_silent_poll_is_repeated_after_the_longest_wait() -> None:
    cluster, _, _ = pair()
    cluster.run()
    before = len(cluster.fetches(2, 1))
    cluster.run(5000)
    assert len(cluster.fetches(2, 1)) - before == pytest.approx(10, abs=2)


def test_log_start_follows_that_of_the_leader() -> None:
    cluster, leader, follower = pair()
    for number in range(30):
        leader.write(f"v{number}")
    cluster.settle()
    leader.log().delete_records(17)
    leader.write("next")
    cluster.settle()
    assert follower.log().log_start_offset == 17
    assert follower.log().segments[0].base_offset == leader.log().segments[0].base_offset


def test_throttled_partition_is_left_out_until_its_time() -> None:
    """KIP-73. The other partitions of the leader go on."""
    cluster = Replicas(2)
    leader, follower = cluster.nodes
    waits = {MANY[0]: 5000.0}
    follower.fetchers.throttle = lambda tp, size: waits.get(tp, 0.0)
    for tp in MANY[:2]:
        leader.lead(0, tp)
        follower.follow(1, 0, tp)
        leader.write("a", tp=tp)
    cluster.run()
    for tp in MANY[:2]:
        leader.write("b", tp=tp)
    cluster.settle(4000)
    assert [follower.log(tp).log_end_offset for tp in MANY[:2]] == [1, 2]
    cluster.settle(2000)
    assert [follower.log(tp).log_end_offset for tp in MANY[:2]] == [2, 2]


# ---- errors ----


def test_pause_doubles_up_to_the_longest_and_ends_with_a_success() -> None:
    backoff = Backoff(100)
    pauses = []
    for _ in range(5):
        backoff.failed("", 0)
        pauses.append(backoff.ready_ms)
    backoff.succeeded()
    backoff.failed("", 0)
    assert [*pauses, backoff.ready_ms] == [20, 40, 80, 100, 100, 20]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_error_of_one_partition_delays_only_it(code: ErrorCode) -> None:
    cluster = Replicas(2)
    leader, follower = cluster.nodes
    for tp in MANY[:2]:
        leader.lead(0, tp)
        follower.follow(1, 0, tp)
    leader.errors[MANY[0]] = code
    cluster.run()
    for number in range(100):
        leader.write(f"{number}", tp=MANY[1])
        cluster.run(100)
    asked = [row for one in cluster.fetches(2, 1) for topic in one.topics for row in topic.partitions]
    assert 10 <= sum(row.partition == 0 for row in asked) <= 18
    assert follower.log(MANY[1]).log_end_offset == 100
    del leader.errors[MANY[0]]
    leader.write("a", tp=MANY[0])
    cluster.run(1100)
    assert follower.log(MANY[0]).log_end_offset == 1


def test_unreachable_leader_is_asked_with_pauses() -> None:
    cluster, leader, follower = pair()
    cluster.network.cut(1, 2)
    cluster.run(10_000)
    assert not cluster.fetches(2, 1)
    leader.write("a")
    cluster.network.heal(1, 2)
    cluster.run(1100)
    assert same(leader, follower)


def test_leader_that_was_unreachable_is_asked_at_once_in_its_next_epoch() -> None:
    cluster, leader, follower = pair()
    cluster.network.cut(1, 2)
    cluster.run(10_000)
    cluster.network.heal(1, 2)
    leader.lead(1)
    leader.write("a")
    follower.follow(1, 1)
    cluster.run(5)
    assert same(leader, follower)


def test_paused_leader_is_left_for_a_new_one_at_once() -> None:
    cluster = Replicas(3)
    first, second, follower = cluster.nodes
    first.lead(0)
    for node in (second, follower):
        node.follow(1, 0)
    first.write("a")
    cluster.settle()
    cluster.network.pause(1)
    cluster.run(20)
    second.lead(1)
    follower.follow(2, 1)
    second.write("b")
    cluster.run(50)
    assert same(second, follower)
    cluster.network.resume(1)
    first.write("lost")
    cluster.settle()
    assert same(second, follower)
    first.follow(2, 1)
    cluster.settle()
    assert same(first, second, follower)


def test_damaged_answer_is_refused_and_reported_once() -> None:
    cluster, leader, follower = pair()
    leader.write("a")
    segment = leader.log().segments[0]
    data = leader.files.data(segment.path())
    data[-1] ^= 1
    cluster.run(5000)
    assert follower.log().log_end_offset == 0
    assert sum("checksum" in report for report in follower.log_manager.reports) == 1
    assert len(cluster.fetches(2, 1)) < 20
    data[-1] ^= 1
    cluster.run(1100)
    assert same(leader, follower)


def test_error_of_a_partition_is_reported_once_when_it_lasts() -> None:
    """A follower that can never catch up, because its leader's log is damaged, must not be silent."""
    cluster, leader, follower = pair()
    cluster.run()
    leader.write("a")
    for _ in range(2):
        leader.errors[TP] = ErrorCode.CORRUPT_MESSAGE
        cluster.run(1000)
        assert reported(follower, "CORRUPT_MESSAGE") == 0, "an error that passes is not reported"
        leader.errors.clear()
        cluster.run(2000)
        assert same(leader, follower)
        leader.write("b")
    leader.errors[TP] = ErrorCode.CORRUPT_MESSAGE
    cluster.run(30_000)
    assert reported(follower, f"{TP} cannot follow its leader: its fetch from offset 2 returns CORRUPT_MESSAGE") == 1
    leader.errors[TP] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.run(30_000)
    assert reported(follower, "NOT_LEADER_OR_FOLLOWER") == 1
    leader.errors.clear()
    cluster.run(2000)
    assert same(leader, follower)
    leader.errors[TP] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.write("c")
    cluster.run(30_000)
    assert reported(follower, "NOT_LEADER_OR_FOLLOWER") == 2, "it is another outage"


def test_leader_without_answers_is_reported_once_when_that_lasts() -> None:
    cluster, leader, follower = pair()
    cluster.run()
    leader.kill()
    cluster.run(60_000)
    assert reported(follower, "1 partition cannot follow node 1: ") == 1


def reported(node: Replica, text: str) -> int:
    """Return the number of reports that contain a text."""
    return sum(text in report for report in node.log_manager.reports)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_failed_write_takes_the_data_directory_offline(code: int) -> None:
    cluster, leader, follower = pair()
    cluster.run()
    follower.files.faults.append(Fault("append", ".log", code))
    leader.write("a")
    cluster.run(3000)
    assert [error.errno for error in follower.failures] == [code]
    before = len(cluster.fetches(2, 1))
    cluster.run(3000)
    assert len(cluster.fetches(2, 1)) - before <= 1


def test_shutdown_ignores_the_answer_on_its_way() -> None:
    cluster, leader, follower = pair()
    cluster.run()
    follower.fetchers.shutdown()
    leader.write("a")
    cluster.settle()
    assert follower.log().log_end_offset == 0


# ---- divergence and bounds ----


def test_old_leader_that_returns_loses_what_no_one_else_had() -> None:
    cluster, old, new = pair()
    old.write("a", "b")
    cluster.settle()
    cluster.network.cut(1, 2)
    for number in range(20):
        old.write(f"lost {number}", committed=False)
    new.lead(1)
    new.write("c")
    cluster.network.heal()
    old.follow(2, 1)
    cluster.settle()
    assert same(old, new)
    assert old.log().log_end_offset == 3
    assert any("was truncated from offset 22 to 2" in report for report in old.log_manager.reports)


def test_both_sides_diverge_over_several_epochs() -> None:
    cluster, one, two = pair()
    one.write("a")
    cluster.settle()
    cluster.network.cut(1, 2)
    one.write("one 0", committed=False)  # epoch 0 at offset 1 here, epochs 1 and 3 there
    for epoch in (2, 4):
        one.lead(epoch)
        one.write(f"one {epoch}", committed=False)
    for epoch in (1, 3):
        two.lead(epoch)
        two.write(f"two {epoch}", f"two {epoch} again", committed=False)
    two.lead(5)
    two.write("last")
    cluster.network.heal()
    one.follow(2, 5)
    cluster.settle()
    assert same(one, two)
    assert [entry.epoch for entry in one.log().epochs.entries] == [0, 1, 3, 5]


def test_epoch_without_records_does_not_stop_an_old_leader() -> None:
    cluster, one, two = pair()
    one.write("a")
    cluster.settle()
    one.lead(7)  # and writes nothing
    two.lead(8)
    two.write("b")
    one.follow(2, 8)
    cluster.settle()
    assert same(one, two)


def test_follower_ahead_of_an_unclean_leader_is_truncated_to_its_end() -> None:
    cluster, leader, follower = pair()
    for number in range(20):
        leader.write(f"{number}")
    cluster.settle()
    leader.log().restart_at(0, now_wall_ms=0)  # its disk was lost
    leader.lead(1)
    leader.write("new")
    follower.follow(1, 1)
    cluster.settle()
    assert same(leader, follower)
    assert follower.log().log_end_offset == 1


@pytest.mark.parametrize("start", [10, 11])
def test_leader_that_starts_above_our_end_makes_us_begin_there(start: int) -> None:
    cluster, leader, follower = pair()
    leader.write("a", "b")
    cluster.settle()
    cluster.network.cut(1, 2)
    for number in range(20):
        leader.write(f"{number}", "and", "more")
    leader.log().delete_records(start)
    cluster.network.heal()
    cluster.settle()
    log = follower.log()
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (start, 62, 62)
    assert follower.contents() in leader.contents()
    assert log.epochs.entries == leader.log().epochs.entries
    follower.kill()
    follower.start()
    follower.follow(1, 0)
    cluster.settle()
    assert (follower.log().log_start_offset, follower.log().log_end_offset) == (start, 62)


def test_leader_that_says_nothing_about_its_bounds_is_asked_again() -> None:
    cluster, leader, follower = pair()
    leader.write("a", "b")
    cluster.settle()
    cluster.network.cut(1, 2)
    for number in range(20):
        leader.write(f"{number}", "and", "more")
    leader.log().delete_records(10)
    cluster.network.heal()
    empty = [ListOffsetsResponse(), ListOffsetsResponse(topics=[ListOffsetsTopicResponse()])]

    def handle(request: Any, sender: int) -> Any:
        is_unanswered = isinstance(request, ListOffsetsRequest) and empty
        return empty.pop() if is_unanswered else leader.handle(request, sender)

    cluster.network.serve(1, handle)
    cluster.settle()
    assert empty == []
    assert follower.log().log_end_offset == leader.log().log_end_offset == 62


def test_last_epoch_above_all_of_the_leader_is_answered_without_a_storm() -> None:
    cluster, leader, follower = pair()
    leader.write("a")
    cluster.settle()
    follower.log().epochs.assign(9, 1)
    follower.follow(1, 0)
    cluster.run(10_000)
    assert len(cluster.network.delivered) < 60


# ---- a crash of the follower ----


@pytest.mark.parametrize("clean", [False, True])
def test_follower_returns_with_its_high_watermark_and_goes_on(clean: bool) -> None:
    cluster, leader, follower = pair()
    for number in range(20):
        leader.write(f"{number}")
    cluster.settle()
    follower.log_manager.close(clean=True) if clean else follower.log_manager.tick(1e9, 0)
    follower.kill()
    leader.write("b")
    follower.start()
    assert follower.log().high_watermark == 20
    follower.follow(1, 0)
    cluster.settle()
    assert same(leader, follower)


def test_checkpoints_are_lowered_before_records_replace_truncated_ones() -> None:
    cluster, old, new = pair()
    for number in range(20):
        old.write(f"{number}")
    cluster.settle()
    cluster.network.cut(1, 2)
    for number in range(20):
        old.write(f"lost {number}", committed=False)
    old.log().flush()
    old.log_manager.tick(1e9, 0)
    new.lead(1)
    cluster.network.heal()
    old.follow(2, 1)
    cluster.settle()
    from kcli.broker.log.checkpoint_files import RECOVERY_POINTS, read_offsets

    assert read_offsets(old.files, old.log_manager.dir.join(RECOVERY_POINTS))[TP] == 20


# ---- compaction and retention while following ----


def test_compacted_leader_is_followed_to_the_same_records() -> None:
    config = LogConfig(segment_bytes=600, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
    cluster, leader, follower = pair(log_config=config)
    for number in range(60):
        leader.write("x" * 40, key=b"%d" % (number % 7))
    while leader.log_manager.cleaner.step(leader.log_manager.logs, cluster.clock.wall_ms()):
        pass
    assert leader.log().size_bytes < 60 * 100
    cluster.settle()
    assert follower.contents() == leader.contents()
    for number in range(30):
        leader.write("y" * 40, key=b"%d" % (number % 7))
    while follower.log_manager.cleaner.step(follower.log_manager.logs, cluster.clock.wall_ms()):
        pass
    cluster.settle()
    for node in (leader, follower):
        while node.log_manager.cleaner.step(node.log_manager.logs, cluster.clock.wall_ms()):
            pass
    assert follower.log().log_end_offset == leader.log().log_end_offset == 90


def test_retention_of_the_follower_stops_at_the_high_watermark() -> None:
    config = LogConfig(segment_bytes=600, retention_bytes=1)
    cluster, leader, follower = pair(log_config=config)
    for number in range(30):
        leader.write(f"{number}", committed=number < 10)
    cluster.settle()
    follower.log().retain(cluster.clock.wall_ms())
    assert 0 < follower.log().log_start_offset <= 10
    leader.log().advance_high_watermark(30)
    leader.write("end")
    cluster.settle()
    leader.log().retain(cluster.clock.wall_ms())
    leader.write("after")
    cluster.settle()
    assert follower.log().log_start_offset == leader.log().log_start_offset


_Act = Callable[[], None]


@pytest.mark.parametrize("seed", range(8))
def test_replicas_are_identical_after_any_history(seed: int) -> None:
    """Leaders move, die and return at random; in the end all replicas have the same bytes."""
    import random

    choice = random.Random(seed)
    cluster = Replicas(3)
    nodes, epoch = cluster.nodes, 0
    leader = nodes[0]

    def elect() -> None:
        nonlocal leader, epoch
        epoch += 1
        leader = choice.choice(nodes)
        leader.lead(epoch)
        for node in nodes:
            if node is not leader:
                node.follow(leader.id, epoch)

    def crash() -> None:
        nonlocal leader
        node = choice.choice(nodes)
        node.kill()
        node.start()
        if node is leader:
            elect()
        else:
            node.follow(leader.id, epoch)

    def write() -> None:
        leader.write(*[f"{seed}-{number}" for number in range(choice.randint(1, 5))], committed=False)

    def cut() -> None:
        cluster.network.cut(*choice.sample([1, 2, 3], 2))

    def delete() -> None:
        log = leader.log()
        log.advance_high_watermark(choice.randint(log.log_start_offset, log.log_end_offset))
        log.delete_records(log.high_watermark)

    elect()
    acts: list[_Act] = [elect, crash, cut, delete, *[write] * 6, *[cluster.network.heal] * 2]
    for _ in range(120):
        choice.choice(acts)()
        if choice.random() < 0.6:
            cluster.run(choice.choice([0, 5, 60]), step_ms=20)
    cluster.network.heal()
    elect()
    leader.write("end")
    cluster.settle(4000)
    log = leader.log()
    data = log.read(log.log_start_offset, 10**6, upto=log.log_end_offset, min_one_message=True).records
    assert data is not None
    for node in nodes:
        other = node.log()
        assert other.log_end_offset == log.log_end_offset
        assert other.high_watermark == log.high_watermark
        shorter = min(node.contents(), leader.contents(), key=len)
        assert node.contents().endswith(shorter)
        assert leader.contents().endswith(shorter)
        assert not any("LOST" in report for report in node.log_manager.reports)
