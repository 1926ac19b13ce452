"""Reports on partitions while others are still read."""

from __future__ import annotations

from kcli.cli.consume.range_session import PartitionReports
from kcli.clock import ManualClock
from kcli.consumer.coverage import PartitionCoverage
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import TopicPartition
from tests.cli.fake import FakeEnvironment

P0, P1, P2, P3 = (TopicPartition("orders", number) for number in range(4))
GONE = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic orders is gone")


def following(tp: TopicPartition, reason: str = "following", *, complete: bool = True) -> PartitionCoverage:
    return PartitionCoverage(tp, 0, None, 5, 5, 50, reason, complete=complete, start=0, open=True)


def failed(tp: TopicPartition) -> PartitionCoverage:
    return PartitionCoverage(tp, 0, None, 5, 5, 50, str(GONE), complete=False, start=0, error=GONE)


class Read:
    """A read whose coverage the test sets, and its reports of each second."""

    def __init__(self, *, in_table: bool = False, with_notes: bool = True) -> None:
        self.clock = ManualClock()
        self.coverage = [following(P0), following(P1)]
        self.env = FakeEnvironment(clock=self.clock)
        self.reports = PartitionReports(
            self.env, lambda: self.coverage, with_notes=with_notes, failures_in_table=in_table
        )

    def reported(self) -> str:
        self.clock.advance(1000)
        self.reports.tick(len(self.coverage))
        text = self.env.result(0).err
        self.env.err_buffer.seek(0)
        self.env.err_buffer.truncate()
        return text


def test_a_failure_is_reported_once_while_other_partitions_continue() -> None:
    read = Read()
    assert read.reported() == ""
    read.coverage[0] = failed(P0)
    assert read.reported() == f"kcli: orders 0: {GONE}\n"
    assert read.reported() == ""
    read.coverage[1] = failed(P1)
    assert read.reported() == f"kcli: orders 1: {GONE}\n"


def test_each_new_gap_is_reported() -> None:
    read = Read()
    read.coverage[0] = following(P0, "following; offsets 5 to 6 were deleted", complete=False)
    assert "5 to 6" in read.reported()
    read.coverage[0] = following(P0, "following; offsets 5 to 6 were deleted; 8 to 9 too", complete=False)
    assert "8 to 9" in read.reported()
    assert read.reported() == ""


def test_the_notes_on_a_partition_that_is_added_are_reported_once() -> None:
    read = Read(in_table=True)
    assert read.reported() == ""
    read.coverage += [following(tp)._replace(notes=("added",)) for tp in (P2, P3)]
    read.reports.tick(4)
    assert read.env.result(0).err == "kcli: orders 2,3: added\n"
    read = Read(in_table=True)
    read.coverage += [following(tp)._replace(notes=("added",)) for tp in (P2, P3)]
    assert read.reported() == "kcli: orders 2,3: added\n"
    assert read.reported() == ""
    quiet = Read(with_notes=False)
    quiet.coverage = read.coverage
    assert quiet.reported() == ""


def test_failures_are_checked_once_a_second() -> None:
    read = Read()
    read.reported()
    read.coverage[0] = failed(P0)
    read.reports.tick(len(read.coverage))
    assert read.env.result(0).err == ""
    read.reports.report()
    assert "gone" in read.env.result(0).err


def test_failures_in_the_coverage_table_are_not_reported_before_it() -> None:
    read = Read(in_table=True)
    read.coverage[0] = failed(P0)
    assert read.reported() == ""
