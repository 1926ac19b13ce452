"""Aborted transactions of a log: the index files, reads by read_committed consumers, and rebuilt indexes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from kcli.broker.log.log import Log
from kcli.broker.log.segment_index import AbortedTransaction, InvalidIndex, decode_aborted, encode_aborted
from kcli.broker.testing.memory_files import Fault
from tests.broker.log.logs import NOW, Keeper, Transactions, fill, marker, scan, scan_committed

SMALL = {"segment_bytes": 2000, "index_interval_bytes": 200}

# The first two entries of a transaction index of Apache Kafka 4.3.1.
REAL_INDEX = bytes.fromhex(
    "000000000000000000000000000000000003000000000000000c0000000000000000"
    "000000000000000000010000000000000005000000000000000d0000000000000000"
)


def write_history(log: Log, steps: int = 150, seed: int = 1) -> Transactions:
    """Write interleaved transactions of four producers, and leave one open."""
    chance = random.Random(seed)
    story = Transactions(log)
    open_producers: set[int] = set()
    for number in range(steps):
        producer = chance.randrange(5)
        if producer == 4:
            story.write(None, b"plain %d" % number)
        elif producer in open_producers and chance.random() < 0.3:
            story.end(producer, commit=chance.random() < 0.5)
            open_producers.remove(producer)
        else:
            story.write(producer, *[b"%d.%d" % (number, part) for part in range(chance.randrange(1, 4))])
            open_producers.add(producer)
    for producer in sorted(open_producers)[1:]:
        story.end(producer, commit=False)
    story.write(None, b"after the last stable offset")
    return story


def is_marker(record: Any) -> bool:
    return record.value == b"\0\0\0\0\0\3"


def check_reads(story: Transactions, log: Log, seed: int = 1) -> None:
    """Read from many offsets in fetches of several sizes; each read shows exactly the committed records."""
    chance = random.Random(seed)
    truth = [(one.offset, one.value) for one in scan(log) if story.visible(one.offset) and not is_marker(one)]
    assert len(truth) > 20
    for _ in range(40):
        offset = chance.randrange(log.log_start_offset, log.log_end_offset)
        found = scan_committed(log, offset, max_bytes=chance.choice((1, 300, 1000, 10_000)))
        assert [(one.offset, one.value) for one in found] == [row for row in truth if row[0] >= offset]


def index_files(keeper: Keeper) -> dict[str, bytes]:
    return {name: (keeper.path / name).read_bytes() for name in keeper.names if name.endswith(".txnindex")}


def test_read_committed_readers_never_see_aborted_records(keeper: Keeper) -> None:
    log = keeper.open(**SMALL)
    story = write_history(log)
    assert len(log.segments) > 4
    assert len(story.aborted) > 5
    check_reads(story, log)
    assert log.last_stable_offset == story.stable_offset < log.log_end_offset


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("damage", ["none", "deleted", "zeros", "torn", "garbage", "no snapshots"])
def test_index_that_is_lost_or_damaged_is_rebuilt(keeper: Keeper, damage: str, seed: int) -> None:
    log = keeper.open(**SMALL)
    story = write_history(log, seed=seed)
    log.close()
    written = index_files(keeper)
    assert len(written) == len(log.segments)
    _damage(keeper, damage)
    log = keeper.open(**SMALL)
    assert log.last_stable_offset == story.stable_offset
    check_reads(story, log, seed)
    log.aborted_between(0, log.log_end_offset)
    assert index_files(keeper) == written
    assert keeper.reported("the transaction index") == (damage != "none")


def _damage(keeper: Keeper, damage: str) -> None:
    for path in keeper.path.iterdir():
        lost = {"deleted": (".txnindex",), "no snapshots": (".txnindex", ".snapshot")}.get(damage, ())
        if path.suffix in lost:
            path.unlink()
        elif path.suffix == ".txnindex" and path.stat().st_size:
            size = path.stat().st_size
            contents = {
                "zeros": bytes(size),
                "torn": path.read_bytes()[:-1],
                "garbage": random.Random(1).randbytes(size),
            }
            path.write_bytes(contents.get(damage, path.read_bytes()))


def test_index_is_complete_after_a_crash(keeper: Keeper) -> None:
    """The files, too: another broker would take a missing one as empty."""
    log = keeper.open(**SMALL)
    story = write_history(log)
    base_offsets = [segment.base_offset for segment in log.segments]
    log.close()
    written = index_files(keeper)
    for recovery_point in (0, base_offsets[2], log.log_end_offset):
        keeper.open(clean=False, recovery_point=recovery_point, **SMALL).close(clean=False)
        assert index_files(keeper) == written
        assert not keeper.reported("transaction index")
    for recovery_point in (0, base_offsets[2], log.log_end_offset):
        log = keeper.open(clean=False, recovery_point=recovery_point, **SMALL)
        check_reads(story, log)
        log.close(clean=False)


@pytest.mark.parametrize("with_snapshots", [True, False])
def test_index_is_rebuilt_beyond_damaged_batches(keeper: Keeper, with_snapshots: bool) -> None:
    log = keeper.open(**SMALL)
    story = write_history(log)
    position = [position for position, _ in log.segments[0].batches()][3]
    log.close()
    data = bytearray(keeper.file(0).read_bytes())
    data[position : position + 20] = bytes(20)
    keeper.file(0).write_bytes(data)
    for path in keeper.path.iterdir():
        if path.suffix == ".txnindex" or (path.suffix == ".snapshot" and not with_snapshots):
            path.unlink()
    log = keeper.open(**SMALL)
    rebuilt = {entry[:2] for entry in log.aborted_between(0, log.log_end_offset)}
    assert keeper.reported("is damaged")
    assert len(rebuilt ^ set(story.aborted)) <= 2, "only transactions in the damaged place are unknown"


def test_open_transaction_of_an_adopted_log_can_be_ended(keeper: Keeper) -> None:
    log = keeper.open()
    story = Transactions(log)
    story.write(None, b"a")
    story.write(7, b"b")
    log.close()
    log = story.log = keeper.open()
    assert log.last_stable_offset == 1
    story.end(7, commit=True)
    log.close()
    keeper.open()
    assert keeper.reports == []


def test_truncated_abort_marker_is_not_in_the_index(keeper: Keeper) -> None:
    """After a torn write the transaction is open again, and its records are not stable."""
    log = keeper.open()
    story = Transactions(log)
    story.write(None, b"a")
    story.write(7, b"b")
    story.end(7, commit=False)
    log.close()
    assert len(index_files(keeper)[f"{0:020d}.txnindex"]) == 34
    file = keeper.file(0)
    file.write_bytes(file.read_bytes()[:-5])
    for clean in (False, True):
        log = keeper.open(clean=clean)
        assert (log.log_end_offset, log.last_stable_offset) == (2, 1)
        assert log.aborted_between(0, 2) == []
        log.close()


def test_marker_in_a_later_segment_hides_records_of_earlier_ones(keeper: Keeper) -> None:
    log = keeper.open()
    story = Transactions(log)
    story.write(7, b"a")
    for _ in range(3):
        log.roll(NOW)
        story.write(8, b"b")
    story.end(8, commit=True)
    log.roll(NOW)
    story.end(7, commit=False)
    assert log.aborted_between(0, 1) == [(7, 0, 5, 6)]
    assert [record.value for record in scan_committed(log)] == [b"b"] * 3


def test_search_ends_where_no_earlier_transaction_is_open(memory_keeper: Keeper) -> None:
    """Without this, each read would search all later segments for markers."""
    log = memory_keeper.open()
    story = Transactions(log)
    for _ in range(4):
        story.write(7, b"a")
        story.end(7, commit=True)
        log.roll(NOW)
    log.close()
    log = memory_keeper.open()
    memory_keeper.files.operations.clear()
    assert log.aborted_between(0, 1) == []
    names = [path.rpartition("/")[2] for _, path in memory_keeper.files.operations]
    assert [name for name in names if name.endswith(".txnindex")] == [f"{0:020d}.txnindex"]


def test_logs_without_transactions_have_no_index_and_search_none(memory_keeper: Keeper) -> None:
    log = memory_keeper.open(segment_bytes=500)
    fill(log, 20)
    log.close()
    log = memory_keeper.open(segment_bytes=500)
    memory_keeper.files.operations.clear()
    read = log.read(0, 1000, upto=20, min_one_message=True)
    assert read.records is not None
    before = len(memory_keeper.files.operations)
    assert log.aborted_transactions(read.start, len(read.records)) == []
    assert len(memory_keeper.files.operations) == before
    assert not [name for name in memory_keeper.names if name.endswith(".txnindex")]


def test_rebuilt_index_that_cannot_be_written_is_used_from_memory(memory_keeper: Keeper) -> None:
    log = memory_keeper.open()
    story = Transactions(log)
    story.write(7, b"a")
    story.end(7, commit=False)
    log.close()
    memory_keeper.files.remove(f"{memory_keeper.directory}/{0:020d}.txnindex")
    log = memory_keeper.open()
    memory_keeper.files.faults.append(Fault("write_atomically", ".txnindex"))
    assert log.aborted_between(0, 1) == [(7, 0, 1, 2)]


def test_abort_marker_after_a_restart_completes_the_index(keeper: Keeper) -> None:
    story = Transactions(keeper.open())
    story.write(7, b"a")
    story.write(8, b"b")
    story.end(8, commit=False)
    for lose in (lambda: None, keeper.file(0, ".txnindex").unlink):
        story.log.close()
        lose()
        story.log = keeper.open()
        story.write(9, b"c")
        story.end(9, commit=False)
    assert [entry[:3] for entry in story.log.aborted_between(0, 100)] == [(8, 1, 2), (9, 3, 4), (9, 5, 6)]


def test_deleted_segments_take_their_index_along(keeper: Keeper) -> None:
    log = keeper.open(**SMALL)
    story = write_history(log)
    middle = log.segments[3].base_offset + 2
    log.delete_records(middle)
    check_reads(story, log)
    log.close()
    assert min(index_files(keeper)) == f"{log.segments[0].base_offset:020d}.txnindex"
    log = keeper.open(log_start_offset=middle, **SMALL)
    check_reads(story, log)


def test_last_stable_offset_is_at_least_the_log_start_offset(keeper: Keeper) -> None:
    log = keeper.open()
    story = Transactions(log)
    story.write(7, b"a", b"b", b"c")
    assert log.last_stable_offset == 0
    log.delete_records(2)
    assert (log.log_start_offset, log.last_stable_offset) == (2, 2)


def test_last_stable_offset_waits_until_the_marker_is_replicated(keeper: Keeper) -> None:
    log = keeper.open()
    log.append(bytearray(marker(7, commit=True)), leader_epoch=0, now_wall_ms=NOW, from_client=False)
    story = Transactions(log)
    story.write(7, b"a")
    log.append(marker(7, commit=False), leader_epoch=0, now_wall_ms=NOW, from_client=False)
    assert (log.high_watermark, log.last_stable_offset) == (2, 1)
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3


def test_index_of_apache_kafka_is_decoded_and_encoded_byte_for_byte() -> None:
    entries = decode_aborted(REAL_INDEX, 0, 100)
    assert entries == [AbortedTransaction(0, 3, 12, 0), AbortedTransaction(1, 5, 13, 0)]
    assert encode_aborted(entries) == REAL_INDEX


INVALID: dict[str, Callable[[bytes], bytes]] = {
    "it ends within an entry": lambda data: data[:40],
    "version 1": lambda data: b"\0\1" + data[2:],
    "a negative producer": lambda data: data[:2] + b"\xff" * 8 + data[10:],
    "the entries are out of order": lambda data: data[34:] + data[:34],
    "it starts after its marker": lambda data: data[:17] + b"\x0d" + data[18:],
    "a marker after the segment": lambda data: data[:59] + b"\x64" + data[60:],
    "a stable offset after the marker": lambda data: data[:33] + b"\x0e" + data[34:],
}


@pytest.mark.parametrize("fault", INVALID)
def test_invalid_index_is_detected(fault: str) -> None:
    with pytest.raises(InvalidIndex):
        decode_aborted(INVALID[fault](REAL_INDEX), 0, 100)
