"""The column encoder writes what a plain encoder of single records writes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.protocol.records.builder import encode_records
from kcli.protocol.records.record import NewRecord, NewRecords

BASE_MS = 1_700_000_000_000


def varint(number: int) -> bytes:
    """Zigzag, then seven bits per byte, the lowest first (Kafka's protocol guide, "varlong")."""
    rest = number * 2 if number >= 0 else -number * 2 - 1
    out = []
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def with_length(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def plain(records: list[NewRecord], offset_deltas: list[int]) -> bytes:
    """Encode one record after the other, field by field."""
    encoded = b""
    for delta, record in zip(offset_deltas, records, strict=True):
        body = b"\0" + varint(record.timestamp_ms - BASE_MS) + varint(delta)
        body += with_length(record.key) + with_length(record.value) + varint(len(record.headers))
        for name, value in record.headers:
            body += with_length(name.encode()) + with_length(value)
        encoded += varint(len(body)) + body
    return encoded


sizes = st.sampled_from([0, 1, 61, 62, 63, 64, 65, 8189, 8190, 8191, 8192, 8193])
blobs = st.none() | st.binary(max_size=3) | sizes.map(bytes)
headers = st.lists(st.tuples(st.text(max_size=3), blobs), max_size=3)
times = st.sampled_from([BASE_MS, BASE_MS + 1, BASE_MS - 70, BASE_MS + (1 << 40), -1])
rows = st.builds(NewRecord, blobs, blobs, times, headers)


@settings(deadline=None)
@given(st.lists(rows, max_size=5), st.integers(1, 30))
def test_records_with_all_fields(some, repeats):
    records = some * repeats
    deltas = range(len(records))
    assert encode_records(NewRecords.of(records), deltas, BASE_MS) == plain(records, list(deltas))


@settings(deadline=None)
@given(st.lists(blobs, max_size=5), times)
def test_values_with_one_timestamp(values, time_ms):
    rows = [NewRecord(None, value, time_ms) for value in values]
    encoded = encode_records(NewRecords(values, time_ms), range(len(values)), BASE_MS)
    assert encoded == plain(rows, list(range(len(values))))


@settings(deadline=None)
@given(st.lists(st.sampled_from([0, 1, 63, 64, 8191, 8192, 1 << 20, 1 << 27, (1 << 31) - 1]), unique=True).map(sorted))
def test_offset_deltas_of_all_widths(deltas):
    rows = [NewRecord(b"k", b"v", BASE_MS)] * len(deltas)
    assert encode_records(NewRecords.of(rows), deltas, BASE_MS) == plain(rows, deltas)


def test_a_batch_of_more_records_than_numbers_are_remembered():
    rows = [NewRecord(None, b"%d" % index, BASE_MS) for index in range(20_000)]
    encoded = encode_records(NewRecords.of(rows), range(20_000), BASE_MS)
    assert encoded == plain(rows, list(range(20_000)))


def test_the_same_headers_of_adjacent_records():
    same = [("trace", b"1"), ("empty", None)]
    rows = [NewRecord(None, b"v", BASE_MS, it) for it in (same, same, (), same, [("trace", b"2")], same)]
    assert encode_records(NewRecords.of(rows), range(6), BASE_MS) == plain(rows, list(range(6)))
