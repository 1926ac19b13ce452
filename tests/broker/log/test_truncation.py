"""The log of a follower: batches of a leader byte for byte, truncation at any offset, and crashes in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcli.broker.log.log import Log, StoredOffsets
from kcli.broker.testing.memory_files import Fault, MemoryFiles
from kcli.errors import CorruptRecords
from tests.broker.log.logs import NOW, Keeper, Transactions, append, batch, fill, marker, scan_committed, values

SEGMENTS = {"segment_bytes": 700, "index_interval_bytes": 100}


def follower_of(keeper: Keeper) -> Keeper:
    """A second directory on the same files."""
    return Keeper(keeper.directory.replace("orders", "copies"), keeper.files)


def contents(log: Log) -> bytes:
    """The bytes of all batches."""
    return b"".join(segment.file.read_at(0, segment.size) for segment in log.segments)


def copy(leader: Log, follower: Log, *, max_bytes: int = 1_000_000, epoch: int = 99) -> None:
    """Fetch until the follower has the whole log."""
    while follower.log_end_offset < leader.log_end_offset:
        offset = max(follower.log_end_offset, leader.log_start_offset)
        read = leader.read(offset, max_bytes, upto=leader.log_end_offset, min_one_message=True)
        assert read.records is not None
        assert follower.append_as_follower(bytes(read.records), leader_epoch=epoch, now_wall_ms=NOW)
        follower.advance_high_watermark(leader.high_watermark)


def state(log: Log) -> tuple[Any, ...]:
    """Everything that a log knows about its records. Index entries are where they help, so they are compared by use."""
    producers = {
        id: (one.epoch, one.transaction_offset, list(one.batches)[-1:]) for id, one in log.producers.producers.items()
    }
    return (
        contents(log),
        log.log_end_offset,
        log.epochs.entries,
        producers,
        log.aborted_between(log.log_start_offset, log.log_end_offset),
        log.max_timestamp(),
        [log.offset_for_timestamp(NOW + step) for step in range(0, 40, 3)],
        [log.offset_metadata(offset).offset for offset in range(log.log_start_offset, log.log_end_offset)],
    )


def test_follower_has_the_bytes_epochs_and_segments_of_its_leader(keeper: Keeper) -> None:
    leader, follower = keeper.open(**SEGMENTS), follower_of(keeper).open(**SEGMENTS)
    for number in range(40):
        append(leader, b"%d" % number, time_ms=NOW + number, leader_epoch=number // 15)
    copy(leader, follower)
    assert state(follower) == state(leader)
    assert [one.base_offset for one in follower.segments] == [one.base_offset for one in leader.segments]
    assert [entry.epoch for entry in follower.epochs.entries] == [0, 1, 2]


@pytest.mark.parametrize("max_bytes", [1, 200, 500, 1000])
def test_partial_batches_at_the_end_of_an_answer_are_ignored(keeper: Keeper, max_bytes: int) -> None:
    leader, follower = keeper.open(**SEGMENTS), follower_of(keeper).open(**SEGMENTS)
    fill(leader, 20)
    copy(leader, follower, max_bytes=max_bytes)
    assert state(follower) == state(leader)


def test_batches_of_a_leader_after_the_known_one_are_not_taken(keeper: Keeper) -> None:
    leader, follower = keeper.open(), follower_of(keeper).open()
    append(leader, b"a", leader_epoch=1)
    append(leader, b"b", leader_epoch=2)
    data = contents(leader)
    assert follower.append_as_follower(data, leader_epoch=1, now_wall_ms=NOW) == len(data) // 2
    assert follower.log_end_offset == 1


@pytest.mark.parametrize("at", [11, 16, 21, 30, -1])
def test_answer_with_a_damaged_batch_is_refused_whole(keeper: Keeper, at: int) -> None:
    leader, follower = keeper.open(), follower_of(keeper).open()
    fill(leader, 3)
    data = bytearray(contents(leader))
    second = len(data) // 3
    data[second + at if at >= 0 else 2 * second - 1] ^= 0x55
    with pytest.raises(CorruptRecords):
        follower.append_as_follower(data, leader_epoch=0, now_wall_ms=NOW)
    assert (follower.log_end_offset, follower.size_bytes) == (0, 0)


def test_batches_that_do_not_continue_the_log_are_refused(keeper: Keeper) -> None:
    leader, follower = keeper.open(), follower_of(keeper).open()
    fill(leader, 3)
    copy(leader, follower)
    with pytest.raises(CorruptRecords, match="starts at offset 0, but the log ends at 3"):
        follower.append_as_follower(contents(leader), leader_epoch=0, now_wall_ms=NOW)
    assert state(follower) == state(leader)


def test_follower_begins_within_a_batch_where_the_leaders_log_starts(keeper: Keeper) -> None:
    leader, follower = keeper.open(), follower_of(keeper).open()
    append(leader, b"a", b"b", b"c", b"d")
    append(leader, b"e")
    leader.delete_records(2)
    follower.restart_at(2, now_wall_ms=NOW)
    copy(leader, follower)
    assert (follower.log_start_offset, follower.log_end_offset) == (2, 5)
    assert (contents(follower), values(follower)) == (contents(leader), [b"c", b"d", b"e"])
    assert follower_of(keeper).open(log_start_offset=2).log_start_offset == 2


def test_offsets_that_compaction_removed_are_kept_free(keeper: Keeper) -> None:
    leader, follower = keeper.open(), follower_of(keeper).open()
    fill(leader, 6)
    size = leader.size_bytes // 6
    data = contents(leader)
    follower.append_as_follower(data[:size] + data[3 * size :], leader_epoch=0, now_wall_ms=NOW)
    assert follower.log_end_offset == 6
    assert follower.truncate_to(2, now_wall_ms=NOW)
    assert follower.log_end_offset == 2
    assert follower.append_as_follower(data[3 * size :], leader_epoch=0, now_wall_ms=NOW) == 3 * size
    assert follower.log_end_offset == 6


# ---- truncation ----


def history(log: Log, upto: int) -> list[tuple[bool, Callable[[], Any]]]:
    """Records in three epochs, with transactions of two producers that commit and abort."""
    transactions = Transactions(log)
    for number in range(upto):
        if number % 7 == 6:
            transactions.end(number % 2, commit=number % 3 == 0)
        elif number % 7 == 3:
            append(log, b"free %d" % number, time_ms=NOW + number % 5 + number, leader_epoch=number // 15)
        else:
            transactions.write(number % 2, b"%d" % number)
    return []


def test_truncated_log_equals_one_that_ended_there(memory_keeper: Keeper) -> None:
    other = follower_of(memory_keeper)
    for end in range(1, 40):
        whole, short = memory_keeper.open(**SEGMENTS), other.open(**SEGMENTS)
        history(whole, 40), history(short, end)
        whole.truncate_to(end, now_wall_ms=NOW)
        assert state(whole) == state(short), end
        assert (whole.high_watermark, whole.last_stable_offset) == (end, short.last_stable_offset)
        history_after = [batch(b"after", time_ms=NOW + 90), marker(1, commit=False)]
        for log in (whole, short):
            for data in history_after:
                log.append(bytearray(data), leader_epoch=9, now_wall_ms=NOW, from_client=False)
            log.advance_high_watermark(log.log_end_offset)
        assert state(whole) == state(short), end
        assert list(scan_committed(whole)) == list(scan_committed(short))
        whole.close()
        assert state(memory_keeper.open(**SEGMENTS)) == state(short), end
        whole.delete(), short.delete()


def test_truncation_keeps_what_is_below_and_removes_a_batch_as_a_whole(keeper: Keeper) -> None:
    log = keeper.open(**SEGMENTS)
    wanted = fill(log, 9)
    append(log, b"a", b"b", b"c", leader_epoch=2)
    assert log.truncate_to(10, now_wall_ms=NOW)
    assert (log.log_end_offset, log.high_watermark, values(log)) == (9, 9, wanted)
    assert not log.truncate_to(9, now_wall_ms=NOW)
    assert append(log, b"next").base_offset == 9


def test_epoch_without_records_is_removed_at_the_end_of_the_log(keeper: Keeper) -> None:
    log = keeper.open()
    fill(log, 3)
    log.epochs.assign(4, 3)
    assert not log.truncate_to(3, now_wall_ms=NOW)
    assert log.epochs.latest_epoch == 0


def test_truncation_to_the_start_removes_all_records(keeper: Keeper) -> None:
    log = keeper.open(**SEGMENTS)
    fill(log, 12)
    log.delete_records(7)
    assert log.truncate_to(3, now_wall_ms=NOW)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.size_bytes) == (3, 3, 3, 0)
    assert log.epochs.entries == ()
    append(log, b"next")
    log.close()
    log = keeper.open(log_start_offset=0)
    assert (log.log_start_offset, values(log)) == (3, [b"next"])


def test_high_watermark_starts_at_its_checkpoint_within_the_log(keeper: Keeper) -> None:
    log = keeper.open()
    fill(log, 5)
    log.close()
    for given, wanted in ((3, 3), (9, 5), (0, 0)):
        log = Log.open(
            keeper.directory, log.tp, log.topic_id, log.config, keeper.files,
            stored=StoredOffsets(high_watermark=given), clean=True, now_wall_ms=NOW, report=keeper.reports.append,
        )  # fmt: skip
        assert log.high_watermark == wanted


def test_start_moves_to_that_of_the_leader_but_not_above_the_high_watermark(keeper: Keeper) -> None:
    log = keeper.open(**SEGMENTS)
    fill(log, 12)
    log.append(batch(b"above"), leader_epoch=0, now_wall_ms=NOW)
    assert log.advance_start(7)
    assert not log.advance_start(7)
    assert log.advance_start(13)
    assert (log.log_start_offset, log.segments[0].base_offset <= 12) == (12, True)


# ---- crashes ----


class Power(BaseException):
    """The process dies here."""


def die_at(files: MemoryFiles, step: int) -> None:
    """Let the process die at one of the next operations on files that change something."""
    left = step

    def check(operation: str, path: str) -> Fault | None:
        nonlocal left
        if operation not in ("read", "list", "open"):
            left -= 1
            if left < 0:
                raise Power
        return None

    files.next_fault = check  # type: ignore[method-assign]


@pytest.mark.parametrize("power_loss", [False, True])
@pytest.mark.parametrize("restart", [False, True])
def test_crash_during_a_truncation_leaves_a_prefix_of_the_old_log(power_loss: bool, restart: bool) -> None:
    target, step, finished = 13, 0, False
    while not finished:
        files = MemoryFiles()
        keeper = Keeper("/data/orders-0", files)
        log = keeper.open(**SEGMENTS)
        history(log, 40)
        log.flush()
        before = values(log)
        die_at(files, step)
        try:
            if restart:
                log.restart_at(100, now_wall_ms=NOW)
            else:
                log.truncate_to(target, now_wall_ms=NOW)
            finished = True
        except Power:
            pass
        del files.next_fault  # type: ignore[attr-defined]
        found = Keeper(keeper.directory, files.after_power_loss() if power_loss else files)
        log = found.open(clean=False, recovery_point=40, **SEGMENTS)
        if finished and restart:
            assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (100, 100, ())
            break
        assert finished or not restart or log.log_end_offset <= 40 or not log.size_bytes
        kept = log.log_end_offset
        if log.size_bytes:
            assert restart or target <= kept <= 40
            assert values(log) == before[: len(values(log))]
            other = Keeper("/data/copies-0", MemoryFiles()).open(**SEGMENTS)
            history(other, kept)
            assert state(log) == state(other), (step, kept)
        assert not any("LOST" in report for report in found.reports)
        if not restart:  # the follower truncates again, follows, and dies again
            log.truncate_to(target, now_wall_ms=NOW)
            for number in range(30):
                append(log, b"new %d" % number, leader_epoch=5)
            log.flush()
            wanted = state(log)
            again = Keeper(found.directory, found.files.after_power_loss() if power_loss else found.files)  # type: ignore[attr-defined]
            assert state(again.open(clean=False, recovery_point=target, **SEGMENTS)) == wanted, step
        step += 1
    assert step > 5
