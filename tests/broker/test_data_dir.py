"""Data directory: identity, lock, clean shutdown marker, and partition directories."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from kcli.broker.data_dir import DataDir, parse_uuid, read_topic_id, uuid_text, write_topic_id
from kcli.broker.files import DiskFiles
from kcli.errors import ConfigError
from kcli.structs import TopicPartition

# meta.properties as written by the StorageTool of Apache Kafka 4.3.1.
REAL_META = """#
#Sat Nov 21 02:34:53 UTC 2026
node.id=1
directory.id=ARgijS1cRsCP2hp1SC3qHg
version=1
cluster.id=21Mn6F1BRPmTbRv5B9l0PA
"""


def open_dir(path: Path, node_id: int = 1) -> DataDir:
    return DataDir(str(path), DiskFiles(), node_id=node_id)


def test_new_directory_is_created_and_keeps_its_identity(tmp_path: Path) -> None:
    first = open_dir(tmp_path / "a" / "b")
    meta = (tmp_path / "a" / "b" / "meta.properties").read_text()
    assert f"node.id=1\nversion=1\ndirectory.id={first.directory_id}\ncluster.id={first.cluster_id}\n" == meta
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", first.cluster_id)
    first.release()
    again = open_dir(tmp_path / "a" / "b")
    assert (again.cluster_id, again.directory_id) == (first.cluster_id, first.directory_id)
    again.release()


def test_directory_of_a_real_kafka_keeps_its_identity(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(REAL_META)
    directory = open_dir(tmp_path)
    assert (directory.cluster_id, directory.directory_id) == ("21Mn6F1BRPmTbRv5B9l0PA", "ARgijS1cRsCP2hp1SC3qHg")
    assert (tmp_path / "meta.properties").read_text() == REAL_META
    directory.release()


def test_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(REAL_META)
    with pytest.raises(ConfigError, match=r"belongs to node 1, not to node 2"):
        open_dir(tmp_path, node_id=2)
    open_dir(tmp_path, node_id=1).release()  # the failed open released the lock


def test_directory_of_version_0_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=x\n")
    with pytest.raises(ConfigError, match="version 0"):
        open_dir(tmp_path)


@pytest.mark.parametrize("text", ["", "#\n# Fri Nov 20 2026\n"])
def test_directory_that_lost_its_identity_is_refused(tmp_path: Path, text: str) -> None:
    """It would get a new cluster id, which clients and tools compare."""
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(ConfigError, match=r"meta\.properties is empty; restore it, or remove it"):
        open_dir(tmp_path)


@pytest.mark.parametrize("text", ["", "ARgijS1cRsCP2hp1SC3qH", "not an id"])
def test_directory_id_that_is_not_valid_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id=c\ndirectory.id={text}\n")
    with pytest.raises(ConfigError, match=f"meta.properties: directory.id '{text}' is not valid"):
        open_dir(tmp_path)


def test_lock_excludes_a_second_broker_in_this_process(tmp_path: Path) -> None:
    first = open_dir(tmp_path)
    with pytest.raises(ConfigError, match="another broker uses"):
        open_dir(tmp_path)
    first.release()
    first.release()
    open_dir(tmp_path).release()


def test_lock_excludes_another_process(tmp_path: Path) -> None:
    first = open_dir(tmp_path)
    code = f"import sys; sys.argv = [{str(tmp_path)!r}]\n" + (
        "from kcli.broker.data_dir import DataDir; from kcli.broker.files import DiskFiles\n"
        "DataDir(sys.argv[0], DiskFiles(), node_id=1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "another broker uses the data directory" in done.stderr
    first.release()
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120).returncode == 0


def test_directory_that_cannot_be_created_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"the data directory .*file.* cannot be used: "):
        open_dir(tmp_path / "file")


def test_clean_shutdown_marker_has_kafkas_format(tmp_path: Path) -> None:
    directory = open_dir(tmp_path)
    assert not directory.was_left_clean
    directory.mark_clean()
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    assert directory.was_left_clean
    directory.mark_in_use()
    directory.mark_in_use()
    assert not directory.was_left_clean


def test_partitions_are_listed_and_foreign_directories_are_skipped(tmp_path: Path) -> None:
    for name in ("orders-0", "my.topic-x-12", "__cluster_metadata-0", "remote-log-index-cache"):
        (tmp_path / name).mkdir()
    for name in ("orders-1." + "0f" * 16 + "-delete", "orders-2." + "0f" * 16 + "-stray"):
        (tmp_path / name).mkdir()
    (tmp_path / "bootstrap.checkpoint").write_text("a file")
    directory = open_dir(tmp_path)
    assert directory.partitions() == {
        TopicPartition("orders", 0): str(tmp_path / "orders-0"),
        TopicPartition("my.topic-x", 12): str(tmp_path / "my.topic-x-12"),
    }
    assert directory.deleted() == [str(tmp_path / ("orders-1." + "0f" * 16 + "-delete"))]
    directory.release()


@pytest.mark.parametrize("name", ["photos", "orders-", "orders-01", "orders-x", "-0", "a b-0"])
def test_stray_directory_is_reported_with_its_path(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    directory = open_dir(tmp_path)
    with pytest.raises(ConfigError, match=re.escape(str(tmp_path / name))):
        directory.partitions()


def test_name_of_a_deleted_partition_fits_the_file_system_limit(tmp_path: Path) -> None:
    directory = open_dir(tmp_path)
    for topic in ("t", "t" * 249):
        path = Path(directory.name_deleted(TopicPartition(topic, 1000)))
        path.mkdir()
        assert str(path) in directory.deleted()
    assert directory.partitions() == {}
    directory.release()


def test_topic_id_is_stored_in_kafkas_format(tmp_path: Path) -> None:
    topic_id = parse_uuid("IB9zfvVqQieu_ck8RzzwZQ")
    assert topic_id == UUID("201f737e-f56a-4227-aefd-c93c473cf065")
    assert uuid_text(topic_id) == "IB9zfvVqQieu_ck8RzzwZQ"
    files = DiskFiles()
    assert read_topic_id(files, str(tmp_path)) is None
    write_topic_id(files, str(tmp_path), topic_id)
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: IB9zfvVqQieu_ck8RzzwZQ"
    assert read_topic_id(files, str(tmp_path)) == topic_id


@pytest.mark.parametrize("text", ["garbage", "version: 1\ntopic_id: IB9zfvVqQieu_ck8RzzwZQ", "version: 0\ntopic_id: x"])
def test_damaged_partition_metadata_is_reported_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "partition.metadata").write_text(text)
    with pytest.raises(ConfigError, match=r"partition\.metadata is damaged"):
        read_topic_id(DiskFiles(), str(tmp_path))


def test_empty_partition_metadata_has_no_topic_id(tmp_path: Path) -> None:
    (tmp_path / "partition.metadata").write_text("")
    assert read_topic_id(DiskFiles(), str(tmp_path)) is None
