"""The judgement of a soak: each kind of fault is found, and what a crash explains is not one."""

from __future__ import annotations

from tests.interop.soak_account import Line, Run, Sample, Waiting, judge_group, judge_log, read_lines, waiting_of

ENDS = {0: 2, 1: 1}
LOG = [Line(0, 0, 10), Line(1, 0, 11), Line(0, 1, 12)]
ACKNOWLEDGED = {10: (0, 0), 11: (1, 0), 12: (0, 1)}


def test_a_torn_last_line_is_dropped() -> None:
    assert read_lines(b"0 0 10\n1 0 11\n0 1") == LOG[:2]
    assert read_lines(b"") == []


def test_a_whole_log_has_no_faults() -> None:
    assert judge_log(ACKNOWLEDGED, ENDS, Run(LOG)) == []


def test_faults_of_the_log() -> None:
    assert judge_log(ACKNOWLEDGED, ENDS, Run(LOG[:2])) == [
        "the follower ended at 1 of 2 in partition 0",
        "value 12 was acknowledged at (0, 1) and is at None",
    ]
    assert judge_log(ACKNOWLEDGED, ENDS, Run([*LOG[:2], LOG[0], LOG[2]])) == [
        "the follower printed offset 0 of partition 0, not 1",
        "value 10 is stored twice: at (0, 0) and at (0, 0)",
    ]
    assert judge_log({}, {0: 2}, Run([Line(0, 0, 10), Line(0, 1, 10)])) == [
        "value 10 is stored twice: at (0, 0) and at (0, 1)"
    ]


def test_a_group_prints_each_record_once() -> None:
    assert judge_group("g", ENDS, [Run(LOG[:1]), Run(LOG[1:])]) == ([], 0)
    assert judge_group("g", ENDS, [Run(LOG[:2])]) == (["group g: 1 records lost: [(0, 1)]"], 0)
    assert judge_group("g", ENDS, [Run(LOG), Run(LOG[:1])]) == (
        ["group g: 1 records doubled without a crash: [(0, 0)]"],
        1,
    )


def test_a_crash_explains_records_that_were_printed_again() -> None:
    assert judge_group("g", ENDS, [Run(LOG[:2], crashed=True), Run(LOG)]) == ([], 2)


def samples(*steps: tuple[float, int]) -> list[Sample]:
    """Return a sample per second, from the CPU and the bytes of each second."""
    found, cpu_s, printed = [], 0.0, 1
    for second, (cpu, more) in enumerate(steps):
        cpu_s, printed = cpu_s + cpu, printed + more
        found.append(Sample(second, cpu_s, printed))
    return found


def test_the_share_of_a_waiting_process_is_measured_in_windows_without_output() -> None:
    start, busy, idle, burning = [(0.9, 9)] * 6, [(0.8, 7)] * 10, [(0.01, 0)] * 10, [(0.5, 0)] * 5
    assert waiting_of(samples(*start, *busy)) == Waiting(0, 0, 0)
    quiet = waiting_of(samples(*start, *busy, *idle))
    assert (quiet.seconds, round(quiet.largest_share, 3)) == (10, 0.01)
    burnt = waiting_of(samples(*start, *idle, *burning, *idle))
    assert (round(burnt.largest_share, 3), burnt.largest_at_s) == (0.5, 20)
    assert waiting_of([Sample(at_s, at_s, 0) for at_s in range(20)]) == Waiting(0, 0, 0), "nothing was printed yet"
