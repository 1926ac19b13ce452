"""What a follower of several partitions is told while it follows."""

from __future__ import annotations

from kcli.cli.consume.range_session import Problems
from kcli.clock import ManualClock
from kcli.consumer.coverage import PartitionCoverage
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import TopicPartition
from tests.cli.fake import FakeEnvironment

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
GONE = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic orders is gone")


def following(tp: TopicPartition, reason: str = "following", *, complete: bool = True) -> PartitionCoverage:
    return PartitionCoverage(tp, 0, None, 5, 5, 50, reason, complete=complete, start=0, open=True)


def failed(tp: TopicPartition) -> PartitionCoverage:
    return PartitionCoverage(tp, 0, None, 5, 5, 50, str(GONE), complete=False, start=0, error=GONE)


class Read:
    """A read whose coverage the test sets, and what it says at each second."""

    def __init__(self, *, told_later: bool = False) -> None:
        self.clock = ManualClock()
        self.coverage = [following(P0), following(P1)]
        self.env = FakeEnvironment(clock=self.clock)
        self.problems = Problems(self.env, lambda: self.coverage, told_later=told_later)

    def said(self) -> str:
        self.clock.advance(1000)
        self.problems.tick()
        text = self.env.result(0).err
        self.env.err_buffer.seek(0)
        self.env.err_buffer.truncate()
        return text


def test_a_failure_is_told_once_while_others_go_on() -> None:
    read = Read()
    assert read.said() == ""
    read.coverage[0] = failed(P0)
    assert read.said() == f"kcli: orders 0: {GONE}\n"
    assert read.said() == ""
    read.coverage[1] = failed(P1)
    assert read.said() == f"kcli: orders 1: {GONE}\n"


def test_every_new_gap_is_told() -> None:
    read = Read()
    read.coverage[0] = following(P0, "following; offsets 5 to 6 were deleted", complete=False)
    assert "5 to 6" in read.said()
    read.coverage[0] = following(P0, "following; offsets 5 to 6 were deleted; 8 to 9 too", complete=False)
    assert "8 to 9" in read.said()
    assert read.said() == ""


def test_looking_is_not_done_at_every_tick() -> None:
    read = Read()
    read.said()
    read.coverage[0] = failed(P0)
    read.problems.tick()
    assert read.env.result(0).err == ""
    read.problems.tell()
    assert "gone" in read.env.result(0).err


def test_what_a_footer_will_tell_is_not_told_twice() -> None:
    read = Read(told_later=True)
    read.coverage[0] = failed(P0)
    assert read.said() == ""
