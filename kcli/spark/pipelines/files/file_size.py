"""Sizes of written files: a sample of the rows is encoded on the driver, which gives bytes per row.

Spark cannot limit a file by bytes. It can limit its rows (`maxRecordsPerFile`), the number of tasks, and the shuffled
bytes of a task (`spark.sql.adaptive.advisoryPartitionSizeInBytes`).
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from kcli.errors import ConfigError

SAMPLE_ROWS = 20_000
"""Rows of the sample, at most; fewer give too many bytes per row, because a file has a part of fixed size."""

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([kmg]?)(?:i?b)?", re.IGNORECASE)
#: Files by kcli are not larger than this, Spark's own limit of a task is near.
_MOST_BYTES = 1 << 40
#: A row that compresses to less is counted as this, so that a file of equal rows still has an end.
_LEAST_PER_ROW = 1.0


def parse_size(option: str, text: str) -> int:
    """Parse 128MB, 1GiB, 500k or bytes; units are powers of 1024. ConfigError."""
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _UNITS[match[2].lower()]) if match else 0
    if not 1024 <= size <= _MOST_BYTES:
        raise ConfigError(f"{option}: {text!r} is not valid; use a size from 1KB to 1024GB, like 128MB")
    return size


class RowSize(NamedTuple):
    """Bytes of a row in a file, and in a shuffle."""

    written: float
    shuffled: float


class FilePlan(NamedTuple):
    """Limits for files of a wanted size. `files` is None if the number of rows is not known."""

    rows_per_file: int
    shuffled_bytes: int
    files: int | None


def plan_files(size: RowSize, target_bytes: int, rows: int | None) -> FilePlan:
    """Return the limits for files of about `target_bytes`."""
    written = max(size.written, _LEAST_PER_ROW)
    files = None if rows is None else max(1, round(rows * written / target_bytes))
    # One row more than the even share: otherwise rounding would leave a last file with a few rows.
    rows_per_file = max(1, math.ceil(target_bytes / written * 1.1))
    return FilePlan(rows_per_file, max(1, int(target_bytes / written * max(size.shuffled, 1))), files)


def measure(table: Any, form: str, compression: str | None) -> RowSize | None:
    """Return the bytes per row of a `pyarrow.Table` in a format of Spark; None without rows.

    Formats other than Parquet and ORC are counted as JSON lines, compressed by gzip if they are compressed at all.
    """
    if not table.num_rows:
        return None
    return RowSize(_written(table, form, compression) / table.num_rows, _shuffled(table) / table.num_rows)


def _written(table: Any, form: str, compression: str | None) -> int:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    codec = (compression or "snappy").lower()
    if form == "orc":
        from pyarrow import orc

        orc.write_table(
            table, sink, compression=codec if codec in ("snappy", "zlib", "lz4", "zstd") else "uncompressed"
        )
    elif form in ("csv", "json", "text", "xml"):
        return _text_bytes(table, compressed=compression is not None and codec not in ("none", "uncompressed"))
    else:
        from pyarrow import parquet

        known = codec if codec in ("snappy", "gzip", "lz4", "zstd", "brotli") else "none"
        parquet.write_table(table, sink, compression=known)
    return int(sink.getvalue().size)


def _text_bytes(table: Any, *, compressed: bool) -> int:
    import json
    import zlib

    lines = "".join(json.dumps(row, default=_as_text, ensure_ascii=False) + "\n" for row in table.to_pylist())
    text = lines.encode("utf-8", "replace")
    return len(zlib.compress(text, 6)) if compressed else len(text)


def _as_text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _shuffled(table: Any) -> int:
    """Return the bytes of the rows in a shuffle, which Spark compresses by LZ4."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return int(sink.getvalue().size)
