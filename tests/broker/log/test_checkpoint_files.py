"""Checkpoint files in the format of Apache Kafka 4.3.1; errors name the damaged file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.broker.files import DiskFiles
from kcli.broker.log.checkpoint_files import read_offsets, write_offsets
from kcli.errors import ConfigError
from kcli.structs import TopicPartition

REAL = "0\n3\norders 0 3000\norders 1 0\ncomp 0 902\n"
OFFSETS = {TopicPartition("orders", 0): 3000, TopicPartition("orders", 1): 0, TopicPartition("comp", 0): 902}


def test_checkpoint_of_apache_kafka_is_read(tmp_path: Path) -> None:
    (tmp_path / "c").write_text(REAL)
    assert read_offsets(DiskFiles(), str(tmp_path / "c")) == OFFSETS


def test_written_checkpoint_has_kafkas_format(tmp_path: Path) -> None:
    write_offsets(DiskFiles(), str(tmp_path / "c"), OFFSETS)
    assert (tmp_path / "c").read_text() == "0\n3\ncomp 0 902\norders 0 3000\norders 1 0\n"
    assert read_offsets(DiskFiles(), str(tmp_path / "c")) == OFFSETS


def test_checkpoint_without_rows_has_a_count_of_zero(tmp_path: Path) -> None:
    write_offsets(DiskFiles(), str(tmp_path / "c"), {})
    assert (tmp_path / "c").read_text() == "0\n0\n"


def test_missing_and_empty_files_have_no_offsets(tmp_path: Path) -> None:
    """Apache Kafka creates cleaner-offset-checkpoint empty at its start."""
    (tmp_path / "empty").write_bytes(b"")
    assert read_offsets(DiskFiles(), str(tmp_path / "empty")) == {}
    assert read_offsets(DiskFiles(), str(tmp_path / "c")) == {}


@pytest.mark.parametrize(
    "text",
    ["garbage", "1\n0\n", "0\n", "0\n2\norders 0 1\n", "0\n1\norders 0\n", "0\n1\norders 0 1 2\n",
     "0\n1\norders 0 -1\n", "0\n1\norders x 1\n", "0\nx\n", "\0" * 40, "\xff\xfe"],
)  # fmt: skip
def test_damaged_checkpoint_raises_an_error_with_its_file_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="recovery-point-offset-checkpoint") as caught:
        read_offsets(DiskFiles(), str(path))
    assert str(path) in str(caught.value)
