"""Arrow batches of decoded records: equal records, in exactly the types that Spark requires of a Python source."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest

from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.decode import RecordSection, decode_sections
from kcli.spark.arrow import Batcher, arrow_schema
from kcli.spark.record_schema import BATCH_FACTS
from kcli.structs import TopicPartition

pa = pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types")

from kcli.errors import ConfigError  # noqa: E402
from kcli.protocol.records.arrow_arrays import binary_array  # noqa: E402
from kcli.protocol.records.columns import RecordColumns  # noqa: E402
from kcli.spark.arrow import batch_edges  # noqa: E402
from kcli.spark.record_schema import CONNECTOR, HEADERS, SIZES, ddl, record_columns  # noqa: E402
from tests.protocol.records.vectors import VECTORS  # noqa: E402

TP = TopicPartition("orders", 3)
T = 1_700_000_000_000
MOST_MS = 9_223_372_036_854_774  # the largest whole millisecond that fits Arrow's microseconds
ALL = [*CONNECTOR, HEADERS, *SIZES]


def decoded(*batches: bytes) -> RecordColumns:
    (section,) = decode_sections([RecordSection(*TP, memoryview(b"".join(batches)), 0)])
    assert section.error is None
    return section.columns


def rows_of(batches: Iterable[Any]) -> list[dict[str, Any]]:
    """Return rows with timestamps as microseconds, because Kafka's may be outside the calendar."""
    rows: list[dict[str, Any]] = []
    for batch in batches:
        batch.validate(full=True)
        if "timestamp" in batch.schema.names:
            place = batch.schema.get_field_index("timestamp")
            batch = batch.set_column(place, "timestamp", batch.column(place).cast(pa.int64()))
        rows += batch.to_pylist()
    return rows


def expected(columns: RecordColumns) -> list[dict[str, Any]]:
    """Return the same rows, record by record, in plain Python."""
    rows = []
    for index, record in enumerate(columns):
        kind = {"none": -1, "create": 0, "append": 1}[columns.timestamp_type(index)]
        span = int(columns.header_ends[index] - columns.header_starts[index])
        rows.append(
            {
                "key": record.key,
                "value": record.value,
                "topic": "orders",
                "partition": 3,
                "offset": record.offset,
                "timestamp": max(-MOST_MS, min(record.timestamp_ms, MOST_MS)) * 1000,
                "timestampType": kind,
                "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
                "key_size": None if record.key is None else len(record.key),
                "value_size": None if record.value is None else len(record.value),
                "headers_size": span,
            }
        )
    return rows


def odd_records(count: int, seed: int = 1) -> list[NewRecord]:
    """Return records with nulls, empty values, and any number of headers, some without a value, some repeated."""
    rng = random.Random(seed)

    def content() -> bytes | None:
        return rng.choice((None, b"", rng.randbytes(rng.randrange(1, 40)), rng.randbytes(300)))

    def headers() -> list[tuple[str, bytes | None]]:
        return [(rng.choice(("", "id", "trüce", "type")), content()) for _ in range(rng.choice((0, 0, 0, 1, 2, 7)))]

    return [NewRecord(content(), content(), T + rng.randrange(-500, 500), headers()) for _ in range(count)]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_arrow_batches_have_every_field_of_every_record(compression: str) -> None:
    rows = odd_records(700)
    columns = decoded(
        *(build_batch(rows[at : at + 50], base_offset=at, compression=compression) for at in range(0, 700, 50))
    )
    assert len(columns) == 700
    assert rows_of(Batcher(TP, ALL, batch_rows=64).batches(columns)) == expected(columns)


@pytest.mark.parametrize("name", sorted(name for name in VECTORS if not name.startswith("bad")))
def test_batches_written_by_kafka_convert_to_the_same_records(name: str) -> None:
    """Batches written by Kafka's own classes, including formats 0 and 1."""
    (section,) = decode_sections([RecordSection(*TP, memoryview(VECTORS[name]), 0)])
    assert rows_of(Batcher(TP, ALL).batches(section.columns)) == expected(section.columns)


def test_a_missing_timestamp_is_one_millisecond_before_1970() -> None:
    """As in the connector: 1969-12-31 23:59:59.999."""
    columns = decoded(build_batch([NewRecord(b"k", b"v", -1)]))
    (batch,) = Batcher(TP, CONNECTOR).batches(columns)
    assert batch.column("timestamp")[0].as_py() == datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=timezone.utc)


def test_log_append_time_is_timestamp_type_1() -> None:
    stamped = build_batch([NewRecord(None, b"b", T)], base_offset=1, timestamp_type="append", max_timestamp_ms=T + 5)
    columns = decoded(build_batch([NewRecord(None, b"a", T)]), stamped)
    rows = rows_of(Batcher(TP, CONNECTOR).batches(columns))
    assert [row["timestampType"] for row in rows] == [0, 1]
    assert rows[1]["timestamp"] == (T + 5) * 1000


def test_a_timestamp_outside_the_calendar_is_clipped() -> None:
    columns = decoded(build_batch([NewRecord(None, None, 2**62)]))
    (batch,) = Batcher(TP, CONNECTOR).batches(columns)
    assert batch.column("timestamp").cast(pa.int64())[0].as_py() > 2**62


def test_headers_are_null_if_absent_and_invalid_utf8_in_names_is_replaced() -> None:
    """The connector returns null, not an empty list; Java's consumer replaces invalid UTF-8 by U+FFFD."""
    plain = build_batch([NewRecord(b"k", b"v", T, [("naXe", b"x")]), NewRecord(b"k", b"v", T)])
    broken = bytearray(plain)
    broken[broken.index(b"naXe") + 2] = 0xFF
    (section,) = decode_sections([RecordSection(*TP, memoryview(broken), 0)], check_crcs=False)
    rows = rows_of(Batcher(TP, [HEADERS]).batches(section.columns))
    assert rows == [{"headers": [{"key": "na\ufffde", "value": b"x"}]}, {"headers": None}]


@pytest.mark.parametrize("many", [1, 15, 16, 40])
def test_records_with_many_and_with_few_headers_in_one_batch(many: int) -> None:
    """Below 16 records with that many headers, the other headers are read one by one."""
    rows = [NewRecord(None, b"v", T, [(f"h{n}", bytes(n % 200)) for n in range(90)]) for _ in range(many)]
    rows = [record for pair in zip(rows, odd_records(many, 3), strict=True) for record in pair]
    columns = decoded(build_batch(rows))
    assert rows_of(Batcher(TP, [HEADERS]).batches(columns)) == [{"headers": it["headers"]} for it in expected(columns)]


def test_the_arrow_schema_passes_the_check_of_spark() -> None:
    """Spark compares the first batch with its own translation of the SQL schema (not large types; UTC)."""
    from pyspark.sql.pandas.types import to_arrow_schema

    spark_types = {
        "binary": types.BinaryType(),
        "string": types.StringType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "boolean": types.BooleanType(),
        "timestamp": types.TimestampType(),
        HEADERS[1]: types.ArrayType(
            types.StructType(
                [types.StructField("key", types.StringType()), types.StructField("value", types.BinaryType())]
            )
        ),
    }
    everything = [*ALL, *BATCH_FACTS]
    schema = types.StructType([types.StructField(name, spark_types[kind]) for name, kind in everything])
    assert {name: kind.simpleString() for name, kind in spark_types.items()} == {name: name for name in spark_types}
    assert to_arrow_schema(schema, timezone="UTC").equals(arrow_schema(everything))


def test_only_selected_columns_are_built() -> None:
    """Spark does not prune columns of a Python source, so `columns` does; unselected bytes are not even read."""
    columns = decoded(build_batch(odd_records(20)))
    columns.buffer = None
    names = record_columns(names=["offset", "value_size", "topic"])
    rows = rows_of(Batcher(TP, names, batch_bytes=1).batches(columns))
    assert [list(row) for row in rows] == [["offset", "value_size", "topic"]] * 20
    with pytest.raises(TypeError):
        list(Batcher(TP, record_columns(names=["value"])).batches(columns))


def sizes(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


@pytest.mark.parametrize(
    ("given", "most_rows", "most_bytes", "pieces"),
    [
        ((), 10, 10, []),
        ((1,) * 9, 10, 100, [(0, 9)]),
        ((1,) * 11, 10, 100, [(0, 6), (6, 11)]),  # evenly, not ten and one
        ((4, 4, 4, 4), 10, 8, [(0, 2), (2, 4)]),
        ((1, 50, 1), 10, 8, [(0, 1), (1, 2), (2, 3)]),  # a row that is larger than a batch is alone
        ((50,), 1, 8, [(0, 1)]),
    ],
)
def test_batches_are_limited_by_rows_and_by_bytes(
    given: Sequence[int], most_rows: int, most_bytes: int, pieces: list[tuple[int, int]]
) -> None:
    assert list(batch_edges(len(given), np.cumsum(sizes(*given)), most_rows, most_bytes)) == pieces


def test_large_values_are_split_into_several_batches() -> None:
    """10,000 rows of 1 MB each would need 10 GB in a worker."""
    columns = decoded(build_batch([NewRecord(None, bytes(400_000), T) for _ in range(10)]))
    batches = list(Batcher(TP, CONNECTOR, batch_bytes=1 << 20).batches(columns))
    assert [batch.num_rows for batch in batches] == [2] * 5


def test_binary_spans_may_touch_both_ends_of_the_buffer() -> None:
    array = binary_array(b"abcdef", sizes(0, 2, 6), sizes(2, 4, 0))
    array.validate(full=True)
    assert array.to_pylist() == [b"ab", b"cdef", b""]


def test_an_unknown_column_is_reported_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"'ofset' is not a column; did you mean offset\?"):
        record_columns(names=["key", "ofset"])
    with pytest.raises(ConfigError, match="offset is given twice"):
        record_columns(names=["offset", "offset"])


def test_the_columns_are_those_of_the_connector() -> None:
    """Source: structured-streaming-kafka-integration.md, the table of the source's columns."""
    assert ddl(record_columns(include_headers=True)) == (
        "`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint, `timestamp` timestamp, "
        "`timestampType` int, `headers` array<struct<key:string,value:binary>>"
    )


def batch_fact_rows(data: bytes, **how: Any) -> list[dict[str, Any]]:
    [section] = decode_sections([RecordSection(*TP, data, 0)])
    found = list(Batcher(TP, [("offset", "bigint"), *BATCH_FACTS], **how).batches(section.columns))
    for batch in found:
        batch.validate(full=True)
        assert batch.schema == arrow_schema([("offset", "bigint"), *BATCH_FACTS])
    return [row for batch in found for row in batch.to_pylist()]


def test_batch_columns_of_plain_and_transactional_records() -> None:
    three = [NewRecord(b"k", b"v", 5)] * 3
    how: dict[str, Any] = {"producer_id": 9, "producer_epoch": 4, "base_sequence": 70, "transactional": True}
    data = build_batch(three, leader_epoch=1) + build_batch(
        three, base_offset=3, leader_epoch=2, compression="zstd", **how
    )
    plain = {"producer_id": None, "producer_epoch": None, "sequence": None, "compression": "none", "base_offset": 0}
    theirs = {"producer_id": 9, "producer_epoch": 4, "compression": "zstd", "base_offset": 3}
    assert batch_fact_rows(data, batch_rows=4) == [
        *[{"offset": n, "leader_epoch": 1, **plain, "is_transactional": False} for n in range(3)],
        *[
            {"offset": 3 + n, "leader_epoch": 2, **theirs, "sequence": 70 + n, "is_transactional": True}
            for n in range(3)
        ],
    ]


def test_an_unknown_leader_epoch_is_null() -> None:
    [row] = batch_fact_rows(build_batch([NewRecord(None, None, 0)]))
    assert row["leader_epoch"] is None
