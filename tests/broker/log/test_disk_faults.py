"""A log on a failing disk: failed and torn writes, a full disk, power failures. Mostly on files in memory."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcli.broker.log.log import Log
from kcli.broker.testing.memory_files import Fault, MemoryFiles
from tests.broker.log.logs import Keeper, append, fill, values


@pytest.fixture
def files(memory_keeper: Keeper) -> MemoryFiles:
    assert isinstance(memory_keeper.files, MemoryFiles)
    return memory_keeper.files


def test_log_works_on_memory_files(memory_keeper: Keeper) -> None:
    log = memory_keeper.open(segment_bytes=500)
    wanted = fill(log, 9)
    assert values(log) == wanted
    log.close()
    log = memory_keeper.open()
    assert (values(log), memory_keeper.reports) == (wanted, [])
    log.delete()
    assert not memory_keeper.files.exists(memory_keeper.directory)


def test_failed_write_leaves_the_log_unchanged(memory_keeper: Keeper, files: MemoryFiles) -> None:
    log = memory_keeper.open()
    fill(log, 2)
    files.faults.append(Fault("append", ".log"))
    with pytest.raises(OSError, match="Input/output"):
        append(log, b"lost")
    assert log.log_end_offset == 2
    assert append(log, b"next").base_offset == 2
    assert values(log)[2:] == [b"next"]


@pytest.mark.parametrize("torn_bytes", [1, 11, 60, 61, 70])
def test_torn_write_is_truncated_at_the_next_start(memory_keeper: Keeper, files: MemoryFiles, torn_bytes: int) -> None:
    log = memory_keeper.open()
    wanted = fill(log, 5)
    files.faults.append(Fault("append", ".log", torn_bytes=torn_bytes))
    with pytest.raises(OSError):
        append(log, b"torn")
    log.close(clean=False)
    log = memory_keeper.open(clean=False)
    assert values(log) == wanted
    assert memory_keeper.reported(f"{torn_bytes} bytes were truncated")


def _takes(log: Log, value: bytes) -> bool:
    try:
        append(log, value)
    except OSError as problem:
        if problem.errno == errno.ENOSPC:
            return False
        raise
    return True


def test_full_disk_loses_no_acknowledged_record(memory_keeper: Keeper, files: MemoryFiles) -> None:
    files.capacity_bytes = 3000
    log = memory_keeper.open(segment_bytes=1000)
    acknowledged = [value for value in (b"%d" % number + b"x" * 100 for number in range(100)) if _takes(log, value)]
    assert len(acknowledged) > 5
    log.close(clean=False)
    files.capacity_bytes = None
    log = memory_keeper.open(clean=False, segment_bytes=1000)
    assert values(log) == acknowledged
    assert append(log, b"next").base_offset == len(acknowledged)


def test_no_record_is_written_when_the_epoch_cannot_be_stored(memory_keeper: Keeper, files: MemoryFiles) -> None:
    log = memory_keeper.open()
    files.faults.append(Fault("write_atomically", "leader-epoch-checkpoint"))
    with pytest.raises(OSError):
        append(log, b"a")
    assert log.log_end_offset == 0


def test_power_failure_loses_nothing_with_flush_messages_1(memory_keeper: Keeper, files: MemoryFiles) -> None:
    log = memory_keeper.open(flush_messages=1, segment_bytes=500)
    wanted = fill(log, 9)
    found = Keeper(memory_keeper.directory, files.after_power_loss())
    assert values(found.open(clean=False)) == wanted
    assert not found.reports


def test_power_failure_loses_only_unflushed_records(memory_keeper: Keeper, files: MemoryFiles) -> None:
    log = memory_keeper.open(segment_bytes=500)
    wanted = fill(log, 9)
    assert log.recovery_point == 8
    found = Keeper(memory_keeper.directory, files.after_power_loss())
    assert values(found.open(clean=False, recovery_point=8)) == wanted[:8]
    fill(log, 1, start=9)
    log.flush()
    found = Keeper(memory_keeper.directory, files.after_power_loss())
    assert len(values(found.open(clean=False, recovery_point=10))) == 10


def test_power_failure_after_a_clean_shutdown_loses_nothing(memory_keeper: Keeper, files: MemoryFiles) -> None:
    log = memory_keeper.open(segment_bytes=500)
    wanted = fill(log, 9)
    log.close()
    found = Keeper(memory_keeper.directory, files.after_power_loss())
    assert values(found.open(clean=True)) == wanted


def test_failed_fsync_does_not_move_the_recovery_point(memory_keeper: Keeper, files: MemoryFiles) -> None:
    log = memory_keeper.open(flush_messages=1)
    files.faults.append(Fault("sync", ".log"))
    with pytest.raises(OSError):
        append(log, b"a")
    assert log.recovery_point == 0


def test_files_are_not_synced_more_often_than_configured(memory_keeper: Keeper, files: MemoryFiles) -> None:
    log = memory_keeper.open()
    fill(log, 100)
    assert [path for operation, path in files.operations if operation == "sync"] == []
    log.flush(), log.flush()
    assert len([path for operation, path in files.operations if operation == "sync"]) == 1


# ---- a real disk ----

_FILL_UP = """
import resource, sys
from pathlib import Path
from tests.broker.log.logs import Keeper, append
resource.setrlimit(resource.RLIMIT_FSIZE, (14_000, 14_000))
log = Keeper(sys.argv[1]).open()
for number in range(1000):
    try:
        append(log, b"%d:" % number + b"x" * 900)
    except OSError as problem:
        print(log.log_end_offset, problem.errno)
        break
"""


def test_append_beyond_the_file_size_limit_fails_and_keeps_other_records(keeper: Keeper) -> None:
    """`ulimit -f` imitates a full disk: the torn end of the last write is truncated at once."""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", _FILL_UP, keeper.directory],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(root)}, cwd=root,
        timeout=120,
    )  # fmt: skip
    end, code = map(int, done.stdout.split())
    assert (end, code) == (14, errno.EFBIG)
    log = keeper.open(clean=False)
    assert [value[:3] for value in values(log) if value] == [b"%d:" % n + b"x" * (2 - len(str(n))) for n in range(14)]
    assert keeper.reports == []
