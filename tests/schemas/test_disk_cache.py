"""Schemas on disk: by registry and id, refreshed when they are old or do not decode, and never a cause of a failure."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kcli.schemas.disk_cache import DiskCache, cache_folder
from kcli.schemas.schema import Reference, Schema
from kcli.schemas.serdes import DecodeError, make_decoder
from tests.schemas.known_registry import URL, KnownRegistry

REFERRED = Schema("PROTOBUF", 'syntax = "proto3";', (Reference("a.proto", "a", 3),), id=7)


def registry(folder: Path, schema: Any, url: str = URL) -> KnownRegistry:
    return KnownRegistry({"/schemas/ids/1": {"schema": json.dumps(schema)}}, folder=str(folder), url=url)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_schema_is_fetched_once_for_all_processes(tmp_path: Path):
    first, second = registry(tmp_path, "int"), registry(tmp_path, "int")
    assert first.schema(1) == first.schema(1) == second.schema(1)
    assert (first.asked, second.asked) == (["/schemas/ids/1"], [])
    (file,) = files(tmp_path)
    assert file.stat().st_mode & 0o077 == 0 or file.parent.stat().st_mode & 0o077 == 0


def test_file_keeps_all_of_a_schema(tmp_path: Path):
    cache = DiskCache(str(tmp_path), URL)
    cache.save(7, REFERRED)
    assert cache.load(7) == REFERRED
    assert cache.load(8) is None
    guid = "00000000-0000-0000-0000-000000000005"
    cache.save(guid, REFERRED)
    loaded = cache.load(guid)
    assert loaded is not None
    assert loaded.guid == guid


def test_each_registry_has_its_own_ids(tmp_path: Path):
    assert registry(tmp_path, "int").schema(1).text == '"int"'
    assert registry(tmp_path, "long", f"{URL}/other").schema(1).text == '"long"'


@pytest.mark.parametrize("url", ["http://localhost:8081", "http://127.0.0.1:8081", "http://[::1]:8081"])
def test_registry_of_this_machine_is_not_kept(tmp_path: Path, url: str):
    registry(tmp_path, "int", url).schema(1)
    assert files(tmp_path) == []


def test_schema_that_does_not_decode_is_fetched_again(tmp_path: Path):
    """The registry was made anew, and its ids have other schemas."""
    registry(tmp_path, "string").schema(1)
    known = registry(tmp_path, "long")
    decoder = make_decoder("avro", "value", registry=known)
    assert decoder.decode("t", [b"\0\0\0\0\1\4"]) == [2]
    assert known.asked == ["/schemas/ids/1"]
    (error,) = decoder.decode("t", [b"\0\0\0\0\1\4\4"])
    assert isinstance(error, DecodeError)
    assert known.asked == ["/schemas/ids/1"]  # it was not from disk any more
    assert registry(tmp_path, "none").schema(1).text == '"long"'


def test_schema_of_another_format_is_fetched_again(tmp_path: Path):
    registry(tmp_path, "long").schema(1)
    (file,) = files(tmp_path)
    file.write_text(json.dumps({"schema": 'syntax = "proto3"; message X {}', "schemaType": "PROTOBUF"}))
    known = registry(tmp_path, "long")
    assert make_decoder("avro", "value", registry=known).decode("t", [b"\0\0\0\0\1\4"]) == [2]
    assert known.asked == ["/schemas/ids/1"]


def test_old_file_is_replaced(tmp_path: Path):
    registry(tmp_path, "int").schema(1)
    (file,) = files(tmp_path)
    os.utime(file, (0, 0))
    assert registry(tmp_path, "long").schema(1).text == '"long"'
    assert registry(tmp_path, "none").schema(1).text == '"long"'


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b'{"schema": 5}', b"[" * 100_000, b'{"schema": "x", "references": 5}']
)
def test_damaged_file_is_ignored(tmp_path: Path, content: bytes):
    registry(tmp_path, "int").schema(1)
    (file,) = files(tmp_path)
    file.write_bytes(content)
    assert registry(tmp_path, "int").schema(1).text == '"int"'


def test_folder_that_cannot_be_written_is_ignored(tmp_path: Path):
    (tmp_path / "file").write_text("")
    assert registry(tmp_path / "file", "int").schema(1).text == '"int"'


def test_folder_of_the_users_caches():
    assert cache_folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == "/c/kcli/schemas"
    assert cache_folder({"XDG_CACHE_HOME": "relative", "HOME": "/h"}) == "/h/.cache/kcli/schemas"
    assert cache_folder({}) is None
