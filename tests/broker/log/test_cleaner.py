"""The log cleaner on real segments: steps, crashes, and concurrent deletions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kcli.broker.files import DiskFiles
from kcli.broker.log.cleaner import LogCleaner, read_batches
from kcli.broker.log.log import Log
from kcli.broker.log.log_config import LogConfig
from kcli.broker.log.producer_checks import NOT_VERIFIED
from kcli.protocol.records.batch import read_batch_info
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.scan import iter_records
from kcli.structs import TopicPartition
from tests.broker.log.logs import Transactions, marker, scan_committed

CAPTURE = Path(__file__).parents[2] / "vectors" / "compaction-transactions.txt"
TP = TopicPartition("comp", 0)
NOW = 1_700_000_000_000
DAY = 86_400_000
COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}))

Row = tuple[bytes, bytes | None]


class Bench:
    """A log and its cleaner."""

    def __init__(self, folder: Path, config: LogConfig = COMPACT, *, clean: bool = True) -> None:
        self.folder = folder
        self.config = config
        self.reports: list[str] = []
        self.log = self.open_log(clean=clean)
        self.cleaner = self.new_cleaner()

    def open_log(self, *, clean: bool) -> Log:
        log = Log.open(
            str(self.folder / "comp-0"),
            TP,
            UUID(int=1),
            self.config,
            DiskFiles(),
            clean=clean,
            now_wall_ms=NOW,
            report=self.reports.append,
        )
        log.advance_high_watermark(log.log_end_offset)
        return log

    def new_cleaner(self, **options: Any) -> LogCleaner:
        path = str(self.folder / "cleaner-offset-checkpoint")
        settings = {"dedupe_buffer_bytes": 1 << 20} | options
        return LogCleaner(DiskFiles(), path, report=self.reports.append, **settings)

    def append(self, *rows: Row, **options: Any) -> None:
        data = build_batch([NewRecord(key, value, NOW) for key, value in rows], **options)
        verification = {"verification": NOT_VERIFIED, "from_client": False}
        self.log.append(bytearray(data), leader_epoch=0, now_wall_ms=NOW, **verification)
        self.log.advance_high_watermark(self.log.log_end_offset)

    def roll(self) -> None:
        self.log.roll(NOW)

    def clean(self, now: int = NOW) -> int:
        """Clean until nothing is left to clean; return the number of steps."""
        steps = 0
        while self.cleaner.step({TP: self.log}, now):
            steps += 1
            assert steps < 10_000
        return steps

    def contents(self, log: Log | None = None) -> dict[int, Row]:
        found = {}
        for segment in (log or self.log).segments:
            for _, info in segment.batches(bodies=True):
                for record in iter_records(info.records):
                    assert record.key is not None
                    found[record.offset] = (record.key, record.value)
        return found

    def committed(self) -> dict[int, Row]:
        """Return the records that a read_committed consumer gets."""
        return {record.offset: (record.key or b"", record.value) for record in scan_committed(self.log)}

    def newest(self) -> dict[bytes, bytes | None]:
        """Return the newest committed value of each key."""
        return dict(self.committed().values())

    def files(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "comp-0").glob("0*"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_latest_record_of_each_key_keeps_its_offset(bench: Bench) -> None:
    bench.append((b"a", b"1"), (b"b", b"1"))
    bench.roll()
    bench.append((b"a", b"2"), (b"c", b"1"))
    bench.roll()
    bench.append((b"c", b"2"))
    bench.clean()
    assert bench.contents() == {1: (b"b", b"1"), 2: (b"a", b"2"), 3: (b"c", b"1"), 4: (b"c", b"2")}
    assert [segment.base_offset for segment in bench.log.segments] == [0, 4]
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (0, 5)
    assert (bench.folder / "cleaner-offset-checkpoint").read_text() == "0\n1\ncomp 0 4\n"
    assert bench.clean() == 0


def test_read_in_an_offset_gap_returns_the_next_batch(bench: Bench) -> None:
    for number in range(20):
        bench.append((b"a", b"%d" % number))
    bench.append((b"b", b"1"))
    bench.roll()
    bench.append((b"c", b"1"))
    bench.clean()
    read = bench.log.read(0, 1 << 20, upto=22, min_one_message=True)
    assert read.records is not None
    assert read_batch_info(bytes(read.records)).base_offset == 19


def test_cleaned_log_is_the_same_after_a_restart(bench: Bench) -> None:
    for number in range(3):
        bench.append((b"a", b"%d" % number), (b"k%d" % number, b"x"))
        bench.roll()
    bench.append((b"a", b"9"))
    bench.clean()
    for clean in (True, False):
        bench.log.close(clean=clean)
        again = bench.open_log(clean=clean)
        assert bench.contents(again) == bench.contents()
        assert again.log_end_offset == 7
    assert bench.reports == []


def test_producer_snapshots_of_merged_segments_are_removed(bench: Bench) -> None:
    for number in range(3):
        bench.append((b"a", b"%d" % number), producer_id=7, producer_epoch=0, base_sequence=number)
        bench.roll()
    bench.append((b"a", b"9"))
    assert bench.log.producers.snapshots() == [1, 2, 3]
    bench.clean()
    assert bench.log.producers.snapshots() == [3]


def test_reads_skip_a_segment_without_remaining_records(bench: Bench) -> None:
    bench.append((b"a", b"1"))
    bench.roll()
    bench.append((b"a", b"2"))
    bench.roll()
    bench.append((b"z", b"1"))
    bench.cleaner.cleaned_up_to[TP] = 0
    bench.log.config = bench.config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=100)
    bench.clean()
    assert bench.contents() == {1: (b"a", b"2"), 2: (b"z", b"1")}
    read = bench.log.read(0, 1 << 20, upto=3, min_one_message=True)
    assert read.records is not None
    assert read_batch_info(bytes(read.records)).base_offset == 1
    bench.log.close(clean=False)
    assert bench.contents(bench.open_log(clean=False)) == bench.contents()


def test_tombstones_are_removed_after_delete_retention_ms(bench: Bench) -> None:
    bench.append((b"a", b"1"))
    bench.append((b"a", None))
    bench.roll()
    bench.append((b"b", b"1"))
    bench.clean()
    assert bench.contents() == {1: (b"a", None), 2: (b"b", b"1")}
    bench.append((b"b", b"2"))
    bench.roll()
    bench.append((b"c", b"1"))
    bench.clean(NOW + DAY)
    assert bench.contents() == {3: (b"b", b"2"), 4: (b"c", b"1")}


def test_tombstones_with_the_longest_retention_are_kept(bench: Bench) -> None:
    """The delete horizon is a wall clock time in the batch, which would be beyond 64 bits."""
    bench.log.config = bench.config = COMPACT._replace(delete_retention_ms=2**63 - 1)
    bench.append((b"a", b"1"))
    bench.append((b"a", None))
    bench.roll()
    bench.append((b"b", b"1"))
    for days in range(3):
        bench.clean(NOW + days * DAY)
        bench.append((b"b", b"2"))
        bench.roll()
    assert bench.contents()[1] == (b"a", None)
    assert bench.reports == []


def test_last_batch_of_a_producer_is_kept(bench: Bench) -> None:
    bench.append((b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=41)
    bench.append((b"a", b"2"))
    bench.roll()
    bench.append((b"b", b"1"))
    bench.clean()
    infos = [info for _, info in bench.log.segments[0].batches()]
    assert [(info.base_offset, info.record_count) for info in infos] == [(0, 0), (1, 1)]
    bench.log.close(clean=False)
    for snapshot in bench.log.producers.snapshots():
        bench.log.producers.delete_snapshot(snapshot)
    again = bench.open_log(clean=False)
    assert again.producers.producers[7].batches[-1].last_sequence == 41


def test_keys_beyond_the_dedupe_buffer_are_cleaned_in_the_next_pass(bench: Bench) -> None:
    bench.cleaner = bench.new_cleaner(dedupe_buffer_bytes=24 * 10)
    for number in range(100):
        bench.append((b"k%d" % (number % 50), b"%d" % number))
    bench.roll()
    bench.append((b"z", b"1"))
    steps = bench.clean()
    assert bench.contents() == {n: (b"k%d" % (n - 50), b"%d" % n) for n in range(50, 100)} | {100: (b"z", b"1")}
    assert steps > 5


def test_one_step_reads_a_bounded_number_of_bytes(bench: Bench) -> None:
    for number in range(60):
        bench.append((b"k%d" % (number % 7), b"v" * 16_000))
    bench.roll()
    bench.append((b"z", b"1"))
    assert bench.clean() >= 2 * 60 * 16_000 // (80 * 1024)
    assert len(bench.contents()) == 8


def test_one_step_reads_few_batches_that_are_large_in_memory(bench: Bench) -> None:
    for number in range(40):
        bench.append((b"%d" % number, bytes(1_000_000)), compression="zstd")
    bench.roll()
    assert bench.log.size_bytes < 40_000
    assert bench.clean() > 20  # four batches in each step, and the log is read twice


def test_dirtiest_log_is_cleaned_first(bench: Bench, tmp_path: Path) -> None:
    other = Bench(tmp_path / "other")
    clean, dirty = TopicPartition("clean", 0), TopicPartition("dirty", 0)
    bench.log.tp, other.log.tp = clean, dirty
    for one in (bench, other):
        for _ in range(2):
            one.append((b"a", b"1"))
            one.roll()
        one.append((b"b", b"1"))
    bench.cleaner.cleaned_up_to[clean] = 1
    other.config = other.log.config = bench.log.config = LogConfig(
        cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.1
    )
    bench.cleaner.step({clean: bench.log, dirty: other.log}, NOW)
    assert "dirty" in repr(bench.cleaner)
    bench.cleaner.abandon()


def test_a_batch_above_the_decompressed_limit_is_kept_and_the_cleaning_goes_on(bench: Bench) -> None:
    bench.append((b"a", b"1"), (b"b", b"1"))
    bench.append((b"a", bytes(100_000)), (b"c", b"1"), compression="zstd")
    bench.append((b"b", b"2"), (b"c", b"2"))
    bench.roll()
    bench.append((b"d", b"1"))
    bench.log.max_decompressed_bytes = 50_000
    bench.clean()
    assert bench.reports == []
    # What supersedes, and what is superseded, within the large batch is not known.
    assert sorted(bench.contents()) == [0, 2, 3, 4, 5, 6]
    bench.log.max_decompressed_bytes = 200_000
    bench.append((b"e", b"1"))
    bench.roll()
    bench.cleaner.cleaned_up_to.clear()
    bench.clean()
    assert sorted(bench.contents()) == [2, 4, 5, 6, 7]


def test_topics_without_compaction_are_not_cleaned(tmp_path: Path) -> None:
    bench = Bench(tmp_path, LogConfig())
    bench.append((b"a", b"1"), (b"a", b"2"))
    bench.roll()
    bench.append((b"b", b"1"))
    assert bench.clean() == 0


def test_damaged_log_is_reported_once_and_not_changed(bench: Bench) -> None:
    bench.append((b"a", b"1"), (b"a", b"2"))
    bench.roll()
    bench.append((b"b", b"1"))
    path = bench.folder / "comp-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    before = bench.files()
    bench.clean()
    assert bench.clean() == 0
    assert len(bench.reports) == 1
    assert "comp-0 will not be compacted any more" in bench.reports[0]
    assert "checksum" in bench.reports[0]
    assert (bench.files(), path.read_bytes()) == (before, bytes(data))


# ---- transactions ----


def captured_cleanings() -> list[tuple[int, dict[str, bytes], dict[str, bytes]]]:
    """Return the time, the files before and the cleaned files after each cleaning of Apache Kafka."""
    cleanings: list[tuple[int, dict[str, bytes], dict[str, bytes]]] = []
    for line in CAPTURE.read_text().splitlines():
        if not line.startswith("#"):
            what, name, data = line.split()
            if what == "cleaning":
                cleanings.append((int(data), {}, {}))
            else:
                cleanings[-1][1 if what == "before" else 2][name] = bytes.fromhex(data)
    return cleanings


@pytest.mark.parametrize(("now", "before", "after"), captured_cleanings(), ids=["first", "second", "after retention"])
def test_cleaned_transactions_equal_those_of_apache_kafkas_cleaner(
    tmp_path: Path, now: int, before: dict[str, bytes], after: dict[str, bytes]
) -> None:
    """Committed and aborted transactions, one of them in two segments, a tombstone, and markers without records."""
    folder = tmp_path / "comp-0"
    folder.mkdir()
    for name, data in before.items():
        (folder / name).write_bytes(data)
    bench = Bench(tmp_path, COMPACT._replace(min_cleanable_dirty_ratio=0.001, delete_retention_ms=20_000), clean=False)
    bench.clean(now)
    assert {name: (folder / name).read_bytes() for name in after} == after
    assert len(bench.log.segments) == 2


def test_records_of_an_open_transaction_are_not_cleaned(bench: Bench) -> None:
    bench.append((b"a", b"1"))
    bench.roll()
    bench.append((b"a", b"2"))
    bench.append((b"a", b"open"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    bench.roll()
    bench.append((b"b", b"1"))
    bench.cleaner.cleaned_up_to[TP] = 0
    bench.clean()
    assert bench.contents() == {0: (b"a", b"1"), 1: (b"a", b"2"), 2: (b"a", b"open"), 3: (b"b", b"1")}
    bench.log.append(marker(7, commit=False), leader_epoch=0, now_wall_ms=NOW, from_client=False)
    bench.log.advance_high_watermark(5)
    bench.clean()
    assert bench.committed() == {1: (b"a", b"2"), 3: (b"b", b"1")}


@pytest.mark.parametrize("seed", range(8))
def test_cleaning_keeps_the_newest_committed_record_of_each_key(bench: Bench, seed: int) -> None:
    """Random transactions, cleanings and restarts; in the end the markers of empty transactions are removed."""
    chance, now = random.Random(seed), NOW
    bench.log.config = bench.config = COMPACT._replace(min_cleanable_dirty_ratio=0.001, delete_retention_ms=1000)
    newest: dict[bytes, bytes] = {}
    pending: dict[int, dict[bytes, bytes]] = {}
    story = Transactions(bench.log)
    for number in range(300):
        key, value, producer = b"k%d" % chance.randrange(12), b"%d" % number, chance.randrange(4)
        action = chance.random()
        if action < 0.08:
            bench.roll()
        elif action < 0.14:
            now += chance.randrange(800)
            bench.clean(now)
        elif action < 0.18:
            clean = chance.random() < 0.5
            bench.log.close(clean=clean)
            bench.log = story.log = bench.open_log(clean=clean)
        elif action < 0.4 and producer in pending:
            is_commit = chance.random() < 0.5
            story.end(producer, commit=is_commit)
            for own_key, own_value in pending.pop(producer).items():
                if is_commit and int(own_value) > int(newest.get(own_key, b"-1")):  # the higher offset wins
                    newest[own_key] = own_value
        elif producer == 3:
            story.write(None, value, key=key)
            newest[key] = value
        else:
            story.write(producer, value, key=key)
            pending.setdefault(producer, {})[key] = value
    for producer in pending:
        story.end(producer, commit=False)
    assert bench.newest() == newest
    bench.roll()
    story.write(None, b"end", key=b"end")
    for _ in range(4):
        bench.clean(now := now + 2000)
        bench.cleaner.cleaned_up_to[TP] = 0
    assert bench.newest() == newest | {b"end": b"end"}
    assert len(bench.committed()) == len(newest) + 1
    markers = [info for one in bench.log.segments for info in read_batches(one) if info.is_control]
    assert len([info for info in markers if info.record_count]) <= len(newest) + 3


@pytest.mark.parametrize("steps", range(1, 11))
def test_crash_during_cleaning_loses_no_records(bench: Bench, steps: int) -> None:
    for number in range(40):
        bench.append((b"k%d" % (number % 7), b"v" * 9000))
    bench.roll()
    bench.append((b"z", b"1"))
    before = bench.contents()
    for _ in range(steps):
        assert bench.cleaner.step({TP: bench.log}, NOW)
    bench.log.close(clean=False)  # the .cleaned file remains, as after kill -9
    again = bench.open_log(clean=False)
    assert bench.contents(again) == before
    assert not any("cleaned" in name for name in bench.files())


def test_cleaning_is_cancelled_when_records_are_deleted_meanwhile(bench: Bench) -> None:
    for number in range(40):
        bench.append((b"k%d" % (number % 7), b"v" * 9000))
        if number == 20:
            bench.roll()
    bench.roll()
    bench.append((b"z", b"1"))
    while not any("cleaned" in name for name in bench.files()):
        assert bench.cleaner.step({TP: bench.log}, NOW)
    bench.log.delete_records(25)
    bench.cleaner.step({TP: bench.log}, NOW)
    assert not any("cleaned" in name for name in bench.files())
    assert (bench.log.log_start_offset, len(bench.log.segments)) == (25, 2)
    bench.clean()
    assert [offset for offset in bench.contents() if offset >= 25] == [*range(33, 41)]
    assert bench.reports == []


def test_deleted_partition_is_forgotten(bench: Bench) -> None:
    for number in range(40):
        bench.append((b"k%d" % (number % 7), b"v" * 9000))
    bench.roll()
    bench.append((b"z", b"1"))
    bench.cleaner.cleaned_up_to[TP] = 0
    while not any("cleaned" in name for name in bench.files()):
        assert bench.cleaner.step({TP: bench.log}, NOW)
    bench.cleaner.forget(TP)
    assert not any("cleaned" in name for name in bench.files())
    assert (bench.folder / "cleaner-offset-checkpoint").read_text() == "0\n0\n"
    assert not bench.cleaner.step({}, NOW)
