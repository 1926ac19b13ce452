"""Exchange of small files by larger ones: interrupted at every step, nothing is lost. No JVM; the files are text."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import KcliError, Refused
from kcli.spark.pipelines.files.compact_files import (
    WORK,
    DataFile,
    Swap,
    commit,
    finish_interrupted,
    list_files,
    locked,
    plan_groups,
)

LOG = "_spark_metadata/19.compact"


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def entry(folder: Path, name: str) -> dict[str, Any]:
    path = (folder / name.replace("%", "%25")).as_uri().replace("%2525", "%25")
    return {"path": path, "size": 1, "isDir": False, "modificationTime": 5, "blockSize": 3, "action": "add"}


class Lake:
    """A folder with six small files in two partition folders; the new files are staged."""

    def __init__(self, folder: Path, *, of_stream: bool) -> None:
        self.folder = folder
        self.log = LOG if of_stream else None
        self.names = [f"dt={day}/part-{number}.parquet" for day in (1, 2) for number in range(3)]
        for name in self.names:
            put(folder / name, f"{name}\n")
            put((folder / name).with_name(f".{Path(name).name}.crc"), "old checksum")
        self.swaps = []
        for day in (1, 2):
            old = tuple(name for name in self.names if name.startswith(f"dt={day}/"))
            staged = f"{WORK}/{day}/part-x.parquet"
            put(folder / staged, "".join(f"{name}\n" for name in old))
            put(folder / f"{WORK}/{day}/.part-x.parquet.crc", "new checksum")
            self.swaps.append(Swap(f"dt={day}/part-new.parquet", staged, old))
        if of_stream:
            lines = [json.dumps(entry(folder, name)) for name in self.names]
            put(folder / LOG, "\n".join(["v1", *lines]))
            put(folder / "_spark_metadata/.19.compact.crc")

    def records(self) -> Counter[str]:
        """The records that readers see: those of the files in the list of a stream, or of all visible files."""
        names = [file.path for file in list_files(self.folder).files]
        assert self.log is not None or names == sorted(names)
        return Counter(line for name in names for line in (self.folder / name).read_text().splitlines())


class Killed(BaseException):
    """The end of the process."""


def kill_at(monkeypatch: pytest.MonkeyPatch, step: int) -> Callable[[], int]:
    """Raise Killed at a step: each rename, deletion, and write of a file is one. Return the counter of steps."""
    steps = 0

    def counting(real: Any) -> Any:
        def act(*arguments: Any, **options: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == step:
                raise Killed
            return real(*arguments, **options)

        return act

    for name in ("replace", "unlink"):
        monkeypatch.setattr(Path, name, counting(getattr(Path, name)))
    for name in ("open", "replace", "unlink", "fsync"):
        monkeypatch.setattr(os, name, counting(getattr(os, name)))
    return lambda: steps


@pytest.mark.parametrize("of_stream", [False, True])
def test_an_interruption_at_any_step_loses_nothing(tmp_path: Path, of_stream: bool) -> None:
    for step in range(1, 200):
        lake = Lake(tmp_path / str(step), of_stream=of_stream)
        once = Counter(lake.names)
        with pytest.MonkeyPatch.context() as patch:
            steps = kill_at(patch, step)
            with suppress(Killed):
                commit(lake.folder, lake.swaps, lake.log)
            if steps() < step:
                break
        seen = lake.records()
        assert seen >= once, f"lost at step {step}"
        assert not of_stream or seen == once, f"Spark would read twice at step {step}"
        for second in (2, 5, None):  # the next run is interrupted, too
            with pytest.MonkeyPatch.context() as patch:
                if second is not None:
                    kill_at(patch, second)
                try:
                    finish_interrupted(lake.folder)
                except Killed:
                    continue
                break
        assert lake.records() == once
        assert not (lake.folder / WORK).exists()
    assert step > 20
    files = [file.path for file in list_files(lake.folder).files]
    assert files == ["dt=1/part-new.parquet", "dt=2/part-new.parquet"]
    assert sorted(path.name for path in (lake.folder / "dt=1").iterdir()) == [
        ".part-new.parquet.crc",
        "part-new.parquet",
    ]
    if of_stream:
        assert not (lake.folder / "_spark_metadata/.19.compact.crc").exists()
        first = json.loads((lake.folder / LOG).read_text().splitlines()[1])
        assert (first["size"], first["blockSize"], first["action"]) == (60, 3, "add")


def test_a_stream_that_wrote_meanwhile_is_left_alone(tmp_path: Path) -> None:
    lake = Lake(tmp_path, of_stream=True)
    put(tmp_path / "_spark_metadata/29.compact", (tmp_path / LOG).read_text())
    with pytest.raises(Refused, match="nothing was replaced; stop it, and repeat"):
        commit(tmp_path, lake.swaps, lake.log)
    assert lake.records() == Counter(lake.names)
    assert not (tmp_path / WORK).exists()


def test_a_stream_may_have_written_by_a_symbolic_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    put(real / "part-1.parquet", "1")
    put(real / "_spark_metadata/9.compact", "v1\n" + json.dumps(entry(link, "part-1.parquet")))
    assert list_files(real).files == (DataFile("part-1.parquet", 1),)


def test_groups_are_small_files_of_one_folder_and_compression() -> None:
    files = [DataFile(f"a/{number}.zstd.parquet", 40) for number in range(5)]
    files += [DataFile("a/large.zstd.parquet", 75), DataFile("a/x.snappy.parquet", 1), DataFile("b/0.zstd.parquet", 1)]
    groups = [[file.path[2:3] for file in group] for group in plan_groups(files, 100)]
    assert groups == [["0", "1"], ["2", "3"]], "a single file is not written again"
    assert plan_groups([], 100) == []


def test_files_with_different_numbers_of_a_task_are_one_group() -> None:
    files = [DataFile(f"part-0-x.c00{number}.snappy.parquet", 1) for number in range(3)]
    assert [len(group) for group in plan_groups(files, 100)] == [3]


def test_files_of_a_stream_are_those_of_its_list(tmp_path: Path) -> None:
    name = "country=FR%2Fx/part-1.parquet"
    for path in (name, "country=FR%2Fx/uncommitted.parquet", "_checkpoint/x.parquet", ".hidden/y.parquet", "z.csv"):
        put(tmp_path / path, "1")
    assert [file.path for file in list_files(tmp_path).files] == sorted([name, "country=FR%2Fx/uncommitted.parquet"])
    put(tmp_path / "_spark_metadata/3")
    assert list_files(tmp_path) == ((), None), "before its tenth batch"
    put(tmp_path / "_spark_metadata/9.compact", "v1\n" + json.dumps(entry(tmp_path, name)))
    assert list_files(tmp_path).files == (DataFile(name, 1),)
    put(tmp_path / "_spark_metadata/19.compact", "v2\n")
    with pytest.raises(KcliError, match="has a form that is not known; nothing was changed"):
        list_files(tmp_path)


def test_tables_and_folders_in_use_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "delta/_delta_log/0.json")
    put(tmp_path / "iceberg/metadata/v1.metadata.json")
    for name, cure in (("delta", "OPTIMIZE of Delta"), ("iceberg", "rewrite_data_files of Iceberg")):
        with pytest.raises(Refused, match=cure):
            list_files(tmp_path / name)
    with locked(tmp_path), pytest.raises(Refused, match="another process compacts"), locked(tmp_path):
        pass


@pytest.mark.parametrize("name", ["../victim", "a/../../victim", "{folder}/victim"])
@pytest.mark.parametrize("field", ["new", "staged", "old", "log"])
def test_a_planted_journal_names_no_file_outside_of_its_folder(tmp_path: Path, field: str, name: str) -> None:
    """Others may write into the folder of an export."""
    victim, folder = tmp_path / "victim", tmp_path / "lake"
    victim.write_text("kept")
    (folder / "_compact").mkdir(parents=True)
    (folder / "part").write_text("records")
    planted = name.format(folder=tmp_path)
    named = {"new": "part", "staged": "part", "old": "part-old", "log": None, field: planted}
    swap = {"new": named["new"], "staged": named["staged"], "old": [named["old"]]}
    (folder / "_compact" / "journal.json").write_text(json.dumps({"log": named["log"], "swaps": [swap]}))
    with pytest.raises(KcliError, match="is not a journal of kcli"):
        finish_interrupted(folder)
    assert victim.read_text() == "kept"
