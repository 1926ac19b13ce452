"""Compaction of exported files: Spark writes each group of small files as one; see `compact_files` for the exchange."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import ConfigError, KcliError
from kcli.spark.pipelines.files.compact_files import WORK, DataFile, Listing, Swap, commit, list_files, plan_groups
from kcli.spark.pipelines.files.temporary_settings import parquet_timestamps
from kcli.spark.stream_checkpoint import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_BYTES = 128 << 20
_JOBS = 4
"""Groups that are written at the same time; each is one task."""
_CODECS = {"snappy": "snappy", "gz": "gzip", "zstd": "zstd", "lz4raw": "lz4_raw", "lz4": "lz4", "zlib": "zlib"}
_ORDER = ("topic", "partition", "offset")


class Plan(NamedTuple):
    """Groups of small files of a folder. `listing` has all files that may be replaced."""

    folder: Path
    listing: Listing
    groups: Sequence[tuple[DataFile, ...]]

    @property
    def replaced(self) -> int:
        """The number of files that are replaced."""
        return sum(map(len, self.groups))


def folder_of(location: str) -> Path:
    """Return the folder. ConfigError for another file system, and for a path that is not a folder."""
    folder = local_path(location)
    if folder is None:
        raise ConfigError(
            f"{location}: compact renames files, which only file systems of this machine do atomically; "
            "in object stores use a table of Delta or Iceberg, and its own compaction"
        )
    if not folder.is_dir():
        raise ConfigError(f"{location} is not a folder")
    return folder.resolve()


def plan_compaction(folder: Path, target_bytes: int = TARGET_BYTES) -> Plan:
    """Return what would be replaced. Reads nothing but names, sizes and the list of a stream."""
    listing = list_files(folder)
    return Plan(folder, listing, plan_groups(listing.files, target_bytes))


def compact(spark: SparkSession, plan: Plan, on_progress: Callable[[int], None] = lambda _: None) -> None:
    """Write the groups of the plan as files, check their number of records, and exchange them.

    `on_progress` is called with the number of groups written. KcliError if a new file has not all records.
    """
    run = f"kcli-{uuid.uuid4().hex[:12]}"
    swaps: list[Swap] = []
    with parquet_timestamps(spark), ThreadPoolExecutor(_JOBS) as pool:
        for swap in pool.map(
            lambda numbered: _write(spark, plan.folder, numbered[1], f"{run}-{numbered[0]:05d}"), enumerate(plan.groups)
        ):
            swaps.append(swap)
            on_progress(len(swaps))
    commit(plan.folder, swaps, plan.listing.log)


def _write(spark: SparkSession, folder: Path, group: tuple[DataFile, ...], name: str) -> Swap:
    """Write a group as one file below the folder of work, with the format and compression of its files."""
    first = Path(group[0].path)
    ending = first.name[first.name.index(".") :]
    form = first.suffix.removeprefix(".")
    codec = _CODECS.get(first.suffixes[-2].removeprefix("."), "none") if len(first.suffixes) > 1 else "none"
    paths = [_literal(str(folder / file.path)) for file in group]
    frame = spark.read.format(form).option("mergeSchema", "true").load(paths).coalesce(1)
    order = [column for column in _ORDER if column in frame.columns]
    if order:
        frame = frame.sortWithinPartitions(*order)
    staged = folder / WORK / name
    frame.write.format(form).option("compression", codec).option("maxRecordsPerFile", "0").save(str(staged))
    (written,) = staged.glob(f"part-*.{form}")
    before, after = sum(count_rows(folder / file.path) for file in group), count_rows(written)
    if before != after:
        raise KcliError(f"{written} has {after} records instead of {before}; nothing was replaced")
    new = first.with_name(f"part-{name}{ending}")
    return Swap(str(new), str(written.relative_to(folder)), tuple(file.path for file in group))


def _literal(path: str) -> str:
    """Return a path without a meaning as a pattern."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)


def count_rows(path: Path) -> int:
    """Return the number of records in a file, from its footer."""
    if path.suffix == ".orc":
        from pyarrow import orc

        return int(orc.ORCFile(str(path)).nrows)
    from pyarrow import parquet

    return int(parquet.read_metadata(str(path)).num_rows)
