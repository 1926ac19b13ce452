"""Rules of `explain` about offsets and logs: observations as literals, and their findings."""

from __future__ import annotations

import pytest

from kcli.admin.configs import Setting
from kcli.admin.explain.findings import format_topic_partitions, join_names, quantity
from kcli.admin.explain.observations import Retention
from kcli.admin.explain.observe import parse_retention
from kcli.admin.groups.group import CONSUMER, SHARE
from kcli.admin.logs.open_transactions import OpenTransaction, Producer, join_transaction
from kcli.admin.transactions import Transaction
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, TimeoutExpired
from kcli.structs import numbers_by_topic
from tests.admin.explain.explain_cases import (
    NOW_MS,
    cluster_facts,
    findings,
    group,
    group_survey,
    member,
    topic,
    tp,
    unchanged_findings,
)

A, B = member("a", "orders-0"), member("b", "orders-1")
CAUGHT_UP = {"orders-0": (100, 0, 100), "orders-1": (50, 0, 50)}
HOUR = 3_600_000


def test_a_group_that_keeps_up_has_no_problem() -> None:
    assert unchanged_findings(group(A, B), CAUGHT_UP) == {}
    later = {"orders-0": (200, 0, 210), "orders-1": (60, 0, 60)}
    busy = findings(group_survey(group(A, B), CAUGHT_UP, 0), group_survey(group(A, B), later, 6000))
    assert set(busy) == {"lag-grows"}  # by ten records only; the advice is to observe for longer
    assert "longer --interval" in busy["lag-grows"].advice


def test_committed_offsets_below_the_log_start_are_reported_with_the_number_of_lost_records() -> None:
    found = unchanged_findings(group(A, B), {"orders-0": (100, 400, 900), "orders-1": (10, 20, 30)})[
        "committed-below-start"
    ]

    assert (found.severity, found.subject) == ("problem", "orders partitions 0-1")
    assert "Up to 310 records were deleted" in found.evidence
    assert "the committed offset of orders-0 is 100, but its log starts at 400" in found.evidence


def test_committed_offsets_beyond_the_log_end_are_a_problem() -> None:
    found = unchanged_findings(group(A, B), {"orders-0": (500, 0, 20), "orders-1": (50, 0, 50)})["committed-beyond-end"]

    assert (found.severity, found.subject) == ("problem", "orders-0")
    assert "The committed offset of orders-0 is 500, but its log ends at 20" in found.evidence


def test_offsets_of_share_groups_are_not_compared_with_the_log() -> None:
    assert unchanged_findings(group(A, B, type=SHARE), {"orders-0": (500, 0, 20)}) == {}


def test_an_owned_partition_without_a_committed_offset_is_a_warning() -> None:
    found = unchanged_findings(group(A, B), {"orders-0": (None, 0, 70), "orders-1": (50, 0, 50)})["never-committed"]

    assert (found.severity, found.subject) == ("warning", "orders-0")
    assert "Owned by a-1 on 10.0.0.9" in found.evidence
    assert "70 records" in found.evidence


def test_an_empty_partition_without_a_committed_offset_is_a_note() -> None:
    found = unchanged_findings(group(A, B), {"orders-0": (None, 70, 70), "orders-1": (50, 0, 50)})["never-committed"]

    assert found.severity == "note"
    assert "the partition is empty" in found.evidence


def test_a_first_commit_between_the_observations_is_not_reported() -> None:
    first = group_survey(group(A), {"orders-0": (None, 0, 70)}, 0)
    assert "never-committed" not in findings(first, group_survey(group(A), {"orders-0": (70, 0, 70)}, 6000))


def test_a_partition_with_a_much_larger_lag_than_the_others_is_reported() -> None:
    rows = {f"orders-{n}": (100, 0, 110) for n in range(5)} | {"orders-3": (100, 0, 90_100)}
    found = unchanged_findings(group(member("a", *rows)), rows, cluster_facts(topic("orders", 5)))["one-far-behind"]

    assert found.subject == "orders-3"
    assert "Lag 90,000, owned by a-1 on 10.0.0.9; the median lag of the other 4 partitions is 10." in found.evidence
    assert "Nothing was committed there in 6s" in found.evidence


def test_small_or_similar_lags_are_not_skewed() -> None:
    assert "one-far-behind" not in unchanged_findings(group(A, B), {"orders-0": (0, 0, 900), "orders-1": (50, 0, 50)})
    assert "one-far-behind" not in unchanged_findings(
        group(A, B), {"orders-0": (0, 0, 90_000), "orders-1": (0, 0, 50_000)}
    )


def test_a_growing_lag_is_reported_with_both_rates() -> None:
    first = group_survey(group(A, B), CAUGHT_UP, 0)
    second = group_survey(group(A, B), {"orders-0": (160, 0, 400), "orders-1": (50, 0, 50)}, 6000)
    found = findings(first, second)["lag-grows"]

    assert found.severity == "warning"
    assert "In 6s: 300 records written (50.0/s), 60 records committed (10.0/s)." in found.evidence
    assert "The lag changed from 0 to 240." in found.evidence
    assert "It grew most on orders-0: 240 records." in found.evidence


def test_a_shrinking_lag_is_reported_with_the_remaining_time() -> None:
    first = group_survey(group(A, B), {"orders-0": (0, 0, 1000), "orders-1": (50, 0, 50)}, 0)
    second = group_survey(group(A, B), {"orders-0": (100, 0, 1000), "orders-1": (50, 0, 50)}, 10_000)
    found = findings(first, second)["lag-shrinks"]

    assert found.severity == "note"
    assert "reaches 0 in 1m30s" in found.evidence


def test_a_partition_without_a_leader_is_reported_with_its_offline_brokers() -> None:
    refused = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, topic="orders", partition=1)
    rows = {"orders-0": (5, 0, 5), "orders-1": (5, None, None)}
    found = unchanged_findings(
        group(A, B), rows, cluster_facts(topic("orders", leaderless=(1,))), error={"orders-1": refused}
    )

    assert set(found) == {"leaderless"}
    assert (found["leaderless"].severity, found["leaderless"].subject) == ("problem", "orders-1")
    assert "offline: broker 2." in found["leaderless"].evidence
    assert "Start broker 2." in found["leaderless"].advice


OPEN = OpenTransaction(tp("orders-0"), 4711, 3, 60, NOW_MS - 30_000, "payments", "Ongoing", NOW_MS - 90_000, 900_000)
PINNED = {"stable_ends": ({tp("orders-0"): 60}, {tp("orders-0"): 60}), "transactions": (OPEN,)}


@pytest.mark.parametrize(
    ("committed", "severity", "evidence"),
    [
        (60, "problem", "a read_committed consumer cannot read further"),
        (40, "warning", "has not reached it yet"),
        (100, "note", "reads uncommitted records"),
    ],
)
def test_the_severity_of_an_open_transaction_depends_on_the_committed_offset(
    committed: int, severity: str, evidence: str
) -> None:
    found = unchanged_findings(group(A), {"orders-0": (committed, 0, 100)}, cluster_facts(**PINNED))["open-transaction"]

    assert (found.severity, found.subject) == (severity, "orders-0")
    assert "producer 4711 (epoch 3, transactional id payments) has been open for 1m30s" in found.evidence
    assert "40 offsets" in found.evidence
    assert evidence in found.evidence
    assert "in 13m30s" in found.advice


def test_a_last_stable_offset_that_advances_is_not_reported() -> None:
    moved = {**PINNED, "stable_ends": ({tp("orders-0"): 50}, {tp("orders-0"): 60})}
    assert "open-transaction" not in unchanged_findings(group(A), {"orders-0": (60, 0, 100)}, cluster_facts(**moved))


def test_only_the_first_open_transaction_holds_back_the_last_stable_offset() -> None:
    behind = OPEN._replace(start_offset=80)
    cluster = cluster_facts(**{**PINNED, "transactions": (behind,)})
    assert "open-transaction" not in unchanged_findings(group(A), {"orders-0": (60, 0, 100)}, cluster)


def test_the_advice_for_a_hanging_transaction_is_the_abort_command() -> None:
    hangs = OPEN._replace(transactional_id=None, state=None, started_ms=None, timeout_ms=None, hanging=True)
    found = unchanged_findings(
        group(A), {"orders-0": (60, 0, 100)}, cluster_facts(**{**PINNED, "transactions": (hangs,)})
    )

    assert "for at least 30s" in found["open-transaction"].evidence
    assert "abort --topic orders --partition 0 --start-offset 60" in found["open-transaction"].advice


def test_an_expired_transaction_timeout_points_to_the_coordinator() -> None:
    late = OPEN._replace(timeout_ms=60_000)
    found = unchanged_findings(
        group(A), {"orders-0": (60, 0, 100)}, cluster_facts(**{**PINNED, "transactions": (late,)})
    )
    assert "The transaction timeout of 1m00s has passed" in found["open-transaction"].advice


def test_a_transaction_is_joined_from_leader_and_coordinator() -> None:
    producer = Producer(7, 1, 123, 60)
    known = Transaction("payments", "Ongoing", 7, 100, 900, frozenset({tp("orders-0")}))

    assert join_transaction(tp("orders-0"), producer, known, True) == OpenTransaction(
        tp("orders-0"), 7, 1, 60, 123, "payments", "Ongoing", 100, 900
    )
    assert join_transaction(tp("orders-1"), producer, known, True).hanging  # of another partition
    assert join_transaction(tp("orders-0"), producer, known._replace(state="CompleteAbort"), True).hanging
    assert join_transaction(tp("orders-0"), producer, None, True).hanging
    assert not join_transaction(tp("orders-0"), producer, None, False).hanging  # a broker did not answer


def retention_findings(age_ms: int, committed: tuple[int, int], **limits: int | None) -> dict[str, object]:
    """Return the findings for a partition of 10,000 records: age of the next record, committed at each observation."""
    kept = Retention(limits.get("ms"), limits.get("bytes"))
    first = group_survey(group(A), {"orders-0": (committed[0], 0, 10_000)}, 0)
    rows = {"orders-0": (committed[1], 0, 10_000)}
    second = group_survey(group(A), rows, 10_000, time_lag_ms={"orders-0": age_ms})
    cluster = cluster_facts(retention={"orders": kept}, log_bytes={tp("orders-0"): 10_000_000})
    return dict(findings(first, second, cluster))


def test_records_near_retention_of_a_group_that_commits_nothing_are_a_problem() -> None:
    found = retention_findings(23 * HOUR, (0, 0), ms=24 * HOUR)["retention-overtakes"]

    assert found.severity == "problem"
    assert "23h00m old, and the topic keeps records for 1d00h: 1h00m until it may be deleted" in found.evidence
    assert "committed nothing in this partition in 10s" in found.evidence


def test_a_group_too_slow_for_the_retention_is_a_warning() -> None:
    found = retention_findings(10 * HOUR, (0, 1), ms=24 * HOUR)["retention-overtakes"]  # 28 hours at 0.1/s

    assert found.severity == "warning"
    assert "the group needs 1d03h to read the remaining records" in found.evidence


def test_a_group_fast_enough_for_the_retention_is_not_reported() -> None:
    assert "retention-overtakes" not in retention_findings(23 * HOUR, (0, 1000), ms=24 * HOUR)
    assert "retention-overtakes" not in retention_findings(1 * HOUR, (0, 1000), ms=24 * HOUR)
    assert "retention-overtakes" not in retention_findings(999 * HOUR, (0, 0))


def test_unread_records_near_the_retention_size_are_a_problem() -> None:
    found = retention_findings(HOUR, (0, 0), bytes=9_000_000)["retention-overtakes"]

    assert found.severity == "problem"
    assert "About 10.0 MB are unread, and the topic keeps 9.0 MB" in found.evidence
    assert "retention-overtakes" not in retention_findings(HOUR, (0, 0), bytes=90_000_000)
    assert "retention-overtakes" not in retention_findings(HOUR, (0, 10), bytes=9_000_000)  # it catches up


def settings(**values: str) -> list[Setting]:
    return [Setting(name.replace("_", "."), value, "topic") for name, value in values.items()]


def test_retention_is_parsed_from_topic_settings() -> None:
    assert parse_retention(settings(cleanup_policy="delete", retention_ms="600", retention_bytes="-1")) == (600, None)
    assert parse_retention(settings(cleanup_policy="compact,delete", retention_ms="-1", retention_bytes="9")) == (
        None,
        9,
    )
    assert parse_retention(settings(cleanup_policy="compact", retention_ms="600")) is None
    assert parse_retention(settings(cleanup_policy="delete", retention_ms="-1", retention_bytes="-1")) is None


def test_a_deleted_topic_and_one_without_subscribers_are_reported() -> None:
    unknown = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="old")
    rows = {**CAUGHT_UP, "old-0": (5, None, None), "left-0": (5, 0, 9)}
    cluster = cluster_facts(topics={"orders": topic("orders"), "left": topic("left"), "old": unknown})
    found = unchanged_findings(group(A, B), rows, cluster, error={"old-0": unknown})

    assert set(found) == {"topic-gone", "not-subscribed"}
    assert (found["topic-gone"].subject, found["topic-gone"].severity) == ("old", "warning")
    assert found["not-subscribed"].evidence.startswith("The group has committed offsets of left-0 (lag 4)")


def test_the_error_of_a_partition_is_reported() -> None:
    silent = TimeoutExpired("no answer from broker 1")
    found = unchanged_findings(
        group(A, B, type=CONSUMER), {**CAUGHT_UP, "orders-1": (5, None, None)}, error={"orders-1": silent}
    )
    assert "no answer from broker 1" in found["unreadable"].evidence


def test_unreadable_committed_offsets_are_not_reported_as_never_committed() -> None:
    failed = group_survey(group(A), {"orders-0": (None, 0, 70)}, 0)._replace(error=TimeoutExpired("node 1 is silent"))
    found = findings(failed, failed)

    assert set(found) == {"unreadable", "unassigned"}
    assert "node 1 is silent" in found["unreadable"].evidence


def test_phrases_for_quantities_and_lists() -> None:
    assert format_topic_partitions("t", [5, 1, 2, 3, 9]) == "t partitions 1-3, 5, 9"
    assert format_topic_partitions("t", range(0, 40, 2)) == "t partitions 0, 2, 4, 6, 8, 10, 12, 14 and 12 more"
    assert format_topic_partitions("t", [4]) == "t-4"
    assert join_names(map(str, range(10))) == "0, 1, 2, 3, 4, 5, 6, 7 and 2 more"
    assert numbers_by_topic([tp("b-1"), tp("a-0"), tp("b-0")]) == {"a": [0], "b": [0, 1]}
    assert [quantity(1, "record"), quantity(1200, "record")] == ["1 record", "1,200 records"]
