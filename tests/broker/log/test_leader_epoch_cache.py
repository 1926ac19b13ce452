"""Leader epochs (KIP-101): which epoch ended where, and the checkpoint that keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.broker.files import DiskFiles
from kcli.broker.log.leader_epoch_cache import EpochStart, LeaderEpochCache
from kcli.errors import ConfigError


def cache(folder: Path, *entries: tuple[int, int]) -> LeaderEpochCache:
    folder.mkdir(exist_ok=True)
    epochs = LeaderEpochCache(str(folder), DiskFiles())
    for epoch, start in entries:
        epochs.assign(epoch, start)
    return epochs


def test_the_end_of_an_epoch_is_the_start_of_the_next_known_one(tmp_path: Path) -> None:
    epochs = cache(tmp_path, (2, 10), (4, 20), (7, 30))
    assert [epochs.end_offset_for(epoch, 99) for epoch in (7, 4, 5, 6, 2, 3)] == [
        (7, 99), (4, 30), (4, 30), (4, 30), (2, 20), (2, 20),
    ]  # fmt: skip


def test_an_epoch_before_all_that_are_known_ends_where_the_first_begins(tmp_path: Path) -> None:
    assert cache(tmp_path, (2, 10)).end_offset_for(1, 99) == (1, 10)


def test_epochs_that_nobody_has_heard_of_have_no_end(tmp_path: Path) -> None:
    epochs = cache(tmp_path, (2, 10))
    assert epochs.end_offset_for(3, 99) == epochs.end_offset_for(-1, 99) == (-1, -1)
    assert cache(tmp_path / "none").end_offset_for(0, 99) == (-1, -1)


def test_an_epoch_is_noted_once(tmp_path: Path) -> None:
    epochs = cache(tmp_path, (0, 0), (0, 5), (1, 5))
    assert epochs.entries == (EpochStart(0, 0), EpochStart(1, 5))
    assert epochs.latest_epoch == 1


def test_what_contradicts_a_new_entry_goes(tmp_path: Path) -> None:
    assert cache(tmp_path / "a", (1, 10), (2, 20), (3, 20)).entries == (EpochStart(1, 10), EpochStart(3, 20))
    assert cache(tmp_path / "b", (1, 10), (5, 20), (3, 15)).entries == (EpochStart(1, 10), EpochStart(3, 15))


def test_the_epoch_of_a_record(tmp_path: Path) -> None:
    epochs = cache(tmp_path, (2, 10), (4, 20))
    assert [epochs.epoch_for(offset) for offset in (9, 10, 19, 20, 1000)] == [-1, 2, 2, 4, 4]


def test_cutting_the_log_forgets_epochs(tmp_path: Path) -> None:
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


def test_the_checkpoint_is_kafkas_and_is_read_again(tmp_path: Path) -> None:
    cache(tmp_path, (0, 0), (3, 12))
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 12\n"
    assert cache(tmp_path).entries == (EpochStart(0, 0), EpochStart(3, 12))


def test_garbage_in_the_checkpoint_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"\xff\0garbage")
    with pytest.raises(ConfigError, match="leader-epoch-checkpoint is damaged") as caught:
        cache(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_impossible_epochs_are_a_bug(tmp_path: Path) -> None:
    for entry in ((-1, 0), (0, -1)):
        with pytest.raises(ValueError, match="must not be negative"):
            cache(tmp_path, entry)
