"""Files and folders with secrets: only their owner can read them, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.broker.testing.embedded_cluster import EmbeddedCluster
from kcli.cli.completion.cached_names import Cache
from kcli.private_files import make_folder, write_text
from kcli.schemas.disk_cache import DiskCache
from kcli.schemas.schema import Schema


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def readable_by_others(top: Path) -> list[str]:
    """Return the files and folders below `top` that have any right for another user."""
    return [str(path.relative_to(top)) for path in sorted(top.rglob("*")) if stat.S_IMODE(path.lstat().st_mode) & 0o077]


def test_a_folder_and_its_parents_are_private(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b" / "c")
    make_folder(tmp_path / "a" / "b" / "c")
    assert readable_by_others(tmp_path) == []
    (tmp_path / "file").touch(0o600)
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError):
            make_folder(path)


def test_a_folder_that_can_have_no_folders_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        make_folder("/proc/nowhere/below")


def test_a_file_is_private_and_a_shared_one_becomes_so(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("a longer text from before")
    for name in ("old", "new"):
        write_text(tmp_path / name, "secret é")
        assert (tmp_path / name).read_text("utf-8") == "secret é"
    assert readable_by_others(tmp_path) == []


def test_a_broker_writes_only_private_files(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "parent" / "data", security="SASL_PLAINTEXT", users={"alice": "secret"}) as broker:
        broker.create_topic("t")
        broker.write_client_properties(tmp_path / "client.properties")
    assert (tmp_path / "parent" / "data" / "t-0" / "partition.metadata").exists()
    assert readable_by_others(tmp_path) == []


def test_the_metadata_log_of_a_cluster_is_private(tmp_path: Path) -> None:
    """It has the SCRAM keys of all users."""
    with EmbeddedCluster(1, tmp_path / "parent" / "cluster") as cluster:
        cluster.create_topic("t")
    [log] = tmp_path.rglob("__cluster_metadata-0/*.log")
    assert log.stat().st_size > 0
    assert readable_by_others(tmp_path) == []


def test_folders_of_the_client_are_private(tmp_path: Path) -> None:
    assert Cache.of_user({"XDG_CACHE_HOME": str(tmp_path / "cache" / "below")}).folder is not None
    DiskCache(str(tmp_path / "schemas" / "below"), "https://registry:1").save(1, Schema("AVRO", '"int"', id=1))
    assert [path.name for path in tmp_path.rglob("1.json")] == ["1.json"]
    assert [path for path in readable_by_others(tmp_path) if (tmp_path / path).is_dir()] == []
