"""The footer, the sentences and the exit status of a read."""

from typing import Any

import pytest

from kcli.cli.consume.coverage_report import coverage_items, cut_short, footer, is_bounded, notes, problems, read_status
from kcli.cli.consume.read_loop import DONE, ENOUGH, INTERRUPTED, QUIET, Count
from kcli.consumer.coverage import PartitionCoverage
from kcli.consumer.read_range import EARLIEST, LATEST, Offset, ReadRange, Time
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords
from kcli.structs import TopicPartition

P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))


def covered(tp: TopicPartition = P0, start: int = 5, end: int | None = 9, position: int = 9, **rest: Any) -> Any:
    given = {"records": 4, "bytes": 40, "reason": "reached its end", "complete": True, "start": start, **rest}
    return PartitionCoverage(tp, start, end, position, **given)


REFUSED = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
CUT = {"complete": False, "reason": "reached its end; offsets 0 to 4 are gone"}
STOPPED = {"complete": False, "open": True, "reason": "stopped before its end"}


def test_a_footer_tells_asked_covered_and_why() -> None:
    ranges = {P0: ReadRange(EARLIEST, LATEST), P1: ReadRange(Offset(0), Offset(9)), P2: ReadRange(Time(0), LATEST)}
    account = [covered(), covered(P1, **CUT), covered(P2, start=-1, position=-1, complete=False, reason="no leader")]
    lines = [line.split(maxsplit=6) for line in footer(account, ranges, {P0: Count(3, 30)}, DONE).splitlines()]
    assert lines == [
        ["TOPIC", "PARTITION", "ASKED", "COVERED", "PRINTED", "STATE", "STOPPED"],
        ["orders", "0", "start:end", "5:9", "3", "complete", "reached its end"],
        ["orders", "1", "0:9", "5:9", "0", "incomplete", "reached its end; offsets 0 to 4 are gone"],
        ["orders", "2", "@1970-01-01T00:00:00.000Z:end", "-", "0", "incomplete", "no leader"],
    ]


def test_a_partition_that_was_still_read_stopped_because_the_read_did() -> None:
    ranges = {P0: ReadRange(EARLIEST, LATEST), P1: ReadRange(EARLIEST, LATEST)}
    account = [covered(position=7, **STOPPED), covered(P1)]
    for why, words in ((ENOUGH, "--max-messages"), (QUIET, "nothing came"), (INTERRUPTED, "interrupted")):
        first, second = footer(account, ranges, {}, why).splitlines()[1:]
        assert words in first
        assert "5:7" in first
        assert second.endswith("reached its end")


def test_offsets_that_are_gone_are_told_whatever_stopped_the_read() -> None:
    gone = {**STOPPED, "reason": "stopped before its end; offsets 0 to 4 are gone"}
    footed = footer([covered(position=7, **gone)], {P0: ReadRange(Offset(0), LATEST)}, {}, ENOUGH)
    assert footed.endswith("--max-messages reached; offsets 0 to 4 are gone")


def test_what_max_messages_left_over_is_not_covered() -> None:
    failed = {"complete": False, "error": REFUSED, "reason": str(REFUSED)}
    follower = covered(P2, end=None, open=True, reason="following")
    first, second, third = cut_short([covered(), covered(P1, **failed), follower], {P0: 7, P1: 8, P2: 6})
    assert first == covered(position=7, **STOPPED)
    assert second == covered(P1, position=8, **STOPPED)  # what failed lies behind what was asked for
    assert third == covered(P2, end=None, position=6, open=True, reason="stopped before its end")
    assert cut_short([covered()], {}) == [covered()]


def test_json_has_the_same_as_numbers() -> None:
    ranges = {P0: ReadRange(Offset(5), Offset(9))}
    [item] = coverage_items([covered(position=7, **STOPPED)], ranges, {P0: Count(2, 9)}, INTERRUPTED)
    assert item == {
        "topic": "orders", "partition": 0, "asked": "5:9", "start": 5, "end": 9, "position": 7, "printed": 2,
        "complete": False, "stopped": "interrupted",
    }  # fmt: skip


def test_the_same_note_on_many_partitions_is_one_sentence() -> None:
    late = ("no record at or after noon",)
    account = [covered(P0, notes=late), covered(P1), covered(P2, notes=(*late, "more"))]
    assert notes(account) == ["orders 0,2: no record at or after noon", "orders 2: more"]


def test_problems_are_failures_and_gaps_but_not_what_was_left_unread_on_purpose() -> None:
    failed = {"complete": False, "error": REFUSED, "reason": str(REFUSED)}
    account = [covered(P0, **failed), covered(P1, **STOPPED), covered(P2, **CUT)]
    first, second = problems(account)
    assert first.startswith("orders 0: TOPIC_AUTHORIZATION_FAILED")
    assert second == "orders 2: reached its end; offsets 0 to 4 are gone"


def test_what_a_follower_missed_is_a_problem_though_it_goes_on() -> None:
    gap = "following; offsets 0 to 4 were deleted before they were read"
    account = [covered(end=None, complete=False, open=True, reason=gap), covered(P1, end=None, open=True)]
    assert problems(account) == [f"orders 0: {gap}"]


@pytest.mark.parametrize(
    ("account", "why", "status"),
    [
        ([covered(), covered(P1)], DONE, 0),
        ([covered(), covered(P1, **CUT)], DONE, 5),
        ([covered(**STOPPED)], QUIET, 5),
        ([covered(**STOPPED)], ENOUGH, 0),
        ([covered(**CUT)], ENOUGH, 0),
        ([covered(**STOPPED)], INTERRUPTED, 130),
        ([covered(end=None, complete=True, open=True, reason="following")], QUIET, 0),
        ([covered(complete=False, error=REFUSED)], DONE, 4),
        ([covered(complete=False, error=REFUSED), covered(P1)], ENOUGH, 4),
        ([covered(complete=False, error=CorruptRecords("bad"))], DONE, 1),
        ([covered(complete=False, error=REFUSED), covered(P1, **CUT)], DONE, 1),
    ],
)
def test_status(account, why, status):
    assert read_status(account, why) == status


def test_a_read_is_bounded_if_every_range_has_an_end() -> None:
    assert is_bounded({P0: ReadRange(EARLIEST, LATEST), P1: ReadRange(EARLIEST, Offset(0))})
    assert not is_bounded({P0: ReadRange(EARLIEST, LATEST), P1: ReadRange(EARLIEST)})
