"""`RecordColumns` as tables of pyarrow, pandas and polars: equal records, and nulls where they have nulls."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest

from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.columns import RecordColumns
from kcli.protocol.records.decode import RecordSection, decode_sections
from kcli.structs import TopicPartition
from tests.needs import needs_package
from tests.protocol.records.vectors import VECTORS

TP = TopicPartition("orders", 3)
T = 1_700_000_000_000
RECORDS = [
    NewRecord(b"a", b"one", T),
    NewRecord(None, b"", T + 1, [("id", b"7"), ("trüce", None), ("id", b"")]),
    NewRecord(b"", None, -1),
    NewRecord(b"\x00\xff", b"x" * 300, T + 2),
]


@pytest.fixture(autouse=True)
def _pyarrow() -> None:
    needs_package("pyarrow", "arrow")


def decoded(data: bytes) -> RecordColumns:
    (section,) = decode_sections([RecordSection(*TP, memoryview(data), 0)])
    return section.columns


def expected(columns: RecordColumns) -> list[dict[str, Any]]:
    """Return the rows of the table, record by record, in plain Python; times in ms, which may be of any year."""
    return [
        {
            "topic": "orders",
            "partition": 3,
            "offset": record.offset,
            "timestamp": None if record.timestamp_ms == -1 else record.timestamp_ms,
            "key": record.key,
            "value": record.value,
            "headers": [{"name": name, "value": value} for name, value in record.headers],
        }
        for record in columns
    ]


def rows_of(table: Any) -> list[dict[str, Any]]:
    import pyarrow as pa

    table.validate(full=True)
    place = table.schema.get_field_index("timestamp")
    return table.set_column(place, "timestamp", table["timestamp"].cast(pa.int64())).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_a_table_has_every_record_and_its_nulls(compression: str) -> None:
    columns = decoded(build_batch(RECORDS * 50, compression=compression))
    assert rows_of(columns.to_arrow(TP)) == expected(columns)


@pytest.mark.parametrize("name", sorted(name for name in VECTORS if not name.startswith("bad")))
def test_a_table_of_kafkas_own_batches_has_the_same_records(name: str) -> None:
    columns = decoded(VECTORS[name])
    assert rows_of(columns.to_arrow(TP)) == expected(columns)


def test_the_types_do_not_depend_on_the_records() -> None:
    import pyarrow as pa

    empty = RecordColumns.empty().to_arrow(TP)
    assert empty.num_rows == 0
    assert dict(zip(empty.schema.names, empty.schema.types, strict=True)) == {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("ms", tz="UTC"),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())])),
    }
    assert decoded(build_batch(RECORDS)).to_arrow(TP).schema == empty.schema


def test_without_a_partition_there_is_no_column_for_it() -> None:
    table = decoded(build_batch(RECORDS)).to_arrow()
    assert table.column_names == ["offset", "timestamp", "key", "value", "headers"]


def test_numbers_are_those_of_the_columns_without_a_copy() -> None:
    columns = decoded(build_batch(RECORDS * 10))
    table = columns.to_arrow(TP)
    for name, array in (("offset", columns.offsets), ("timestamp", columns.timestamps_ms)):
        (chunk,) = table[name].chunks
        assert chunk.buffers()[1].address == array.ctypes.data


def test_a_selection_in_any_order_is_converted() -> None:
    columns = decoded(build_batch(RECORDS * 3))
    some = columns.take([7, 1, 4, 1])
    assert rows_of(some.to_arrow(TP)) == expected(some)


def test_merged_records_keep_their_own_partitions() -> None:
    columns = decoded(build_batch(RECORDS))
    columns.partitions = np.array([5, 6, 5, 7])
    assert columns.to_arrow(TP)["partition"].to_pylist() == [5, 6, 5, 7]
    assert columns.to_arrow()["partition"].to_pylist() == [5, 6, 5, 7]


def test_spans_beyond_two_gigabytes_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of 32-bit offsets is lowered, because such a buffer takes too much memory for a test."""
    monkeypatch.setattr("kcli.protocol.records.arrow_arrays._MOST_OFFSET", 100)
    columns = decoded(build_batch(RECORDS))
    assert rows_of(columns.to_arrow(TP)) == expected(columns)


def test_pandas_has_the_same_records() -> None:
    needs_package("pandas", "pandas")
    frame = decoded(build_batch(RECORDS)).to_pandas(TP)
    assert str(frame["timestamp"].dtype) == "datetime64[ms, UTC]"
    assert frame["offset"].tolist() == [0, 1, 2, 3]
    assert frame["key"].tolist() == [b"a", None, b"", b"\x00\xff"]
    assert frame["value"].tolist() == [b"one", b"", None, b"x" * 300]
    assert frame["timestamp"].isna().tolist() == [False, False, True, False]
    assert frame["timestamp"][0] == datetime.fromtimestamp(T / 1000, timezone.utc)
    assert [header["name"] for header in frame["headers"][1]] == ["id", "trüce", "id"]


def test_polars_has_the_same_records() -> None:
    needs_package("polars", "polars")
    frame = decoded(build_batch(RECORDS)).to_polars(TP)
    assert frame["topic"].to_list() == ["orders"] * 4
    assert frame["key"].to_list() == [b"a", None, b"", b"\x00\xff"]
    assert frame["value"].to_list() == [b"one", b"", None, b"x" * 300]
    assert frame["timestamp"].is_null().to_list() == [False, False, True, False]
    assert frame["timestamp"][0] == datetime.fromtimestamp(T / 1000, timezone.utc)
    assert frame["headers"].to_list()[:2] == [
        [],
        [{"name": "id", "value": b"7"}, {"name": "trüce", "value": None}, {"name": "id", "value": b""}],
    ]


@pytest.mark.parametrize(
    ("method", "package", "extra"),
    [
        (RecordColumns.to_arrow, "pyarrow", "arrow"),
        (RecordColumns.to_pandas, "pandas", "pandas"),
        (RecordColumns.to_polars, "polars", "polars"),
    ],
)
def test_a_missing_library_is_an_import_error_with_its_extra(
    method: Callable[[RecordColumns], Any], package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(name: str) -> Any:
        raise ImportError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("kcli.protocol.records.columns.import_module", without)
    with pytest.raises(ImportError, match=rf"needs the Python package {package}: pip install .*\[{extra}\]"):
        method(RecordColumns.empty())
