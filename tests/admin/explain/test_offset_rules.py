"""Rules of `explain` about offsets and logs: literals in, findings out; and what is well is not found fault with."""

from __future__ import annotations

import pytest

from kcli.admin.configs import Setting
from kcli.admin.explain.findings import count, listed, numbers, partitions_of
from kcli.admin.explain.looks import retention_of
from kcli.admin.explain.observations import Retention
from kcli.admin.groups.group import CONSUMER, SHARE
from kcli.admin.logs.open_transactions import OpenTransaction, Producer, Transaction, join
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, TimeoutExpired
from kcli.structs import numbers_by_topic
from tests.admin.explain.explain_cases import NOW_MS, around, found, found_in, group, look, member, topic, tp

A, B = member("a", "orders-0"), member("b", "orders-1")
WELL = {"orders-0": (100, 0, 100), "orders-1": (50, 0, 50)}
HOUR = 3_600_000


def test_a_group_that_keeps_up_is_not_found_fault_with() -> None:
    assert found_in(group(A, B), WELL) == {}
    later = {"orders-0": (200, 0, 210), "orders-1": (60, 0, 60)}
    busy = found(look(group(A, B), WELL, 0), look(group(A, B), later, 6000))
    assert set(busy) == {"lag-grows"}  # by ten records: said, and that two looks are a short time
    assert "longer --interval" in busy["lag-grows"].advice


def test_commits_below_the_log_start_tell_how_much_is_lost() -> None:
    told = found_in(group(A, B), {"orders-0": (100, 400, 900), "orders-1": (10, 20, 30)})["committed-below-start"]

    assert (told.severity, told.subject) == ("problem", "orders partitions 0-1")
    assert "310 unread records" in told.evidence
    assert "orders-0 is committed at 100, and its log starts at 400" in told.evidence


def test_commits_beyond_the_end_are_told_though_the_lag_is_zero() -> None:
    told = found_in(group(A, B), {"orders-0": (500, 0, 20), "orders-1": (50, 0, 50)})["committed-beyond-end"]

    assert (told.severity, told.subject) == ("problem", "orders-0")
    assert "committed at 500, but its log ends at 20" in told.evidence


def test_a_share_group_has_no_committed_offsets_to_judge() -> None:
    assert found_in(group(A, B, type=SHARE), {"orders-0": (500, 0, 20)}) == {}


def test_owned_and_never_committed() -> None:
    told = found_in(group(A, B), {"orders-0": (None, 0, 70), "orders-1": (50, 0, 50)})["never-committed"]

    assert (told.severity, told.subject) == ("warning", "orders-0")
    assert "Owned by a-1 on 10.0.0.9" in told.evidence
    assert "70 records" in told.evidence


def test_an_empty_partition_that_was_never_committed_is_a_note() -> None:
    told = found_in(group(A, B), {"orders-0": (None, 70, 70), "orders-1": (50, 0, 50)})["never-committed"]

    assert told.severity == "note"
    assert "it is empty" in told.evidence


def test_a_first_commit_between_the_looks_is_no_finding() -> None:
    first = look(group(A), {"orders-0": (None, 0, 70)}, 0)
    assert "never-committed" not in found(first, look(group(A), {"orders-0": (70, 0, 70)}, 6000))


def test_one_partition_far_behind_the_rest() -> None:
    rows = {f"orders-{n}": (100, 0, 110) for n in range(5)} | {"orders-3": (100, 0, 90_100)}
    told = found_in(group(member("a", *rows)), rows, around(topic("orders", 5)))["one-far-behind"]

    assert told.subject == "orders-3"
    assert "Lag 90,000, owned by a-1 on 10.0.0.9; the median of the other 4 partitions is 10." in told.evidence
    assert "It had no commit in 6s" in told.evidence


def test_a_small_lag_is_not_far_behind_and_neither_is_one_among_its_like() -> None:
    assert "one-far-behind" not in found_in(group(A, B), {"orders-0": (0, 0, 900), "orders-1": (50, 0, 50)})
    assert "one-far-behind" not in found_in(group(A, B), {"orders-0": (0, 0, 90_000), "orders-1": (0, 0, 50_000)})


def test_lag_that_grows_with_both_rates() -> None:
    first = look(group(A, B), WELL, 0)
    second = look(group(A, B), {"orders-0": (160, 0, 400), "orders-1": (50, 0, 50)}, 6000)
    told = found(first, second)["lag-grows"]

    assert told.severity == "warning"
    assert "300 records were produced and 60 records were committed (50.0/s and 10.0/s)" in told.evidence
    assert "Lag: 0, then 240." in told.evidence
    assert "The largest growth is on orders-0: 240 records." in told.evidence


def test_lag_that_shrinks_with_the_time_it_takes() -> None:
    first = look(group(A, B), {"orders-0": (0, 0, 1000), "orders-1": (50, 0, 50)}, 0)
    second = look(group(A, B), {"orders-0": (100, 0, 1000), "orders-1": (50, 0, 50)}, 10_000)
    told = found(first, second)["lag-shrinks"]

    assert told.severity == "note"
    assert "it is 0 in 1m30s" in told.evidence


def test_a_partition_without_leader_names_the_brokers_that_are_away() -> None:
    refused = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, topic="orders", partition=1)
    rows = {"orders-0": (5, 0, 5), "orders-1": (5, None, None)}
    told = found_in(group(A, B), rows, around(topic("orders", leaderless=(1,))), error={"orders-1": refused})

    assert set(told) == {"leaderless"}
    assert (told["leaderless"].severity, told["leaderless"].subject) == ("problem", "orders-1")
    assert "broker 2 is offline" in told["leaderless"].evidence
    assert "Restart broker 2." in told["leaderless"].advice


OPEN = OpenTransaction(tp("orders-0"), 4711, 3, 60, NOW_MS - 30_000, "payments", "Ongoing", NOW_MS - 90_000, 900_000)
PINNED = {"stable_ends": ({tp("orders-0"): 60}, {tp("orders-0"): 60}), "transactions": (OPEN,)}


@pytest.mark.parametrize(
    ("committed", "severity", "words"),
    [
        (60, "problem", "a read_committed consumer cannot continue"),
        (40, "warning", "has not reached it yet"),
        (100, "note", "does not use read_committed"),
    ],
)
def test_an_open_transaction_by_where_the_group_is(committed: int, severity: str, words: str) -> None:
    told = found_in(group(A), {"orders-0": (committed, 0, 100)}, around(**PINNED))["open-transaction"]

    assert (told.severity, told.subject) == (severity, "orders-0")
    assert "producer 4711 (epoch 3, transactional id payments) has been open for 1m30s" in told.evidence
    assert "40 offsets" in told.evidence
    assert words in told.evidence
    assert "in 13m30s" in told.advice


def test_a_transaction_that_was_not_there_at_the_first_look_is_none_of_our_business() -> None:
    moved = {**PINNED, "stable_ends": ({tp("orders-0"): 50}, {tp("orders-0"): 60})}
    assert "open-transaction" not in found_in(group(A), {"orders-0": (60, 0, 100)}, around(**moved))


def test_a_second_transaction_behind_the_first_holds_nothing_back() -> None:
    behind = OPEN._replace(start_offset=80)
    lies = around(**{**PINNED, "transactions": (behind,)})
    assert "open-transaction" not in found_in(group(A), {"orders-0": (60, 0, 100)}, lies)


def test_a_transaction_that_no_coordinator_knows_is_to_be_aborted_by_hand() -> None:
    hangs = OPEN._replace(transactional_id=None, state=None, started_ms=None, timeout_ms=None, hanging=True)
    told = found_in(group(A), {"orders-0": (60, 0, 100)}, around(**{**PINNED, "transactions": (hangs,)}))

    assert "for at least 30s" in told["open-transaction"].evidence
    assert "abort --topic orders --partition 0 --start-offset 60" in told["open-transaction"].advice


def test_a_time_out_that_is_over_blames_the_coordinator() -> None:
    late = OPEN._replace(timeout_ms=60_000)
    told = found_in(group(A), {"orders-0": (60, 0, 100)}, around(**{**PINNED, "transactions": (late,)}))
    assert "Its time-out of 1m00s has passed" in told["open-transaction"].advice


def test_what_a_leader_and_a_coordinator_tell_is_joined() -> None:
    producer = Producer(7, 1, 123, 60)
    known = Transaction("payments", "Ongoing", 7, 100, 900, frozenset({tp("orders-0")}))

    assert join(tp("orders-0"), producer, known, True) == OpenTransaction(
        tp("orders-0"), 7, 1, 60, 123, "payments", "Ongoing", 100, 900
    )
    assert join(tp("orders-1"), producer, known, True).hanging  # the coordinator's has nothing to do with it
    assert join(tp("orders-0"), producer, known._replace(state="CompleteAbort"), True).hanging
    assert join(tp("orders-0"), producer, None, True).hanging
    assert not join(tp("orders-0"), producer, None, False).hanging  # a broker was not heard


def retained(age_ms: int, committed: tuple[int, int], **limits: int | None) -> dict[str, object]:
    """Findings for a partition of 10,000 records whose next one is so old, committed so at the looks."""
    kept = Retention(limits.get("ms"), limits.get("bytes"))
    first = look(group(A), {"orders-0": (committed[0], 0, 10_000)}, 0)
    rows = {"orders-0": (committed[1], 0, 10_000)}
    second = look(group(A), rows, 10_000, time_lag_ms={"orders-0": age_ms})
    lies = around(retention={"orders": kept}, log_bytes={tp("orders-0"): 10_000_000})
    return dict(found(first, second, lies))


def test_retention_overtakes_a_group_that_stands_still() -> None:
    told = retained(23 * HOUR, (0, 0), ms=24 * HOUR)["retention-overtakes"]

    assert told.severity == "problem"
    assert "23h00m old, and the retention time of the topic is 1d00h: 1h00m remain" in told.evidence
    assert "did not commit in this partition in 10s" in told.evidence


def test_retention_overtakes_a_group_that_is_too_slow() -> None:
    told = retained(10 * HOUR, (0, 1), ms=24 * HOUR)["retention-overtakes"]  # 10,000 records at 0.1/s: 28 hours

    assert told.severity == "warning"
    assert "the group needs 1d03h for the existing records" in told.evidence


def test_a_group_that_will_be_in_time_is_not_overtaken() -> None:
    assert "retention-overtakes" not in retained(23 * HOUR, (0, 1000), ms=24 * HOUR)
    assert "retention-overtakes" not in retained(1 * HOUR, (0, 1000), ms=24 * HOUR)
    assert "retention-overtakes" not in retained(999 * HOUR, (0, 0))


def test_retention_by_size() -> None:
    told = retained(HOUR, (0, 0), bytes=9_000_000)["retention-overtakes"]

    assert told.severity == "problem"
    assert "About 10.0 MB are unread, and the topic keeps 9.0 MB" in told.evidence
    assert "retention-overtakes" not in retained(HOUR, (0, 0), bytes=90_000_000)
    assert "retention-overtakes" not in retained(HOUR, (0, 10), bytes=9_000_000)  # it catches up


def settings(**values: str) -> list[Setting]:
    return [Setting(name.replace("_", "."), value, "topic") for name, value in values.items()]


def test_retention_is_read_from_a_topics_settings() -> None:
    assert retention_of(settings(cleanup_policy="delete", retention_ms="600", retention_bytes="-1")) == (600, None)
    assert retention_of(settings(cleanup_policy="compact,delete", retention_ms="-1", retention_bytes="9")) == (None, 9)
    assert retention_of(settings(cleanup_policy="compact", retention_ms="600")) is None
    assert retention_of(settings(cleanup_policy="delete", retention_ms="-1", retention_bytes="-1")) is None


def test_a_topic_that_is_gone_and_one_that_nobody_reads_any_more() -> None:
    unknown = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="old")
    rows = {**WELL, "old-0": (5, None, None), "left-0": (5, 0, 9)}
    lies = around(topics={"orders": topic("orders"), "left": topic("left"), "old": unknown})
    told = found_in(group(A, B), rows, lies, error={"old-0": unknown})

    assert set(told) == {"topic-gone", "not-subscribed"}
    assert (told["topic-gone"].subject, told["topic-gone"].severity) == ("old", "warning")
    assert told["not-subscribed"].evidence.startswith("The group has committed left-0 (lag 4)")


def test_a_number_that_could_not_be_had_is_told() -> None:
    silent = TimeoutExpired("no answer from broker 1")
    told = found_in(group(A, B, type=CONSUMER), {**WELL, "orders-1": (5, None, None)}, error={"orders-1": silent})
    assert "no answer from broker 1" in told["unreadable"].evidence


def test_committed_offsets_that_could_not_be_read_are_not_taken_for_none() -> None:
    failed = look(group(A), {"orders-0": (None, 0, 70)}, 0)._replace(error=TimeoutExpired("node 1 is silent"))
    told = found(failed, failed)

    assert set(told) == {"unreadable", "unassigned"}
    assert "node 1 is silent" in told["unreadable"].evidence


def test_words_for_numbers_and_lists() -> None:
    assert numbers([5, 1, 2, 3, 9]) == "1-3, 5, 9"
    assert numbers(range(0, 40, 2)) == "0, 2, 4, 6, 8, 10, 12, 14 and 12 more"
    assert partitions_of("t", [4]) == "t-4"
    assert listed(map(str, range(10))) == "0, 1, 2, 3, 4, 5, 6, 7 and 2 more"
    assert numbers_by_topic([tp("b-1"), tp("a-0"), tp("b-0")]) == {"a": [0], "b": [0, 1]}
    assert [count(1, "record"), count(1200, "record")] == ["1 record", "1,200 records"]
