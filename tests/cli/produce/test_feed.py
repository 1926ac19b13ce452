"""Splitting the input at a delimiter; counting the outcomes of records."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.cli.produce.feed import CHUNK_BYTES, ParsingEnded, Splitter, WriteTally, feed
from kcli.error_codes import ErrorCode
from kcli.errors import AuthenticationError, BrokerError, KcliError, TimeoutExpired
from kcli.producer.batches import Outcome
from kcli.protocol.records.record import NewRecords
from kcli.structs import TopicPartition
from tests.client.sasl_gate import ALICE, SaslGate
from tests.producer.fake_log import FakeLog


def split(splitter: Splitter, data: bytes, sizes: list[int]) -> list[bytes]:
    """Return all pieces of `data`, fed in chunks of these sizes in turn."""
    pieces, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        pieces += splitter.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    return pieces + splitter.finish()


SIZES = st.lists(st.integers(1, 7), min_size=1)


@given(data=st.binary().map(lambda data: data.replace(b"x", b"--")), sizes=SIZES)
def test_pieces_do_not_depend_on_the_chunks(data: bytes, sizes: list[int]) -> None:
    whole = data.split(b"--")
    assert split(Splitter(b"--", 1000), data, sizes) == (whole if whole[-1] else whole[:-1])


def test_the_last_piece_needs_no_delimiter() -> None:
    assert split(Splitter(b"\n", 100), b"a\n\nb", [100]) == [b"a", b"", b"b"]
    assert split(Splitter(b"\n", 100), b"a\n\nb\n", [100]) == [b"a", b"", b"b"]
    assert split(Splitter(b"\n", 100), b"", [100]) == []


@given(sizes=SIZES)
def test_a_piece_that_is_too_long_is_counted_and_dropped(sizes: list[int]) -> None:
    splitter = Splitter(b"--", 5)
    assert split(splitter, b"abc--" + b"x" * 40 + b"--12345--123456--end", sizes) == [b"abc", b"12345", b"end"]
    assert splitter.too_long == 2


@given(sizes=SIZES)
def test_a_last_piece_that_is_too_long_is_counted(sizes: list[int]) -> None:
    splitter = Splitter(b"\n", 5)
    assert split(splitter, b"a\n1234567", sizes) == [b"a"]
    assert splitter.too_long == 1


def test_memory_is_bounded_by_the_longest_piece() -> None:
    splitter = Splitter(b"\n", 1000)
    for _ in range(100):
        splitter.feed(b"x" * 10_000)
        assert len(splitter._beginning) <= 1000
    assert splitter.too_long == 1


@pytest.mark.parametrize("delimiter", [b"\n", b"\r\n", b""])
def test_a_long_piece_is_split_in_linear_time(delimiter: bytes) -> None:
    """16 MiB in 4,096 chunks: some 30 ms of CPU time. Copied anew for each chunk, they are 32 GiB, 10 s and more."""
    splitter, chunk = Splitter(delimiter, 1 << 30), b"x" * 4096
    started = time.process_time()
    pieces = [piece for _ in range(4096) for piece in splitter.feed(chunk)] + splitter.finish()
    assert time.process_time() - started < 2
    assert pieces == [chunk * 4096]


def test_an_empty_delimiter_makes_one_piece() -> None:
    assert split(Splitter(b"", 100), b"a\nb\n", [1]) == [b"a\nb\n"]


def test_the_tally_reports_one_line_per_kind_of_failure() -> None:
    tally, tp = WriteTally(), TopicPartition("t", 0)
    tally.read = 10
    tally.count_outcome(Outcome(tp, 4, 0))
    tally.count_outcome(Outcome(tp, 2, error=BrokerError(ErrorCode.INVALID_RECORD, "no key", partition=0)))
    tally.count_outcome(Outcome(tp, 1, error=BrokerError(ErrorCode.INVALID_RECORD, "another reason")))
    tally.count_outcome(Outcome(tp, 1, error=TimeoutExpired("too late")))
    assert (tally.stored, tally.failed) == (4, 4)
    assert tally.failure_lines() == [
        "3 records not stored: INVALID_RECORD: no key",
        "1 record not stored: too late",
        "2 records not stored: not sent",
    ]
    assert tally.summary(2.0).startswith("4 records stored, 0.0 MB read in 2.00 s (2 records/s, ")


def test_the_input_is_not_read_on_after_a_failed_authentication() -> None:
    cluster = FakeLog()
    gate = SaslGate(cluster.selector, cluster.versions, cluster.clock, lifetime_ms=3_000)
    producer, tally = cluster.producer(**ALICE), WriteTally()

    def lines() -> Iterator[bytes]:
        yield b"a\n"
        gate.knows_alice = False
        cluster.clock.advance(2_900)
        yield b"b\n"
        raise AssertionError("the input is read on")

    class Input(io.BytesIO):
        """A pipe in which each line is alone."""

        more = lines()

        def read1(self, size: int | None = -1, /) -> bytes:
            return next(self.more)

        def fileno(self) -> int:
            return quiet

    def parse(segments: Sequence[bytes], wall_ms: int) -> NewRecords:
        return NewRecords(segments, wall_ms)

    quiet, other_end = os.pipe()
    feed(producer, "orders", None, [Input()], parse, tally, delimiter=b"\n", longest_bytes=100, wall_ms=lambda: 0)
    os.close(quiet)
    os.close(other_end)
    assert cluster.values() == [b"a"]
    assert [type(failure.error) for failure in tally.failures] == [AuthenticationError]


def test_records_before_an_unreachable_registry_are_stored() -> None:
    cluster = FakeLog()
    producer, tally = cluster.producer(), WriteTally()
    answers = [NewRecords([b"a"], 0), KcliError("registry: not reachable")]

    class Input(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return self.readline()

    def parse(segments: Sequence[bytes], wall_ms: int) -> NewRecords:
        answer = answers.pop(0)
        if isinstance(answer, KcliError):
            raise ParsingEnded(NewRecords([b"b"], 0), answer)
        return answer

    with pytest.raises(KcliError, match="registry"):
        feed(
            producer,
            "orders",
            None,
            [Input(b"a\nb\nc\n")],
            parse,
            tally,
            delimiter=b"\n",
            longest_bytes=100,
            wall_ms=lambda: 0,
        )
    assert cluster.values() == [b"a", b"b"]
    assert (tally.read, tally.stored, tally.failures) == (2, 2, [])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has pipes of any size")
def test_a_pipe_is_enlarged_to_a_chunk() -> None:
    import fcntl

    reader, writer = os.pipe()
    os.write(writer, b"a\n")
    os.close(writer)
    cluster, tally = FakeLog(), WriteTally()
    with open(reader, "rb") as stream:
        feed(
            cluster.producer(),
            "orders",
            None,
            [stream],
            NewRecords,
            tally,
            delimiter=b"\n",
            longest_bytes=100,
            wall_ms=lambda: 0,
        )
        assert fcntl.fcntl(reader, fcntl.F_GETPIPE_SZ) >= CHUNK_BYTES
    assert cluster.values() == [b"a"]
