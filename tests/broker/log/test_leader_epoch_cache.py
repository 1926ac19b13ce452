"""Leader epochs (KIP-101): end offsets of epochs, and their checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.broker.files import DiskFiles
from kcli.broker.log.leader_epoch_cache import EpochStart, LeaderEpochCache


def cache(folder: Path, *entries: tuple[int, int], reports: list[str] | None = None) -> LeaderEpochCache:
    folder.mkdir(exist_ok=True)
    epochs = LeaderEpochCache(str(folder), DiskFiles(), [].append if reports is None else reports.append)
    for epoch, start in entries:
        epochs.assign(epoch, start)
    return epochs


def test_end_of_an_epoch_is_the_start_of_the_next_known_one(tmp_path: Path) -> None:
    epochs = cache(tmp_path, (2, 10), (4, 20), (7, 30))
    assert [epochs.end_offset_for(epoch, 99) for epoch in (7, 4, 5, 6, 2, 3)] == [
        (7, 99), (4, 30), (4, 30), (4, 30), (2, 20), (2, 20),
    ]  # fmt: skip


def test_epoch_before_all_known_ones_ends_at_the_first_start_offset(tmp_path: Path) -> None:
    assert cache(tmp_path, (2, 10)).end_offset_for(1, 99) == (1, 10)


def test_unknown_epochs_have_no_end_offset(tmp_path: Path) -> None:
    epochs = cache(tmp_path, (2, 10))
    assert epochs.end_offset_for(3, 99) == epochs.end_offset_for(-1, 99) == (-1, -1)
    assert cache(tmp_path / "none").end_offset_for(0, 99) == (-1, -1)


def test_known_epoch_is_not_assigned_again(tmp_path: Path) -> None:
    epochs = cache(tmp_path, (0, 0), (0, 5), (1, 5))
    assert epochs.entries == (EpochStart(0, 0), EpochStart(1, 5))
    assert epochs.latest_epoch == 1


def test_entries_that_contradict_a_new_one_are_removed(tmp_path: Path) -> None:
    assert cache(tmp_path / "a", (1, 10), (2, 20), (3, 20)).entries == (EpochStart(1, 10), EpochStart(3, 20))
    assert cache(tmp_path / "b", (1, 10), (5, 20), (3, 15)).entries == (EpochStart(1, 10), EpochStart(3, 15))


def test_epoch_of_a_record_is_found_by_offset(tmp_path: Path) -> None:
    epochs = cache(tmp_path, (2, 10), (4, 20))
    assert [epochs.epoch_for(offset) for offset in (9, 10, 19, 20, 1000)] == [-1, 2, 2, 4, 4]


def test_truncation_removes_epochs(tmp_path: Path) -> None:
    epochs = cache(tmp_path, (2, 10), (4, 20), (7, 30))
    epochs.truncate_from_end(30)
    assert epochs.entries == (EpochStart(2, 10), EpochStart(4, 20))
    epochs.truncate_from_start(15)
    assert epochs.entries == (EpochStart(2, 15), EpochStart(4, 20))
    epochs.truncate_from_start(20)
    assert epochs.entries == (EpochStart(4, 20),)
    epochs.truncate_from_start(3)
    assert epochs.entries == (EpochStart(4, 20),)
    epochs.clear()
    assert epochs.latest_epoch == -1


def test_checkpoint_has_kafkas_format_and_is_read_again(tmp_path: Path) -> None:
    cache(tmp_path, (0, 0), (3, 12))
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 12\n"
    assert cache(tmp_path).entries == (EpochStart(0, 0), EpochStart(3, 12))


def test_damaged_checkpoint_is_reported_and_has_no_epochs(tmp_path: Path) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"\xff\0garbage")
    reports: list[str] = []
    assert cache(tmp_path, reports=reports).entries == ()
    assert [f"{tmp_path}/leader-epoch-checkpoint is damaged" in report for report in reports] == [True]


def test_negative_epochs_raise_value_error(tmp_path: Path) -> None:
    for entry in ((-1, 0), (0, -1)):
        with pytest.raises(ValueError, match="must not be negative"):
            cache(tmp_path, entry)
